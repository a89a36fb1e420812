"""Demos that vary one setting. timeout: latency against messages. unaligned: a checkpoint barrier
waits for the data before it, or overtakes that data. debloating: buffers shrink until consuming the
data in flight takes the target time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import combinations
from operator import attrgetter, itemgetter
from statistics import median
from typing import Any

from flinknet.config import WorkloadConfig
from flinknet.results import CheckpointSummary, Validity
from flinknet.results.figures import FIGURES, Figure, Unit
from flinknet.units import MISSING, counted, format_duration_ns, human_bytes, human_duration

from ..bench_words import MARKS
from ..charts import (
    Color,
    Curves,
    Grid,
    GridFigure,
    GridPoint,
    Limit,
    OverTime,
    Series,
    Slider,
    TimeSeries,
)
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

OFF, ON = "off", "on"

FASTER, LESS = 0.5, 0.5
"""Largest duration of an unaligned checkpoint as a share of an aligned one's, and largest share of
the data in flight compared with no debloating, at which the effect has been shown."""

MISSED = 1.2
"""Multiple of the target above which it is missed."""

SLOWER = 2
"""Time of the consumer for a record, as a multiple of the producer's."""

HIGHER = 1.25
"""Factor by which a p50 must exceed that of a longer timeout to be blamed on the machine."""

TARGET = "taskmanager.network.memory.buffer-debloat.target"
THRESHOLD = "taskmanager.network.memory.buffer-debloat.threshold-percentages"
THRESHOLD_PERCENT = 25

_FLUSHED = (
    "At 0 each record is flushed at once, but records that arrive while the sender waits for a CPU"
    " or for the socket still share a buffer."
)
_TIMEOUT: Sequence[Figure[Any]] = (
    *(replace(FIGURES[f"latency_{each}_ns"], group="") for each in ("p50", "p99")),
    FIGURES["buffers_per_s"],
    Figure("", "records per buffer", lambda x: x.records / x.buffers if x.buffers else None),
)
_TIMEOUT_CHARTS: Sequence[tuple[str, Unit, Color]] = (
    ("Latency", "ns", "blue"),
    ("Latency", "ns", "orange"),
    ("Buffers per second", "count", "purple"),
)


def timeout(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """Make the output from one run for each timeout, the shortest first."""
    names = [each.name for each in runs]
    measured = [each.result.measured for each in runs]
    unsure = [each.name for each in runs if each.result.validity is not Validity.VALID]
    marked = [MARKS[each.result.validity] + each.name for each in runs]
    figures = [
        GridFigure(each.name, chart, unit, color, each.meaning, is_log=True)
        for each, (chart, unit, color) in zip(_TIMEOUT, _TIMEOUT_CHARTS, strict=False)
    ]
    values = [[each.read(one) for each in _TIMEOUT[: len(figures)]] for one in measured]
    points = [
        GridPoint([place], own, [None] * len(own), "!" if names[place] in unsure else "")
        for place, own in enumerate(values)
    ]
    longest, last = len(names) - 1, measured[-1]
    notes = [_FLUSHED]
    if last.flushes.full:
        notes.append(
            f"At {names[-1]}, {last.flushes.full} of {counted(last.buffers, 'buffer')} left because"
            " their segment was full, so more leave than one each timeout, and records wait less"
            " than half of it."
        )
    p50 = [each.latency_ns.p50 for each in measured]
    buffers = [each.buffers_per_s for each in measured]
    short, long = p50[0], p50[-1]
    if short is None or long is None or short >= long or buffers[0] <= buffers[-1]:
        lesson = [
            f"{UNEXPECTED}: a shorter timeout should give a lower latency and more buffers. Try a"
            " quiet machine or a lower --rate."
        ]
    else:
        end = " (doubtful)" if names[0] in unsure or names[-1] in unsure else ""
        lesson = [
            f"A buffer timeout of {names[0]} instead of {names[-1]}: p50 falls from"
            f" {human_duration(long)} to {human_duration(short)}, and the network carries"
            f" {buffers[0] / buffers[-1]:.0f} times as many buffers.{end}"
        ]
    known = [(name, ns) for name, ns in zip(names, p50, strict=True) if ns is not None]
    for (name, ns), (longer, longer_ns) in combinations(known, 2):
        if ns > HIGHER * longer_ns and len(lesson) == 1:
            lesson.append(
                f"{UNEXPECTED}: at {name} p50 is {human_duration(ns)}, higher than the"
                f" {human_duration(longer_ns)} at {longer}. Try a quiet machine."
            )
    columns = ("p50_ns", "p99_ns", "buffers_per_s")
    return DemoShown(
        "timeout",
        "Latency against messages",
        [
            f"{asked_rate(workload)} from one producer to one consumer",
            "a buffer leaves when it is full, or at the latest after the buffer timeout",
        ],
        figure_table(
            "buffer timeout",
            _TIMEOUT,
            [(name, [each]) for name, each in zip(marked, measured, strict=True)],
            notes=notes,
        ),
        [Grid([Slider("buffer timeout", names, longest)], figures, points, 0, longest, "longest")],
        lesson,
        doubts_of(runs, None),
        runs,
        {
            "runs": {
                name: dict(zip(columns, own, strict=True))
                for name, own in zip(names, values, strict=True)
            },
            "over_time": {},
        },
    )


_CHECKPOINTS: Sequence[Figure[CheckpointSummary]] = (
    Figure("", "started", attrgetter("triggered")),
    Figure("", "completed", attrgetter("completed")),
    Figure("", "duration", attrgetter("duration_ns.mean"), "ns"),
    Figure("", "barrier travel", attrgetter("travel_ns.mean"), "ns"),
    Figure("", "overtaken", attrgetter("overtaken_bytes_mean"), "bytes"),
)
_CHECKPOINT_NOTE = (
    "Duration: from the trigger to the last acknowledgement. Barrier travel: from when it was"
    " written to when it was read. Overtaken: data that each checkpoint stores."
)


def unaligned(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """Make the output from two runs, aligned and unaligned."""
    found = {each.name: each.result.measured.checkpoints for each in runs}
    aligned, overtaking = found.values()
    notes = [_CHECKPOINT_NOTE]
    if aligned is not None and overtaking is not None and aligned.triggered < overtaking.triggered:
        notes.append(
            "Fewer aligned checkpoints were started: the next one waits until the last is complete."
        )
    durations_ns = [None if each is None else each.duration_ns.mean for each in found.values()]
    travels_ns = [None if each is None else each.travel_ns.mean for each in found.values()]
    series = [Series("duration", durations_ns), Series("barrier travel", travels_ns, "orange")]
    slow_ns, fast_ns = durations_ns
    lesson = [
        f"{UNEXPECTED}: unaligned checkpoints should be much faster here. Try a quiet machine or a"
        " longer --duration."
    ]
    if slow_ns and fast_ns is not None and overtaking is not None and fast_ns <= FASTER * slow_ns:
        lesson = [
            f"Unaligned, a checkpoint takes {human_duration(fast_ns)} instead of"
            f" {human_duration(slow_ns)}, and stores"
            f" {human_bytes(overtaking.overtaken_bytes_mean)} of overtaken data.",
            "Aligned, a barrier waits until all data ahead of it is processed; unaligned, it"
            " overtakes that data, which each checkpoint then has to store.",
        ]
    return DemoShown(
        "unaligned",
        "A barrier overtakes",
        [
            f"{workload.producers} producers write {asked_rate(workload)} each to one consumer that"
            " cannot keep up",
            "all buffers between them are full when a checkpoint begins",
        ],
        figure_table(
            "checkpoints",
            _CHECKPOINTS,
            [(name, [each] if each is not None else []) for name, each in found.items()],
            notes=notes,
        ),
        six_places(runs, [runs[0].measured_span("slow consumer")]),
        lesson,
        doubts_of(runs),
        runs,
        {
            "runs": {name: None if each is None else asdict(each) for name, each in found.items()},
            "over_time": {},
        },
        [Curves("How long a checkpoint takes", list(found), series, unit="ns", is_bars=True)],
        channels=[(f"producer {number}", "consumer") for number in range(workload.producers)],
    )


_DEBLOATING: Sequence[Figure[Mapping[str, Any]]] = (
    Figure("", "records/s", itemgetter("taken_records_per_s"), "count", "",
           "Records that the consumer read per second."),
    Figure("", "in flight", itemgetter("in_flight_bytes"), "bytes", "",
           "Median of the second half of the run, over the six places."),
    Figure("", "time to consume", itemgetter("in_flight_ns"), "ns", "",
           "How long the consumer needs for the data in flight."),
    Figure("", "buffer size", itemgetter("buffer_size_bytes"), "bytes", "",
           "At the end of the measured part."),
    Figure("", "checkpoint", itemgetter("checkpoint_duration_mean_ns"), "ns", "",
           "Mean, from the trigger to the last acknowledgement."),
)  # fmt: skip


def debloating(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """Make the output from two runs, without and with debloating."""
    off, on = (_figures_of(each, workload) for each in runs)
    gates = [gate for gate in runs[1].result.debloating if gate.samples]
    target_ns = gates[0].target_ns if gates else None
    target = MISSING if target_ns is None else format_duration_ns(target_ns, separator=" ")
    spans, end_ns = [runs[0].measured_span("slow consumer")], runs[1].measured_to_ns
    limits = []
    if target_ns and on["in_flight_bytes"] and on["in_flight_ns"]:
        allowed = on["in_flight_bytes"] / on["in_flight_ns"] * target_ns
        limits.append(Limit(allowed, f"target: {target} of work"))
    charts = [
        OverTime(
            "In flight",
            [
                run.between(color, run.measured_to_ns)
                for run, color in zip(runs, COLORS, strict=False)
            ],
            "bytes",
            "Bytes in the six places between producer and consumer.",
            spans,
            limits=limits,
        )
    ]
    for gate in gates:
        known = [each for each in gate.samples if each.at_ns < end_ns]
        sizes = [each.buffer_size_bytes for each in known]
        series = [TimeSeries(gate.name, [each.at_ns for each in known], sizes, "green")]
        meaning = "What the consumer asks its producers for."
        charts.append(OverTime("Buffer size", series, "bytes", meaning, spans))
    needed = human_duration(SLOWER * 1e9 / workload.rate_per_s)
    return DemoShown(
        "debloating",
        "Buffers as large as needed",
        [
            f"{asked_rate(workload)} to a consumer that needs {needed} for each, so that it cannot"
            " keep up",
            f"buffer debloating off, and on with a target of {target}",
        ],
        figure_table("debloating", _DEBLOATING, [(OFF, [off]), (ON, [on])]),
        [*six_places(runs, spans, charts[0]), *charts[1:]],
        _lesson_of_sizes(off, on, target_ns, target, runs[1].result.config.get(THRESHOLD)),
        doubts_of(runs),
        runs,
        {"runs": {OFF: off, ON: on}, "over_time": over_time_document(charts)},
        explained="With buffer debloating the consumer requests smaller buffers, so that it can"
        f" consume the data in flight within {target}.",
    )


def _figures_of(run: DemoRun, workload: WorkloadConfig) -> dict[str, Any]:
    """Figures of one run: what is in flight, the time that the consumer needs for it, and the
    gate's estimate of that (`expected`), all medians of the second half; sizes of buffers."""
    result, end_ns = run.result, run.measured_to_ns
    rates = [each.taken_records_per_s for each in result.channels]
    taken = sum(each for each in rates if each is not None) if any(rates) else None
    half_ns = (run.measured_from_ns + end_ns) // 2
    samples = result.buffering.samples if result.buffering is not None else ()
    late = [each.levels.total_bytes for each in samples if half_ns <= each.at_ns < end_ns]
    in_flight = median(late) if late else None
    per_s = taken * workload.record_size.mean_bytes if taken else None
    gates = [each for gate in result.debloating for each in gate.samples if each.at_ns < end_ns]
    sizes = [each.buffer_size_bytes for each in gates] or [run.segment_size_bytes]
    settled = [each for each in gates if each.at_ns >= half_ns]
    checkpoints = result.measured.checkpoints
    expected = ("time_to_consume_ns", "throughput_bytes_per_s")
    medians = [median(map(attrgetter(x), settled)) if settled else None for x in expected]
    return {
        "taken_records_per_s": taken,
        "in_flight_bytes": in_flight,
        "in_flight_least_bytes": min(late, default=None),
        "in_flight_most_bytes": max(late, default=None),
        "in_flight_ns": in_flight / per_s * 1e9 if in_flight is not None and per_s else None,
        "buffer_size_first_bytes": sizes[0],
        "buffer_size_middle_bytes": settled[0].buffer_size_bytes if settled else sizes[-1],
        "buffer_size_bytes": sizes[-1],
        "expected_ns": medians[0],
        "expected_bytes_per_s": medians[1],
        "checkpoint_duration_mean_ns": checkpoints and checkpoints.duration_ns.mean,
    }


def _lesson_of_sizes(
    off: Mapping[str, Any],
    on: Mapping[str, Any],
    target_ns: int | None,
    target: str,
    threshold: str | None,
) -> list[str]:
    before, after = off["in_flight_bytes"], on["in_flight_bytes"]
    if target_ns and off["in_flight_ns"] and target_ns > LESS * off["in_flight_ns"]:
        return [
            f"{UNEXPECTED}: nothing to shrink. The target ({target}) is not far below the"
            f" {human_duration(off['in_flight_ns'])} of work that are in flight without debloating."
            f" Try -D {TARGET}=50ms."
        ]
    if not before or after is None or after > LESS * before:
        return [
            f"{UNEXPECTED}: much less data should be in flight with debloating. Try a quiet machine"
            " or a longer --duration."
        ]
    slow_ns, fast_ns = off["checkpoint_duration_mean_ns"], on["checkpoint_duration_mean_ns"]
    checkpoints = ""
    if slow_ns and fast_ns:
        checkpoints = (
            f", checkpoints {human_duration(fast_ns)} instead of {human_duration(slow_ns)}"
        )
    is_missed = bool(target_ns and on["in_flight_ns"] and on["in_flight_ns"] > MISSED * target_ns)
    lines = [
        f"With debloating {human_bytes(after)} ({human_duration(on['in_flight_ns'])} of work) are"
        f" in flight instead of {human_bytes(before)} ({human_duration(off['in_flight_ns'])})"
        f"{checkpoints}; the target of {target} is {'missed' if is_missed else 'met'}.",
        f"With debloating, buffers have {human_bytes(on['buffer_size_first_bytes'])} at first and"
        f" {human_bytes(on['buffer_size_bytes'])} at the end.",
    ]
    if is_missed:
        lines.append(
            "The gate's estimate counts its queue and the announced backlog, not what lies in"
            " sockets or is written meanwhile, and a new size is announced only if it differs by"
            f" {threshold or THRESHOLD_PERCENT}% or more."
        )
    return lines
