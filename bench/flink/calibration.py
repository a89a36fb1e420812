"""How many of the 90% intervals contain what was measured, how wide they are, and on which side
the others miss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bench.flink.job_table import Cell
from bench.measure import print_table

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


def calibration(cells: Sequence[Cell], name: str) -> Calibration:
    """Of one figure, where both its interval and its truth are known."""
    known = [
        (figure.low, figure.high, figure.measured, figure.half_width)
        for each in cells
        if (figure := each.figures[name]).is_covered is not None
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
        {"cells": title} | {name: asdict(calibration(own, key)) for key, name in LATENCIES.items()}
        for title, own in _groups(cells)
    ]


def _groups(cells: Sequence[Cell]) -> list[tuple[str, list[Cell]]]:
    found = [("other timeouts", [each for each in cells if not each.is_recorded])]
    for ms in sorted({each.timeout_ms for each in cells}):
        own = [each for each in cells if each.timeout_ms == ms]
        found.append((f"{ms} ms" + (" (recorded)" if own[0].is_recorded else ""), own))
    return found


def _row(title: str, cells: Sequence[Cell]) -> list[str]:
    row = [title]
    for name in LATENCIES:
        found = calibration(cells, name)
        width = "-" if found.half_width is None else f"{found.half_width:.0%}"
        row += [
            f"{found.holding} of {found.intervals}",
            str(found.above),
            str(found.below),
            width,
        ]
    return row
