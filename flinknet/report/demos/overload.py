"""Demos whose consumer cannot keep up. back-pressure: the buffers of a chain fill up, one pool
after another, until the source waits. unaligned: a checkpoint barrier waits for the data before it,
or overtakes that data. debloating: buffers shrink until consuming the data in flight takes the
target time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from operator import attrgetter
from statistics import median
from typing import Any

from flinknet import units
from flinknet.config import WorkloadConfig
from flinknet.results import DISTURBED, DISTURBED_BY_STRANGERS
from flinknet.results.figures import BACK_PRESSURED

from .. import charts
from ..bench import task_bars, task_shares
from ..page_parts import Part
from ..places import places_of, total_over_time
from . import (
    COLORS,
    NOT_SHOWN,
    SHOWN_EFFECT,
    DemoRun,
    DemoShown,
    asked_rate,
    columns_of,
    consumer_time,
    texts,
)

BACK_PRESSURE, UNALIGNED, DEBLOATING = "back-pressure", "unaligned", "debloating"

OFTEN = 0.3
"""Share of the time between two samples; above it, a task counts as waiting from then on."""

BUSY_SHARE, WAITING_SHARE = 0.8, 0.2
"""Least shares of time (the sink busy, the source waiting) at which the effect has been shown."""


def back_pressure(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """Make the output from the only run, that of the chain."""
    (run,) = runs
    shares = task_shares(run.result)
    names = list(shares)

    def over_time(
        title: str, series: Sequence[charts.TimeSeries], of: str, meaning: str
    ) -> charts.OverTime:
        spans, y = [run.measured_span("sink slowed down")], f"share of the {of}"
        return charts.OverTime(title, series, "share", meaning, spans, in_rows=True, y=y)

    waiting = [_waiting(run, name) for name in names[:-1]]
    waits = over_time("Back-pressured", waiting, "time", BACK_PRESSURED.meaning)
    meaning = texts(BACK_PRESSURE, "pools")[0]
    pools = over_time("Buffers in use", _pools(run, names), "pool", meaning)
    begin_ns = run.measured_from_ns
    pairs = {each.name: zip(each.at_ns, each.values, strict=True) for each in waits.series}
    after_ns = {
        name: next((at - begin_ns for at, share in own if (share or 0.0) > OFTEN), None)
        for name, own in pairs.items()
    }
    taken = run.result.channels[-1].taken_records_per_s if run.result.channels else None
    apart_ns = 1e9 / workload.rate_per_s
    *upstream, sink = names or ("source", "sink")
    source, last_relay = upstream[0], upstream[-1]
    busy = shares.get(sink, {}).get("busy", 0.0)
    pressed = shares.get(source, {}).get("back_pressured", 0.0)
    first_ns, later_ns = after_ns.get(last_relay), after_ns.get(source)
    is_shown = first_ns is not None and later_ns is not None and first_ns <= later_ns
    is_shown = is_shown and pressed >= WAITING_SHARE and busy >= BUSY_SHARE
    instants = [after_ns.get(name) for name in reversed(upstream)]
    known = [each for each in instants if each is not None]
    is_in_order = len(known) == len(instants) and known == sorted(known)
    facts = {
        **{"chain": " → ".join(names), "rate": asked_rate(workload), "taken": taken},
        **{"needed_ns": consumer_time(BACK_PRESSURE) * apart_ns, "apart_ns": apart_ns},
        **{"source": source, "last": last_relay, "sink": sink, "busy": busy, "waits": pressed},
        **{"begin_ns": begin_ns, "first_ns": first_ns, "later_ns": later_ns},
        "order": texts(BACK_PRESSURE, "orders")[is_in_order],
    }
    return DemoShown(
        BACK_PRESSURE,
        runs,
        [(name, [{**shares[name], "after_ns": after_ns.get(name)}]) for name in names],
        {"runs": {"tasks": shares, "waits_after_ns": after_ns, "sink_records_per_s": taken}},
        facts,
        SHOWN_EFFECT if is_shown else NOT_SHOWN,
        charts=_filled(run, pools.series, waits),
        pictures=[pools, *task_bars(run.result)],
        curves=[waits, pools],
        # without CORES_SHARED: the chain has four tasks
        codes=(DISTURBED, DISTURBED_BY_STRANGERS),
        channels=[(names[-2], names[-1])] if len(names) > 1 else (),
    )


def _filled(
    run: DemoRun, pools: Sequence[charts.TimeSeries], waits: charts.OverTime
) -> list[charts.Places]:
    def at(series: charts.TimeSeries, at_ns: int) -> float:
        known = [x for x, at in zip(series.values, series.at_ns, strict=True) if at <= at_ns]
        return (known[-1] if known else 0.0) or 0.0

    steps = []
    for at_ns in sorted({at_ns for each in pools for at_ns in each.at_ns}):
        since_ns = at_ns - run.measured_from_ns
        waiting = ", ".join(each.name for each in waits.series if at(each, at_ns) > OFTEN)
        line = f"{units.human_duration(since_ns)} after the sink slowed down; back-pressured:"
        line = f"{line} {waiting or 'no task'}." if since_ns >= 0 else "Before the sink slows down."
        steps.append(charts.PlacesStep(at_ns, [at(each, at_ns) for each in pools], [line]))
    names, blank = [each.name for each in pools], [""] * len(pools)
    shown = [charts.PlacesRun("Pools of buffers", [1.0] * len(pools), steps)]
    places = charts.Places(names, blank, shown, waits, ends=("source", "sink"), unit="share")
    return [places] if pools else []


def _waiting(run: DemoRun, name: str) -> charts.TimeSeries:
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
    return charts.TimeSeries(name, [at_ns for at_ns, _ in waited], [0.0, *shares], "purple")


def _pools(run: DemoRun, tasks: Sequence[str]) -> list[charts.TimeSeries]:
    ends: Mapping[str, charts.Color] = {"in": "blue", "out": "orange"}
    found: list[charts.TimeSeries] = []
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
                found.append(charts.TimeSeries(f"{name}, {end}put", at_ns, values, color))
    return found


FASTER, LESS = 0.5, 0.5
"""Largest duration of an unaligned checkpoint as a share of an aligned one's, and largest share of
the data in flight compared with no debloating, at which the effect has been shown."""

MISSED = 1.2
"""Multiple of the target above which it is missed."""

THRESHOLD = "taskmanager.network.memory.buffer-debloat.threshold-percentages"
THRESHOLD_PERCENT = 25


def _in_flight(
    runs: Sequence[DemoRun], title: str, spans: Sequence[charts.Span], to_ns: float = math.inf
) -> charts.OverTime:
    drawn = [*zip(runs, COLORS, strict=False)]
    lanes = [charts.Lane(x.name, color, x.result.checkpoint_spans_ns) for x, color in drawn]
    shown = [each for each in lanes if each.spans]
    return charts.OverTime(
        title,
        [total_over_time(x.name, x.result.buffering, color, to_ns) for x, color in drawn],
        "bytes",
        "Bytes in the six places between producer and consumer. Click to go to an instant.",
        spans,
        y="bytes",
        lanes=shown,
        in_lanes="checkpoints, from the trigger to the last acknowledgement" if shown else "",
    )


def _six_places(name: str, runs: Sequence[DemoRun], curve: charts.OverTime) -> list[Part]:
    own = {each.name: each.result for each in runs}
    places = places_of(own, curve, notes=texts(name, "places"))
    return [places] if places.runs else []


def unaligned(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """Make the output from two runs, aligned and unaligned."""
    found = {each.name: each.result.measured.checkpoints for each in runs}
    aligned, overtaking = found.values()
    has_fewer = aligned and overtaking and aligned.triggered < overtaking.triggered
    series = [
        charts.Series(each.name, [*map(each.read, found.values())], color)
        for each, color in zip(columns_of(UNALIGNED)[2:4], COLORS, strict=False)
    ]
    slow_ns, fast_ns = series[0].values
    is_shown = bool(slow_ns) and fast_ns is not None and fast_ns <= FASTER * (slow_ns or 0.0)
    curve = _in_flight(runs, "Between the tasks", [runs[0].measured_span("slow consumer")])
    times = charts.Curves(
        "Time of a checkpoint", list(found), series, "ns", is_bars=True, by="alignment", y="time"
    )
    rate = asked_rate(workload)
    return DemoShown(
        UNALIGNED,
        runs,
        [(name, [each] if each is not None else []) for name, each in found.items()],
        {"runs": {name: None if each is None else asdict(each) for name, each in found.items()}},
        {"producers": workload.producers, "rate": rate, "off": aligned, "on": overtaking},
        SHOWN_EFFECT if is_shown else NOT_SHOWN,
        notes=["fewer"] if has_fewer else [],
        charts=_six_places(UNALIGNED, runs, curve),
        pictures=[times],
        channels=[(f"producer {number}", "consumer") for number in range(workload.producers)],
    )


def debloating(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """Make the output from two runs, without and with debloating."""
    off, on = (_figures_of(each, workload) for each in runs)
    gates = [gate for gate in runs[1].result.debloating if gate.samples]
    target_ns = gates[0].target_ns if gates else None
    target = units.MISSING
    if target_ns is not None:
        target = units.format_duration_ns(target_ns, separator=" ")
    spans, end_ns = [runs[0].measured_span("slow consumer")], runs[1].measured_to_ns
    limits = []
    if target_ns and on["in_flight_bytes"] and on["in_flight_ns"]:
        allowed = on["in_flight_bytes"] / on["in_flight_ns"] * target_ns
        limits.append(charts.Limit(allowed, f"target: {target} of work"))
    curves = [replace(_in_flight(runs, "In flight", spans, end_ns), limits=limits)]
    for gate in gates:
        known = [each for each in gate.samples if each.at_ns < end_ns]
        sizes = [each.buffer_size_bytes for each in known]
        series = [charts.TimeSeries(gate.name, [each.at_ns for each in known], sizes, "green")]
        meaning = "What the consumer asks its producers for."
        curve = charts.OverTime("Buffer size", series, "bytes", meaning, spans, y="bytes")
        curves.append(replace(curve, limits=[charts.Limit(off["buffer_size_bytes"], "off")]))
    verdict, is_missed = _verdict(off, on, target_ns)
    both_ns = [each["checkpoint_duration_mean_ns"] for each in (on, off)]
    checkpoints = " instead of ".join(map(units.human_duration, both_ns))
    facts = {
        **{"rate": asked_rate(workload), "target": target, "off": off, "on": on},
        "needed_ns": consumer_time(DEBLOATING) * 1e9 / workload.rate_per_s,
        "checkpoints": f", checkpoints {checkpoints}" if all(both_ns) else "",
        "met": "missed" if is_missed else "met",
        "threshold": runs[1].result.config.get(THRESHOLD) or THRESHOLD_PERCENT,
    }
    return DemoShown(
        DEBLOATING,
        runs,
        [("off", [off]), ("on", [on])],
        {"runs": {"off": off, "on": on}},
        facts,
        verdict,
        ["missed"] if is_missed and verdict == SHOWN_EFFECT else [],
        charts=[*_six_places(DEBLOATING, runs, curves[0]), *curves[1:]],
        curves=curves,
    )


def _verdict(
    off: Mapping[str, Any], on: Mapping[str, Any], target_ns: int | None
) -> tuple[str, bool]:
    before, after = off["in_flight_bytes"], on["in_flight_bytes"]
    needed_ns, needs_ns = off["in_flight_ns"], on["in_flight_ns"]
    is_missed = bool(target_ns and needs_ns and needs_ns > MISSED * target_ns)
    if target_ns and needed_ns and target_ns > LESS * needed_ns:
        return "small", is_missed
    is_shown = bool(before) and after is not None and after <= LESS * before
    return SHOWN_EFFECT if is_shown else NOT_SHOWN, is_missed


def _figures_of(run: DemoRun, workload: WorkloadConfig) -> dict[str, Any]:
    """Figures of one run: what is in flight and the time that the consumer needs for it, medians of
    the second half; sizes of buffers."""
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
    checkpoints = result.measured.checkpoints
    return {
        "taken_records_per_s": taken,
        "in_flight_bytes": in_flight,
        "in_flight_ns": in_flight / per_s * 1e9 if in_flight is not None and per_s else None,
        "buffer_size_first_bytes": sizes[0],
        "buffer_size_bytes": sizes[-1],
        "checkpoint_duration_mean_ns": checkpoints and checkpoints.duration_ns.mean,
    }
