"""The processes of a run that goes on in this process."""

from __future__ import annotations

from contextlib import suppress

import psutil


def task_managers() -> dict[str, psutil.Process]:
    """TaskManagers that this process has started and that run, by name."""
    found = {}
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            command = child.cmdline()
            if "taskmanager" in command and child.status() != psutil.STATUS_ZOMBIE:
                found[command[-1]] = child
    return dict(sorted(found.items()))
