"""Demos whose consumer cannot keep up. back-pressure: the buffers of a chain fill up, one pool
after another, until the source waits. unaligned: a checkpoint barrier waits for the data before it,
or overtakes that data. debloating: buffers shrink until consuming the data in flight takes the
target time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from operator import attrgetter, itemgetter
from statistics import median
from typing import Any

from flinknet.config import WorkloadConfig
from flinknet.results import DISTURBED, DISTURBED_BY_STRANGERS, CheckpointSummary
from flinknet.results.figures import BACK_PRESSURED, BUSY, FIGURES, IDLE, Figure
from flinknet.units import (
    MISSING,
    format_duration_ns,
    human_bytes,
    human_count,
    human_duration,
    human_share,
)

from ..bench import task_bars, task_shares
from ..charts import (
    Color,
    Curves,
    Limit,
    OverTime,
    Places,
    PlacesRun,
    PlacesStep,
    Series,
    TimeSeries,
)
from ..page_parts import figure_table
from . import COLORS, UNEXPECTED, DemoRun, DemoShown, asked_rate, in_flight, six_places

OFTEN = 0.3
"""Share of the time between two samples; above it, a task counts as waiting from then on."""

SINK_SLOWER = 4
"""Time of the sink of back-pressure for a record, as a multiple of the source's."""

BUSY_SHARE, WAITING_SHARE = 0.8, 0.2
"""Least shares of time (the sink busy, the source waiting) at which the effect has been shown."""

_TASKS: Sequence[Figure[Any]] = (
    *(BUSY, BACK_PRESSURED, IDLE),
    Figure("", "back-pressured after", itemgetter("after_ns"), "ns", "",
           "Since the sink slowed down."),
)  # fmt: skip


def back_pressure(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """Make the output from the only run, that of the chain."""
    (run,) = runs
    shares = task_shares(run.result)
    names = list(shares)
    spans = [run.measured_span("sink slowed down")]
    waits = OverTime(
        "Back-pressured",
        [_waiting(run, name) for name in names[:-1]],
        "share",
        BACK_PRESSURED.meaning,
        spans,
        in_rows=True,
        y="share of the time",
    )
    pools = OverTime(
        "Buffers in use",
        _pools(run, names),
        "share",
        "Of each pool. An output may write no more than max-buffers-per-channel to a channel, even"
        " if its pool has more.",
        spans,
        in_rows=True,
        y="share of the pool",
    )
    after_ns = {each.name: _waits_after_ns(each, run.measured_from_ns) for each in waits.series}
    taken = run.result.channels[-1].taken_records_per_s if run.result.channels else None
    apart_ns = 1e9 / workload.rate_per_s
    return DemoShown(
        "back-pressure",
        "Pressure travels upstream",
        [
            f"{' → '.join(names)}, {asked_rate(workload)}",
            f"after the warm-up the sink needs {human_duration(SINK_SLOWER * apart_ns)} for each"
            f" record, and one arrives every {human_duration(apart_ns)}",
        ],
        figure_table(
            "task",
            _TASKS,
            [(name, [{**shares[name], "after_ns": after_ns.get(name)}]) for name in names],
            notes=[
                "source 0 is subtask 0 of the source, relay 1.0 subtask 0 of the first stage after"
                " it. back-pressured after: since the sink slowed down,"
                f" {human_duration(run.measured_from_ns)} after the start of the run. A task that"
                " is neither busy nor back-pressured is idle, also between two buffers.",
            ],
        ),
        _order(shares, after_ns, taken, workload),
        runs,
        {"runs": {"tasks": shares, "waits_after_ns": after_ns, "sink_records_per_s": taken}},
        _filled(run, pools.series, waits),
        [pools, *task_bars(run.result)],
        [waits, pools],
        # without CORES_SHARED: the chain has four tasks
        codes=(DISTURBED, DISTURBED_BY_STRANGERS),
        channels=[(names[-2], names[-1])] if len(names) > 1 else (),
    )


def _filled(run: DemoRun, pools: Sequence[TimeSeries], waits: OverTime) -> list[Places]:
    """The pools from the source to the sink under a slider over time."""

    def at(series: TimeSeries, at_ns: int) -> float:
        known = [x for x, at in zip(series.values, series.at_ns, strict=True) if at <= at_ns]
        return (known[-1] if known else 0.0) or 0.0

    steps = []
    for at_ns in sorted({at_ns for each in pools for at_ns in each.at_ns}):
        since_ns = at_ns - run.measured_from_ns
        names = [each.name for each in waits.series if at(each, at_ns) > OFTEN]
        line = (
            f"{human_duration(since_ns)} after the sink slowed down; back-pressured:"
            f" {', '.join(names) or 'no task'}."
        )
        lines = [line if since_ns >= 0 else "Before the sink slows down."]
        steps.append(PlacesStep(at_ns, [at(each, at_ns) for each in pools], lines))
    names = [each.name for each in pools]
    shown = [PlacesRun("Pools of buffers", [1.0] * len(pools), steps)]
    places = Places(names, [""] * len(pools), shown, waits, ends=("source", "sink"), unit="share")
    return [places] if pools else []


def _waiting(run: DemoRun, name: str) -> TimeSeries:
    """The share of the time between samples in which a task was back-pressured, in the measured
    part. Computed by differences, as metrics give it since the start of this part.
    """
    waited: list[tuple[int, float]] = [(run.measured_from_ns, 0.0)]
    before = None
    for sample in run.samples:
        task = next((each for each in sample.tasks if each.name == name), None)
        elapsed_ns = sample.elapsed_ns - run.measured_from_ns
        # a task that is as before is of a TaskManager that has not reported anew
        if task is not None and task != before and elapsed_ns > 0:
            waited.append((sample.elapsed_ns, task.back_pressured * elapsed_ns))
        before = task
    shares = [
        min(1.0, max(0.0, (late - early) / (to_ns - from_ns)))
        for (from_ns, early), (to_ns, late) in pairwise(waited)
        if to_ns > from_ns
    ]
    return TimeSeries(name, [at_ns for at_ns, _ in waited], [0.0, *shares], "purple")


def _waits_after_ns(waiting: TimeSeries, from_ns: int) -> int | None:
    """Time from an instant until a task waits (see OFTEN), in ns; None if it never does."""
    pairs = zip(waiting.at_ns, waiting.values, strict=True)
    return next((at - from_ns for at, share in pairs if (share or 0.0) > OFTEN), None)


def _pools(run: DemoRun, tasks: Sequence[str]) -> list[TimeSeries]:
    """Usage of each pool over time, from the source to the sink."""
    ends: Mapping[str, Color] = {"in": "blue", "out": "orange"}
    found: list[TimeSeries] = []
    for name in tasks:
        for end, color in ends.items():
            usage = attrgetter(f"{end}_pool_usage")
            known = [
                (sample.elapsed_ns, value)
                for sample in run.samples
                for task in sample.tasks
                if task.name == name and (value := usage(task)) is not None
            ]
            if known:
                at_ns, values = zip(*known, strict=True)
                found.append(TimeSeries(f"{name}, {end}put", at_ns, values, color))
    return found


def _order(
    shares: Mapping[str, Mapping[str, float]],
    after_ns: Mapping[str, int | None],
    taken_per_s: float | None,
    workload: WorkloadConfig,
) -> list[str]:
    """The order in which the tasks began to wait, and the bottleneck."""
    *upstream, sink = shares or ("source", "sink")
    source, last_relay = upstream[0], upstream[-1]
    busy, waits = (shares.get(x, {}) for x in (sink, source))
    is_shown = (
        waits.get("back_pressured", 0.0) >= WAITING_SHARE and busy.get("busy", 0.0) >= BUSY_SHARE
    )
    first_ns, last_ns = after_ns.get(last_relay), after_ns.get(source)
    if not is_shown or first_ns is None or last_ns is None or first_ns > last_ns:
        return [
            f"{UNEXPECTED}: {sink} should be busy, and {last_relay}, next to it, back-pressured"
            f" before {source} is. Try a quiet machine or a higher --rate: a sample that comes late"
            " hides the order."
        ]
    instants = [after_ns[name] for name in reversed(upstream)]
    known = [each for each in instants if each is not None]
    is_in_order = len(known) == len(instants) and known == sorted(known)
    end = (
        "the buffers next to the sink fill up first"
        if is_in_order
        else "tasks in between are out of order, which samples that come late cause"
    )
    return [
        f"{last_relay} was back-pressured {human_duration(first_ns)} after the sink slowed down,"
        f" {source} after {human_duration(last_ns)}: {end}.",
        f"The sink consumes {human_count(taken_per_s)} of {asked_rate(workload)}.",
        f"{source} was back-pressured {human_share(waits['back_pressured'])} of the time, and"
        f" {sink} busy {human_share(busy['busy'])}: the bottleneck is the busy task directly"
        " downstream of the back-pressured ones.",
    ]


FASTER, LESS = 0.5, 0.5
"""Largest duration of an unaligned checkpoint as a share of an aligned one's, and largest share of
the data in flight compared with no debloating, at which the effect has been shown."""

MISSED = 1.2
"""Multiple of the target above which it is missed."""

CONSUMER_SLOWER = 2
"""Time of the other demos' consumer for a record, as a multiple of the producer's."""

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
    series = [
        Series(each.name, [None if x is None else each.read(x) for x in found.values()], color)
        for each, color in zip(_CHECKPOINTS[2:4], COLORS, strict=False)
    ]
    slow_ns, fast_ns = series[0].values
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
    curve = in_flight(runs, "Between the tasks", [runs[0].measured_span("slow consumer")])
    return DemoShown(
        "unaligned",
        "A barrier overtakes",
        [
            f"{workload.producers} producers write {asked_rate(workload)} each to one consumer that"
            " cannot keep up",
            "each producer has used up its quota of buffers when a checkpoint begins",
        ],
        figure_table(
            "checkpoints",
            _CHECKPOINTS,
            [(name, [each] if each is not None else []) for name, each in found.items()],
            notes=notes,
        ),
        lesson,
        runs,
        {"runs": {name: None if each is None else asdict(each) for name, each in found.items()}},
        six_places(runs, curve),
        [
            Curves("Time of a checkpoint", list(found), series, "ns", is_bars=True,
                   by="alignment", y="time")
        ],
        channels=[(f"producer {number}", "consumer") for number in range(workload.producers)],
    )  # fmt: skip


_DEBLOATING: Sequence[Figure[Mapping[str, Any]]] = (
    replace(FIGURES["throughput_records_per_s"], read=itemgetter("taken_records_per_s")),
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
    curves = [replace(in_flight(runs, "In flight", spans, end_ns), limits=limits)]
    for gate in gates:
        known = [each for each in gate.samples if each.at_ns < end_ns]
        sizes = [each.buffer_size_bytes for each in known]
        series = [TimeSeries(gate.name, [each.at_ns for each in known], sizes, "green")]
        meaning = "What the consumer asks its producers for."
        curves.append(OverTime("Buffer size", series, "bytes", meaning, spans, y="bytes"))
    needed = human_duration(CONSUMER_SLOWER * 1e9 / workload.rate_per_s)
    return DemoShown(
        "debloating",
        "Buffers as large as needed",
        [
            f"{asked_rate(workload)} to a consumer that needs {needed} for each, so that it cannot"
            " keep up",
            f"buffer debloating off, and on with a target of {target}",
        ],
        figure_table("debloating", _DEBLOATING, [("off", [off]), ("on", [on])]),
        _lesson_of_sizes(off, on, target_ns, runs[1].result.config.get(THRESHOLD)),
        runs,
        {"runs": {"off": off, "on": on}},
        [*six_places(runs, curves[0]), *curves[1:]],
        curves=curves,
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
    off: Mapping[str, Any], on: Mapping[str, Any], target_ns: int | None, threshold: str | None
) -> list[str]:
    """What debloating saves, and whether its target is met."""
    before, after = off["in_flight_bytes"], on["in_flight_bytes"]
    needed_ns, needs_ns = off["in_flight_ns"], on["in_flight_ns"]
    target = MISSING if target_ns is None else format_duration_ns(target_ns, separator=" ")
    if target_ns and needed_ns and target_ns > LESS * needed_ns:
        return [
            f"{UNEXPECTED}: nothing to shrink. The target ({target}) is not far below the"
            f" {human_duration(needed_ns)} of work that are in flight without debloating."
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
    is_missed = bool(target_ns and needs_ns and needs_ns > MISSED * target_ns)
    lines = [
        f"With debloating {human_bytes(after)} ({human_duration(needs_ns)} of work) are in flight"
        f" instead of {human_bytes(before)} ({human_duration(needed_ns)}){checkpoints}; the target"
        f" of {target} is {'missed' if is_missed else 'met'}.",
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
