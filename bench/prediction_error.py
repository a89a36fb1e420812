"""How far predictions are off, on settings that were not recorded.

In each round one run is recorded at each rate, at one buffer timeout; every other timeout is
predicted from that trace, and then measured over real sockets with the arrivals of its first
seconds. The recording is longer than what is run again, because it has to show what happens to one
record in a hundred at 160 messages a second, and does so for all predictions. A number holds if it
is off by at most 10% or 0.3 ms (latency), 8% (throughput).

A run reports whether other processes took its CPU: its warning p99-disturbed doubts p99,
disturbed all numbers, and both know nothing of predictions. Such a run is run again, and of the
tries that from which they took least counts. What is still doubted then is no single prediction and
in no cell. All first tries are listed too, doubted or not: processes that poll or are busy lose
their processor more often than those that sleep, so what is left out is mostly short timeouts. A
cell is the median over the rounds: of what was predicted, of what was measured, and of their
differences; a median is off by less than what it is made of.

What the machine itself leaves open is reported, too: how far the measurements of a cell lie apart,
and how far off the recorded run is if it is taken for a prediction of itself, run again. At the
highest rate that is the speed of a core, which neighbours on the same host change by a third for
seconds, with no steal time to tell of it; at short timeouts it is p99. Both are recorded, predicted
and measured three times a round.

    python bench/prediction_error.py                the grid, half an hour
    python bench/prediction_error.py --short        two rates, three timeouts, a second each
    python bench/prediction_error.py --keep DIR     keep the recordings and what was measured
    python bench/prediction_error.py --again DIR    predict those again, with the code as it is now
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.measure import FLINKNET, print_table
from flinknet import options as flink
from flinknet.options.what_if import Setting
from flinknet.replay.read import open_recorded_run
from flinknet.replay.rerun import scenario_of
from flinknet.replay.simulations import predict_here
from flinknet.results import DISTURBED, P99_DISTURBED
from flinknet.units import parse_duration_ns

HIGHEST = "max"
RATES = ("2000/s", "20000/s", "200000/s", HIGHEST)
TIMEOUTS = ("0", "1ms", "5ms", "10ms", "50ms", "100ms", "-1")
RECORDED = "10ms"
METRICS = ("throughput", "p50", "p99")

OFTEN, TIMES = ("0", "1ms"), 3
"""Timeouts that are recorded for, and measured, so many times a round: p99 is what the machine does
to processes that poll or hardly sleep, 0.5 to 1.8 ms without a timeout from one run to the next."""

TRIES, RECORDING_TRIES = 4, 6
"""Of a measurement, and of the recording that seven predictions are made from."""

KEPT_NAME = "kept.json"

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
    parser.add_argument("--keep", type=Path, help="keep the recordings and measurements there")
    parser.add_argument("--again", type=Path, help="predict what --keep left, measure nothing")
    options = parser.parse_args()
    if options.again is not None:
        earlier = json.loads((options.again / KEPT_NAME).read_text())
        predict_again(options.again, earlier)
        report(earlier, options.out)
        return
    rates = listed(options.rates) or (RATES[:2] if options.short else RATES)
    timeouts = listed(options.timeouts) or (("0", "10ms", "100ms") if options.short else TIMEOUTS)
    duration = options.duration or ("1s" if options.short else "4s")
    rounds = options.rounds or (1 if options.short else 3)
    rows: list[dict[str, Any]] = []
    steps, recordings = steps_of_a_round(rates, timeouts, 1 if options.short else TIMES), 0
    kept: dict[str, Any] = {"recorded": options.recorded, "duration": duration, "rows": rows}
    with tempfile.TemporaryDirectory(prefix="flinknet-prediction-") as temporary:
        out = options.keep or Path(temporary)
        for number in range(rounds):
            for step, (rate, asked) in enumerate(steps):
                places = Places(out / f"{number}-{step}")
                recorded, run = record(rate, options, places)
                recordings += places.count
                known = {"rate": rate, "recording": len(steps) * number + step}
                known["run"] = str(run.relative_to(out))
                for timeout, own in measure(recorded, run, asked, duration, places).items():
                    tried = enumerate(own)
                    rows += [{"timeout": timeout, "try": at, **known, **row} for at, row in tried]
                kept["recordings"] = f"{recordings} for {rounds * len(steps)}"
                if options.keep is None:
                    shutil.rmtree(places.directory)
                else:
                    places.keep_only(run)
                    (out / KEPT_NAME).write_text(json.dumps(kept, indent=1) + "\n")
                told = f"round {number + 1} of {rounds}: {rate} done"
                print(told, file=sys.stderr, flush=True)
    report(kept, options.out)


def predict_again(directory: Path, kept: dict[str, Any]) -> None:
    """Put what the model predicts now in place of what it predicted then."""
    by_run: dict[str, list[dict[str, Any]]] = {}
    for row in kept["rows"]:
        by_run.setdefault(row["run"], []).append(row)
    for name, rows in by_run.items():
        run = open_recorded_run(directory / name, 0)
        recorded = scenario_of(run)
        duration_ns = parse_duration_ns(kept["duration"], "--duration")
        timeouts = list(dict.fromkeys(row["timeout"] for row in rows))
        base = dict(flink.canonical(flink.effective_flink_keys(recorded.network)))
        base.pop(flink.BUFFER_TIMEOUT_ENABLED, None)
        settings = [
            Setting(
                flink.network_config(base | {flink.BUFFER_TIMEOUT: each})[0], recorded.flow_control
            )
            for each in timeouts
        ]
        found = dict(zip(timeouts, predict_here(run, settings, duration_ns), strict=True))
        for row in rows:
            own = found[row["timeout"]].point
            row["predicted"] = {
                "throughput_records_per_s": own.throughput_records_per_s,
                "buffers_per_s": own.buffers_per_s,
                "latency_ns": {"p50": own.latency_ns.p50, "p99": own.latency_ns.p99},
            }


def report(kept: dict[str, Any], out: Path | None) -> None:
    """Print the tables; write them as JSON if asked to."""
    tries: dict[tuple[str, str], list[list[dict[str, Any]]]] = {}
    recordings: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in kept["rows"]:
        key = (row["rate"], row["timeout"])
        own = recordings.setdefault((*key, row["recording"]), [])
        if not own:
            tries.setdefault(key, []).append(own)
        own.append(row)
    keys = [(*key, name) for key in tries for name in METRICS]
    first = [Cell(*key, [own[0]]) for key in keys for own in tries[key[:2]]]
    best = {key: [min(own, key=taken_share) for own in rounds] for key, rounds in tries.items()}
    cells = [Cell(*key, best[key[:2]]) for key in keys]
    again = [
        Cell(*key, [row | {"predicted": row["recorded"]}])
        for key in keys
        if key[1] == kept["recorded"]
        for row in best[key[:2]]
    ]
    singles = [Cell(*key, [row]) for key in keys for row in best[key[:2]]]
    columns = [each for name in ("p50", "p99") for each in (name, "measured", "lowest-highest", "")]
    lines = [line(cells[at : at + len(METRICS)]) for at in range(0, len(cells), len(METRICS))]
    print_table(("rate, timeout", "runs", "throughput", *columns), lines)
    groups = {
        "first tries, doubted or not": first,
        "single predictions": singles,
        "single predictions, highest rate": at_highest(singles),
        "medians over rounds": cells,
        "medians over rounds, highest rate": at_highest(cells),
        "recorded and run again": again,
        "recorded and run again, highest rate": at_highest(again),
    }
    summary = {
        name: summarize(own, doubted_too=own is first) for name, own in groups.items() if own
    }
    runs = sum(len(own) for rounds in tries.values() for own in rounds)
    counts = {
        "recorded": kept["recordings"],
        "measured": f"{runs} for {sum(len(rounds) for rounds in tries.values())}",
    }
    print()
    print_summary(summary)
    print("\nruns " + ", ".join(f"{name} {count}" for name, count in counts.items()))
    if out is not None:
        document = {
            "summary": {**summary, "runs": counts},
            "cells": [each.to_dict() for each in cells],
            "tries": kept["rows"],
        }
        out.write_text(json.dumps(document, indent=1) + "\n")


def listed(text: str | None) -> tuple[str, ...]:
    """What a comma list holds; blanks do not count."""
    return tuple(text.replace(" ", "").split(",")) if text else ()


def steps_of_a_round(
    rates: Sequence[str], timeouts: Sequence[str], times: int
) -> list[tuple[str, Sequence[str]]]:
    """A recording each: its rate, and the timeouts that are measured. What differs most from one
    run to the next comes so many times: short timeouts, and the highest rate, one after each other
    rate and what is left of them at the end."""
    others = [rate for rate in rates if rate != HIGHEST]
    highest = [(HIGHEST, timeouts)] * times if HIGHEST in rates else []
    often = [each for each in timeouts if each in OFTEN]
    again = [often] * (times - 1) if often else []
    steps: list[tuple[str, Sequence[str]]] = []
    for rate in others:
        steps += [(rate, each) for each in (timeouts, *again)] + highest[:1]
        highest = highest[1:]
    return steps + highest


def at_highest(cells: Sequence[Cell]) -> list[Cell]:
    """Those of the highest rate."""
    return [each for each in cells if each.rate == HIGHEST]


class Cell:
    """One number of one setting: throughput in records/s, or a latency in ns; medians over rounds.

    Attributes:
        rounds: the rows that it is made of: those that nothing doubts, or all if there is no such.
        is_doubted: whether there is no such.
        is_known: whether it was predicted and measured at all; the others are there only then.
        error: share by which what was predicted was off in its round.
        off: the same in records/s or ns.
    """

    def __init__(self, rate: str, timeout: str, name: str, rounds: list[dict[str, Any]]) -> None:
        self.rate, self.timeout, self.name = rate, timeout, name
        undoubted = [row for row in rounds if not is_doubted(row, name)]
        self.is_doubted = not undoubted
        self.rounds = rounds = undoubted or rounds
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


class Places:
    """Where the runs of one rate and round go."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.count = 0

    def next(self) -> Path:
        """A directory that is not there yet."""
        self.count += 1
        return self.directory / str(self.count)

    def keep_only(self, run: Path) -> None:
        """Remove every run but one."""
        for each in self.directory.glob("*"):
            if each not in run.parents:
                shutil.rmtree(each)


def record(rate: str, asked: argparse.Namespace, places: Places) -> tuple[dict[str, Any], Path]:
    """Record one run. Returns: what it measured, and its directory."""
    options = ("--rate", rate, "--buffer-timeout", asked.recorded, "--duration", asked.recording)
    found: list[tuple[dict[str, Any], Path]] = []
    while not found or (is_doubted(found[-1][0], "p99") and len(found) < RECORDING_TRIES):
        out = places.next()
        (row,) = flinknet("bench", *options, "--out", str(out), "--json", "-")["runs"]
        (run,) = out.glob("run-*")
        found.append((row, run))
    return min(found, key=lambda each: taken_share(each[0]))


def measure(
    recorded: dict[str, Any], run: Path, timeouts: Sequence[str], duration: str, places: Places
) -> dict[str, list[dict[str, Any]]]:
    """Predict and measure a recorded run at other timeouts: a row for each try of each.

    Where the recording is doubted, one try is enough.
    """
    codes = [each["code"] for each in recorded["warnings"]]
    known = {"recorded": recorded["measured"], "recorded_warnings": codes}
    rows: dict[str, list[dict[str, Any]]] = {}
    left = list(timeouts)
    for _ in range(1 if is_doubted(recorded, "p99") else TRIES):
        where = ("--out", str(places.next()), "--json", "-")
        sent = ("again", str(run), "--no-control", "--duration", duration)
        found = flinknet("bench", *sent, "--buffer-timeout", ",".join(left), *where)["runs"]
        for row in found:  # the recorded setting, if it is one of them, comes first
            timeout = row["name"].removeprefix("buffer-timeout=").split()[0]
            rows.setdefault(timeout, []).append(row | known)
        left = [timeout for timeout in left if is_doubted(rows[timeout][-1], "p99")]
        if not left:
            break
    return rows


def is_doubted(row: dict[str, Any], name: str) -> bool:
    """Whether a run, or what it was predicted from, reports that other processes took the CPU
    for so long that it matters to a number."""
    codes = [each["code"] for each in row["warnings"]] + row.get("recorded_warnings", [])
    return DISTURBED in codes or (name == "p99" and P99_DISTURBED in codes)


def taken_share(row: dict[str, Any]) -> float:
    """How much of a run's time others took from a TaskManager."""
    return float(row["processors"]["taken_share"])


def flinknet(*arguments: str) -> dict[str, Any]:
    """What the command answers as JSON."""
    done = subprocess.run([str(FLINKNET), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def line(cells: list[Cell]) -> list[str]:
    """One line of the table: latencies in ms, and how far they are off from the measured ones."""
    rounds = [0 if each.is_doubted else len(each.rounds) for each in cells]
    text = [f"{cells[0].rate}, {cells[0].timeout}", f"{rounds[0]} p99 {rounds[-1]}"]
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


def summarize(cells: list[Cell], *, doubted_too: bool = False) -> dict[str, Any]:
    """Medians of the absolute errors, how far measurements lie apart, and which cells hold."""
    known = [each for each in cells if each.is_known and (doubted_too or not each.is_doubted)]
    errors, apart = {}, {}
    for name in METRICS:
        own = [each for each in known if each.name == name]
        several = [each.spread for each in own if len(each.rounds) > 1]
        errors[name] = median(abs(each.error) for each in own) if own else None
        apart[name] = median(several) if several else None
    worst = [each for each in known if each.exceeds(WORST_SHARE, WORST_SHARE)]
    return {
        "error_median": errors,
        "measurements_apart_median": apart,
        "known": len(known),
        "doubted": 0 if doubted_too else sum(each.is_doubted for each in cells),
        "hold": sum(not each.exceeds(THROUGHPUT_SHARE, LATENCY_SHARE) for each in known),
        "worst": [f"{each.name} of {each.rate} at {each.timeout}" for each in worst],
    }


def print_summary(summary: dict[str, dict[str, Any]]) -> None:
    """A line for each group, and what is off the furthest."""
    lines: list[tuple[str, ...]] = []
    for name, own in summary.items():
        held = (f"{own['hold']} of {own['known']}", str(len(own["worst"])))
        lines.append((name, *shares(own["error_median"]), *held))
        if any(own["measurements_apart_median"].values()):
            apart = shares(own["measurements_apart_median"])
            lines.append(("    their measurements lie apart by", *apart, "", ""))
    print_table(("median errors", *METRICS, "hold", f"beyond {WORST_SHARE:.0%}"), lines)
    for name, own in summary.items():
        if own["worst"]:
            told = ", ".join(dict.fromkeys(own["worst"]))
            print(f"beyond {WORST_SHARE:.0%}, {name}: {told}")
        if own["doubted"]:
            print(f"doubted, so not judged, {name}: {own['doubted']}")


def shares(of: dict[str, float | None]) -> list[str]:
    """One for each metric."""
    found = [of[name] for name in METRICS]
    return ["-" if share is None else f"{share:.1%}" for share in found]


def percent(ratio: float) -> str:
    """A signed error."""
    return f"{ratio:+.1%}"


def ms(duration_ns: float) -> str:
    """Milliseconds."""
    return f"{duration_ns / 1e6:.3g}"


if __name__ == "__main__":
    main()
