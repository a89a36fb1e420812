"""What the benchmarks share: the installed command line, called as a user calls it, and a table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

FLINKNET = Path(sys.executable).with_name("flinknet")


def run_bench(*options: str, trace: bool, is_compiled: bool = True) -> dict[str, Any]:
    """The `measured` part of one `flinknet bench`; its trace is thrown away.

    `is_compiled`: with the compiled core, where there is one.
    """
    environment = os.environ if is_compiled else os.environ | {"FLINKNET_COMPILED": "0"}
    with tempfile.TemporaryDirectory(prefix="flinknet-bench-") as out:
        command = [str(FLINKNET), "bench", "--json", "-", *options]
        command += ["--trace", "--out", out] if trace else ["--no-trace"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    measured: dict[str, Any] = json.loads(done.stdout)["runs"][0]["measured"]
    return measured


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
