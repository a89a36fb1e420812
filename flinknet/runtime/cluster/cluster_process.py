"""TaskManagerProcess: a TaskManager as the JobManager knows it: process, connection, state."""

from __future__ import annotations

import signal
import subprocess
from contextlib import suppress
from enum import Enum
from typing import Any

from .control_connection import ControlConnection


class TaskManagerState(Enum):
    """State of a TaskManager as the JobManager knows it."""

    STARTING = "starting"
    REGISTERED = "registered"
    READY = "ready"
    LOST = "lost"
    ENDED = "ended"


class TaskManagerProcess:
    """One TaskManager.

    Attributes:
        address: of its data port, once it has registered.
        heartbeats: how many heartbeats it has answered.
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
        """Whether it has registered and is alive."""
        return self.state in (TaskManagerState.REGISTERED, TaskManagerState.READY)

    @property
    def is_alive(self) -> bool:
        """Whether it is neither lost nor ended."""
        return self.state not in (TaskManagerState.LOST, TaskManagerState.ENDED)

    def send(self, message: Any) -> None:
        """Send a message, if there is a connection."""
        if self.connection is not None:
            self.connection.send(message)

    def death(self) -> str | None:
        """How the process ended; None while it or its connection is alive."""
        is_connected = self.connection is not None and self.connection.loss is None
        if is_connected or not self.is_alive:
            return None
        if self.connection is None and self.process.poll() is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(1)  # the connection breaks a little before the process ends
        code = self.process.returncode
        if code is None:
            return f"{self.name} (pid {self.process.pid}) has closed its control connection"
        if code < 0:
            with suppress(ValueError):
                name = signal.Signals(-code).name
                return f"{self.name} (pid {self.process.pid}) was ended by {name}"
        return f"{self.name} (pid {self.process.pid}) ended with exit code {code}"

    def kill(self) -> None:
        """Kill the process, even if it is stopped."""
        with suppress(OSError):
            self.process.kill()
        self.process.wait()

    def wait(self, timeout_s: float) -> None:
        """Wait for the process to end by itself, then kill it."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
