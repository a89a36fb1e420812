"""The ledger of a recorded job, from its own events, or from what a tap or capture saw and Flink
reported: where the time of each task and channel went."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from flinknet.arrays import IntArray
from flinknet.core.probe import TracePoint
from flinknet.predict.exchange import is_blocking, is_max_rate, recorded_network
from flinknet.predict.fit.queued import BUSY_TIME
from flinknet.results import ledger as cells
from flinknet.results.bottleneck import HELD_FROM, STALLED_FROM
from flinknet.results.validity import GIVEN_UP, RATE_NOT_REACHED
from flinknet.trace.job_names import named_edges
from flinknet.trace.manifest import CAPTURE
from flinknet.trace.metrics import number_of
from flinknet.trace.recordings import checkpoints_within
from flinknet.units import NS_PER_MS

from .edges import EdgeOrder, Pairs, pair_keys, produced_edge
from .observe.checkpoints import BARRIER_TYPES, COMPLETED, FAILED, BarrierRow, begun_ns
from .observe.flink_metrics import records_in, series_of, task_shares, vertex_metrics
from .observe.measured import ObservedRun
from .observe.regimes import LATE_TRANSITS, REGIMES, TRANSITS, WAITS, WORKING
from .read import RecordedRun, result_of, stated_warnings
from .spark.frames import values_at

CHECKPOINTS_MIN = 3
BLOCKED_NS_MIN = 10_000_000_000
"""Barriers of fewer checkpoints show nothing, unless one of them blocks a channel for so long: the
first checkpoints of a job wait for tasks that are still being deployed."""


def ledger_of(edges: Sequence[ObservedRun]) -> cells.Ledger:
    if edges[0].run.counted_at == TracePoint.SENT:
        return _captured(edges)
    return _own(edges)


# What a run of flinknet's own recorded


def _own(edges: Sequence[ObservedRun]) -> cells.Ledger:
    manifest = edges[0].run.manifest
    ends = [each.run.ends for each in edges]
    times = [_own_edge(each) for each in edges]
    amounts = [_Amounts(each) for each in edges]
    reported = task_shares(edges[0].run)
    vertices = {}
    named = {each.source: (each.source_name, each.source_tasks) for each in ends}
    named |= {each.target: (each.target_name, each.target_tasks) for each in ends}
    for vertex, (name, known) in named.items():
        into = [place for place, each in enumerate(ends) if each.target == vertex]
        out = [place for place, each in enumerate(ends) if each.source == vertex]
        consumers = {each.consumer: each for place in into for each in times[place].inputs}
        subtasks = set(consumers).union(*(times[place].sent for place in out))
        written = {ends[place].index for place in out}
        places = {x.producer: x.producer_process for x in manifest.channels if x.edge in written}
        waits = [amounts[place].of_task(WAITS, producers=True) for place in out]
        works = [amounts[place].of_task(WORKING, producers=False) for place in into]
        tasks = []
        for subtask in sorted(subtasks):
            waited = min(sum(each.get(subtask, 0.0) for each in waits), 1.0)
            worked = max((each.get(subtask, 0.0) for each in works), default=0.0)
            own = consumers.get(subtask)
            task = (
                known[subtask]
                if subtask < len(known)
                else cells.task_of(name, subtask, len(subtasks))
            )
            busy, idle, pressed = reported.get(task, [None] * 3)
            tasks.append(
                cells.TaskTime(
                    task,
                    places.get(subtask) if own is None else own.task_manager,
                    working=max(worked - waited, 0.0) if into and busy is None else busy,
                    waits_for_input=1 - worked if into and idle is None else idle,
                    waits_for_output=waited if out and pressed is None else pressed,
                    held_by_barrier=None if own is None else own.most[cells.BARRIER],
                    stood_still=None if own is None else _stood_still(times, own.task_manager),
                    records=None if own is None else float(own.records),
                )
            )
        vertices[vertex] = cells.VertexTime(name, tasks)
    codes = {str(each.get("code")) for each in stated_warnings(edges[0].run)}
    found = cells.Ledger(
        vertices,
        times,
        hosts=_hosts(edges[0]),
        is_unpaced=is_max_rate(manifest),
        is_behind=not codes.isdisjoint((GIVEN_UP, RATE_NOT_REACHED)),
    )
    return in_order(found)


def in_order(ledger: cells.Ledger) -> cells.Ledger:
    """The ledger of a known job, with the edges behind each edge, unrecorded ones, too."""
    reached = [(each.source, *ledger.before(each.source)) for each in ledger.edges]
    behind = [
        each.behind | {place for place, own in enumerate(reached) if each.target in own}
        for each in ledger.edges
    ]
    edges = [replace(each, behind=own) for each, own in zip(ledger.edges, behind, strict=True)]
    return replace(ledger, edges=edges)


def _own_edge(observed: ObservedRun) -> cells.EdgeTime:
    rows, pairs = observed.rows, Pairs(observed.run)
    spent = {name: pairs.summed(rows.regimes.of(pairs.channel, name)) for name in REGIMES}
    whole = np.maximum(sum(spent.values()), 1)
    shares = {name: own / whole for name, own in spent.items()}
    amounts = _Amounts(observed)
    passed = amounts.of_pairs(TRANSITS, pairs) * ~pairs.is_local
    late = amounts.of_pairs(LATE_TRANSITS, pairs) / np.maximum(passed, 1)
    # Where other processes have most of the processors, buffers are late wherever they go.
    used = _processors(observed)
    others, cores = (number_of(used.get(each)) or 0.0 for each in ("outside_share", "cores"))
    shares[cells.LATE] = np.where(passed > 0, late, 0.0) * (not others >= HELD_FROM * cores > 0)
    records = pairs.summed(rows.consumed.of(pairs.channel, "count"))
    written = None
    if is_blocking(observed.run.manifest):
        starts_ns = [row.from_ns for row in rows.throughput if row.buffers]
        written = min(min(starts_ns, default=math.inf) / observed.measured.duration_ns, 1.0)
    return replace(
        pairs.edge(records, shares),
        has_barriers=any(row.data_type in BARRIER_TYPES for row in rows.messages),
        flushing=float(shares["waiting_for_flush"].mean()),
        written=written,
        credit=observed.credit,
    )


def _stood_still(edges: Sequence[cells.EdgeTime], place: str) -> float:
    """Share of the time in which the oldest record lay before a TaskManager that now and then did
    not read; 0 where no more buffers were late there than at others, or there are no others."""
    inputs = [each for edge in edges for each in edge.inputs]
    late = max(each.most[cells.LATE] for each in inputs if each.task_manager == place)
    elsewhere = [each.most[cells.LATE] for each in inputs if each.task_manager != place]
    if elsewhere and max(STALLED_FROM, 2 * median(elsewhere)) <= late < HELD_FROM:
        return max(each.most[cells.SOCKET] for each in inputs if each.task_manager == place)
    return 0.0


class _Amounts:
    """Shares and numbers of an edge's TaskTimeRows."""

    def __init__(self, observed: ObservedRun) -> None:
        self._rows = observed.rows.task_times
        self._whole_ns = max(observed.run.duration_ns, 1)

    def of_task(self, what: str, *, producers: bool) -> dict[int, float]:
        own = self._rows.where("what", what)
        tasks = own["producer" if producers else "consumer"].tolist()
        return dict(zip(tasks, (own["amount"] / self._whole_ns).tolist(), strict=True))

    def of_pairs(self, what: str, pairs: Pairs) -> IntArray:
        own = self._rows.where("what", what)
        return values_at(pairs.keys, pair_keys(own["producer"], own["consumer"]), own["amount"])


def _processors(observed: ObservedRun) -> Mapping[str, Any]:
    found = result_of(observed.run).get("processors")
    return found if isinstance(found, Mapping) else {}


def _hosts(observed: ObservedRun) -> dict[str, cells.HostTime]:
    """Event loops of the TaskManagers, as far as the run reported them in its result."""
    names = ("busy_share", "lacked_share", "stood_still_ns")
    stated = map(_processors(observed).get, names)
    shares = [own if isinstance(own, Mapping) else {} for own in stated]
    found = {}
    for name in {**shares[0], **shares[1]}:
        busy, lacked, stood_ns = (number_of(each.get(name)) or 0.0 for each in shares)
        found[name] = cells.HostTime(
            busy, lacked, min(stood_ns / max(observed.run.duration_ns, 1), 1.0)
        )
    return found


# What was recorded between TaskManagers


def _captured(edges: Sequence[ObservedRun]) -> cells.Ledger:
    run = edges[0].run
    order = EdgeOrder([produced_edge(each.run.manifest, each.rows.barriers) for each in edges])
    described, links = _described(run)
    times: list[cells.EdgeTime] = []
    for place, each in enumerate(edges):
        behind = {other: order.is_behind(other, place) for other in range(len(edges))}
        times.append(
            replace(
                _captured_edge(each),
                behind=frozenset(other for other, sure in behind.items() if sure),
                unsure=frozenset(o for o, sure in behind.items() if sure is None and o != place),
            )
        )
    recorded = {each.name for each in times}
    vertices = {each.target: _consumers(each) for each in times}
    for index, vertex in described.items():
        vertices[index] = _reported(vertex, [each for each in times if each.target == index], run)
    times = [_with_names(each, vertices) for each in times]
    known = [each.values.get(BUSY_TIME) for each in series_of(run)]
    is_reported = any(each is not None and not np.isnan(each).all() for each in known)
    unseen = [each for each in links if each.name not in recorded]
    by = cells.SeenBy.FLINK if is_reported else cells.SeenBy.TAP
    found = cells.Ledger(vertices, [*times, *unseen], _checkpoints(run), tasks_by=by)
    return in_order(found) if described else found


def _described(run: RecordedRun) -> tuple[dict[int, Mapping[str, Any]], list[cells.EdgeTime]]:
    """The vertices and the edges of the job of a run; empty where they have no names."""
    named = named_edges(run.manifest)
    if not named:
        return {}, []
    vertices = {each["index"]: each for each in run.manifest.scenario["job"]["vertices"]}
    recorded = {named[each.edge].source for each in run.manifest.channels if each.edge in named}
    jobs = {vertices[each].get("job") for each in recorded or vertices}
    own = {index: each for index, each in vertices.items() if each.get("job") in jobs}
    links = [
        cells.EdgeTime(each.source, each.target, each.name, each.source_name)
        for each in named.values()
        if each.source in own
    ]
    return own, links


def _captured_edge(observed: ObservedRun) -> cells.EdgeTime:
    """The channels of an edge; that of a restarted task goes on as that of its next attempt."""
    run, rows, pairs = observed.run, observed.rows, Pairs(observed.run)
    whole_ns = max(run.duration_ns, 1)
    blocked_ns = pairs.summed(rows.blocked.of(pairs.channel, "ns"))
    blocked = np.minimum(blocked_ns / whole_ns, typical_ns(rows.barriers, whole_ns) / whole_ns)
    starved_ns = pairs.summed(rows.credit_starved.of(pairs.channel, "ns"))
    shares = {
        cells.BARRIER: blocked,
        cells.CREDIT: np.minimum(
            starved_ns / whole_ns, 1 - blocked
        ),  # behind a barrier is no credit
        cells.UNANSWERED: pairs.summed(rows.unanswered.of(pairs.channel, "ns")) / whole_ns,
    }
    if recorded_network(run.manifest).exclusive_buffers:
        without_ns = pairs.summed(rows.without_credit.of(pairs.channel, "ns"))
        shares[cells.WITHOUT_CREDIT] = np.minimum(without_ns / whole_ns, 1.0)
    is_answered = run.manifest.origin != CAPTURE or observed.measured.credits.messages > 0
    if not is_answered:  # as where the capture has one direction
        shares = {name: 0.0 * share for name, share in shares.items()}
    records = pairs.summed(rows.throughput_by_channel.of(pairs.channel, "records"))
    return replace(
        pairs.edge(records, shares),
        has_barriers=len(begun_ns(rows.barriers)) >= CHECKPOINTS_MIN
        or int(blocked_ns.max(initial=0)) >= BLOCKED_NS_MIN,
        is_credit_known=run.is_credit_known and is_answered,
        credit=observed.credit,
    )


def typical_ns(barriers: Iterable[BarrierRow], whole_ns: int) -> int:
    """Longest time in which barriers block a channel, without the checkpoint that aligns longest:
    one alone may have waited for tasks that were not ready yet."""
    longest_ns: dict[int, int] = {}
    for each in barriers:
        if each.read_ns >= 0 and each.sent_ns >= 0:
            took_ns = each.read_ns - each.sent_ns
            longest_ns[each.checkpoint] = max(longest_ns.get(each.checkpoint, 0), took_ns)
    if len(longest_ns) < CHECKPOINTS_MIN:
        return whole_ns
    return min(sum(longest_ns.values()) - max(longest_ns.values()), whole_ns)


def _consumers(edge: cells.EdgeTime) -> cells.VertexTime:
    count = max([len(edge.inputs), *(each.consumer + 1 for each in edge.inputs)])
    tasks = [cells.TaskTime(cells.task_of("consumers", subtask, count)) for subtask in range(count)]
    return cells.VertexTime("consumers", _with_channels(tasks, [edge]))


def _reported(
    vertex: Mapping[str, Any], edges: Sequence[cells.EdgeTime], run: RecordedRun
) -> cells.VertexTime:
    series = series_of(run)
    found, records = vertex_metrics(vertex, series), records_in(vertex, series)
    tasks = [
        cells.TaskTime(
            each.name,
            each.task_manager,
            working=each.busy,
            waits_for_input=each.idle,
            waits_for_output=each.back_pressured,
            records=records.get(each.name),
            queued_buffers=each.input_queue_buffers,
        )
        for each in found.tasks
    ]
    return cells.VertexTime(found.name, _with_channels(tasks, edges))


def _with_channels(
    tasks: Sequence[cells.TaskTime], edges: Sequence[cells.EdgeTime]
) -> list[cells.TaskTime]:
    """The subtasks of a vertex, with what the channels to them show."""
    found, inputs = [], dict[int, list[cells.InputTime]]()
    for each in (own for edge in edges for own in edge.inputs):
        inputs.setdefault(each.consumer, []).append(each)
    for subtask, task in enumerate(tasks):
        if own := inputs.get(subtask):
            task = replace(
                task,
                task_manager=task.task_manager or own[0].task_manager,
                held_by_barrier=max(each.most[cells.BARRIER] for each in own),
                stood_still=min(each.most[cells.UNANSWERED] for each in own),
            )
        found.append(task)
    return found


def _with_names(edge: cells.EdgeTime, vertices: Mapping[int, cells.VertexTime]) -> cells.EdgeTime:
    """An edge whose inputs have the names of the TaskManagers, where these are known."""

    def place(vertex: int, subtask: int, otherwise: str) -> str:
        tasks = vertices[vertex].tasks if vertex in vertices else ()
        return (0 <= subtask < len(tasks) and tasks[subtask].task_manager) or otherwise

    inputs = [
        replace(
            each,
            task_manager=place(edge.target, each.consumer, each.task_manager),
            sender=place(edge.source, each.producer, each.sender),
        )
        for each in edge.inputs
    ]
    return replace(edge, inputs=inputs)


def _checkpoints(run: RecordedRun) -> cells.CheckpointCounts:
    """The checkpoints that ended in the part used. One that failed after the timeout has expired:
    Flink's answer has no reason."""
    timeout_ns = recorded_network(run.manifest).checkpoint_timeout_ns
    lines = checkpoints_within(run.place, run.from_ns, run.to_ns)
    ended = {str(each["checkpoint"]): each for each in lines}.values()
    completed = sum(each.get("status") == COMPLETED for each in ended)
    failed = (each.get("duration_ms") for each in ended if each.get("status") == FAILED)
    failed_ms = [number_of(each) or 0.0 for each in failed]
    expired = sum(each * NS_PER_MS >= timeout_ns for each in failed_ms)
    return cells.CheckpointCounts(completed, expired, len(failed_ms) - expired, timeout_ns)
