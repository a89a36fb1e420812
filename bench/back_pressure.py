"""back_pressure: how a slow task makes the source slow, through a task between them, and what comes
back when it is freed.

Three TaskManagers over real sockets: X makes records at a rate, A passes them on, B takes its time
over each for a while and then works at full speed. Second by second: what X sent and what B took,
out of the trace, and the resident memory of the three processes.

    python bench/back_pressure.py [--rate 50000] [--slow-rate 5000] [--slow-seconds 10]
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import psutil

from bench.measure import FLINKNET, print_table
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.trace import TraceReader, open_run

BEFORE_S = 5
AFTER_S = 10
SECOND_NS = 1_000_000_000
MIB = 1024 * 1024


def run(rate: int, slow_rate: int, slow_s: int, out: Path) -> dict[int, float]:
    """Run the chain. Returns: resident MiB of the TaskManagers by second since they were there."""
    command = [str(FLINKNET), "bench", "--relays", "1", "--rate", f"{rate}/s", "--out", str(out)]
    command += ["--slow-consumer", f"0:{1_000_000_000 // slow_rate}ns:{slow_s}s"]
    command += ["--warmup", f"{BEFORE_S}s", "--duration", f"{slow_s + AFTER_S}s"]
    memory: dict[int, float] = {}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as bench:
        begun = time.monotonic()
        while bench.poll() is None:
            try:
                children = psutil.Process(bench.pid).children(recursive=True)
                size = sum(each.memory_info().rss for each in children) / MIB
            except psutil.NoSuchProcess:
                break
            memory[int(time.monotonic() - begun)] = size
            time.sleep(0.25)
        bench.wait()
        if bench.returncode:
            assert bench.stderr is not None
            raise SystemExit(bench.stderr.read().decode().strip())
    return memory


def records_per_second(out: Path) -> tuple[Counter[int], Counter[int], int]:
    """Records that left X, and that B took, by second from the start of the measured part; and how
    many there were in all.
    """
    recorded = open_run(next(out.glob("run-*")))
    manifest = recorded.manifest
    assert manifest is not None
    assert manifest.measured_from_ns is not None
    last_edge = max(channel.edge for channel in manifest.channels)
    of_edge = {
        edge: [channel.index for channel in manifest.channels if channel.edge == edge]
        for edge in (0, last_edge)
    }
    sent: Counter[int] = Counter()
    taken: Counter[int] = Counter()
    for file in recorded.files:
        with TraceReader(file) as reader:
            for block in reader.events(("at_ns", "channel", "point", "kind", "records")):
                is_data = (block["kind"] == MessageKind.BUFFER_RESPONSE) & (block["records"] > 0)
                second = (block["at_ns"] - manifest.measured_from_ns) // SECOND_NS
                for point, edge, counts in (
                    (TracePoint.SENT, 0, sent),
                    (TracePoint.CONSUMED, last_edge, taken),
                ):
                    rows = is_data & (block["point"] == point)
                    rows &= np.isin(block["channel"], of_edge[edge])
                    for number in np.unique(second[rows]).tolist():
                        counts[number] += int(block["records"][rows][second[rows] == number].sum())
    return sent, taken, sum(taken.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=50_000)
    parser.add_argument("--slow-rate", type=int, default=5_000)
    parser.add_argument("--slow-seconds", type=int, default=10)
    options = parser.parse_args()
    slow_s = options.slow_seconds
    with tempfile.TemporaryDirectory(prefix="flinknet-bench-") as directory:
        memory = run(options.rate, options.slow_rate, slow_s, Path(directory) / "out")
        sent, taken, total = records_per_second(Path(directory) / "out")
    starting_s = max(memory) - (slow_s + AFTER_S) - BEFORE_S
    seconds = range(1 - BEFORE_S, slow_s + AFTER_S)
    print_table(
        ("second", "X sent/s", "B took/s", "memory MiB", ""),
        (
            (
                str(second),
                str(sent[second]),
                str(taken[second]),
                f"{memory.get(second + BEFORE_S + starting_s, float('nan')):.0f}",
                "slow" if 0 <= second < slow_s else "",
            )
            for second in seconds
        ),
    )
    baseline = float(np.mean([sent[second] for second in range(1 - BEFORE_S, 0)]))
    settled = range(slow_s // 2, slow_s)
    source = float(np.mean([sent[second] for second in settled]))
    sink = float(np.mean([taken[second] for second in settled]))
    back = [sent[second] / baseline for second in range(slow_s + 1, slow_s + AFTER_S)]
    first = next((number + 1 for number, share in enumerate(back) if share >= 0.95), None)
    held = [memory.get(second + BEFORE_S + starting_s) for second in settled]
    sizes = [size for size in held if size is not None]
    print()
    print(f"slow:   X sent {source:.0f}/s while B took {sink:.0f}/s ({source / sink - 1:+.1%})")
    print(f"memory: {min(sizes):.0f} to {max(sizes):.0f} MiB in that time")
    when = "not within the run" if first is None else f"within {first + 1} s"
    print(f"freed:  95% of the {baseline:.0f}/s before {when}; {total} records, none lost")


if __name__ == "__main__":
    main()
