"""TaskManagerProcess: a TaskManager as the JobManager holds it: a process, its connection, where it
stands.
"""

from __future__ import annotations

import signal
import subprocess
from contextlib import suppress
from enum import Enum
from typing import Any

from .control_connection import ControlConnection


class TaskManagerState(Enum):
    """Life of a TaskManager in the eyes of the JobManager."""

    STARTING = "starting"
    REGISTERED = "registered"
    READY = "ready"
    LOST = "lost"
    ENDED = "ended"


class TaskManagerProcess:
    """One TaskManager.

    Attributes:
        address: of its data port, from its registration on.
        heartbeats: that it has answered.
    """

    def __init__(self, index: int, process: subprocess.Popen[bytes]) -> None:
        self.index = index
        self.process = process
        self.state = TaskManagerState.STARTING
        self.connection: ControlConnection | None = None
        self.address: tuple[str, int] = ("", 0)
        self.heartbeats = 0

    @property
    def name(self) -> str:
        """Its name in logs and traces."""
        return f"tm-{self.index}"

    @property
    def is_registered(self) -> bool:
        """Whether it is there and counts."""
        return self.state in (TaskManagerState.REGISTERED, TaskManagerState.READY)

    @property
    def is_alive(self) -> bool:
        """Whether it counts: neither lost nor ended."""
        return self.state not in (TaskManagerState.LOST, TaskManagerState.ENDED)

    def send(self, message: Any) -> None:
        """Say something, if there is a connection."""
        if self.connection is not None:
            self.connection.send(message)

    def death(self) -> str | None:
        """How the process ended; None if it lives, or its connection does."""
        is_connected = self.connection is not None and self.connection.loss is None
        if is_connected or not self.is_alive:
            return None
        if self.connection is None and self.process.poll() is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(1)  # a broken connection comes a little before the end
        code = self.process.returncode
        if code is None:
            return f"{self.name} (pid {self.process.pid}) has closed its control connection"
        if code < 0:
            with suppress(ValueError):
                told = signal.Signals(-code).name
                return f"{self.name} (pid {self.process.pid}) was ended by {told}"
        return f"{self.name} (pid {self.process.pid}) ended with exit code {code}"

    def kill(self) -> None:
        """End the process, also one that is stopped."""
        with suppress(OSError):
            self.process.kill()
        self.process.wait()

    def wait(self, timeout_s: float) -> None:
        """Give the process time to end by itself; then end it."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
