"""unaligned: a checkpoint barrier waits for the data before it, or overtakes that data; debloating:
buffers shrink until consuming the data in flight takes the target time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from statistics import median

from flinknet.config import WorkloadConfig
from flinknet.results import CheckpointSummary
from flinknet.results.figures import Figure
from flinknet.units import (
    MISSING,
    format_duration_ns,
    human_bytes,
    human_duration,
)

from ..charts import Curves, Limit, OverTime, Series, TimeSeries
from ..page_parts import figure_table
from .shown import (
    COLORS,
    UNEXPECTED,
    DemoRun,
    DemoShown,
    asked_rate,
    doubts_of,
    over_time_document,
    six_places,
)

ALIGNED, UNALIGNED = "aligned", "unaligned"
OFF, ON = "off", "on"

FASTER = 0.5
"""Largest duration of an unaligned checkpoint, as a share of an aligned one's, at which the effect
has been shown."""

LESS = 0.5
"""Largest share of the data in flight, compared with no debloating, at which the effect has been
shown."""

MISSED = 1.2
"""Multiple of the target above which it is missed."""

SLOWER = 2
"""Time of the consumer for a record, as a multiple of the producer's."""

TARGET = "taskmanager.network.memory.buffer-debloat.target"
THRESHOLD = "taskmanager.network.memory.buffer-debloat.threshold-percentages"
THRESHOLD_PERCENT = 25


_CHECKPOINTS: Sequence[Figure[CheckpointSummary]] = (
    Figure("", "started", attrgetter("triggered")),
    Figure("", "completed", attrgetter("completed")),
    Figure("", "duration", attrgetter("duration_ns.mean"), "ns"),
    Figure("", "barrier travel", attrgetter("travel_ns.mean"), "ns"),
    Figure("", "overtaken", attrgetter("overtaken_bytes_mean"), "bytes"),
)


def unaligned(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """Make the output from two runs, aligned and unaligned."""
    found = {each.name: each.result.measured.checkpoints for each in runs}
    aligned, overtaking = found[ALIGNED], found[UNALIGNED]
    notes = [
        "Duration: from the trigger to the last acknowledgement. Barrier travel: from when it was"
        " written to when it was read. Overtaken: data that each checkpoint stores.",
    ]
    if aligned is not None and overtaking is not None and aligned.triggered < overtaking.triggered:
        notes.append(
            "Fewer aligned checkpoints were started: the next one waits until the last is complete."
        )
    travels = [None if each is None else each.travel_ns.mean for each in found.values()]
    chart = Curves(
        "How long a checkpoint takes",
        list(found),
        [
            Series("duration", list(map(_duration_ns, found.values()))),
            Series("barrier travel", travels, "orange"),
        ],
        unit="ns",
        is_bars=True,
    )
    spans = [runs[0].measured_span("slow consumer")]
    return DemoShown(
        "unaligned",
        "A barrier overtakes",
        f"{workload.producers} producers write {asked_rate(workload.rate_per_s)} each to"
        " one consumer that cannot keep up, so all buffers between them are full when a checkpoint"
        " begins.",
        figure_table(
            "checkpoints",
            _CHECKPOINTS,
            [(name, [each] if each is not None else []) for name, each in found.items()],
            notes=notes,
        ),
        [chart, *six_places(runs, spans)],
        _lesson_of_barriers(aligned, overtaking),
        doubts_of([(each.name, each.result) for each in runs]),
        runs,
        {
            "runs": {name: None if each is None else asdict(each) for name, each in found.items()},
            "over_time": {},
        },
    )


def _duration_ns(checkpoints: CheckpointSummary | None) -> float | None:
    return None if checkpoints is None else checkpoints.duration_ns.mean


def _lesson_of_barriers(
    aligned: CheckpointSummary | None, overtaking: CheckpointSummary | None
) -> list[str]:
    slow_ns, fast_ns = _duration_ns(aligned), _duration_ns(overtaking)
    if not slow_ns or fast_ns is None or overtaking is None or fast_ns > FASTER * slow_ns:
        return [
            f"{UNEXPECTED}: unaligned checkpoints should be much faster here. Try a quiet machine"
            " or a longer --duration."
        ]
    return [
        f"Unaligned, a checkpoint takes {human_duration(fast_ns)} instead of"
        f" {human_duration(slow_ns)}, and stores"
        f" {human_bytes(overtaking.overtaken_bytes_mean)} of overtaken data.",
        "Aligned, a barrier waits until all data ahead of it is processed; unaligned, it overtakes"
        " that data, which each checkpoint then has to store.",
    ]


@dataclass(frozen=True, slots=True)
class _Figures:
    """Figures of one run. `in_flight_bytes`, its least and its most, `expected_ns` and
    `expected_bytes_per_s` are of the second half (medians); `in_flight_ns` is the consumer's time
    for the data in flight, `expected_ns` the gate's estimate of it."""

    taken_records_per_s: float | None
    in_flight_bytes: float | None
    in_flight_least_bytes: int | None
    in_flight_most_bytes: int | None
    in_flight_ns: float | None
    buffer_size_first_bytes: int | None
    buffer_size_middle_bytes: int | None
    buffer_size_bytes: int | None
    expected_ns: float | None
    expected_bytes_per_s: float | None
    checkpoint_duration_mean_ns: float | None


_COLUMNS = (
    Figure("", "records/s", attrgetter("taken_records_per_s"), "count", "",
           "Records that the consumer read per second."),
    Figure("", "in flight", attrgetter("in_flight_bytes"), "bytes", "",
           "Median of the second half of the run, over the six places."),
    Figure("", "time to consume", attrgetter("in_flight_ns"), "ns", "",
           "How long the consumer needs for the data in flight."),
    Figure("", "buffer size", attrgetter("buffer_size_bytes"), "bytes", "",
           "At the end of the measured part."),
    Figure("", "checkpoint", attrgetter("checkpoint_duration_mean_ns"), "ns", "",
           "Mean, from the trigger to the last acknowledgement."),
)  # fmt: skip


def debloating(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """Make the output from two runs, without and with debloating."""
    off, on = (_figures_of(each, workload) for each in runs)
    gates = [gate for gate in runs[1].result.debloating if gate.samples]
    target_ns = gates[0].target_ns if gates else None
    doubts = doubts_of([(each.name, each.result) for each in runs])
    spans = [runs[0].measured_span("slow consumer")]
    limits = []
    if target_ns and on.in_flight_bytes and on.in_flight_ns:
        allowed = on.in_flight_bytes / on.in_flight_ns * target_ns
        limits.append(Limit(allowed, f"target: {_exact(target_ns)} of work"))
    charts = [
        OverTime(
            "In flight",
            [
                run.between(color, run.measured_to_ns)
                for run, color in zip(runs, COLORS, strict=False)
            ],
            unit="bytes",
            meaning="Bytes in the six places between producer and consumer.",
            spans=spans,
            limits=limits,
        )
    ]
    for gate in gates:
        known = [each for each in gate.samples if each.at_ns < runs[1].measured_to_ns]
        sizes = [each.buffer_size_bytes for each in known]
        charts.append(
            OverTime(
                "Buffer size",
                [TimeSeries(gate.name, [each.at_ns for each in known], sizes, "green")],
                unit="bytes",
                meaning="What the consumer asks its producers for.",
                spans=spans,
            )
        )
    return DemoShown(
        "debloating",
        "Buffers as large as needed",
        f"A producer writes {asked_rate(workload.rate_per_s)} to a consumer that"
        f" needs {human_duration(SLOWER * 1e9 / workload.rate_per_s)} for each, so that it cannot"
        " keep up. With buffer debloating the consumer requests smaller buffers, so that it can"
        f" consume the data in flight within {_exact(target_ns)}.",
        figure_table("debloating", _COLUMNS, [(OFF, [off]), (ON, [on])]),
        [*six_places(runs, spans, charts[0]), *charts[1:]],
        _lesson_of_sizes(off, on, target_ns, runs[1].result.config),
        doubts,
        runs,
        {"runs": {OFF: asdict(off), ON: asdict(on)}, "over_time": over_time_document(charts)},
        [[each] for each in charts],
        _is_missed(on, target_ns),
    )


def _is_missed(on: _Figures, target_ns: int | None) -> bool:
    return bool(target_ns and on.in_flight_ns and on.in_flight_ns > MISSED * target_ns)


def _figures_of(run: DemoRun, workload: WorkloadConfig) -> _Figures:
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
    gates = [each for gate in result.debloating for each in gate.samples]
    evaluated = [each for each in gates if each.at_ns < run.measured_to_ns]
    sizes = [each.buffer_size_bytes for each in evaluated] or [run.segment_size_bytes]
    settled = [each for each in evaluated if each.at_ns >= half_ns]
    return _Figures(
        taken,
        in_flight,
        min(late, default=None),
        max(late, default=None),
        in_flight / per_s * 1e9 if in_flight is not None and per_s else None,
        sizes[0],
        settled[0].buffer_size_bytes if settled else sizes[-1],
        sizes[-1],
        median(each.time_to_consume_ns for each in settled) if settled else None,
        median(each.throughput_bytes_per_s for each in settled) if settled else None,
        _duration_ns(result.measured.checkpoints),
    )


def _exact(target_ns: int | None) -> str:
    return MISSING if target_ns is None else format_duration_ns(target_ns, separator=" ")


def _lesson_of_sizes(
    off: _Figures, on: _Figures, target_ns: int | None, config: Mapping[str, str]
) -> list[str]:
    before, after = off.in_flight_bytes, on.in_flight_bytes
    if target_ns and off.in_flight_ns and target_ns > LESS * off.in_flight_ns:
        return [
            f"{UNEXPECTED}: nothing to shrink. The target ({_exact(target_ns)}) is not far below"
            f" the {human_duration(off.in_flight_ns)} of work that are in flight without"
            f" debloating. Try -D {TARGET}=50ms."
        ]
    if not before or after is None or after > LESS * before:
        return [
            f"{UNEXPECTED}: much less data should be in flight with debloating. Try a quiet machine"
            " or a longer --duration."
        ]
    slow_ns, fast_ns = off.checkpoint_duration_mean_ns, on.checkpoint_duration_mean_ns
    checkpoints = ""
    if slow_ns and fast_ns:
        instead = f"{human_duration(fast_ns)} instead of {human_duration(slow_ns)}"
        checkpoints = f", checkpoints {instead}"
    reached = human_duration(on.in_flight_ns)
    lines = [
        f"Debloating: {human_bytes(after)} instead of {human_bytes(before)} in flight{checkpoints};"
        f" the target of {_exact(target_ns)} is"
        f" {'missed' if _is_missed(on, target_ns) else 'met'} ({reached}).",
        f"Without debloating, {human_duration(off.in_flight_ns)} of work queue up in front of the"
        f" slow consumer. With it, buffers have {human_bytes(on.buffer_size_first_bytes)} at first"
        f" and {human_bytes(on.buffer_size_bytes)} at the end.",
    ]
    if _is_missed(on, target_ns):
        lines.append(
            "The gate's estimate counts its queue and the announced backlog, not what lies in"
            " sockets or is written meanwhile, and a new size is announced only if it differs by"
            f" {config.get(THRESHOLD, THRESHOLD_PERCENT)}% or more."
        )
    return lines
