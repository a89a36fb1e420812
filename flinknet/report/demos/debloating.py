"""debloating: buffers are only so large that what is in flight takes the target time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from flinknet.config import WorkloadConfig
from flinknet.units import (
    MISSING,
    format_duration_ns,
    human_bytes,
    human_count,
    human_duration,
    human_share,
)

from ..page_parts import Color, Head, OverTime, Row, Span, Table, TimeSeries
from .shown import DemoRun, DemoShown, asked_rate, doubts_of

OFF, ON = "off", "on"

MISSED, KEPT_MIN = 1.2, 0.95
"""The target is missed beyond the first, and throughput is lost below the second."""

LESS = 0.5
"""Of the data in flight without debloating, what there is with it at most if the demo has shown
its effect."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """One run: what the consumer took, data in flight (median of the second half) and for how long
    they keep it busy, the size of buffers at the end, and how long checkpoints took."""

    taken_records_per_s: float | None
    in_flight_bytes: float | None
    in_flight_ns: float | None
    buffer_size_bytes: int | None
    checkpoint_duration_mean_ns: float | None


def debloating(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """From the two runs: without debloating, and with it."""
    off, on = (_seen(each, workload) for each in runs)
    gates = [gate for gate in runs[1].result.debloating if gate.samples]
    target_ns = gates[0].target_ns if gates else None
    heads = [
        Head("debloating"),
        Head("records/s", "Records that the consumer read per second."),
        Head("in flight", "Median of the second half of the run, over the six places."),
        Head("time to consume", "How long the consumer needs for the data in flight."),
        Head("buffer size", "At the end of the run."),
        Head("checkpoint", "Mean, from the trigger to the last acknowledgement."),
    ]
    rows = [
        Row(
            [
                name,
                human_count(each.taken_records_per_s),
                human_bytes(each.in_flight_bytes),
                human_duration(each.in_flight_ns),
                human_bytes(each.buffer_size_bytes),
                human_duration(each.checkpoint_duration_mean_ns),
            ]
        )
        for name, each in ((OFF, off), (ON, on))
    ]
    spans = [Span("slow consumer", runs[0].measured_from_ns, runs[0].measured_to_ns)]
    charts = [
        OverTime(
            "In flight",
            [_in_flight(runs[0], "off", "orange"), _in_flight(runs[1], "on", "blue")],
            unit="bytes",
            meaning="Bytes in the six places between producer and consumer.",
            spans=spans,
        )
    ]
    for gate in gates:
        at_ns = [each.at_ns for each in gate.samples]
        sizes = [each.buffer_size_bytes for each in gate.samples]
        charts.append(
            OverTime(
                "Buffer size",
                [TimeSeries(gate.name, at_ns, sizes, "green")],
                unit="bytes",
                meaning="What the consumer asks its producers for.",
                spans=spans,
            )
        )
    return DemoShown(
        "debloating",
        "Buffers as large as needed",
        f"A producer writes {asked_rate(workload.rate_per_s)} to a consumer that cannot"
        " keep up. With buffer debloating the consumer requests smaller buffers, so that it can"
        f" consume the data in flight within {_exact(target_ns)}.",
        Table(heads, rows),
        charts,
        _lesson(off, on, target_ns),
        doubts_of(each.result for each in runs),
        {OFF: asdict(off), ON: asdict(on)},
    )


def _seen(run: DemoRun, workload: WorkloadConfig) -> _Seen:
    result = run.result
    rates = [each.taken_records_per_s for each in result.channels]
    taken = sum(each for each in rates if each is not None) if any(rates) else None
    half_ns = (run.measured_from_ns + run.measured_to_ns) // 2
    samples = result.buffering.samples if result.buffering is not None else ()
    late = [
        each.levels.total_bytes for each in samples if half_ns <= each.at_ns < run.measured_to_ns
    ]
    in_flight = median(late) if late else None
    per_s = taken * workload.record_size.mean_bytes if taken else None
    sizes = [
        each.buffer_size_bytes
        for gate in result.debloating
        for each in gate.samples
        if each.at_ns < run.measured_to_ns
    ]
    return _Seen(
        taken,
        in_flight,
        in_flight / per_s * 1e9 if in_flight is not None and per_s else None,
        sizes[-1] if sizes else run.segment_size_bytes,
        result.measured.checkpoints.duration_ns.mean if result.measured.checkpoints else None,
    )


def _in_flight(run: DemoRun, name: str, color: Color) -> TimeSeries:
    samples = run.result.buffering.samples if run.result.buffering is not None else ()
    at_ns = [each.at_ns for each in samples]
    return TimeSeries(name, at_ns, [each.levels.total_bytes for each in samples], color)


def _exact(target_ns: int | None) -> str:
    return MISSING if target_ns is None else format_duration_ns(target_ns, separator=" ")


def _lesson(off: _Seen, on: _Seen, target_ns: int | None) -> list[str]:
    before, after = off.in_flight_bytes, on.in_flight_bytes
    if not before or after is None or after > LESS * before:
        return [
            "Unexpected: much less data should be in flight with debloating. Try a quiet machine or"
            " a longer --duration."
        ]
    lines = [
        f"Without debloating, {human_bytes(before)} (median) queue up in front of the slow"
        f" consumer, {human_duration(off.in_flight_ns)} of work.",
        "With debloating, buffers start small and grow only as far as needed, here to"
        f" {human_bytes(on.buffer_size_bytes)}: {human_bytes(after)} are in flight,"
        f" {human_duration(on.in_flight_ns)} of work; the target is {_exact(target_ns)}.",
    ]
    if target_ns and on.in_flight_ns and on.in_flight_ns > MISSED * target_ns:
        lines.append("That misses the target, which is approached in smoothed steps.")
    if off.taken_records_per_s and on.taken_records_per_s:
        kept = on.taken_records_per_s / off.taken_records_per_s
        if kept < KEPT_MIN:
            lines.append(
                f"Smaller buffers cost throughput here: {human_share(kept)} of it is left."
            )
    slow_ns, fast_ns = off.checkpoint_duration_mean_ns, on.checkpoint_duration_mean_ns
    if slow_ns and fast_ns and fast_ns < slow_ns:
        lines.append(
            "Less data ahead of each barrier makes aligned checkpoints faster:"
            f" {human_duration(fast_ns)} instead of {human_duration(slow_ns)}."
        )
    return lines
