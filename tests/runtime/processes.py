"""The processes of a run that goes on in this process, and commands that run beside it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import suppress

import psutil

LOOK_S = 0.02


def task_managers() -> dict[str, psutil.Process]:
    """TaskManagers that this process has started and that run, by name."""
    found = {}
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            command = child.cmdline()
            if "taskmanager" in command and child.status() != psutil.STATUS_ZOMBIE:
                found[command[-1]] = child
    return dict(sorted(found.items()))


def wait_until(is_so: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Look again and again while a command runs; the suite's time-out ends what never comes.

    Raises: AssertionError if the command ends first.
    """
    while not is_so():
        with suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_S)
        assert process.poll() is None, process.communicate()
