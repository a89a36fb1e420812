"""How fast replay is on large traces, and whether it stays so: events a second and memory, by size.

For each size a synthetic trace is made (or one that is there is used again). When the Spark session
is up, all observed tables are computed, latency percentiles among them, then candidates for the
what-if, slice by slice over the whole run. Wall-clock and processor time are told apart: on a busy
machine only the latter says anything. Buffer events are five for each buffer simulated (sent,
received, consumed, credit announced and received), over all settings: the speed is that of one.

    python bench/replay_scale.py                        1 and 10 million events
    python bench/replay_scale.py --events 1M,10M,100M   some minutes, 250 MB of traces
    python bench/replay_scale.py --traces DIR           keep the traces there
    python bench/replay_scale.py --channels 10000 --recordings 200 --events 100M,300M,1G --shapes
    python bench/replay_scale.py --skew channel         one channel has half of all events
    python bench/replay_scale.py --skew second          one second has fifty times the mean
    python bench/replay_scale.py --command --channels 64 --recordings 8 --events 5M
                                                        `flinknet trace replay` itself, on 8 x 8
    python bench/replay_scale.py --command --sparse --channels 1000000 --recordings 50
                                                        a million channels of few buffers each

The units of the smallest trace are then worked off once more, one after the other in this process:
what the longest of them takes, relative to the median, is what skew costs. --shapes does the same
with a tenth of the recordings, and with both kinds of skew. Index bytes are what was read of
headers, trailers and directories of blocks, when units were planned and in them. Memory is the most
that was resident, of the driver in Python, of the JVM (in local mode that of driver and executors)
and of the largest Python worker. Every ten seconds a line on stderr says how far it is.

With --command only the command itself is measured, as a user waits for it: from nothing to the
answer about the whole trace at four other buffer timeouts, Spark's start among it. With --sparse
every channel has the same few buffers, and their number follows from that of the channels.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.measure import FLINKNET, print_table
from bench.sparse_trace import write_sparse_trace
from bench.watched import PROGRESS_S, Watch, say, tasks_of

MARK_OBSERVED, MARK_WHAT_IF = 8e6, 10e6
TIMEOUTS_NS = (1_000_000, 5_000_000)
TIMEOUTS_OF_MANY_NS = (5_000_000, 20_000_000, 50_000_000)
TIMEOUTS_OF_COMMAND = "1ms,5ms,20ms,100ms"
BURST_TIMES = 50
LINEAR_WITHIN = 0.15
MEMORY_MARK_MB = 1 << 30 >> 20
WARM_UP_SIZE = "1M"
SKEWED_SIZE, SKEWED_CHANNELS = "10M", 100


@dataclass(frozen=True)
class Shape:
    """Of the traces that are made."""

    channels: int
    recordings: int
    skew: str

    @property
    def name(self) -> str:
        """For a directory."""
        plain = (self.channels, self.recordings, self.skew) == (4, 2, "none")
        return "" if plain else f"-{self.channels}-{self.recordings}-{self.skew}"

    @property
    def options(self) -> list[str]:
        """Of `synthetic_trace`."""
        tasks = math.isqrt(self.channels)
        producers = 1 if self.skew == "channel" else tasks
        consumers = self.channels // producers
        options = {"--producers": producers, "--consumers": consumers}
        options |= {"--task-managers": self.recordings}
        if self.skew == "channel":  # full buffers, so that records and events are skewed alike
            options |= {"--skew": f"{_half_exponent(consumers):.4f}", "--rate": 1_000_000}
            options |= {"--buffer-timeout-ms": 1_000}
        elif self.channels <= 16:
            options |= {"--rate": 10_000 * consumers, "--buffer-timeout-ms": 1}
        else:
            options |= {"--rate": 1_000 * consumers, "--buffer-timeout-ms": 10}
        return [str(each) for pair in options.items() for each in pair]


def _half_exponent(consumers: int) -> float:
    """The exponent at which the first of some consumers gets half of the records."""
    low, high = 0.0, 10.0
    for _ in range(50):
        middle = (low + high) / 2
        is_less = sum((i + 1) ** -middle for i in range(consumers)) > 2
        low, high = (middle, high) if is_less else (low, middle)
    return low


def main() -> None:
    """Make the traces, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", default="1M,10M", help="sizes, such as 1M,10M,100M")
    parser.add_argument("--channels", type=int, default=4, help="about so many, all to all")
    parser.add_argument("--recordings", type=int, default=2, help="trace files, one a TaskManager")
    parser.add_argument("--skew", choices=("none", "channel", "second"), default="none")
    parser.add_argument("--shapes", action="store_true", help="time the units of other shapes, too")
    parser.add_argument(
        "--command", action="store_true", help="time `flinknet trace replay` itself"
    )
    parser.add_argument("--sparse", action="store_true", help="with --command: few buffers each")
    parser.add_argument("--traces", type=Path, help="where traces lie and stay")
    parser.add_argument("--master", default="local[2]", help="Spark master")
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    options = parser.parse_args()
    shape = Shape(options.channels, options.recordings, options.skew)
    with tempfile.TemporaryDirectory(prefix="flinknet-scale-") as scratch:
        traces = options.traces or Path(scratch)
        sizes = options.events.split(",")
        if options.sparse:
            runs = [sparse(traces, shape)]
        else:
            runs = [made(size, traces, shape) for size in sizes]
        if options.command:
            commands = timed_commands(runs, options.master)
            tell_commands(commands)
            keep(options.out, commands=commands)
            return
        warm_up = made(WARM_UP_SIZE, traces, Shape(4, 2, "none"))
        rows = measured(runs, warm_up, options.master, lambda rows: keep(options.out, sizes=rows))
        tell(rows)
        others = other_shapes(shape, sizes[0]) if options.shapes else []
        shapes = [(shape, sizes[0]), *others]
        units = [unit_times(each, made(size, traces, each)) for each, size in shapes]
    tell_units(units)
    keep(options.out, sizes=rows, units=units)


def number_of(size: str) -> int:
    """Events of a size such as 10M."""
    return round(float(size[:-1]) * {"k": 1e3, "M": 1e6, "G": 1e9}[size[-1]])


def keep(file: Path | None, **numbers: Any) -> None:
    """Write them as JSON, if there is a file for it."""
    if file is not None:
        file.write_text(json.dumps(numbers, indent=1) + "\n")


def made(size: str, traces: Path, shape: Shape) -> Path:
    """A trace of that many events, unless it is there."""
    run = traces / f"synth-{size}{shape.name}"
    if not (run / "manifest.json").exists():
        plain = traces / f"synth-{size}-even" if shape.skew == "second" else run
        started_s = time.perf_counter()
        command = [sys.executable, "-m", "bench.synthetic_trace", "--events", str(number_of(size))]
        events = int(written([*command, *shape.options, "--out", str(plain)], plain))
        speed = events / (time.perf_counter() - started_s)
        say(f"made {events:,} events, {speed / 1e6:.1f} million a second")
        if shape.skew == "second":
            squeeze(plain, run)
            shutil.rmtree(plain)
    return run


def sparse(traces: Path, shape: Shape) -> Path:
    """A trace of many channels with few buffers each, unless it is there."""
    run = traces / f"sparse{shape.name}"
    if not (run / "manifest.json").exists():
        write_sparse_trace(run, math.isqrt(shape.channels), shape.recordings)
        say(f"made {run}")
    return run


def written(command: list[str], run: Path) -> str:
    """What a command that writes a run prints; says how far it is meanwhile."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while True:
            try:
                printed, _ = process.communicate(timeout=PROGRESS_S)
                break
            except subprocess.TimeoutExpired:
                size = sum(each.stat().st_size for each in run.glob("*.fnt"))
                say(f"making {run.name}: {size / 1e6:,.0f} MB")
    if process.returncode:
        raise SystemExit(process.returncode)
    return printed


def squeeze(even: Path, run: Path) -> None:
    """The same run with a second into which fifty in its middle are pressed."""
    from flinknet.trace import RunManifest, TraceReader, TraceWriter
    from flinknet.trace.run_directory import seal_run
    from flinknet.trace.schema import ROW_DTYPE

    manifest = RunManifest.load(even)
    assert manifest.measured_from_ns is not None
    assert manifest.measured_to_ns is not None
    length_ns = BURST_TIMES * 1_000_000_000
    start_ns = (manifest.measured_from_ns + manifest.measured_to_ns - length_ns) // 2
    if start_ns < manifest.measured_from_ns:
        raise SystemExit(f"{even}: too short for a second with {BURST_TIMES} times the mean")

    def later(at_ns: Any) -> Any:
        inside = np.clip(at_ns - start_ns, 0, length_ns)
        return np.where(at_ns < 0, at_ns, at_ns - inside + inside // BURST_TIMES)

    run.mkdir(parents=True)
    to_ns = int(later(np.array(manifest.measured_to_ns)))
    replace(manifest, measured_to_ns=to_ns, files={}).save(run)
    for process in manifest.processes:
        with (
            TraceReader(even / process.file) as reader,
            TraceWriter(run / process.file, process) as writer,
        ):
            for number in range(len(reader.blocks())):
                columns = reader.read_block(number, [name for name, _ in ROW_DTYPE] + ["order"])
                order = np.argsort(columns["order"])
                rows = np.empty(len(order), ROW_DTYPE)
                for name, _ in ROW_DTYPE:
                    values = columns[name][order]
                    rows[name] = later(values) if name.endswith("_ns") else values
                writer.write_events(rows)
    seal_run(run)


def measured(
    runs: list[Path], warm_up: Path, master: str, on_row: Callable[[list[dict[str, Any]]], None]
) -> list[dict[str, Any]]:
    """What each run takes, in one session; a small one goes first and warms it up.

    Args:
        on_row: takes what is known after each run.
    """
    from flinknet.predict.grid import Grid
    from flinknet.replay.observe.observed import collect, observe
    from flinknet.replay.observe.traffic import slice_edges
    from flinknet.replay.pipeline import predict
    from flinknet.replay.plans import first_of, plan_of, settings_of, slices_between
    from flinknet.replay.read import open_runs
    from flinknet.replay.spark.session import spark_errors, spark_session
    from flinknet.replay.spark.settings import SessionOptions
    from flinknet.trace import file_index

    def observed(run: Any) -> Any:
        tables = observe(spark, [run])
        (found,) = collect(tables, [run])
        return found.rows, tables

    def predicted(run: Any, arrivals: Any, packed: Any) -> Any:
        few = len(run.manifest.channels) <= 16
        grid = Grid(buffer_timeouts_ns=TIMEOUTS_NS if few else TIMEOUTS_OF_MANY_NS)
        edges, part = slice_edges(run, None), first_of(run, run.duration_ns)
        if len(edges) > 2:
            latest_ns = max(row.latest_ns for row in arrivals)
            part = replace(part, windows=tuple(slices_between(edges)), latest_ns=latest_ns)
        return predict(
            spark, [plan_of(run, settings_of(run, grid), part)], arrivals=packed
        ).collect()

    rows = []
    with spark_session(SessionOptions(master=master)) as spark, spark_errors():
        watch = Watch(lambda: tasks_of(spark))
        for path in (warm_up, *runs):
            (run,) = open_runs([path])
            seen, (found, tables) = watch.measure(
                f"{path.name}, observed", lambda run=run: observed(run)
            )
            arrivals, packed = found.arrivals, tables.packed_arrivals()
            simulated, points = watch.measure(
                f"{path.name}, what-if",
                lambda run=run, arrivals=arrivals, packed=packed: predicted(run, arrivals, packed),
            )
            spark.catalog.clearCache()
            events = sum(row.messages for row in found.messages)
            planned_bytes = sum(file_index(file).index_bytes for file in run.files)
            rows.append(
                {
                    "events": events,
                    "observed": asdict(seen),
                    "what_if": asdict(simulated),
                    "settings": len(points),
                    "buffer_events": sum(
                        5
                        * (point["point"]["buffers_per_s"] or 0)
                        * (point["duration_ns"] or 0)
                        / 1e9
                        for point in points
                    ),
                    "methods": sorted(
                        {each["point"]["method"] or each["point"]["why_unknown"] for each in points}
                    ),
                    "files_bytes": sum(Path(file.path).stat().st_size for file in run.files),
                    "index_bytes": planned_bytes + sum(row.index_bytes for row in found.work),
                    "data_bytes": sum(row.data_bytes for row in found.work),
                    "unit_events": [row.events for row in found.work],
                }
            )
            on_row(rows[1:])
        watch.close()
    return rows[1:]


def timed_commands(runs: list[Path], master: str) -> list[dict[str, Any]]:
    """What `flinknet trace replay` takes for each run, from nothing to the whole answer."""
    watch = Watch()
    rows = []
    for run in runs:
        command = [str(FLINKNET), "trace", "replay", str(run), "--max-records", "all"]
        command += ["--buffer-timeout", TIMEOUTS_OF_COMMAND, "--master", master, "--json", "-"]
        took, answer = watch.measure(
            run.name, lambda command=command: json.loads(subprocess.check_output(command))
        )
        settings = answer["trade_offs"]
        seconds = answer["trace"]["measured_duration_ns"] / 1e9
        rows.append(
            {
                "channels": answer["trace"]["channels"],
                "events": answer["trace"]["events"],
                "settings": len(settings),
                "methods": sorted({each["method"] for each in settings}),
                "messages": sum(round(each["buffers_per_s"] * seconds) for each in settings),
                "is_whole": answer["simulated"]["is_whole"],
                **asdict(took),
            }
        )
    watch.close()
    return rows


def tell_commands(rows: list[dict[str, Any]]) -> None:
    """The table."""
    header = (
        "events",
        "channels",
        "settings",
        "messages",
        "by",
        "time",
        "processor time",
        "driver",
        "JVM",
        "worker",
    )
    table = [
        (
            f"{each['events']:,}",
            f"{each['channels']:,}",
            f"{each['settings']}, {'whole' if each['is_whole'] else 'not whole'}",
            millions(each["messages"]),
            ", ".join(each["methods"]),
            f"{each['wall_s']:.1f} s",
            f"{each['cpu_s']:.1f} s",
            *(f"{each[name]:,.0f} MiB" for name in ("driver_mb", "jvm_mb", "worker_mb")),
        )
        for each in rows
    ]
    print_table(header, table)


def other_shapes(shape: Shape, size: str) -> list[tuple[Shape, str]]:
    """What a number of recordings costs, and both kinds of skew: shapes and their sizes."""
    fewer = replace(shape, recordings=max(shape.recordings // 10, 2))
    skewed = [Shape(SKEWED_CHANNELS, 2, skew) for skew in ("channel", "second")]
    return [(fewer, size), *((each, SKEWED_SIZE) for each in skewed)]


def unit_times(shape: Shape, path: Path) -> dict[str, Any]:
    """What each unit of the observed tables of a run takes and reads in this process."""
    from flinknet.replay.observe.observed import tree_of
    from flinknet.replay.observe.tree import WORK, WorkRow, tables_here
    from flinknet.replay.observe.units import Units, work_units
    from flinknet.replay.read import open_runs
    from flinknet.replay.spark.frames import rows_of, unpacked
    from flinknet.trace import file_index

    runs = open_runs([path])
    units, tree = work_units(runs), tree_of(runs, None)
    tables_here(Units(units.units[:1], units.groups), tree)  # compiles what it needs
    took_s, work = [], []
    for number, unit in enumerate(units.units):
        started_s = time.process_time()
        tables = tables_here(Units([unit], units.groups), tree)
        took_s.append(time.process_time() - started_s)
        work += [rows_of(WorkRow, unpacked(each.rows)) for each in tables if each.name == WORK.name]
        say(f"unit {number + 1} of {len(units)} of {path.name}: {took_s[-1]:.1f} s")
    rows = [row for each in work for row in each]
    planned_bytes = sum(file_index(file).index_bytes for run in runs for file in run.files)
    return {
        **asdict(shape),
        "events": sum(row.events for row in rows),
        "units": len(units),
        "longest_s": max(took_s),
        "median_s": median(took_s),
        "index_bytes": planned_bytes + sum(row.index_bytes for row in rows),
        "data_bytes": sum(row.data_bytes for row in rows),
    }


def tell(rows: list[dict[str, Any]]) -> None:
    """The tables, and whether the marks are reached at the largest size."""
    table = []
    for row in rows:
        seen, simulated = row["observed"], row["what_if"]
        table.append(
            (
                f"{row['events']:,}",
                f"{seen['wall_s']:.1f} s",
                f"{seen['cpu_s']:.1f} s",
                millions(row["events"] / seen["wall_s"]),
                millions(row["events"] / seen["cpu_s"]),
                f"{simulated['wall_s']:.1f} s",
                f"{simulated['cpu_s']:.1f} s",
                millions(row["buffer_events"] / simulated["wall_s"]),
                millions(row["buffer_events"] / simulated["cpu_s"]),
            )
        )
    header = ("events", "observed", "CPU", "/s", "/CPU s")
    print_table((*header, "what-if", "CPU", "buffer events /s", "/CPU s"), table)
    print()
    parts = ("observed", "what_if")
    memory = [
        (
            f"{row['events']:,}",
            *(
                f"{max(row[part][name] for part in parts):,.0f} MiB"
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
    print(
        f"  read: {last['index_bytes'] / last['data_bytes']:.4f} bytes of index for a byte of data,"
        f" {last['data_bytes'] / last['files_bytes']:.2f} bytes of data for a byte of the files"
    )
    for name, what in (("driver_mb", "driver"), ("jvm_mb", "JVM"), ("worker_mb", "Python worker")):
        size = max(row[part][name] for row in rows for part in parts)
        reached = "reached" if size <= MEMORY_MARK_MB else "not reached"
        print(f"  {what}: {size:,.0f} MiB; mark {MEMORY_MARK_MB:,} MiB: {reached}")
    if len(rows) > 1:
        for part in parts:
            more = last["events"] - first["events"]
            cpu_s = last[part]["cpu_s"] - first[part]["cpu_s"]
            print(f"  {part}: {cpu_s / more * 1e9:.0f} ns of processor time for one more event")
    if len(rows) > 2:
        for part in parts:
            for name, what in (("cpu_s", "processor time"), ("wall_s", "time")):
                off = off_the_line(rows, part, name)
                reached = "reached" if off <= LINEAR_WITHIN else "not reached"
                print(f"  {part}: {what} {off:.1%} off a line; mark {LINEAR_WITHIN:.0%}: {reached}")


def tell_units(units: list[dict[str, Any]]) -> None:
    """How even units are, and what index they read, shape by shape."""
    table = [
        (
            f"{each['channels']:,} channels, {each['recordings']} files, skew {each['skew']}",
            f"{each['events']:,}",
            str(each["units"]),
            f"{each['longest_s']:.2f} s",
            f"{each['longest_s'] / each['median_s']:.2f}",
            f"{each['index_bytes'] / each['data_bytes']:.4f}",
        )
        for each in units
    ]
    header = ("shape", "events", "units", "longest", "over median", "index B / data B")
    print()
    print_table(header, table)


def off_the_line(rows: list[dict[str, Any]], part: str, name: str) -> float:
    """How far a size is off the line through the smallest and the largest, at most."""
    events = [row["events"] for row in rows]
    took_s = [row[part][name] for row in rows]
    line_s = np.interp(events, [events[0], events[-1]], [took_s[0], took_s[-1]])
    return float(np.max(np.abs(np.array(took_s) - line_s) / line_s))


def millions(number: float) -> str:
    """In millions."""
    return f"{number / 1e6:.1f} M"


if __name__ == "__main__":
    main()
