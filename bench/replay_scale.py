"""How fast replay is on large traces, and whether it stays so: events a second and memory, by size.

For each size a synthetic trace is made (or one that is there is used again). When the Spark session
is up, all observed tables are computed, latency percentiles among them, then candidates for the
what-if, slice by slice over the whole run. Wall-clock and processor time are told apart: on a busy
machine only the latter says anything. Buffer events are five for each buffer simulated (sent,
received, consumed, credit announced and received), over all settings: the speed is that of one.

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
    from flinknet.predict.grid import Grid
    from flinknet.replay.candidates import candidates_of
    from flinknet.replay.observe.arrivals import slice_edges, slicing_of
    from flinknet.replay.observe.observed import collect, observe
    from flinknet.replay.read import open_runs
    from flinknet.replay.spark.session import spark_session
    from flinknet.replay.spark.settings import SessionOptions
    from flinknet.replay.what_if import predict

    def observed(run: Any) -> Any:
        tables = observe(spark, [run])
        (found,) = collect(tables, [run])
        spark.catalog.clearCache()
        return found.rows

    def predicted(run: Any, arrivals: Any) -> Any:
        candidates = candidates_of(run, Grid(buffer_timeouts_ns=TIMEOUTS_NS), run.to_ns)
        edges = slice_edges(run, None)
        slicings = {run.run: slicing_of(arrivals, edges)} if len(edges) > 2 else {}
        return predict(spark, candidates, None, slicings).collect()

    rows = []
    with spark_session(SessionOptions(master=master)) as spark:
        watch = Watch()
        for path in (runs[0], *runs):
            (run,) = open_runs([path])
            seen, tables = watch.measure(lambda run=run: observed(run))
            simulated, points = watch.measure(
                lambda run=run, tables=tables: predicted(run, tables.arrivals)
            )
            events = sum(row.messages for row in tables.messages)
            rows.append(
                {
                    "events": events,
                    "observed": asdict(seen),
                    "what_if": asdict(simulated),
                    "settings": len(points),
                    "buffer_events": sum(
                        5 * point["buffers_per_s"] * point["duration_ns"] / 1e9 for point in points
                    ),
                    "methods": sorted({point["method"] for point in points}),
                }
            )
        watch.close()
    return rows[1:]


def tell(rows: list[dict[str, Any]]) -> None:
    """The table, and whether the marks are reached at the largest size."""
    table = []
    for row in rows:
        seen, simulated = row["observed"], row["what_if"]
        table.append(
            (
                f"{row['events']:,}",
                f"{seen['wall_s']:.1f} s",
                millions(row["events"] / seen["wall_s"]),
                millions(row["events"] / seen["cpu_s"]),
                f"{simulated['wall_s']:.1f} s",
                millions(row["buffer_events"] / simulated["wall_s"]),
                millions(row["buffer_events"] / simulated["cpu_s"]),
            )
        )
    header = ("events", "observed", "/s", "/CPU s", "what-if", "buffer events /s", "/CPU s")
    print_table(header, table)
    print()
    parts = ("observed", "what_if")
    memory = [
        (
            f"{row['events']:,}",
            *(
                f"{max(row[part][name] for part in parts):,.0f} MB"
                for name in ("driver_mb", "jvm_mb", "worker_mb")
            ),
        )
        for row in rows
    ]
    print_table(("most memory", "driver", "JVM", "Python worker"), memory)
    first, last = rows[0], rows[-1]
    speeds = (
        ("observed tables", last["events"] / last["observed"]["wall_s"], MARK_OBSERVED),
        ("what-if", last["buffer_events"] / last["what_if"]["wall_s"], MARK_WHAT_IF),
    )
    print(f"\non {os.cpu_count()} cores, {last['events']:,} events:")
    for name, speed, mark in speeds:
        reached = "reached" if speed >= mark else "not reached"
        print(f"  {name}: {millions(speed)} events/s; mark {millions(mark)}: {reached}")
    if len(rows) > 1:
        for part in parts:
            more = last["events"] - first["events"]
            cpu_s = last[part]["cpu_s"] - first[part]["cpu_s"]
            print(f"  {part}: {cpu_s / more * 1e9:.0f} ns of processor time for one more event")


def millions(number: float) -> str:
    """In millions."""
    return f"{number / 1e6:.1f} M"


if __name__ == "__main__":
    main()
