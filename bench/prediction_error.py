"""How far predictions are off, on settings that were not recorded.

At each rate one run is recorded, at one buffer timeout; every other timeout is predicted from that
trace, and then measured over real sockets with the same arrivals. A cell holds if it is off by at
most 10 % or 0.3 ms (latency), 8 % (throughput).

    python bench/prediction_error.py            the grid, some ten minutes on a quiet machine
    python bench/prediction_error.py --short    two rates, three timeouts, a second each
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from measure import FLINKNET, print_table

RATES = ("2000/s", "20000/s", "200000/s", "max")
TIMEOUTS = ("0", "1ms", "5ms", "10ms", "50ms", "100ms", "-1")
RECORDED = "10ms"

LATENCY_SHARE, LATENCY_NS, THROUGHPUT_SHARE, WORST_SHARE = 0.10, 300_000, 0.08, 0.30


def main() -> None:
    """Record, predict, measure; print the table and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="two rates, three timeouts")
    parser.add_argument("--rates", default=None, help="such as 2000/s,max")
    parser.add_argument("--timeouts", default=None, help="such as 0,10ms,-1")
    parser.add_argument("--duration", default=None, help="of each run [default: 5s; short: 1s]")
    parser.add_argument("--recorded", default=RECORDED, help="timeout that is recorded")
    parser.add_argument("--out", type=Path, help="write rows and summary as JSON")
    options = parser.parse_args()
    rates = options.rates.split(",") if options.rates else RATES[:2] if options.short else RATES
    timeouts = options.timeouts or ",".join(("0", "10ms", "100ms") if options.short else TIMEOUTS)
    duration = options.duration or ("1s" if options.short else "5s")
    rows = []
    for rate in rates:
        with tempfile.TemporaryDirectory(prefix="flinknet-prediction-") as out:
            run = record(rate, options.recorded, duration, Path(out) / "recorded")
            document = flinknet(
                *("bench", "--from-trace", str(run), "--buffer-timeout", timeouts),
                *("--out", str(Path(out) / "again"), "--json", "-"),
            )
        rows += [row | {"rate": rate} for row in document["runs"]]
    print_table(
        ("rate, timeout", "throughput", "p50", "measured", "", "p99", "measured", ""),
        [cells(row) for row in rows],
    )
    summary = summarize(rows)
    print()
    for name, value in summary.items():
        print(f"{name}: {value}")
    if options.out is not None:
        options.out.write_text(json.dumps({"summary": summary, "rows": rows}, indent=1) + "\n")


def record(rate: str, timeout: str, duration: str, out: Path) -> Path:
    """Record one run. Returns: its directory."""
    options = ("--rate", rate, "--buffer-timeout", timeout, "--duration", duration)
    flinknet("bench", *options, "--out", str(out), "--json", "-")
    (run,) = out.glob("run-*")
    return run


def flinknet(*arguments: str) -> dict[str, Any]:
    """What the command answers as JSON."""
    done = subprocess.run([str(FLINKNET), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def cells(row: dict[str, Any]) -> list[str]:
    """One line of the table: latencies in ms."""
    text = [f"{row['rate']}, {row['name'].rpartition('=')[2]}", percent(row["error"]["throughput"])]
    for name in ("p50", "p99"):
        text += [ms(row["predicted"]["latency_ns"][name]), ms(row["measured"]["latency_ns"][name])]
        text.append(percent(row["error"][name]))
    return text


def summarize(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians of the absolute errors, and how many cells hold."""
    off: dict[str, list[float]] = {"throughput": [], "p50": [], "p99": []}
    held = worst = cells_known = 0
    for row in rows:
        for name, found in off.items():
            error = row["error"][name]
            if error is None:
                continue
            cells_known += 1
            found.append(abs(error))
            far_ns = 0.0
            if name != "throughput":
                predicted, measured = (
                    row[of]["latency_ns"][name] for of in ("predicted", "measured")
                )
                far_ns = abs(predicted - measured)
            is_near = name != "throughput" and far_ns <= LATENCY_NS
            limit = THROUGHPUT_SHARE if name == "throughput" else LATENCY_SHARE
            held += is_near or abs(error) <= limit
            worst += not is_near and abs(error) > WORST_SHARE
    summary: dict[str, Any] = {
        f"median error of {name}": f"{median(found):.1%}" for name, found in off.items() if found
    }
    summary["cells that hold"] = f"{held} of {cells_known}"
    summary[f"cells off by more than {WORST_SHARE:.0%}"] = worst
    return summary


def percent(ratio: float | None) -> str:
    """A signed error."""
    return "-" if ratio is None else f"{ratio:+.1%}"


def ms(duration_ns: float | None) -> str:
    """Milliseconds."""
    return "-" if duration_ns is None else f"{duration_ns / 1e6:.3g}"


if __name__ == "__main__":
    main()
