"""The process that watches a cluster for a tap. It writes the metrics file of the run directory and
reports jobs, settings and errors on standard output, one JSON object per line.

Its first line of standard input is its order, in JSON, because a token must not appear in a list of
processes. Each further line asks it to keep the metrics around that time, where old lines are
dropped. It ends when that input ends, after a last look, and soon after its parent ends. It ignores
the signals that end the tap.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from flinknet.errors import FlinknetError
from flinknet.graph.running_job import RunningJob, RunningTaskManager
from flinknet.plain_values import from_plain, to_plain
from flinknet.runtime.clock import monotonic_ns
from flinknet.runtime.metrics_log import MetricsLog
from flinknet.runtime.signals import end_with_parent, ignore_end_signals

from .answers import answers_at
from .http_client import NotUpYetError, RestPlace
from .sampler import Sampler
from .settings import ReportedSettings, Stated

PERIOD_NS = 1_000_000_000

FETCHED_WITHIN_NS = 100_000_000
"""Time before a look at which the JobManager is made to fetch new values, in ns; it usually has
them by then."""

TIMEOUT_S = 5.0

_PIPE_BYTES: Final = 1 << 16

_COUNTED = ("job", "vertex", "subtask", "numBuffersInRemote", "numRecordsOut")
_COUNTS = set(_COUNTED)


def main() -> None:
    """Look once a second until standard input ends, and once more at the end."""
    ignore_end_signals()
    end_with_parent(grace_s=1)
    orders = open(0, "rb", buffering=0)  # noqa: SIM115 - for as long as the process
    order = json.loads(orders.readline())
    answers = answers_at(from_plain(RestPlace, order["rest"]), timeout_s=TIMEOUT_S)
    epoch_ns: int = order["epoch_ns"]
    has_ended = False

    def now_ns() -> int:
        return monotonic_ns() - epoch_ns

    def wait_until(at_ns: int) -> None:
        """Wait until an instant or the end of the orders; each keeps the metrics around it."""
        nonlocal has_ended
        while not has_ended and select.select([orders], [], [], max(at_ns - now_ns(), 0) / 1e9)[0]:
            if orders.read(_PIPE_BYTES):
                log.keep_around(now_ns())
            else:
                has_ended = True

    sampler, settings = Sampler(answers, now_ns), ReportedSettings(answers)
    log = MetricsLog(Path(order["directory"]), keep_ns=order["keep_ns"])
    jobs: tuple[RunningJob, ...] = ()
    error: str | None = ""
    next_ns = now_ns()
    while not has_ended:
        wait_until(next_ns - FETCHED_WITHIN_NS)
        sampler.ask_for_new()
        wait_until(next_ns)
        next_ns = max(next_ns + PERIOD_NS, now_ns())
        before, error = error, None
        try:
            lines = sampler.look()
            log.write(lines)
            if counted := [each for each in lines if each.keys() >= _COUNTS]:
                _say({"buffers": [[each[name] for name in _COUNTED] for each in counted]})
        except NotUpYetError as caught:  # report a wait once, although the text may change
            error = before or f"{caught}; asked again until it answers"
        except FlinknetError as caught:
            error = str(caught)
        log.drop_old(now_ns())
        error = error or log.error
        if error != before:
            _say({"error": error})
        if (found_jobs := tuple(sampler.jobs.values())) != jobs:
            jobs = found_jobs
            managers = map(_with_addresses, sampler.task_managers)
            _say({"jobs": to_plain(jobs), "task_managers": to_plain(tuple(managers))})
            with suppress(FlinknetError):  # the manifest can do without settings
                _say({"settings": to_plain(settings.of(each.id for each in jobs))})


def _with_addresses(manager: RunningTaskManager) -> RunningTaskManager:
    with suppress(OSError):
        found = socket.getaddrinfo(manager.host, None, type=socket.SOCK_STREAM)
        return replace(manager, addresses=tuple(sorted({str(each[4][0]) for each in found})))
    return manager


def _say(message: dict[str, Any]) -> None:
    try:
        print(json.dumps(message), flush=True)
    except BrokenPipeError:  # the tap is gone
        sys.exit(1)


if __name__ == "__main__":
    main()


ENDS_WITHIN_S: Final = 15.0
"""Limit for the process to end its requests and its last look, in seconds."""


class RestWatch:
    """Watches a cluster until it is closed.

    Args:
        directory: the run directory, which gets the metrics file.
        keep_ns: time that the metrics file covers; None: no limit.
        epoch_ns: instant of CLOCK_MONOTONIC that is 0 in the trace.
    """

    def __init__(
        self, rest: RestPlace, directory: Path, keep_ns: int | None = None, epoch_ns: int = 0
    ) -> None:
        self.jobs: tuple[RunningJob, ...] = ()  # with the places of their subtasks
        self.task_managers: tuple[RunningTaskManager, ...] = ()
        # by subtask: buffers received from other TaskManagers, and records sent
        self.received: dict[tuple[str, str, int], float] = {}
        self.sent: dict[tuple[str, str, int], float] = {}
        self.settings = Stated()
        self.error: str | None = None  # why there is no current answer
        self.has_answered = False
        self._unread = b""
        self.process = subprocess.Popen(
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
        assert self.process.stdout is not None
        self._send(json.dumps(order))
        self.out = self.process.stdout.fileno()  # readable when `tick` has something to read
        os.set_blocking(self.out, False)

    def tick(self) -> bool:
        """Read the process's output, without waiting. Returns: whether jobs or settings changed."""
        data = b""
        with suppress(BlockingIOError):
            while more := os.read(self.out, _PIPE_BYTES):
                data += more
        return self._take(data)

    def keep(self) -> None:
        self._send("keep")

    def _send(self, line: str) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has failed, which `close` reports
            self.process.stdin.write(line.encode() + b"\n")

    def close(self) -> None:
        """Let the process look once more, and end it."""
        try:
            data, _ = self.process.communicate(timeout=ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            data, _ = self.process.communicate()
        self._take(data or b"")
        if self.process.returncode:
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
                key = job, vertex, subtask
                self.received[key], self.sent[key] = received, sent
                has_changed = True
            with suppress(FlinknetError, KeyError):
                found = from_plain(tuple[RunningTaskManager, ...], message["task_managers"])
                self.task_managers = found
                self.jobs = from_plain(tuple[RunningJob, ...], message["jobs"])
                has_changed = True
        return has_changed
