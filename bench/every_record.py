"""every_record: does every record arrive once and in order?

Runs `flinknet bench` over the product of topologies, partitioners, buffer timeouts and record
sizes, a million records in each run. The consumers count losses, repetitions and disorder, and
bench fails on any; this script counts the runs that fail.

    python bench/every_record.py                    # all 72 runs: about half an hour
    python bench/every_record.py --sizes 8b,100b    # some of them
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys

from bench.measure import FLINKNET


def main() -> int:
    """Run the product and print a line for each run. Returns: 1 if any run failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", default="8b,100b,1kb,100kb")
    parser.add_argument("--timeouts", default="0,5ms,-1")
    parser.add_argument("--topologies", default="1x1,2x2,4x4")
    parser.add_argument("--partitioners", default="rebalance,hash")
    parser.add_argument("--records", type=int, default=1_000_000, help="of all producers together")
    options = parser.parse_args()
    failed = 0
    for size, topology, partitioner, timeout in itertools.product(
        options.sizes.split(","),
        options.topologies.split(","),
        options.partitioners.split(","),
        options.timeouts.split(","),
    ):
        producers, consumers = (int(part) for part in topology.split("x"))
        command = [
            *(str(FLINKNET), "bench", "--no-trace", "--json", "-"),
            *("--warmup", "0ms", "--records", str(options.records // producers)),
            *("--producers", str(producers), "--consumers", str(consumers)),
            *("--partitioner", partitioner, "--buffer-timeout", timeout, "--record-size", size),
        ]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        name = f"{size:>6} {topology} {partitioner:<10} timeout {timeout:<4}"
        if run.returncode:
            failed += 1
            print(f"{name} FAILED ({run.returncode}): {run.stderr.strip().splitlines()[-1]}")
            continue
        measured = json.loads(run.stdout)["runs"][0]["measured"]
        rate = measured["throughput_records_per_s"]
        print(f"{name} {measured['records']:>9,} records, {rate:>12,.0f} records/s", flush=True)
        if measured["records"] != options.records // producers * producers:
            failed += 1
            print(f"{name} FAILED: not all records were measured")
    print(f"{failed} runs failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
