"""An hour of a cluster that serves jobs, and what its processes hold meanwhile:

    python -m tests.kills.soak --minutes 60

One job with checkpoints and debloating runs all the time. Next to it, on the same TaskManagers, run
short ones in turn: one that finishes, one whose task fails and begins again, one that fails for
good, one that is cancelled. Every few seconds the memory, the descriptors and the threads of the
JobManager and the TaskManagers are sampled; they must not grow after the first quarter.

Exit code 1 if something grew, if a job ended otherwise than it should, or if a record was lost.
Jobs that finish must have read every record. The long one is cancelled at the end, which drops what
lies in its buffers: up to the records of one second may be missing there.
Time in which this process itself is stopped does not count.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import psutil

from tests import tally
from tests.kills.subjects import Running, used_s
from tests.runtime.cluster.live_job import RESTARTS
from tests.runtime.cluster.programs import FAILS_ONCE

TICK_S = 0.5
SAMPLE_TICKS = 10
PATIENCE_TICKS = 600
"""A command that has not worked for so long hangs."""

WORKS_S = 1.0
"""Of processor time within PATIENCE_TICKS is work; it may go on for WAITS_MAX such periods."""

WAITS_MAX = 10
ENDS_S = 10.0
ENDING_S = 0.05
"""Processes of a cluster that has ended end within ENDS_S, or use so much processor time then."""

LONG = """
def main(env, rate):
    env.set_parallelism(2)
    made = env.generate(rate=rate, arrivals="poisson").name("Made")
    made.rebalance().measure_latency().name("Read")
    env.execute("Long")
"""
FAILS = """
def main(env):
    env.from_sequence(1, 100).rebalance().map(fail).name("Fails").print()
    env.execute("Fails")


def fail(value: int) -> int:
    if value == 90:
        raise ValueError("for good")
    return value
"""
ENDLESS = """
def main(env):
    env.generate(rate="1k/s").rebalance().discard()
    env.execute("Endless")
"""
SETTINGS = {
    "heartbeat.timeout": "1h",
    "taskmanager.load-balance.mode": "SLOTS",
    "taskmanager.memory.network.min": "16mb",
    "taskmanager.memory.network.max": "16mb",
    "taskmanager.network.memory.buffer-debloat.enabled": "true",
    "taskmanager.network.memory.buffer-debloat.period": "50ms",
}
"""Of the cluster. A machine that stands still for a while is no failure; each job has subtasks on
both TaskManagers, with channels between them."""

CHECKPOINTS = {
    "execution.checkpointing.interval": "500ms",
    "execution.checkpointing.unaligned.enabled": "true",
    "execution.checkpointing.aligned-checkpoint-timeout": "5ms",
}
MORE_RSS_BYTES = 6 << 20
MORE_DESCRIPTORS = 2
MORE_THREADS = 2
"""That the median of the last quarter may have beyond that of the second."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one process holds at one time."""

    at_s: float
    process: str
    rss_bytes: int
    descriptors: int
    threads: int


class Soak:
    """One soak in a directory."""

    def __init__(self, place: Path, minutes: float, rate: str) -> None:
        self.run = Running(f"soak-{place.name}", place)
        self.samples: list[Sample] = []
        self.jobs: Counter[str] = Counter()
        self.faults: list[str] = []
        self._place = place
        self._rate = rate
        self._ticks = 0
        self._ticks_max = int(60 * minutes / TICK_S)
        self._processes: dict[str, psutil.Process] = {}
        for name, text in (("long", LONG), ("fails", FAILS), ("endless", ENDLESS)):
            (place / f"{name}.py").write_text(text)
        (place / "restarts.py").write_text(FAILS_ONCE)

    def all_of_it(self) -> None:
        """Start, run and stop the cluster."""
        place, session = self._place, self._place / "session"
        words = ("--task-managers", "2", "--slots", "4", "--out", session)
        if self._ends("start", "job", "cluster", "start", *words, *_options(SETTINGS)) != 0:
            self.faults.append("the cluster did not start")
            return
        self._find_processes()
        self._submit("long", place / "long.py", *_options(CHECKPOINTS), "--", self._rate)
        try:
            self._short_jobs()
        finally:
            self._check_long()
            self._ends("stop", "job", "cluster", "stop", session)
        self.faults += [f"{each} outlives the cluster" for each in self._wait_for_the_end()]

    def _wait_for_the_end(self) -> list[psutil.Process]:
        """Wait for the processes of the cluster. Returns: those that do not end."""
        left = list(self._processes.values())
        for _ in range(WAITS_MAX):
            before_s = {each: used_s(each) for each in left}
            _, left = psutil.wait_procs(left, timeout=ENDS_S)
            if sum(used_s(each) - before_s[each] for each in left) < ENDING_S:
                break
        return left

    def _short_jobs(self) -> None:
        number = 0
        while self._ticks < self._ticks_max and self._is_whole():
            kind = (self._finishing, self._restarting, self._failing, self._cancelled)[number % 4]
            before = len(self.faults)
            kind(f"job-{number}")
            self.jobs[kind.__name__.strip("_")] += 1
            if len(self.faults) == before:
                shutil.rmtree(self._place / f"job-{number}", ignore_errors=True)
            for path in self._place.glob(f"job-{number}*.std*"):
                path.unlink()
            self._wait(4)
            number += 1

    def _finishing(self, name: str) -> None:
        file = self._place / "long.py"
        words = ("--duration", "2s", "--warmup", "0", "--", "2k/s")
        self._expect(name, file, words, 0, "finished")
        self._check_records(name)

    def _restarting(self, name: str) -> None:
        words = (*_options(RESTARTS), "--", self._place / f"{name}.mark")
        self._expect(name, self._place / "restarts.py", words, 0, "finished")
        result = self._result(name)
        if result.get("restarts") != 1:
            self.faults.append(f"{name}: {result.get('restarts')} restarts, not 1")
        printed = self.run.place.joinpath(f"{name}.stdout").read_text(errors="replace")
        numbers = {int(line) for line in printed.split() if line.isdigit()}
        if not numbers >= set(range(1, 1001)):
            self.faults.append(f"{name}: of 1000 numbers {len(numbers)} were printed")

    def _failing(self, name: str) -> None:
        words = ("-D", "restart-strategy.type=none")
        self._expect(name, self._place / "fails.py", words, 1, "failed")

    def _cancelled(self, name: str) -> None:
        if self._submit(name, self._place / "endless.py"):
            self._wait(3)
            out = self._place / name
            if self._ends(f"{name}-cancel", "job", "cancel", out) != 0:
                self.faults.append(f"{name} could not be cancelled: {self._said(f'{name}-cancel')}")
            elif self._result(name).get("state") != "canceled":
                self.faults.append(f"{name} is {self._result(name).get('state')}, not canceled")

    def _submit(self, name: str, file: Path, *words: object) -> bool:
        cluster = ("--cluster", self._place / "session", "--out", self._place / name, "--detached")
        is_submitted = self._ends(f"{name}-submit", "job", "run", file, *cluster, *words) == 0
        if not is_submitted:
            self.faults.append(f"{name} was not submitted: {self._said(f'{name}-submit')}")
        return is_submitted

    def _expect(
        self, name: str, file: Path, words: Sequence[object], code: int, state: str
    ) -> None:
        cluster = ("--cluster", self._place / "session", "--out", self._place / name)
        found = self._ends(name, "job", "run", file, "--no-trace", *cluster, *words)
        if found != code or self._result(name).get("state") != state:
            self.faults.append(f"{name} ended with {found}, not {code}: {self._said(name)}")

    def _check_long(self) -> None:
        """End the long job, whose records must all have arrived."""
        self._ends("long-cancel", "job", "cancel", self._place / "long")
        result = self._result("long")
        if result.get("state") != "canceled" or result.get("restarts"):
            self.faults.append(f"the long job: {result.get('state')}, {result.get('reason')}")
        made = sum(each["records_out"] for each in result.get("vertices", ()))
        read = sum(each["records_in"] for each in result.get("vertices", ()))
        self.jobs["records of the long job"] = read
        checkpoints = result.get("checkpoints") or {}
        self.jobs["checkpoints of the long job"] = checkpoints.get("completed", 0)
        if not read or not 0 <= made - read <= _under_way(result):
            self.faults.append(f"the long job made {made} records and read {read}")
        if not checkpoints.get("completed") or checkpoints.get("aborted", 0) > 2:
            self.faults.append(f"the checkpoints of the long job: {checkpoints}")
        if self._ends("verify", "trace", "verify", self._place / "long") != 0:
            self.faults.append(f"the trace of the long job: {self._said('verify')}")

    def _check_records(self, name: str) -> None:
        vertices = self._result(name).get("vertices", ())
        made, read = (sum(each[key] for each in vertices) for key in ("records_out", "records_in"))
        if not made or made != read:
            self.faults.append(f"{name} made {made} records and read {read}")

    def _result(self, name: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self._place / name / "result.json").read_text())
        except (OSError, ValueError):
            return {}
        return found

    def _said(self, name: str) -> str:
        return " ".join(self.run.stderr(name).split())[-300:]

    def _ends(self, name: str, *words: object) -> int | None:
        """Run a command of flinknet and go on sampling. Returns: its exit code; None: it hangs."""
        self.run.start(name, *words)
        command = self.run.commands.pop(name)
        process = psutil.Process(command.pid)
        for _ in range(WAITS_MAX):
            before_s = used_s(process)
            for _ in range(PATIENCE_TICKS):
                with suppress(subprocess.TimeoutExpired):
                    return command.wait(self._tick(0))
            if used_s(process) - before_s < WORKS_S:
                break
        command.kill()
        return None

    def _wait(self, ticks: int) -> None:
        for _ in range(ticks):
            psutil.wait_procs(self._processes.values(), timeout=self._tick(TICK_S))

    def _tick(self, wait_s: float) -> float:
        """Count a tick, and take a sample now and then. Returns: how long it takes."""
        self._ticks += 1
        if self._ticks % SAMPLE_TICKS == 0:
            self.samples += self._sample()
        return wait_s or TICK_S

    def _sample(self) -> Iterator[Sample]:
        at_s = self._ticks * TICK_S
        for name, process in self._processes.items():
            with suppress(psutil.Error), process.oneshot():
                rss = process.memory_info().rss
                yield Sample(at_s, name, rss, process.num_fds(), process.num_threads())

    def _find_processes(self) -> None:
        for name in ("jobmanager", "tm-0", "tm-1"):
            found = self.run.find(name)
            if found is None:
                self.faults.append(f"there is no {name}")
            else:
                self._processes[name] = found

    def _is_whole(self) -> bool:
        dead = [name for name, each in self._processes.items() if not each.is_running()]
        self.faults += [f"{name} has died" for name in dead]
        return not dead

    def growth(self) -> Iterator[str]:
        """The figures of each process by quarters; notes what has grown."""
        most = {
            "rss_bytes": MORE_RSS_BYTES,
            "descriptors": MORE_DESCRIPTORS,
            "threads": MORE_THREADS,
        }
        yield f"{'process':<12}{'':<14}{'1st':>9}{'2nd':>9}{'3rd':>9}{'last':>9}  quarter (median)"
        for name in self._processes:
            own = [each for each in self.samples if each.process == name]
            for key, allowed in most.items():
                values = [getattr(each, key) for each in own]
                quarters = [
                    statistics.median(values[len(values) * n // 4 : len(values) * (n + 1) // 4])
                    for n in range(4)
                    if len(values) >= 4
                ]
                scale = 2**20 if key == "rss_bytes" else 1
                label = "memory, MiB" if key == "rss_bytes" else key
                shown = "".join(f"{each / scale:>9.1f}" for each in quarters)
                yield f"{name:<12}{label:<14}{shown}"
                if not quarters:
                    self.faults.append(f"{name}: too few samples; take more minutes")
                elif quarters[3] - quarters[1] > allowed:
                    self.faults.append(f"{name}: {label} grew")


def _under_way(result: dict[str, Any]) -> int:
    """Records that a cancelled job may leave in its buffers, roughly: those of a second."""
    seconds = max(result.get("duration_ns", 0) / 1e9, 1.0)
    made = sum(each["records_out"] for each in result.get("vertices", ()))
    return int(made / seconds) + 1


def _options(settings: dict[str, str]) -> tuple[str, ...]:
    return tuple(word for key, value in settings.items() for word in ("-D", f"{key}={value}"))


def main(arguments: list[str]) -> int:
    """Run a soak. Returns: the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills.soak", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", default="500/s", help="of each source of the long job")
    parser.add_argument("--samples", type=Path, help="write the samples into this CSV file")
    options = parser.parse_args(arguments)
    place = Path(tempfile.mkdtemp(prefix="soak-"))
    soak = Soak(place, options.minutes, options.rate)
    began_s = time.monotonic()
    try:
        soak.all_of_it()
    finally:
        for each in list(soak.run.processes()):
            with suppress(psutil.Error):
                each.kill()
    for line in soak.growth():
        print(line)
    for name, count in soak.jobs.items():
        print(f"{count:>9,} {name}")
    if options.samples is not None:
        with options.samples.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(each.name for each in fields(Sample))
            writer.writerows(map(astuple, soak.samples))
    for fault in soak.faults:
        print(f"FAILED {fault}")
    jobs = sum(count for name, count in soak.jobs.items() if " " not in name)
    tally.add("soak", jobs, time.monotonic() - began_s, len(soak.faults))
    if not soak.faults:
        shutil.rmtree(place, ignore_errors=True)
    else:
        print(f"kept: {place}")
    return int(bool(soak.faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
