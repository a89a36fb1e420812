"""trace_overhead: the same bench with tracing off and on, in pairs.

The pairs take turns in being first. A ratio is taken within each pair; the table shows the median
and all of them.

    python bench/trace_overhead.py [--rounds 5] [--seconds 2]
"""

from __future__ import annotations

import argparse
from statistics import median

from bench.measure import print_table, run_bench

CASES = {
    "network_throughput[1,100ms] 100 B": ("--record-size", "100b", "--buffer-timeout", "100ms"),
    "network_throughput[1,100ms] 8 B": ("--record-size", "8b", "--buffer-timeout", "100ms"),
    "network_throughput[1,0ms] 100 B": ("--record-size", "100b", "--buffer-timeout", "0"),
    "network_throughput[4,100ms] 1 KiB": (
        *("--record-size", "1kb", "--buffer-timeout", "100ms"),
        *("--producers", "2", "--consumers", "2"),
    ),
}
"""As in Flink's benchmarks: [channels, flush timeout]; then the size of a record's value."""


def main() -> None:
    """Measure every case in pairs and print the ratio of throughput, on to off."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    ratios: dict[str, list[float]] = {name: [] for name in CASES}
    for turn in range(arguments.rounds):
        for name, options in CASES.items():
            rate = {
                trace: run_bench(*options, "--duration", f"{arguments.seconds:g}s", trace=trace)
                for trace in ((False, True) if turn % 2 else (True, False))
            }
            ratios[name].append(
                rate[True]["throughput_records_per_s"] / rate[False]["throughput_records_per_s"]
            )
    print_table(
        ("benchmark", "trace on / off", "each pair"),
        [
            (name, f"{median(each):.3f}", " ".join(f"{ratio:.2f}" for ratio in each))
            for name, each in ratios.items()
        ],
    )


if __name__ == "__main__":
    main()
