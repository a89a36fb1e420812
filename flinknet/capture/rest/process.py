"""The process that watches a cluster for a tap: it writes the metrics file of the run directory,
and says on standard output, a JSON object a line, which jobs there are and what went wrong.

It takes its order as a line of JSON on standard input, for a token must not be seen in a list of
processes, and ends when that input ends. Signals are for the tap alone.
"""

from __future__ import annotations

import json
import select
import sys
from pathlib import Path
from typing import Any

from flinknet.errors import FlinknetError
from flinknet.graph.running_job import RunningJob
from flinknet.plain_values import to_plain
from flinknet.runtime.clock import monotonic_ns
from flinknet.runtime.metrics_log import MetricsLog
from flinknet.runtime.signals import ignore_what_ends_a_run

from .answers import HttpAnswers, answers_at
from .sampler import Sampler

PERIOD_NS = 1_000_000_000

TIMEOUT_S = 5.0


def main() -> None:
    """Look once a second until standard input ends, and once more then."""
    ignore_what_ends_a_run()
    order = json.loads(sys.stdin.readline())
    answers = answers_at(order["place"], token=order["token"])
    if isinstance(answers, HttpAnswers):
        answers.timeout_s = TIMEOUT_S
    sampler = Sampler(answers, monotonic_ns)
    log = MetricsLog(Path(order["directory"]))
    jobs: tuple[RunningJob, ...] = ()
    error: str | None = ""
    next_ns = monotonic_ns()
    is_last = False
    while not is_last:
        wait_s = max(next_ns - monotonic_ns(), 0) / 1e9
        is_last = bool(select.select([sys.stdin], [], [], wait_s)[0])
        next_ns = max(next_ns + PERIOD_NS, monotonic_ns())
        before, error = error, None
        try:
            log.write(sampler.look())
        except FlinknetError as caught:
            error = str(caught)
        error = error or log.error
        if error != before:
            _say({"error": error})
        if sampler.jobs != jobs:
            jobs = sampler.jobs
            _say({"jobs": to_plain(jobs)})


def _say(message: dict[str, Any]) -> None:
    try:
        print(json.dumps(message), flush=True)
    except BrokenPipeError:  # the tap is gone
        sys.exit(1)


if __name__ == "__main__":
    main()
