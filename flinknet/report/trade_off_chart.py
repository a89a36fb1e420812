"""The main chart of a replay: predicted latency over the setting that has the most values."""

from __future__ import annotations

from collections.abc import Sequence

from flinknet.results import LatencySummary, ReplayAnswer, TradeOffPoint

from .page_parts import Color, Curves, Series
from .settings_in_words import settings_of, what_varies


def trade_off_chart(answer: ReplayAnswer) -> Curves | None:
    """p50 and p99 of the predicted settings that differ from the recorded one in one thing alone,
    with their 90% intervals where there are any. None if nothing could be predicted.
    """
    points = [each for each in answer.trade_offs if each.throughput_records_per_s is not None]
    if not points:
        return None
    varied = what_varies(points)
    along = max(varied, key=lambda name: len({settings_of(each)[name] for each in points}))
    recorded = next((each for each in points if each.is_recorded), points[0])
    line = [each for each in points if _differ(each, recorded) <= {along}]
    labels = [settings_of(each)[along] for each in line]
    return Curves(
        f"predicted latency by {along}",
        labels,
        [
            Series(
                name,
                [getattr(each.latency_ns, name) for each in line],
                color,
                low=_ends(name, [each.latency_low_ns for each in line]),
                high=_ends(name, [each.latency_high_ns for each in line]),
            )
            for name, color in _SERIES
        ],
        unit="ns",
        is_log=True,
        marks={index: "recorded" for index, each in enumerate(line) if each.is_recorded},
    )


_SERIES: Sequence[tuple[str, Color]] = (("p50", "blue"), ("p99", "orange"))


def _differ(point: TradeOffPoint, other: TradeOffPoint) -> set[str]:
    """Names of the settings in which two points differ."""
    theirs = settings_of(other)
    return {name for name, value in settings_of(point).items() if value != theirs[name]}


def _ends(name: str, ends: Sequence[LatencySummary | None]) -> list[float | None]:
    if all(each is None for each in ends):
        return []
    return [None if each is None else getattr(each, name) for each in ends]
