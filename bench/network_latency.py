"""network_latency: how long a record takes at a rate far below the limit.

`network_latency_1to1` is one producer and one consumer with timeout 0, as in Flink's benchmarks;
the others show what the buffer timeout adds. Latency counts from intended instants.

    python bench/network_latency.py [--rounds 3] [--seconds 2]
"""

from __future__ import annotations

import argparse
from statistics import median

from bench.measure import print_table, run_bench

CASES = {
    "network_latency_1to1[0ms]": ("--buffer-timeout", "0"),
    "network_latency_1to1[1ms]": ("--buffer-timeout", "1ms"),
    "network_latency_1to1[10ms]": ("--buffer-timeout", "10ms"),
    "network_latency_2to2[0ms]": ("--buffer-timeout", "0", "--producers", "2", "--consumers", "2"),
}
"""Producers to consumers, [flush timeout]."""


def main() -> None:
    """Measure every case and print the median of each percentile over the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    latencies: dict[str, list[dict[str, float]]] = {name: [] for name in CASES}
    for _ in range(arguments.rounds):
        for name, options in CASES.items():
            load = ("--rate", "1k/s", "--duration", f"{arguments.seconds:g}s")
            latencies[name].append(run_bench(*options, *load, trace=True)["latency_ns"])
    print_table(
        ("benchmark, 1000 records/s", "p50 ms", "p99 ms", "max ms"),
        [
            (name, *(f"{median(s[key] for s in each) / 1e6:.3f}" for key in ("p50", "p99", "max")))
            for name, each in latencies.items()
        ],
    )


if __name__ == "__main__":
    main()
