"""timeout: the same records under several buffer timeouts: latency against messages."""

from __future__ import annotations

from collections.abc import Sequence

from flinknet.config import WorkloadConfig
from flinknet.results import Validity
from flinknet.units import human_count, human_duration, parse_duration_ns

from ..page_parts import Curves, Head, Row, Series, Table
from .shown import DemoRun, DemoShown, asked_rate, doubts_of

NOTES = (
    "At 0 each record is flushed at once, but records that arrive while the sender waits for a CPU"
    " or for the socket still share a buffer.",
)

FAR = 2.0
"""A p50 that is further than this factor from half the timeout shows something else."""


def timeout(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """From one run for each timeout, the shortest first."""
    names = [each.name for each in runs]
    measured = [each.result.measured for each in runs]
    p50 = [each.latency_ns.p50 for each in measured]
    p99 = [each.latency_ns.p99 for each in measured]
    buffers = [each.buffers / each.duration_ns * 1e9 for each in measured]
    heads = [
        Head("buffer timeout"),
        Head("p50", "Half of the records were consumed within this time."),
        Head("p99", "99 of 100 records were consumed within this time."),
        Head("buffers/s", "Data buffers per second: each costs CPU time on both sides."),
        Head("records per buffer"),
    ]
    rows = [
        Row(
            [
                name,
                human_duration(half),
                human_duration(most),
                human_count(sent),
                human_count(each.records / each.buffers if each.buffers else None),
            ]
        )
        for name, each, half, most, sent in zip(names, measured, p50, p99, buffers, strict=True)
    ]
    charts = [
        Curves(
            "Latency",
            names,
            [Series("p50", p50), Series("p99", p99, "orange")],
            unit="ns",
            is_log=True,
        ),
        Curves(
            "Buffers per second",
            names,
            [Series("buffers/s", buffers, "purple")],
            is_log=True,
            meaning="Each costs CPU time on both sides.",
        ),
    ]
    return DemoShown(
        "timeout",
        "Latency against messages",
        f"{asked_rate(workload.rate_per_s)} from one producer to one consumer; a buffer"
        " leaves when it is full or at the latest after the buffer timeout.",
        Table(heads, rows, notes=NOTES),
        charts,
        _lesson(names, p50, buffers, doubtful(runs)),
        _doubts(runs),
        {
            name: {"p50_ns": half, "p99_ns": most, "buffers_per_s": sent}
            for name, half, most, sent in zip(names, p50, p99, buffers, strict=True)
        },
    )


def doubtful(runs: Sequence[DemoRun]) -> list[str]:
    """The names of the runs whose values are not to be relied on."""
    return [each.name for each in runs if each.result.validity is not Validity.VALID]


def _doubts(runs: Sequence[DemoRun]) -> list[str]:
    names = doubtful(runs)
    if not names:
        return []
    return [
        f"{len(names)} of {len(runs)} runs are doubtful, at {', '.join(names)}: do not rely on"
        " their values.",
        *doubts_of(each.result for each in runs),
    ]


def _lesson(
    names: Sequence[str],
    p50: Sequence[float | None],
    buffers: Sequence[float],
    unsure: Sequence[str],
) -> list[str]:
    short, long, between = p50[0], p50[-1], p50[-2]
    if short is None or long is None or short >= long or buffers[0] <= buffers[-1]:
        return [
            "Unexpected: a shorter timeout should give a lower latency and more buffers. Try a"
            " quiet machine or a lower --rate."
        ]
    lesson = [
        f"A buffer timeout of {names[0]} instead of {names[-1]}: p50 falls from"
        f" {human_duration(long)} to {human_duration(short)}, and the network carries"
        f" {buffers[0] / buffers[-1]:.0f} times as many buffers.",
    ]
    half_ns = parse_duration_ns(names[-2], "a timeout") / 2
    if (
        between is not None
        and half_ns / FAR <= between <= half_ns * FAR
        and (names[-2] not in unsure)
    ):
        lesson.append(
            f"Where the timeout is well above the p50 at {names[0]}, a record waits for about half"
            f" of it: {names[-2]} gives a p50 of"
            f" {human_duration(between)} with {human_count(buffers[-2])} buffers/s."
        )
    return lesson
