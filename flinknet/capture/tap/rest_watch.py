"""RestWatch: the process that asks the JobManager, as the tap holds it.

Answers of a large cluster take time to decode, and a JobManager may take seconds to answer; bytes
on their way must not wait for either.
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
from flinknet.graph.running_job import RunningJob
from flinknet.plain_values import from_plain, to_plain

from ..rest.http_client import RestPlace
from ..stated import Stated

ENDS_WITHIN_S: Final = 15.0
"""For the requests that are under way, and the last look."""

_PIPE_BYTES: Final = 1 << 16


class RestWatch:
    """Watches a cluster until it is closed.

    Attributes:
        jobs: that are known, with the places of their subtasks.
        settings: of the cluster and of the jobs, as they are reported.
        error: why nothing new is known; None while the JobManager answers.
        has_answered: it did so once.

    Args:
        directory: of the run, where the metrics file goes.
        keep_ns: how much of the past stays in that file; None: all of it.
    """

    def __init__(self, rest: RestPlace, directory: Path, keep_ns: int | None = None) -> None:
        self.jobs: tuple[RunningJob, ...] = ()
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
        }
        assert self._process.stdout is not None
        self._tell(json.dumps(order))
        self._out = self._process.stdout.fileno()
        os.set_blocking(self._out, False)

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def fileno(self) -> int:
        """Readable when `tick` has something to take."""
        return self._out

    def tick(self) -> bool:
        """Take what it has said, without waiting. Returns: whether jobs or settings are
        others now."""
        data = b""
        with suppress(BlockingIOError):
            while more := os.read(self._out, _PIPE_BYTES):
                data += more
        return self._take(data)

    def keep(self) -> None:
        """Let it keep what is around now, too."""
        self._tell("keep")

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has failed, which `close` reports
            self._process.stdin.write(line.encode() + b"\n")

    def close(self) -> None:
        """Let it look once more, and end it."""
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
            with suppress(FlinknetError, KeyError):
                self.jobs = from_plain(tuple[RunningJob, ...], message["jobs"])
                has_changed = True
        return has_changed
