"""How far predictions are off, on settings that were not recorded.

At each rate one run is recorded, at one buffer timeout; every other timeout is predicted from that
trace, and then measured over real sockets with the same arrivals. A cell holds if it is off by at
most 10 % or 0.3 ms (latency), 8 % (throughput). Everything is measured once more, and the second
measurement is held against the first by the same marks: that much the machine itself leaves open.

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
    parser.add_argument("--once", action="store_true", help="do not measure once more")
    parser.add_argument("--out", type=Path, help="write rows and summary as JSON")
    options = parser.parse_args()
    rates = options.rates.split(",") if options.rates else RATES[:2] if options.short else RATES
    timeouts = options.timeouts or ",".join(("0", "10ms", "100ms") if options.short else TIMEOUTS)
    duration = options.duration or ("1s" if options.short else "5s")
    rows = []
    for rate in rates:
        with tempfile.TemporaryDirectory(prefix="flinknet-prediction-") as out:
            run = record(rate, options.recorded, duration, Path(out) / "recorded")
            own = measure(run, timeouts, Path(out) / "again")
            again = own if options.once else measure(run, timeouts, Path(out) / "once-more")
        for row, other in zip(own, again, strict=True):
            rows.append(row | {"rate": rate, "again": other["measured"]})
    columns = [each for name in ("p50", "p99") for each in (name, "measured", "", "again", "")]
    print_table(("rate, timeout", "throughput", *columns), [cells(row) for row in rows])
    summary = {"predictions": summarize(rows, "predicted")}
    if not options.once:
        summary["a second measurement"] = summarize(rows, "again")
    for of, numbers in summary.items():
        print()
        for name, value in numbers.items():
            print(f"{of}, {name}: {value}")
    if options.out is not None:
        options.out.write_text(json.dumps({"summary": summary, "rows": rows}, indent=1) + "\n")


def measure(run: Path, timeouts: str, out: Path) -> list[dict[str, Any]]:
    """Predict and measure a recorded run at other timeouts: a row for each."""
    where = ("--out", str(out), "--json", "-")
    command = ("bench", "--from-trace", str(run), "--buffer-timeout", timeouts)
    rows: list[dict[str, Any]] = flinknet(*command, *where)["runs"]
    return rows


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
    """One line of the table: latencies in ms, and how far they are off from the measured ones."""
    text = [f"{row['rate']}, {row['name'].rpartition('=')[2]}", percent(row["error"]["throughput"])]
    for name in ("p50", "p99"):
        for of in ("predicted", "again"):
            text += [ms(value(row[of], name))]
            text += [ms(value(row["measured"], name))] if of == "predicted" else []
            text.append(percent(error(row, of, name)))
    return text


def value(numbers: dict[str, Any], name: str) -> float | None:
    """One of the numbers of a row, a latency in ns."""
    found: float | None = (
        numbers["throughput_records_per_s"] if name == "throughput" else numbers["latency_ns"][name]
    )
    return found


def error(row: dict[str, Any], of: str, name: str) -> float | None:
    """How far a number is off from the measured one; None where either is not known."""
    if of == "predicted":
        told: float | None = row["error"][name]
        return told
    found, measured = value(row[of], name), value(row["measured"], name)
    return found / measured - 1 if found is not None and measured else None


def summarize(rows: list[dict[str, Any]], of: str) -> dict[str, Any]:
    """Medians of the absolute errors, and how many cells hold.

    Args:
        of: what is held against the measured numbers: "predicted" or "again".
    """
    off: dict[str, list[float]] = {"throughput": [], "p50": [], "p99": []}
    held = worst = cells_known = 0
    for row in rows:
        for name, found in off.items():
            share = error(row, of, name)
            if share is None:
                continue
            cells_known += 1
            found.append(abs(share))
            far_ns = 0.0
            if name != "throughput":
                far_ns = abs((value(row[of], name) or 0.0) - (value(row["measured"], name) or 0.0))
            is_near = name != "throughput" and far_ns <= LATENCY_NS
            limit = THROUGHPUT_SHARE if name == "throughput" else LATENCY_SHARE
            held += is_near or abs(share) <= limit
            worst += not is_near and abs(share) > WORST_SHARE
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
