"""What the benchmarks share: the installed command line, called as a user calls it, and a table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from flinknet.results.comparison import difference, interleaved_orders

FLINKNET = Path(sys.executable).with_name("flinknet")


def run_bench(*options: str, trace: bool, is_compiled: bool = True) -> dict[str, Any]:
    """The `measured` part of one `flinknet bench`; its trace is thrown away."""
    measured: dict[str, Any] = run_once(*options, trace=trace, is_compiled=is_compiled)["measured"]
    return measured


def run_once(
    *options: str, trace: bool, is_compiled: bool = True, flinknet: Path = FLINKNET
) -> dict[str, Any]:
    """The document of one `flinknet bench`.

    Args:
        is_compiled: with the compiled core, where there is one.
        flinknet: the command; that of another tree compares with it.
    """
    environment = os.environ if is_compiled else os.environ | {"FLINKNET_COMPILED": "0"}
    with tempfile.TemporaryDirectory(prefix="flinknet-bench-") as out:
        command = [str(flinknet), "bench", "--json", "-", *options]
        command += ["--trace", "--out", out] if trace else ["--no-trace"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.strip() or f"{command} ended with {done.returncode}")
    run: dict[str, Any] = json.loads(done.stdout)["runs"][0]
    return run


def run_in_turns(
    sides: Mapping[str, Sequence[str]], *options: str, rounds: int, seed: int
) -> dict[str, list[dict[str, Any]]]:
    """Every side once in each round, in an order that differs from round to round; round i has the
    seed `seed` + i.

    Returns: the runs of each side, by round.
    """
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    names = list(sides)
    for turn, order in enumerate(interleaved_orders(len(sides), rounds, seed)):
        for index in order:
            own = sides[names[index]]
            run = run_once(*options, *own, "--seed", str(seed + turn), trace=False)
            runs[names[index]].append(run)
    return runs


def rate(run: Mapping[str, Any]) -> float:
    """Payload bytes per second."""
    return float(run["measured"]["throughput_bytes_per_s"])


def processor_share(run: Mapping[str, Any]) -> float:
    """Of the time, in which its TaskManagers had a processor and did not wait; of both together."""
    use = run["processors"]
    return float(sum(use["busy_share"].values()) - sum(use["lacked_share"].values()))


def rate_per_processor(run: Mapping[str, Any]) -> float:
    """Payload bytes for each second that its TaskManagers had a processor and did not wait; what
    other processes take of the machine hardly changes it.
    """
    return rate(run) / processor_share(run)


def ratio(base: Sequence[float], candidate: Sequence[float]) -> str:
    """candidate / base with its 95% confidence interval, from rounds as pairs."""
    found = difference(base, candidate, direction=1)
    if found.change is None or found.low is None or found.high is None:
        return "-"
    return f"{1 + found.change:.3f} [{1 + found.low:.3f}, {1 + found.high:.3f}]"


def spread(values: Sequence[float]) -> str:
    """How far the rounds lie apart, relative to their median."""
    return f"{(max(values) - min(values)) / median(values):.0%}"


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Left-aligned names, right-aligned numbers."""
    table = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    for row in table:
        cells = [cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)]
        print("  ".join([row[0].ljust(widths[0]), *cells]))
