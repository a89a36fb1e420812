"""How many of the 90% intervals contain what was measured, how wide they are, and on which side
the others miss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import median
from typing import Any

from bench.flink.job_table import Cell, Figure
from bench.measure import print_table
from flinknet.results.trades import range_of_difference

LATENCIES = {"p50_ns": "p50", "p99_ns": "p99"}


@dataclass(frozen=True, slots=True)
class Calibration:
    """Of some intervals.

    Attributes:
        holding: those that contain what was measured.
        above: those that it lies above, so that the prediction is too low; `below`: the reverse.
        half_width: the median, relative to the middle of the interval; None without intervals.
    """

    holding: int
    above: int
    below: int
    half_width: float | None

    @property
    def intervals(self) -> int:
        """All of them."""
        return self.holding + self.above + self.below

    @property
    def share(self) -> float | None:
        """Of those that contain what was measured."""
        return self.holding / self.intervals if self.intervals else None


def calibration(figures: Sequence[Figure]) -> Calibration:
    """Of those of which both the interval and the truth are known."""
    known = [
        (figure.low, figure.high, figure.measured, figure.half_width)
        for figure in figures
        if figure.is_covered is not None
    ]
    above = sum((truth or 0) > (high or 0) for _, high, truth, _ in known)
    below = sum((truth or 0) < (low or 0) for low, _, truth, _ in known)
    widths = [width for *_, width in known if width is not None]
    return Calibration(len(known) - above - below, above, below, median(widths) if widths else None)


def print_calibration(cells: Sequence[Cell]) -> None:
    """A row for each timeout, and one for all but the recorded one."""
    print("\n90% intervals: how many contain the measured value, and on which side others miss")
    header = [""]
    for name in LATENCIES.values():
        header += [f"{name} holds", "measured above", "below", "± median"]
    print_table(header, [_row(title, own) for title, own in _groups(cells)])


def calibrations_json(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """The same rows."""
    return [
        {"cells": title} | {name: asdict(calibration(own[key])) for key, name in LATENCIES.items()}
        for title, own in _groups(cells)
    ]


Group = Mapping[str, Sequence[Figure]]
"""Figures by their name."""


def _groups(cells: Sequence[Cell]) -> list[tuple[str, Group]]:
    found = [("other timeouts", _figures([each for each in cells if not each.is_recorded]))]
    for ms in sorted({each.timeout_ms for each in cells}):
        own = [each for each in cells if each.timeout_ms == ms]
        title = f"{ms} ms" + (" (recorded)" if own[0].is_recorded else "")
        found.append((title, _figures(own)))
    return [*found, ("from one to another", {name: changes(cells, name) for name in LATENCIES})]


def _figures(cells: Sequence[Cell]) -> Group:
    return {name: [each.figures[name] for each in cells] for name in LATENCIES}


def changes(cells: Sequence[Cell], name: str) -> list[Figure]:
    """How much more a job takes at a longer timeout than at a shorter one, for each pair of its
    timeouts, with the interval that the sentence of a trade has."""
    found = []
    for one, other in combinations(sorted(cells, key=lambda each: each.timeout_ms), 2):
        ends = [
            (figure.predicted, figure.low, figure.high, figure.measured)
            for each in (other, one)
            for figure in [each.figures[name]]
        ]
        if one.job.number != other.job.number or any(None in each for each in ends):
            continue
        longer, shorter = ([value or 0.0 for value in each] for each in ends)
        low, high = range_of_difference(
            (longer[0], longer[1], longer[2]), (shorter[0], shorter[1], shorter[2])
        )
        found.append(Figure(longer[0] - shorter[0], low, high, longer[3] - shorter[3]))
    return found


def _row(title: str, group: Group) -> list[str]:
    row = [title]
    for name in LATENCIES:
        found = calibration(group[name])
        width = "-" if found.half_width is None else f"{found.half_width:.0%}"
        row += [
            f"{found.holding} of {found.intervals}",
            str(found.above),
            str(found.below),
            width,
        ]
    return row
