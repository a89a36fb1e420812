"""The demo `wan`: throughput over emulated links with longer and longer round trips, with little
credit and with more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flinknet.config import WorkloadConfig
from flinknet.results import RunResult
from flinknet.results.figures import FIGURES, LINK_LIMIT, Figure, of_run
from flinknet.units import format_duration_ns, human_bytes, human_count, human_share

from ..charts import Curves, Series
from ..page_parts import figure_table
from .shown import COLORS, UNEXPECTED, DemoRun, DemoShown, doubts_of

ROUND_TRIPS_NS = tuple(ms * 1_000_000 for ms in (0, 1, 10, 50))

EXCLUSIVE_BUFFERS = (2, 64)
"""Exclusive buffers of the channel: Flink's default, and enough for most of these links."""

FEWER = 0.5
"""Share of the rate without delay at or below which the longest round trip has shown the effect."""

MORE = 1.5
"""Factor by which more credit must raise the rate over the longest round trip."""

_RATE = of_run(FIGURES["throughput_records_per_s"])


def _share(run: RunResult) -> float | None:
    rate, limit = _RATE.read(run), LINK_LIMIT.read(run)
    return rate / limit if rate is not None and limit else None


_COLUMNS: Sequence[Figure[RunResult]] = (
    _RATE,
    LINK_LIMIT,
    Figure("", "of that", _share, "share", "", "Measured rate as a share of what the link allows."),
    *(of_run(replace(FIGURES[f"latency_{each}_ns"], group="")) for each in ("p50", "p99")),
)


def name_of(round_trip_ns: int, buffers: int) -> str:
    """The name of a run, by its round trip and the buffers of its gate."""
    return f"{format_duration_ns(round_trip_ns)}, {buffers} buffers"


def wan(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """Make the output from one run for each round trip and amount of credit; those with the least
    credit come first, and of these that with the shortest round trip."""
    count = len(ROUND_TRIPS_NS)
    rates = [_RATE.read(each.result) or 0.0 for each in runs]
    labels = [format_duration_ns(each) for each in ROUND_TRIPS_NS]
    credits = [runs[at].name.partition(", ")[2] for at in range(0, len(runs), count)]
    series: list[Series] = []
    for place, name in enumerate(credits):
        own = runs[place * count :][:count]
        color = COLORS[place]
        series.append(Series(name, [_RATE.read(each.result) for each in own], color))
        allowed: list[float | None] = [LINK_LIMIT.read(each.result) for each in own]
        series.append(Series(f"{name}, allowed", allowed, "grey"))
    near, far, more = rates[0], rates[count - 1], rates[-1]
    size_bytes = runs[0].segment_size_bytes
    longest = labels[-1]
    if not far or far > FEWER * near or more < MORE * far:
        lesson = [
            f"{UNEXPECTED}: a round trip of {longest} should hold up {credits[0]}, and more of them"
            " should help. Try a quiet machine."
        ]
    else:
        lesson = [
            f"Over a round trip of {longest}, {credits[0]} of {human_bytes(size_bytes)} carry"
            f" {human_count(far)} records/s, {human_share(far / near)} of the rate without delay;"
            f" {credits[-1]} carry {more / far:.1f} times as many.",
            "A buffer's credit is back a round trip after the buffer was sent, so a rate needs as"
            " many buffers as it fills in a round trip. Less than the link allows is reached where"
            " floating credit waits for an announced backlog, and where the tasks are slower.",
        ]
    return DemoShown(
        "wan",
        "Credit over a long network",
        [
            "one producer writes as fast as it can to one consumer over an emulated link",
            f"round trips of {', '.join(labels)}, with {' and '.join(credits)} of credit",
        ],
        figure_table("round trip", _COLUMNS, [(each.name, [each.result]) for each in runs]),
        [],
        lesson,
        doubts_of(runs),
        runs,
        {
            "runs": {
                each.name: {
                    "throughput_records_per_s": _RATE.read(each.result),
                    "link_records_per_s": LINK_LIMIT.read(each.result),
                }
                for each in runs
            },
            "over_time": {},
        },
        [
            Curves(
                "Throughput by round trip",
                labels,
                series,
                is_log=True,
                meaning="Records per second, measured and as the link allows.",
            )
        ],
    )
