"""How fast replay is on large traces, and whether it stays so: events a second and memory, by size.

For each size a synthetic trace is made (or one that is there is used again). When the Spark session
is up, all observed tables are computed, latency percentiles among them, then candidates for the
what-if, slice by slice over the whole run. Wall-clock and processor time are told apart: on a busy
machine only the latter says anything. `events/s` count the events of the trace; for the what-if
those of data buffers and credit (five for each buffer), for one candidate.

    python bench/replay_scale.py                        1 and 10 million events
    python bench/replay_scale.py --events 1M,10M,100M   some minutes, 250 MB of traces
    python bench/replay_scale.py --traces DIR           keep the traces there
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from measure import FLINKNET, print_table

MARK_OBSERVED, MARK_WHAT_IF = 8e6, 10e6
SCENARIO = ("--rate", "20k/s", "--producers", "2", "--consumers", "2", "--buffer-timeout", "1ms")
TIMEOUTS_NS = (1_000_000, 5_000_000)
_SAMPLE_S = 0.05


@dataclass
class Part:
    """What one part of the work took."""

    wall_s: float
    cpu_s: float  # of the driver, the JVM and the Python workers
    driver_mb: float  # most resident memory seen
    jvm_mb: float
    worker_mb: float  # of the largest Python worker


class Watch:
    """Looks at the processes of this run while they work."""

    def __init__(self) -> None:
        self._most: dict[str, float] = {}
        self._cpu: dict[int, float] = {}
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def measure(self, work: Callable[[], Any]) -> tuple[Part, Any]:
        """Do some work. Returns: what it took, and what it gave."""
        self._most = {}
        self._sample()
        before_s, started_s = sum(self._cpu.values()), time.perf_counter()
        result = work()
        wall_s = time.perf_counter() - started_s
        self._sample()
        cpu_s = sum(self._cpu.values()) - before_s
        sizes = [self._most.get(name, 0.0) for name in ("driver", "java", "python")]
        return Part(wall_s, cpu_s, *sizes), result

    def close(self) -> None:
        """Stop looking."""
        self._stops.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stops.wait(_SAMPLE_S):
            self._sample()

    def _sample(self) -> None:
        own = psutil.Process()
        for process in (own, *own.children(recursive=True)):
            try:
                times, size = process.cpu_times(), process.memory_info().rss / 1e6
                kind = "driver" if process.pid == own.pid else process.name()
            except psutil.Error:
                continue
            kind = "python" if kind.startswith("python") else kind
            self._cpu[process.pid] = times.user + times.system
            self._most[kind] = max(self._most.get(kind, 0.0), size)


def main() -> None:
    """Make the traces, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", default="1M,10M", help="sizes, such as 1M,10M,100M")
    parser.add_argument("--traces", type=Path, help="where traces lie and stay")
    parser.add_argument("--master", default="local[2]", help="Spark master")
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="flinknet-scale-") as scratch:
        traces = options.traces or Path(scratch)
        runs = [made(size, traces) for size in options.events.split(",")]
        rows = measured(runs, options.master)
    tell(rows)
    if options.out is not None:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")


def made(size: str, traces: Path) -> Path:
    """A trace of that many events, unless it is there."""
    run = traces / f"synth-{size}"
    if not (run / "manifest.json").exists():
        started_s = time.perf_counter()
        command = [str(FLINKNET), "trace", "synth", "--events", size, *SCENARIO, "--out", str(run)]
        done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr.strip())
        events = json.loads(done.stdout)["events"]
        speed = events / (time.perf_counter() - started_s)
        print(f"made {events:,} events, {speed / 1e6:.1f} million a second")
    return run


def measured(runs: list[Path], master: str) -> list[dict[str, Any]]:
    """What each run takes, in one session; a small one goes first and warms it up."""
    from flinknet.replay.answer import open_runs, replay_runs
    from flinknet.replay.grid import Grid
    from flinknet.replay.observed import collect, observe
    from flinknet.replay.session import spark_session
    from flinknet.replay.units import units_frame, work_units

    def observed(run: Any) -> Any:
        cores = spark.sparkContext.defaultParallelism
        tables = observe(spark, units_frame(spark, work_units([run], cores)), [run])
        rows = collect(tables, [run])
        spark.catalog.clearCache()
        return rows

    def whole(run: Any) -> Any:
        grid = Grid(buffer_timeouts_ns=TIMEOUTS_NS)
        answer = replay_runs(spark, [run], grid, max_records=10**15).answers[0]
        spark.catalog.clearCache()
        return answer

    rows = []
    with spark_session(master) as spark:
        watch = Watch()
        whole(open_runs(runs[:1])[0])
        for path in runs:
            (run,) = open_runs([path])
            seen, _ = watch.measure(lambda run=run: observed(run))
            both, answer = watch.measure(lambda run=run: whole(run))
            points = answer["trade_offs"]
            window_s = answer["simulated"]["window_ns"] / 1e9
            rows.append(
                {
                    "events": answer["trace"]["events"],
                    "observed": asdict(seen),
                    "replay": asdict(both),
                    "settings": len(points),
                    "buffer_events": [5 * each["buffers_per_s"] * window_s for each in points],
                    "methods": [each["method"] for each in points],
                    "p99_ns": answer["observed"]["latency_ns"]["p99"],
                    "is_whole": answer["simulated"]["is_whole"],
                }
            )
        watch.close()
    return rows


def tell(rows: list[dict[str, Any]]) -> None:
    """The table, and whether the marks are reached at the largest size."""
    cores = os.cpu_count() or 1
    header = ("events", "observed", "/s", "/CPU s", "what-if", "settings x /s", "/CPU s")
    table = []
    for row in rows:
        seen, extra_s, extra_cpu_s = parts(row)
        recorded = row["events"] * row["settings"]
        table.append(
            (
                f"{row['events']:,}",
                f"{seen['wall_s']:.1f} s",
                f"{row['events'] / seen['wall_s'] / 1e6:.1f} M",
                f"{row['events'] / seen['cpu_s'] / 1e6:.1f} M",
                f"{extra_s:.1f} s",
                f"{recorded / extra_s / 1e6:.1f} M",
                f"{recorded / extra_cpu_s / 1e6:.1f} M",
            )
        )
    print_table(header, table)
    print()
    memory = [
        (f"{row['events']:,}", *(f"{row['replay'][name]:,.0f} MB" for name in
         ("driver_mb", "jvm_mb", "worker_mb")))
        for row in rows
    ]  # fmt: skip
    print_table(("most memory", "driver", "JVM", "Python worker"), memory)
    last = rows[-1]
    seen, extra_s, _ = parts(last)
    speeds = last["events"] / seen["wall_s"], last["events"] * last["settings"] / extra_s
    print(f"\non {cores} cores, {last['events']:,} events:")
    for name, speed, mark in zip(
        ("observed tables", "what-if"), speeds, (MARK_OBSERVED, MARK_WHAT_IF), strict=True
    ):
        reached = "reached" if speed >= mark else "not reached"
        print(f"  {name}: {speed / 1e6:.1f} million events/s; mark {mark / 1e6:.0f}: {reached}")
    if len(rows) > 1:
        first = rows[0]
        per_event = [row["observed"]["cpu_s"] / row["events"] for row in (first, last)]
        print(
            f"  processor time for an event, largest to smallest: {per_event[1] / per_event[0]:.2f}"
        )


def parts(row: dict[str, Any]) -> tuple[dict[str, Any], float, float]:
    """The observed part, and what the replay took beyond it: wall-clock and processor time."""
    seen, both = row["observed"], row["replay"]
    return (
        seen,
        max(both["wall_s"] - seen["wall_s"], 1e-3),
        max(both["cpu_s"] - seen["cpu_s"], 1e-3),
    )


if __name__ == "__main__":
    main()
