"""back-pressure: the last task of a chain becomes slow, and the buffers before it fill up, one pool
after another, until the source waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from flinknet.config import WorkloadConfig
from flinknet.results import DISTURBED, DISTURBED_BY_STRANGERS
from flinknet.results.figures import Figure
from flinknet.units import human_count, human_duration, human_share

from ..bench import task_bars
from ..charts import Color, OverTime, Places, PlacesRun, PlacesStep, TimeSeries
from ..page_parts import figure_table
from .shown import UNEXPECTED, DemoRun, DemoShown, asked_rate, doubts_of, over_time_document

OFTEN = 0.3
"""Share of the time between two samples; above it, a task counts as waiting from then on."""

SLOWER = 4
"""Time of the sink of back-pressure for a record, as a multiple of the source's."""

BUSY, WAITING = 0.8, 0.2
"""Least shares of time (the sink busy, the source waiting) at which the effect has been shown."""

_PARTS = ("busy", "back_pressured", "idle")
_TASKS: Sequence[Figure[Mapping[str, Any]]] = (
    Figure("", "busy", lambda row: row["busy"], "share"),
    Figure("", "back-pressured", lambda row: row["back_pressured"], "share"),
    Figure("", "idle", lambda row: row["idle"], "share"),
    Figure("", "back-pressured after", lambda row: row["after_ns"], "ns", "",
           "Since the sink slowed down."),
)  # fmt: skip


def back_pressure(runs: Sequence[DemoRun], workload: WorkloadConfig) -> DemoShown:
    """Make the output from the only run, that of the chain."""
    (run,) = runs
    metrics = run.result.metrics
    tasks = metrics.tasks if metrics is not None else {}
    names = list(tasks)
    shares = {
        name: {
            part: float(values[f"{metric}TimeMsPerSecond"]) / 1000
            for part, metric in zip(_PARTS, ("busy", "backPressured", "idle"), strict=True)
        }
        for name, values in tasks.items()
    }
    waiting = [_waiting(run, name) for name in names[:-1]]
    after_ns = {each.name: _waits_after_ns(each, run.measured_from_ns) for each in waiting}
    table = figure_table(
        "task",
        _TASKS,
        [(name, [{**shares[name], "after_ns": after_ns.get(name)}]) for name in names],
        notes=[
            "source 0 is subtask 0 of the source, relay 1.0 subtask 0 of the first stage after it."
            " back-pressured after: since the sink slowed down,"
            f" {human_duration(run.measured_from_ns)} after the start of the run. A task that is"
            " neither busy nor back-pressured is idle, also between two buffers.",
        ],
    )
    spans = [run.measured_span("sink slowed down")]
    waits = OverTime(
        "Back-pressured",
        waiting,
        "share",
        "Share of the time in which a task waited for a free output buffer.",
        spans,
        in_rows=True,
    )
    pools = OverTime(
        "Buffers in use",
        _pools(run, names),
        "share",
        "Of each pool. An output may write no more than max-buffers-per-channel to a channel, even"
        " if its pool has more.",
        spans,
        in_rows=True,
    )
    taken = run.result.channels[-1].taken_records_per_s if run.result.channels else None
    apart_ns = 1e9 / workload.rate_per_s
    return DemoShown(
        "back-pressure",
        "Pressure travels upstream",
        [
            f"{' → '.join(names)}, {asked_rate(workload)}",
            f"after the warm-up the sink needs {human_duration(SLOWER * apart_ns)} for each record,"
            f" and one arrives every {human_duration(apart_ns)}",
        ],
        table,
        _filled(run, pools.series, waits),
        _order(shares, after_ns, taken, workload),
        # without CORES_SHARED: the chain has four tasks
        doubts_of(runs, (DISTURBED, DISTURBED_BY_STRANGERS)),
        runs,
        {
            "runs": {"tasks": shares, "waits_after_ns": after_ns, "sink_records_per_s": taken},
            "over_time": over_time_document([waits, pools]),
        },
        [pools, *([task_bars("Share of the time", tasks)] if tasks else [])],
        channels=[(names[-2], names[-1])] if len(names) > 1 else (),
    )


def _filled(run: DemoRun, pools: Sequence[TimeSeries], waits: OverTime) -> list[Places]:
    """The pools from the source to the sink under a slider over time."""
    if not pools:
        return []

    def usage_at(pool: TimeSeries, at_ns: int) -> float:
        known = [x for x, at in zip(pool.values, pool.at_ns, strict=True) if at <= at_ns]
        return (known[-1] if known else 0.0) or 0.0

    def state_at(at_ns: int) -> list[str]:
        since_ns = at_ns - run.measured_from_ns
        if since_ns < 0:
            return ["Before the sink slows down."]
        names = [each.name for each in waits.series if usage_at(each, at_ns) > OFTEN]
        line = f"{human_duration(since_ns)} after the sink slowed down; back-pressured:"
        return [f"{line} {', '.join(names) or 'no task'}."]

    steps = [
        PlacesStep(at_ns, [usage_at(each, at_ns) for each in pools], state_at(at_ns))
        for at_ns in sorted({at for each in pools for at in each.at_ns})
    ]
    names = [each.name for each in pools]
    shown = [PlacesRun("Pools of buffers", [1.0] * len(pools), steps)]
    return [Places(names, [""] * len(pools), shown, waits, ends=("source", "sink"), unit="share")]


def _waiting(run: DemoRun, name: str) -> TimeSeries:
    """The share of the time between samples in which a task was back-pressured, in the measured
    part. Computed by differences, as metrics give it since the start of this part.
    """
    waited: list[tuple[int, float]] = [(run.measured_from_ns, 0.0)]
    before = None
    for sample in run.samples:
        task = next((each for each in sample.tasks if each.name == name), None)
        is_new = task is not None and task != before  # else its TaskManager has not reported anew
        if is_new and task is not None and sample.elapsed_ns > run.measured_from_ns:
            elapsed_ns = sample.elapsed_ns - run.measured_from_ns
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
    first = next((at for at, share in pairs if share is not None and share > OFTEN), None)
    return None if first is None else first - from_ns


def _pools(run: DemoRun, tasks: Sequence[str]) -> list[TimeSeries]:
    """Usage of each pool over time, from the source to the sink."""
    ends: Sequence[tuple[str, str, Color]] = (
        ("input", "in_pool_usage", "blue"),
        ("output", "out_pool_usage", "orange"),
    )
    found: list[TimeSeries] = []
    for name in tasks:
        for end, field, color in ends:
            known = [
                (sample.elapsed_ns, value)
                for sample in run.samples
                for task in sample.tasks
                if task.name == name and (value := getattr(task, field)) is not None
            ]
            if known:
                at_ns, values = zip(*known, strict=True)
                found.append(TimeSeries(f"{name}, {end}", at_ns, values, color))
    return found


def _order(
    shares: Mapping[str, Mapping[str, float]],
    after_ns: Mapping[str, int | None],
    taken_per_s: float | None,
    workload: WorkloadConfig,
) -> list[str]:
    """The order in which the tasks began to wait, and the bottleneck."""
    names = list(shares)
    if not names or shares[names[-1]]["busy"] < BUSY or shares[names[0]][_PARTS[1]] < WAITING:
        return [
            f"{UNEXPECTED}: the sink should be busy and the source back-pressured. Try a quiet"
            " machine or a higher --rate."
        ]
    source, last_relay, sink = names[0], names[-2], names[-1]
    first_ns, last_ns = after_ns[last_relay], after_ns[source]
    if first_ns is None or last_ns is None or first_ns > last_ns:
        return [
            f"{UNEXPECTED}: {last_relay}, next to the sink, should wait before {source} does. Try a"
            " quiet machine: a sample that comes late hides the order."
        ]
    upstream = [after_ns[name] for name in reversed(names[:-1])]
    is_in_order = all(
        near is not None and far is not None and near <= far for near, far in pairwise(upstream)
    )
    end = (
        "the buffers next to the sink fill up first"
        if is_in_order
        else "tasks in between are out of order, which samples that come late cause"
    )
    return [
        f"{last_relay} was back-pressured {human_duration(first_ns)} after the sink slowed down,"
        f" {source} after {human_duration(last_ns)}: {end}.",
        f"The sink consumes {human_count(taken_per_s)} of {asked_rate(workload)}.",
        f"{source} was back-pressured {human_share(shares[source][_PARTS[1]])} of the time, and"
        f" {sink} busy {human_share(shares[sink]['busy'])}: the bottleneck is the busy task"
        " directly downstream of the back-pressured ones.",
    ]
