"""RestWatch: runs the process that queries the JobManager for a tap or a live capture.

A JobManager may take seconds to answer, and answers of a large cluster take time to decode; the
forwarding or capturing of bytes must not wait for either.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from flinknet.errors import FlinknetError
from flinknet.graph.running_job import RunningJob, RunningTaskManager
from flinknet.plain_values import from_plain, to_plain

from ..rest.http_client import RestPlace
from ..stated import Stated

ENDS_WITHIN_S: Final = 15.0
"""Limit for the process to end its requests and its last look, in seconds."""

_PIPE_BYTES: Final = 1 << 16


class RestWatch:
    """Watches a cluster until it is closed.

    Attributes:
        jobs: known jobs, with the places of their subtasks, and the cluster's `task_managers`.
        received, sent: buffers that each subtask has received from other TaskManagers, and the
            records that it has sent.
        settings: settings that the cluster and the jobs report.
        error: why there is no current answer; None while the JobManager answers.
        has_answered: the JobManager has answered at least once.

    Args:
        directory: the run directory, which gets the metrics file.
        keep_ns: time that the metrics file covers; None: no limit.
        epoch_ns: instant of CLOCK_MONOTONIC that is 0 in the trace.
    """

    def __init__(
        self, rest: RestPlace, directory: Path, keep_ns: int | None = None, epoch_ns: int = 0
    ) -> None:
        self.jobs: tuple[RunningJob, ...] = ()
        self.task_managers: tuple[RunningTaskManager, ...] = ()
        self.received: dict[tuple[str, str, int], float] = {}
        self.sent: dict[tuple[str, str, int], float] = {}
        self.settings = Stated()
        self.error: str | None = None
        self.has_answered = False
        self._unread = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "flinknet.capture.rest.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            process_group=0,
        )
        order = {
            "rest": to_plain(rest),
            "directory": str(directory),
            "keep_ns": keep_ns,
            "epoch_ns": epoch_ns,
        }
        assert self._process.stdout is not None
        self._send(json.dumps(order))
        self._out = self._process.stdout.fileno()
        os.set_blocking(self._out, False)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def fileno(self) -> int:
        """The descriptor that is readable when `tick` has something to read."""
        return self._out

    def tick(self) -> bool:
        """Read the process's output, without waiting. Returns: whether jobs or settings changed."""
        data = b""
        with suppress(BlockingIOError):
            while more := os.read(self._out, _PIPE_BYTES):
                data += more
        return self._take(data)

    def keep(self) -> None:
        """Ask the process to keep the metrics around this time."""
        self._send("keep")

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has failed, which `close` reports
            self._process.stdin.write(line.encode() + b"\n")

    def close(self) -> None:
        """Let the process look once more, and end it."""
        try:
            data, _ = self._process.communicate(timeout=ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            data, _ = self._process.communicate()
        self._take(data or b"")
        if self._process.returncode:
            self.error = self.error or "the process that queries the JobManager failed"

    def _take(self, data: bytes) -> bool:
        *lines, self._unread = (self._unread + data).split(b"\n")
        has_changed = False
        for line in lines:
            message: dict[str, Any] = json.loads(line)
            if "error" in message:
                self.error = message["error"]
                self.has_answered |= self.error is None
            if "settings" in message:
                self.settings = from_plain(Stated, message["settings"])
                has_changed = True
            for job, vertex, subtask, received, sent in message.get("buffers", ()):
                self.received[job, vertex, subtask], self.sent[job, vertex, subtask] = (
                    received,
                    sent,
                )
                has_changed = True
            with suppress(FlinknetError, KeyError):
                found = from_plain(tuple[RunningTaskManager, ...], message["task_managers"])
                self.task_managers = found
                self.jobs = from_plain(tuple[RunningJob, ...], message["jobs"])
                has_changed = True
        return has_changed
