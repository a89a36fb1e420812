"""tls_cost: throughput with TLS on the data port, relative to plain connections, in pairs.

A test set of certificates is made first; protocol and cipher are Flink's defaults (TLSv1.2,
ECDHE-RSA with AES-GCM), tracing is off. The pairs take turns in being first. A ratio
is taken within each pair; the table shows the median and all of them. With a flush for every record
each of them pays for a TLS record of its own.

    python bench/tls_cost.py [--rounds 5] [--seconds 2]
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path
from statistics import median

from measure import FLINKNET, print_table, run_bench

CASES = {
    "network_throughput[1,100ms] 100 B": ("--record-size", "100b", "--buffer-timeout", "100ms"),
    "network_throughput[1,100ms] 32 KiB": ("--record-size", "32kb", "--buffer-timeout", "100ms"),
    "network_throughput[1,0ms] 100 B": ("--record-size", "100b", "--buffer-timeout", "0"),
}
"""As in Flink's benchmarks: [channels, flush timeout]; then the size of a record's value."""


def main() -> None:
    """Measure every case in pairs and print the ratio of throughput, TLS to plain."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    ratios: dict[str, list[float]] = {name: [] for name in CASES}
    rates: dict[str, list[float]] = {name: [] for name in CASES}
    with tempfile.TemporaryDirectory(prefix="flinknet-certificates-") as directory:
        config = _certificates(Path(directory) / "set")
        for turn in range(arguments.rounds):
            for name, options in CASES.items():
                duration = ("--duration", f"{arguments.seconds:g}s")
                rate = {
                    tls: run_bench(
                        *options, *duration, *(("--flink-conf", config) if tls else ()), trace=False
                    )["throughput_bytes_per_s"]
                    for tls in ((False, True) if turn % 2 else (True, False))
                }
                ratios[name].append(rate[True] / rate[False])
                rates[name].append(rate[True])
    print_table(
        ("benchmark", "TLS MB/s", "TLS / plain", "each pair"),
        [
            (
                name,
                f"{median(rates[name]) / 1e6:.0f}",
                f"{median(each):.2f}",
                " ".join(f"{ratio:.2f}" for ratio in each),
            )
            for name, each in ratios.items()
        ],
    )


def _certificates(directory: Path) -> str:
    """Make a set. Returns: the file of the settings that use it."""
    command = [str(FLINKNET), "certificates", "--out", str(directory)]
    subprocess.run(command, check=True, capture_output=True)
    return str(directory / "config.yaml")


if __name__ == "__main__":
    main()
