"""network_throughput: payload of records moved per second, against a plain loop over one socket.

The baseline is what Python can do at all: one process calls sendall with blocks of 32 KiB, another
recv_into. Rounds are interleaved, so that a drift of the machine falls on all of them; a ratio is
taken within each round and the table shows the median. Tracing is on, as in daily use. What the
compiled core brings stands next to it; where there is none, all runs are interpreted.

    python bench/network_throughput.py [--rounds 5] [--seconds 2]
    python bench/network_throughput.py --against ../before/.venv/bin/flinknet --rounds 10

The second form compares with another tree, such as an earlier commit with an environment of its
own: both in turns, traced and untraced, as ratios with their 95% intervals. Single runs differ by
a factor of two on a machine that is shared, so the payload for each second that the TaskManagers
had a processor stands next to the payload per second.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from bench.measure import (
    FLINKNET,
    print_table,
    rate,
    rate_per_processor,
    ratio,
    run_bench,
    run_once,
    spread,
)
from flinknet.results.comparison import interleaved_orders

BLOCK_BYTES = 32 * 1024

CASES = {
    "network_throughput[1,100ms] 100 B": ("100b", "100ms"),
    "network_throughput[1,100ms] 8 B": ("8b", "100ms"),
    "network_throughput[1,0ms] 100 B": ("100b", "0"),
    "network_throughput[1,0ms] 8 B": ("8b", "0"),
    "network_throughput[1,100ms] 100 B, interpreted": ("100b", "100ms"),
}
"""As in Flink's benchmarks: [channels, flush timeout]; then the size of a record's value."""

BASELINE = "plain sockets, 32 KiB blocks"
RATIOS = (
    ("100 B at 100 ms / plain sockets", "network_throughput[1,100ms] 100 B", BASELINE, 0.5),
    ("8 B at 100 ms / plain sockets", "network_throughput[1,100ms] 8 B", BASELINE, 0.25),
    (
        "100 B: timeout 0 / 100 ms",
        "network_throughput[1,0ms] 100 B",
        "network_throughput[1,100ms] 100 B",
        0.3,
    ),
    (
        "100 B at 100 ms: compiled / interpreted",
        "network_throughput[1,100ms] 100 B",
        "network_throughput[1,100ms] 100 B, interpreted",
        None,
    ),
)
"""Name, numerator, denominator, and what it must reach if anything."""


def plain_sockets(seconds: float) -> float:
    """Bytes per second of the baseline."""
    context = multiprocessing.get_context("spawn")
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = context.Process(target=_send, args=(server.getsockname()[1], seconds))
        sender.start()
        connection, _ = server.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            block, received = bytearray(BLOCK_BYTES), 0
            began = time.monotonic()
            while count := connection.recv_into(block):
                received += count
            took = time.monotonic() - began
        sender.join()
    return received / took


def _send(port: int, seconds: float) -> None:
    block = bytes(BLOCK_BYTES)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(64):
                connection.sendall(block)


def flinknet(record_size: str, timeout: str, seconds: float, *, is_compiled: bool) -> float:
    """Bytes of record values per second."""
    options = options_of(record_size, timeout, seconds)
    measured = run_bench(*options, trace=True, is_compiled=is_compiled)
    return float(measured["throughput_bytes_per_s"])


def options_of(record_size: str, timeout: str, seconds: float) -> tuple[str, ...]:
    """Of `flinknet bench`, for one case."""
    return (
        *("--record-size", record_size, "--buffer-timeout", timeout),
        *("--duration", f"{seconds:g}s", "--segment-size", "32kb"),
    )


def compare(other: Path, rounds: int, seconds: float, seed: int) -> None:
    """Print this tree's figures as ratios to those of another one's command."""
    commands = (other, FLINKNET)
    figures: tuple[Callable[[Mapping[str, Any]], float], ...] = (rate, rate_per_processor)
    rows = []
    for name, (record_size, timeout) in CASES.items():
        if name.endswith("interpreted"):
            continue
        for trace in (True, False):
            runs: tuple[list[dict[str, Any]], ...] = ([], [])
            for turn, order in enumerate(interleaved_orders(len(commands), rounds, seed)):
                options = (*options_of(record_size, timeout, seconds), "--seed", str(seed + turn))
                for index in order:
                    run = run_once(*options, trace=trace, flinknet=commands[index])
                    runs[index].append(run)
            found = (ratio(*([figure(run) for run in own] for own in runs)) for figure in figures)
            rows.append((f"{name}, {'traced' if trace else 'untraced'}", *found))
    header = f"{rounds} rounds of {seconds:g} s, seeds from {seed}"
    print_table((header, "per second [95%]", "per processor time [95%]"), rows)


def main() -> None:
    """Measure every case in every round and print rates and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--against", type=Path, metavar="FLINKNET", help="command of another tree")
    parser.add_argument("--seed", type=int, default=1, help="of the turns, with --against")
    arguments = parser.parse_args()
    if arguments.against is not None:
        compare(arguments.against, arguments.rounds, arguments.seconds, arguments.seed)
        return
    rates: dict[str, list[float]] = {name: [] for name in (BASELINE, *CASES)}
    for _ in range(arguments.rounds):
        rates[BASELINE].append(plain_sockets(arguments.seconds))
        for name, (record_size, timeout) in CASES.items():
            is_compiled = not name.endswith("interpreted")
            rates[name].append(
                flinknet(record_size, timeout, arguments.seconds, is_compiled=is_compiled)
            )

    def records(name: str) -> str:
        if name not in CASES:
            return ""
        return f"{median(rates[name]) / int(CASES[name][0].rstrip('b')) / 1e6:.2f}"

    print_table(
        ("benchmark", "MB/s", "M records/s", "spread"),
        [
            (name, f"{median(each) / 1e6:.0f}", records(name), spread(each))
            for name, each in rates.items()
        ],
    )
    print()
    rows = []
    for name, above, below, mark in RATIOS:
        ratio = median(a / b for a, b in zip(rates[above], rates[below], strict=True))
        judged = ("", "") if mark is None else (f"{mark:.2f}", "yes" if ratio >= mark else "NO")
        rows.append((name, f"{ratio:.2f}", *judged))
    print_table(("ratio", "median", "mark", "reached"), rows)


if __name__ == "__main__":
    main()
