"""Do nine of ten 90% intervals hold that replay gives for traces of a tap?

Random exchanges are simulated at a recorded buffer timeout, and of what happened only that is kept
which a tap sees: buffers, their records and credit, no instants of records. From this the model
predicts other timeouts, and the same arrivals are simulated at these for the truth. All differences
come from what the tap did not see. Time is virtual: the numbers are the same on any machine.

    python -m bench.arrival_intervals                    300 exchanges, some minutes
    python -m bench.arrival_intervals --exchanges 20     a look
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.measure import print_table
from flinknet.config import NetworkConfig
from flinknet.options.what_if import Setting
from flinknet.predict.job import JobEdge, RecordedJob
from flinknet.predict.job_run import simulate_job
from flinknet.predict.loading import load_exchange
from flinknet.predict.outcome import Figures, Outcome
from flinknet.predict.recorded import RecordedExchange
from flinknet.predict.what_if import simulate
from flinknet.trace.job_names import ONLY_EDGE, Edge
from tests.tapped_run import exchange_of, write_tapped_exchange

MS, S = 1_000_000, 1_000_000_000
RECORDED_MS = 20
PREDICTED_MS = (1, 5, 20, 100)
MESSAGES = 400
"""Buffers per channel that an exchange is recorded for, roughly."""

FIGURES: Mapping[str, Callable[[Figures], float | None]] = {
    "p50": lambda each: each.latency_ns.p50,
    "p99": lambda each: each.latency_ns.p99,
    "buffers/s": lambda each: each.buffers_per_s,
}
LAWS = ("regular", "poisson", "clumps", "on/off", "drifting")


def main() -> None:
    """Predict, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--exchanges", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--recorded", type=int, default=RECORDED_MS, help="ms")
    parser.add_argument("--json", type=Path, help="write each cell")
    options = parser.parse_args()
    cells = []
    for number in range(options.exchanges):
        cells += cells_of(options.seed, number, options.recorded)
        print(f"\r{number + 1} of {options.exchanges}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if options.json is not None:
        options.json.write_text(json.dumps(cells, indent=1) + "\n")
    report(cells)


def cells_of(seed: int, number: int, recorded_ms: int) -> list[dict[str, Any]]:
    """One exchange at each timeout."""
    random = np.random.default_rng((seed, number))
    law, true = random_exchange(random, recorded_ms * MS)
    with tempfile.TemporaryDirectory(prefix="flinknet-intervals-") as directory:
        path = write_tapped_exchange(Path(directory) / "run", true)
        found = load_exchange(path, true.measured_from_ns, true.measured_to_ns)
    assert found.unseen is not None
    job = RecordedJob([JobEdge(Edge(1, 0, 0, 1, *ONLY_EDGE), found)])
    pattern = found.unseen.pattern
    cells = []
    for timeout_ms in PREDICTED_MS:
        setting = Setting(replace(true.network, buffer_timeout_ns=timeout_ms * MS))
        truth = figures_of(simulate(true, setting.network))
        (predicted,) = simulate_job(job, [setting]).edges
        likely = predicted.likely
        for name, of in FIGURES.items():
            value = of(figures_of(predicted))
            ends = [of(each) for each in likely] if likely else [None, None]
            if value is None or not of(truth):
                continue
            cells.append(
                {
                    "exchange": number,
                    "law": law,
                    "timeout_ms": timeout_ms,
                    "figure": name,
                    "true": of(truth),
                    "predicted": value,
                    "low": ends[0],
                    "high": ends[1],
                    "dispersion": [pattern.low, pattern.dispersion, pattern.high],
                    "is_on_off": pattern.is_on_off,
                }
            )
    return cells


def figures_of(outcome: Outcome) -> Figures:
    """Latency and buffers per second."""
    return Figures(outcome.latency.summary(), outcome.buffers_per_s)


def random_exchange(random: np.random.Generator, timeout_ns: int) -> tuple[str, RecordedExchange]:
    """One to four channels, from two records a beat to buffers that fill before it."""
    law = str(random.choice(LAWS))
    channels = int(random.integers(1, 5))
    per_beat = float(np.exp(random.uniform(np.log(0.5), np.log(400))))  # of a channel
    duration_ns = MESSAGES * timeout_ns
    gap_ns = timeout_ns / (per_beat * channels)
    instants = arrivals(law, gap_ns, duration_ns, random)
    if random.random() < 0.5:
        parts = [instants[each::channels] for each in range(channels)]
    else:
        of = random.integers(0, channels, len(instants))
        parts = [instants[of == each] for each in range(channels)]
    parts = [each for each in parts if len(each)] or [np.array([timeout_ns])]
    network = NetworkConfig(buffer_timeout_ns=timeout_ns)
    made = exchange_of(
        parts,
        network,
        duration_ns=duration_ns,
        consume_ns_per_record=float(random.uniform(50, min(5_000, 0.2 * gap_ns * channels))),
    )
    return law, replace(made, seed=int(random.integers(1 << 30)))


def arrivals(law: str, gap_ns: float, duration_ns: int, random: np.random.Generator) -> np.ndarray:
    """Instants of records, counted from the start."""
    records = round(duration_ns / gap_ns)
    if law == "regular":
        found = (np.arange(records) + random.random()) * gap_ns
    elif law == "poisson":
        found = np.cumsum(random.exponential(gap_ns, records))
    elif law == "clumps":
        size = int(random.integers(2, 12))
        starts = np.cumsum(random.exponential(gap_ns * size, records // size + 1))
        found = np.repeat(starts, size)
    elif law == "on/off":
        on_ns, off_ns = np.exp(random.uniform(np.log(30e6), np.log(400e6), 2))
        time = np.cumsum(random.exponential(gap_ns * on_ns / (on_ns + off_ns), records))
        found = time // on_ns * (on_ns + off_ns) + time % on_ns
    else:
        time = np.cumsum(random.exponential(1.0, records))
        period = float(random.uniform(0.3e9, 3e9))
        even = time / time[-1] * duration_ns
        found = even + 0.7 * period / (2 * np.pi) * np.sin(2 * np.pi * even / period)
    found = np.sort(found[found < duration_ns])
    return found.astype(np.int64)


def report(cells: Sequence[Mapping[str, Any]]) -> None:
    """Errors and intervals by timeout and by law."""
    groups = [("all", cells)]
    groups += [
        (f"{each} ms", [c for c in cells if c["timeout_ms"] == each]) for each in PREDICTED_MS
    ]
    groups += [(each, [c for c in cells if c["law"] == each]) for each in LAWS]
    print_table(
        ("cells", "figure", "number", "error", "p90 of errors", "holds", "width"),
        [row for name, own in groups for row in rows_of(name, own)],
    )


def rows_of(name: str, cells: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Of each figure: median of the absolute error, share of intervals that hold, their width."""
    for figure in FIGURES:
        own = [each for each in cells if each["figure"] == figure]
        if not own:
            continue
        errors = [abs(each["predicted"] / each["true"] - 1) for each in own]
        holds = [each["low"] <= each["true"] <= each["high"] for each in own]
        widths = [(each["high"] - each["low"]) / 2 / each["predicted"] for each in own]
        yield (
            name,
            figure,
            str(len(own)),
            f"{median(errors):.1%}",
            f"{np.quantile(errors, 0.9):.1%}",
            f"{np.mean(holds):.0%}",
            f"±{median(widths):.1%}",
        )


if __name__ == "__main__":
    main()
