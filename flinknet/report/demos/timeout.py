"""timeout: equal records under several buffer timeouts: latency against messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from flinknet.config import WorkloadConfig
from flinknet.results import LatencySummary, Validity, validity_by, without_consequences
from flinknet.results.figures import FIGURES, Figure, Unit
from flinknet.units import counted, human_duration

from ..bench_words import MARKS
from ..charts import Color, Grid, GridFigure, GridPoint, Slider
from ..page_parts import figure_table
from ..warning_lines import merged_text, same_but_for_numbers
from .shown import DOUBTFUL, UNEXPECTED, DemoRun, DemoShown, asked_rate

NOTES = (
    "At 0 each record is flushed at once, but records that arrive while the sender waits for a CPU"
    " or for the socket still share a buffer.",
)

PER_S = "Buffers per second"
COLUMNS: Sequence[Figure[Any]] = (
    *(replace(FIGURES[f"latency_{each}_ns"], group="") for each in ("p50", "p99")),
    FIGURES["buffers_per_s"],
    Figure("", "records per buffer", lambda x: x.records / x.buffers if x.buffers else None,
           ),
)  # fmt: skip

HIGHER = 1.25
"""Factor by which a p50 must exceed that of a longer timeout to be blamed on the machine."""


def timeout(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """Make the output from one run for each timeout, the shortest first."""
    unsure = doubtful(runs)
    names = [each.name for each in runs]
    marked = [f"{MARKS[each.result.validity]}{each.name}" for each in runs]
    measured = [each.result.measured for each in runs]
    buffers = [each.buffers_per_s for each in measured]
    colors: Sequence[Color] = ("blue", "orange", "purple")
    charts: Sequence[tuple[str, Unit]] = (("Latency", "ns"), ("Latency", "ns"), (PER_S, "count"))
    figures = [
        GridFigure(each.name, chart, unit, color, each.meaning, is_log=True)
        for each, (chart, unit), color in zip(COLUMNS, charts, colors, strict=False)
    ]
    values = [[each.read(one) for each in COLUMNS[: len(figures)]] for one in measured]
    points = [
        GridPoint([place], own, [None] * len(own), "!" if names[place] in unsure else "")
        for place, own in enumerate(values)
    ]
    rows = [(name, [each]) for name, each in zip(marked, measured, strict=True)]
    longest = len(names) - 1
    sliders = [Slider("buffer timeout", names, longest)]
    grid = Grid(sliders, figures, points, 0, longest, "longest")
    return DemoShown(
        "timeout",
        "Latency against messages",
        f"{asked_rate(workload.rate_per_s)} from one producer to one consumer; a buffer"
        " leaves when it is full or at the latest after the buffer timeout.",
        figure_table("buffer timeout", COLUMNS, rows, notes=[*NOTES, *_full_notes(runs)]),
        [grid],
        _lesson(names, [each.latency_ns for each in measured], buffers, unsure),
        _doubts(runs),
        runs,
        {
            "runs": {
                name: dict(zip(("p50_ns", "p99_ns", "buffers_per_s"), own, strict=True))
                for name, own in zip(names, values, strict=True)
            },
            "over_time": {},
        },
    )


def doubtful(runs: Sequence[DemoRun]) -> list[str]:
    """Names of the runs whose values are not reliable."""
    return [each.name for each in runs if each.result.validity is not Validity.VALID]


def _doubts(runs: Sequence[DemoRun]) -> list[str]:
    """The doubtful runs, and the gravest reason of each; reasons that differ only in numbers are
    merged."""
    names = doubtful(runs)
    if not names:
        return []
    found: dict[str, list[tuple[str, str]]] = {}
    for each in runs:
        known = without_consequences(each.result.warnings)
        reasons = [x.line for x in known if validity_by(x) is not Validity.VALID]
        for reason in reasons[:1]:
            found.setdefault(same_but_for_numbers(reason), []).append((each.name, reason))
    verb = "is" if len(names) == 1 else "are"
    return [
        f"{len(names)} of {len(runs)} runs {verb} doubtful, at {', '.join(names)} (marked !): do"
        " not rely on their values.",
        *(
            f"at {', '.join(name for name, _ in same)}: {merged_text([text for _, text in same])}"
            for same in found.values()
        ),
    ]


def _full_notes(runs: Sequence[DemoRun]) -> list[str]:
    """A note on full buffers, which leave in addition to those of the longest timeout."""
    measured = runs[-1].result.measured
    full = measured.flushes.full
    if not full:
        return []
    return [
        f"At {runs[-1].name}, {full} of {counted(measured.buffers, 'buffer')} left because their"
        " segment was full, so more leave than one each timeout, and records wait less than half"
        " of it. Such a buffer may carry few bytes: earlier flushes had sent the rest of that"
        " segment.",
    ]


def _lesson(
    names: Sequence[str],
    latencies: Sequence[LatencySummary],
    buffers: Sequence[float],
    unsure: Sequence[str],
) -> list[str]:
    p50 = [each.p50 for each in latencies]
    short, long = p50[0], p50[-1]
    if short is None or long is None or short >= long or buffers[0] <= buffers[-1]:
        return [
            f"{UNEXPECTED}: a shorter timeout should give a lower latency and more buffers. Try a"
            " quiet machine or a lower --rate."
        ]
    end = f" {DOUBTFUL}" if names[0] in unsure or names[-1] in unsure else ""
    return [
        f"A buffer timeout of {names[0]} instead of {names[-1]}: p50 falls from"
        f" {human_duration(long)} to {human_duration(short)}, and the network carries"
        f" {buffers[0] / buffers[-1]:.0f} times as many buffers.{end}",
        *_reversals(names, p50),
    ]


def _reversals(names: Sequence[str], p50: Sequence[float | None]) -> list[str]:
    """A sentence about the first timeout that was slower than a longer one."""
    known = [(name, ns) for name, ns in zip(names, p50, strict=True) if ns is not None]
    for (name, ns), (longer, longer_ns) in combinations(known, 2):
        if ns > HIGHER * longer_ns:
            return [
                f"{UNEXPECTED}: at {name} p50 is {human_duration(ns)}, higher than the"
                f" {human_duration(longer_ns)} at {longer}. Try a quiet machine."
            ]
    return []
