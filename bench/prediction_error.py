"""How far predictions are off, on settings that were not recorded.

In each round one run is recorded at each rate, at one buffer timeout; every other timeout is
predicted from that trace, and then measured over real sockets with the arrivals of its first
seconds. The recording is longer than what is run again, because it has to tell what befalls one
record in a hundred at 160 messages a second, and does so for all predictions. The machine
is faster now and slower then, so that what is compared was run within a minute, and a cell is the
median over the rounds: of what was predicted, of what was measured, and of their differences. It
holds if it is off by at most 10 % or 0.3 ms (latency), 8 % (throughput). A median is off by less
than what it is made of, so the single predictions are held against the same marks, and told first.
How far the measurements of a cell lie apart is told beside it: that much the machine itself leaves
open.

A run that says itself that others took the processor from it (its warnings disturbed and
p99-disturbed, which know nothing of predictions) is run again, and the one from which they took
least counts. Where that did not help, the row is disturbed: it counts among all single predictions,
but not in the cells, unless a cell has no other, which is told.

    python bench/prediction_error.py            the grid, some fifteen minutes on a quiet machine
    python bench/prediction_error.py --short    two rates, three timeouts, a second each
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from measure import FLINKNET, print_table

RATES = ("2000/s", "20000/s", "200000/s", "max")
TIMEOUTS = ("0", "1ms", "5ms", "10ms", "50ms", "100ms", "-1")
RECORDED = "10ms"
METRICS = ("throughput", "p50", "p99")

TRIES, RECORDING_TRIES = 4, 6
"""Of a measurement, and of the recording that seven predictions are made from."""

DISTURBED = ("disturbed", "p99-disturbed")

LATENCY_SHARE, LATENCY_NS, THROUGHPUT_SHARE, WORST_SHARE = 0.10, 300_000, 0.08, 0.30


def main() -> None:
    """Record, predict, measure; print the table and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="two rates, three timeouts, one round")
    parser.add_argument("--rates", default=None, help="such as 2000/s,max")
    parser.add_argument("--timeouts", default=None, help="such as 0,10ms,-1")
    parser.add_argument("--duration", default=None, help="of a run [default: 4s; short: 1s]")
    parser.add_argument("--recording", default="10s", help="duration of what is predicted from")
    parser.add_argument("--recorded", default=RECORDED, help="timeout that is recorded")
    parser.add_argument("--rounds", type=int, default=None, help="[default: 3; short: 1]")
    parser.add_argument("--out", type=Path, help="write cells, rounds and summary as JSON")
    options = parser.parse_args()
    rates = options.rates.split(",") if options.rates else RATES[:2] if options.short else RATES
    timeouts = options.timeouts or ",".join(("0", "10ms", "100ms") if options.short else TIMEOUTS)
    timeouts = timeouts.replace(" ", "")
    duration = options.duration or ("1s" if options.short else "4s")
    rounds = options.rounds or (1 if options.short else 3)
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    again = 0
    with tempfile.TemporaryDirectory(prefix="flinknet-prediction-") as out:
        for number in range(rounds):
            for rate in rates:
                tries = Tries(Path(out) / f"{number}-{rate.partition('/')[0]}")
                recorded, run = record(rate, options, tries)
                for timeout, row in measure(run, timeouts, duration, tries).items():
                    row["is_disturbed"] = is_disturbed(recorded) or is_disturbed(row)
                    rows.setdefault((rate, timeout), []).append(row)
                again += tries.again
                shutil.rmtree(tries.directory)
                told = f"round {number + 1} of {rounds}: {rate} done"
                print(told, file=sys.stderr, flush=True)
    settings = [(rate, timeout) for rate in rates for timeout in timeouts.split(",")]
    quiet = {key: [row for row in own if not row["is_disturbed"]] for key, own in rows.items()}
    noisy = {key: [row for row in own if row["is_disturbed"]] for key, own in rows.items()}
    found = [Cell(*key, name, quiet[key] or rows[key]) for key in settings for name in METRICS]
    columns = [each for name in ("p50", "p99") for each in (name, "measured", "lowest-highest", "")]
    lines = [line(found[at : at + len(METRICS)]) for at in range(0, len(found), len(METRICS))]
    print_table(("rate, timeout", "undisturbed rounds", "throughput", *columns), lines)
    singles, calm = (
        [Cell(*key, name, [row]) for key in settings for row in own[key] for name in METRICS]
        for own in (rows, quiet)
    )
    groups = {
        "single predictions": singles,
        "single predictions, undisturbed": calm,
        "single predictions, undisturbed, highest rate": [
            each for each in calm if each.rate == "max"
        ],
        f"cells, medians over up to {rounds} rounds": [
            each for each in found if quiet[each.rate, each.timeout]
        ],
    }
    summary = {name: summarize(cells) for name, cells in groups.items() if cells}
    count, disturbed = (sum(len(own[key]) for key in settings) for own in (rows, noisy))
    summary["runs"] = {
        "run again because they were disturbed": again,
        "rows that are disturbed still": f"{disturbed} of {count}",
        "settings without an undisturbed row": sum(not own for own in quiet.values()),
    }
    for of, numbers in summary.items():
        print()
        for name, number in numbers.items():
            print(f"{of}, {name}: {number}")
    if options.out is not None:
        document = {
            "summary": summary,
            "cells": [each.to_dict() for each in found],
            "rounds": [row | {"rate": rate} for (rate, _), own in rows.items() for row in own],
        }
        options.out.write_text(json.dumps(document, indent=1) + "\n")


class Cell:
    """One number of one setting: throughput in records/s, or a latency in ns; medians over rounds.

    Attributes:
        rounds: the rows that it is made of.
        is_known: whether it was predicted and measured at all; the others are there only then.
        error: share by which what was predicted was off in its round.
        off: the same in records/s or ns.
    """

    def __init__(self, rate: str, timeout: str, name: str, rounds: list[dict[str, Any]]) -> None:
        self.rate, self.timeout, self.name, self.rounds = rate, timeout, name, rounds
        pairs = [
            (predicted, measured)
            for row in rounds
            for predicted, measured in [
                (value(row["predicted"], name), value(row["measured"], name))
            ]
            if predicted is not None and measured
        ]
        self.is_known = bool(pairs)
        if not pairs:
            return
        self.predicted = median(predicted for predicted, _ in pairs)
        self.measured_each = sorted(measured for _, measured in pairs)
        self.measured = median(self.measured_each)
        self.error = median(predicted / measured - 1 for predicted, measured in pairs)
        self.off = median(predicted - measured for predicted, measured in pairs)

    @property
    def spread(self) -> float:
        """How far the measurements lie apart."""
        return (self.measured_each[-1] - self.measured_each[0]) / self.measured

    def exceeds(self, share: float, latency_share: float) -> bool:
        """Whether it is off by more than a share, and a latency by more than LATENCY_NS, too."""
        if self.name == "throughput":
            return abs(self.error) > share
        return abs(self.error) > latency_share and abs(self.off) > LATENCY_NS

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: found for name, found in vars(self).items() if name != "rounds"}


class Tries:
    """Where the runs of one rate and round go, and how many were run again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.again = 0
        self._count = 0

    def place(self) -> Path:
        """A directory that is not there yet."""
        self._count += 1
        return self.directory / str(self._count)


def record(rate: str, asked: argparse.Namespace, tries: Tries) -> tuple[dict[str, Any], Path]:
    """Record one run. Returns: what it measured, and its directory."""
    options = ("--rate", rate, "--buffer-timeout", asked.recorded, "--duration", asked.recording)
    found: list[tuple[dict[str, Any], Path]] = []
    while not found or (is_disturbed(found[-1][0]) and len(found) < RECORDING_TRIES):
        out = tries.place()
        (row,) = flinknet("bench", *options, "--out", str(out), "--json", "-")["runs"]
        (run,) = out.glob("run-*")
        found.append((row, run))
    tries.again += len(found) - 1
    return min(found, key=lambda each: taken_share(each[0]))


def measure(run: Path, timeouts: str, duration: str, tries: Tries) -> dict[str, dict[str, Any]]:
    """Predict and measure a recorded run at other timeouts: a row for each."""
    rows: dict[str, dict[str, Any]] = {}
    left = timeouts.split(",")
    for _ in range(TRIES):
        tries.again += sum(timeout in rows for timeout in left)
        where = ("--out", str(tries.place()), "--json", "-")
        command = ("bench", "--from-trace", str(run), "--duration", duration)
        command = (*command, "--buffer-timeout", ",".join(left))
        for timeout, row in zip(left, flinknet(*command, *where)["runs"], strict=True):
            rows[timeout] = min(rows.get(timeout, row), row, key=taken_share)
        left = [timeout for timeout in left if is_disturbed(rows[timeout])]
        if not left:
            break
    return rows


def is_disturbed(row: dict[str, Any]) -> bool:
    """Whether a run says of itself that others took the processor from it."""
    return any(each["code"] in DISTURBED for each in row["warnings"])


def taken_share(row: dict[str, Any]) -> float:
    """How much of a run's time others took from a TaskManager that wanted to run."""
    use = row["processors"]
    return float(max(use["lacked_share"].values()) + (use["host_share"] or 0))


def flinknet(*arguments: str) -> dict[str, Any]:
    """What the command answers as JSON."""
    done = subprocess.run([str(FLINKNET), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def line(cells: list[Cell]) -> list[str]:
    """One line of the table: latencies in ms, and how far they are off from the measured ones."""
    rounds = cells[0].rounds
    undisturbed = sum(not row["is_disturbed"] for row in rounds)
    text = [f"{cells[0].rate}, {cells[0].timeout}", str(undisturbed)]
    for each in cells:
        error = percent(each.error) if each.is_known else "-"
        if each.name == "throughput":
            text.append(error)
        elif each.is_known:
            low, high = each.measured_each[0], each.measured_each[-1]
            text += [ms(each.predicted), ms(each.measured), f"{ms(low)}-{ms(high)}", error]
        else:
            text += ["-"] * 4
    return text


def value(numbers: dict[str, Any], name: str) -> float | None:
    """One of the numbers of a row, a latency in ns."""
    found: float | None = (
        numbers["throughput_records_per_s"] if name == "throughput" else numbers["latency_ns"][name]
    )
    return found


def summarize(cells: list[Cell]) -> dict[str, Any]:
    """Medians of the absolute errors, and how many cells hold."""
    known = [each for each in cells if each.is_known]
    summary: dict[str, Any] = {}
    for name in METRICS:
        own = [each for each in known if each.name == name]
        if own:
            summary[f"median error of {name}"] = f"{median(abs(each.error) for each in own):.1%}"
            if any(len(each.rounds) > 1 for each in own):
                apart = f"{median(each.spread for each in own):.1%}"
                summary[f"measurements of {name} lie apart by, median"] = apart
    held = sum(not each.exceeds(THROUGHPUT_SHARE, LATENCY_SHARE) for each in known)
    summary["cells that hold"] = f"{held} of {len(known)}"
    worst = [each for each in known if each.exceeds(WORST_SHARE, WORST_SHARE)]
    told = ", ".join(
        dict.fromkeys(f"{each.name} of {each.rate} at {each.timeout}" for each in worst)
    )
    summary[f"cells off by more than {WORST_SHARE:.0%}"] = f"{len(worst)} ({told})" if told else 0
    return summary


def percent(ratio: float) -> str:
    """A signed error."""
    return f"{ratio:+.1%}"


def ms(duration_ns: float) -> str:
    """Milliseconds."""
    return f"{duration_ns / 1e6:.3g}"


if __name__ == "__main__":
    main()
