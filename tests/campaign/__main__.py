"""The fault campaign: `python -m tests.campaign --minutes 30`; see docs/campaign.md."""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Sequence, Sized
from dataclasses import asdict
from functools import partial
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty
from time import monotonic

from tests import tally

from .draw import Choices
from .drawn_exchange import SHAPE_SEEDS
from .exchange import tls_wrap
from .marks import MARKS
from .trial import Failure, Marks, failure_of, smaller

KEPT = Path(".campaign") / "failures.jsonl"
FAILURES_MAX = 5
"""Of different kinds, after which a campaign ends early."""

Report = tuple[int, Marks, Failure | None]
"""Runs since the last one, what they reached, and how the last one failed."""

RUNS_PER_PROCESS = 64 * SHAPE_SEEDS
"""After which another process goes on: none collects garbage, which takes a twentieth of the time,
so that each has 200 MB of it then."""

REPORT_S = 1.0
PROGRESS_S = 60.0
GRACE_S = 45.0
"""For the last trial of each process, and for making one smaller that has failed."""


def main() -> int:
    """Run a campaign, or repeat one trial. Returns: the exit code."""
    arguments = _arguments()
    if arguments.seed is not None:
        return _repeat(arguments.seed, arguments.choices)
    return _campaign(arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="duration; default: 1")
    parser.add_argument("--runs", type=int, help="stop after so many runs")
    parser.add_argument("--first", type=int, help="first seed; default: a new one")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--any-marks", action="store_true", help="do not fail for unreached states")
    parser.add_argument(
        "--pin",
        type=json.loads,
        default={},
        metavar="CHOICES",
        help="choices that all trials make alike, such as '{\"end\": 12}' (see drawn_exchange.py);"
        " implies --any-marks",
    )
    parser.add_argument("--seed", type=int, help="repeat the trial of this seed")
    parser.add_argument("--choices", type=json.loads, help="the choices of it that are not 0")
    return parser.parse_args()


def _repeat(seed: int, choices: dict[str, int] | None) -> int:
    marks: Marks = Counter()
    failure = failure_of(seed, marks, choices)
    for name, times in sorted(marks.items()):
        if times:
            print(f"{times:8}  {name}")
    if failure is None:
        print(f"seed {seed} passes")
        return 0
    print(failure.text)
    return 1


def _campaign(arguments: argparse.Namespace) -> int:
    first = arguments.first
    if first is None:
        first = int.from_bytes(os.urandom(4)) * SHAPE_SEEDS
    processes = arguments.processes
    context = multiprocessing.get_context("fork")
    reports: Queue[Report | None] = context.Queue()
    _prepare()
    print(f"seeds from {first} on {processes} processes", flush=True)
    began_s = told_s = monotonic()
    until_s = began_s + 60 * arguments.minutes
    runs, marks, failures = 0, Counter[str](), dict[str, Failure]()
    workers: list[BaseProcess] = []
    begun_runs = 0

    def go_on() -> bool:
        """Start another process, if there is time and something left to do."""
        nonlocal begun_runs
        count = RUNS_PER_PROCESS
        if arguments.runs is not None:
            count = min(count, -(-arguments.runs // processes), arguments.runs - begun_runs)
        if count <= 0 or monotonic() > until_s:
            return False
        seeds = range(first + begun_runs, first + begun_runs + count)
        begun_runs += count
        work = partial(_work, seeds, until_s, arguments.pin, set(failures), reports)
        workers.append(context.Process(target=work, daemon=True))
        workers[-1].start()
        return True

    working = sum(go_on() for _ in range(processes))
    while working and len(failures) < FAILURES_MAX:
        try:
            report = reports.get(timeout=max(1.0, until_s + GRACE_S - monotonic()))
        except Empty:
            print(f"{working} processes are late and are ended", flush=True)
            break
        if report is None:
            if not go_on():
                working -= 1
            continue
        runs += report[0]
        marks.update(report[1])
        if told_s + PROGRESS_S < monotonic() < until_s:
            told_s = monotonic()
            print(_progress(told_s - began_s, runs, marks, failures), flush=True)
        failure = report[2]
        if failure is not None and failure.kind not in failures:
            failures[failure.kind] = failure
            _keep(failure)
            print(f"\n{failure.text}\nrepeat it: {failure.command}\n", flush=True)
    for each in workers:
        each.terminate()
    took_s = monotonic() - began_s
    unreached = _unreached(marks)
    for name in (*MARKS, *sorted(set(marks) - set(MARKS))):
        print(f"{marks[name]:10}  {name}" + ("  <- never reached" if not marks[name] else ""))
    print(_progress(took_s, runs, marks, failures))
    for failure in failures.values():
        print(f"FAILED {failure.kind}\n       {failure.command}", flush=True)
    total = tally.add("campaign", runs, took_s, len(failures))
    print(
        f"so far in this checkout: {total.runs} runs in {total.seconds / 3600:.1f} h,"
        f" failures: {total.findings}, commits: {total.commits}"
    )
    needs_marks = not arguments.any_marks and not arguments.pin
    return int(bool(failures) or (bool(unreached) and needs_marks))


def _unreached(marks: Marks) -> list[str]:
    return [name for name in MARKS if not marks[name]]


def _progress(took_s: float, runs: int, marks: Marks, failures: Sized) -> str:
    return (
        f"{runs} runs in {took_s:.0f} s ({runs / took_s:.0f} runs/s), {len(failures)} failures,"
        f" {len(MARKS) - len(_unreached(marks))} of {len(MARKS)} states reached"
    )


def _prepare() -> None:
    """What all processes share is loaded and made before they are forked."""
    tls_wrap()
    for seed in range(2 * SHAPE_SEEDS):
        failure_of(seed, Counter())
    gc.collect()
    gc.disable()


def _work(
    seeds: Sequence[int],
    until_s: float,
    pinned: Choices,
    known: set[str],
    reports: Queue[Report | None],
) -> None:
    """Run the trials of these seeds. Failures of a known kind are not made smaller again."""
    done, marks, reported_s = 0, Counter[str](), monotonic()
    for seed in seeds:
        if monotonic() > until_s:
            break
        failure = failure_of(seed, marks, pinned=pinned)
        done += 1
        if failure is not None and failure.kind not in known:
            known.add(failure.kind)
            gc.enable()  # for the many runs of this
            failure = smaller(failure)
            known.add(failure.kind)
        elif failure is None and monotonic() < reported_s + REPORT_S:
            continue
        reports.put((done, marks, failure))
        done, marks, reported_s = 0, Counter[str](), monotonic()
    reports.put((done, marks, None))
    reports.put(None)


def _keep(failure: Failure) -> None:
    KEPT.parent.mkdir(exist_ok=True)
    with KEPT.open("a") as kept:
        kept.write(json.dumps(asdict(failure) | {"command": failure.command}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
