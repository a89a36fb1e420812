"""Recorded jobs, loaded from a part of a recording: of a run itself, a tap or a capture.

A tap or a capture lacks the channels within TaskManagers, which are filled in, and the subtasks
that consume; edges whose records do not follow those of the edge before them are set aside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from flinknet.trace.job_names import ONLY_EDGE, Edge, edges_in_flow
from flinknet.trace.recordings import RunPlace, open_recordings

from . import local_channels
from .captured import FILLED_IN, METRICS_AROUND_NS, captured_exchange
from .exchange import BEHIND_WORTH_NOTING_NS, QUEUES_START_EMPTY, manifest_of, timed_exchange
from .fit.flusher import pauses_in_words, together
from .fit.window_rows import read_arrivals
from .job import JobEdge, RecordedJob
from .job_run import JobRun
from .outcome import HELD_UP
from .recorded import RecordedChannel, RecordedExchange

FIRST_IS_LOCAL = (
    "its channels are local, which a tap does not see, and no edge next to it shows when its"
    " records came"
)
AS_PASSED_ON = (
    "assumed: the records of the first edge, whose channels are local, came when the task behind it"
    " passed them on"
)
NOT_RECORDED = "the edge before it was not recorded, most likely because its channels are local"

LEAD_IN_NS = 5_000_000_000
"""Longest time before the window in which records fill queues, where writers or consumers are
behind when it begins."""

LATE_BEATS = 2
LATE_NS = 20_000_000
"""Beats of the flusher, and time, by which a record that a task passes on may be off the instant
that follows from its inputs: the error of the assumed instants of a tap, and more."""

FOLLOWING_SHARE = 0.9
"""Share of an exchange's records that have to follow those of the exchange before it."""

RANKS, SHIFTS = 1001, 61
"""Records looked at for that, and shifts at which the first ones are matched."""

FILLED_IN_OFF = 3.0
"""Square roots of the number of records that were filled in, by which such a record may be further
on or back: which of them go to a channel in a burst is chance."""

SATURATED_FROM = 0.95
"""Share of the time that a task is busy from which records queue for it all the time."""

_NOT_FOLLOWING = (
    "its records do not follow its task's input; a window, a timer or a call that waits is between,"
    " so the effect of other settings before the task is unknown"
)
_TASKS_SATURATED = (
    "saturated: {} busy {:.0%} of the time, so how long records queue for them depends on how long"
    " the job runs"
)


def load_exchange(
    place: RunPlace,
    from_ns: int,
    to_ns: int,
    *,
    edge: int | None = None,
    is_filled: bool = False,
    with_arrivals: bool = True,
) -> RecordedExchange:
    """One exchange in a part of a recording. Runs in an executor.

    Args:
        to_ns: end of the part; records count by their intended instant.
        edge: of a recording with several exchanges, which one.
        is_filled: a captured one has the channels within TaskManagers, too, as far as Flink's plan
            and counters show them; all tasks of the edge are there then.
        with_arrivals: whether a timed one is read on when the costs are known; if not, it has no
            channels.
    """
    if manifest_of(place).is_from_between:
        return captured_exchange(place, from_ns, to_ns, edge, is_filled=is_filled)
    return timed_exchange(place, from_ns, to_ns, edge, with_arrivals=with_arrivals)


def load_alone(place: RunPlace, from_ns: int, to_ns: int, edge: int | None = None) -> RecordedJob:
    """A job of one exchange in a part of a recording; arguments as of `load_exchange`. Queues of a
    timed one are as full as they were when the part began."""
    manifest = manifest_of(place)
    known = edges_in_flow(manifest)
    own = next((each for each in known if edge in (None, each.index)), Edge(1, 0, 0, 1, *ONLY_EDGE))
    exchange = load_exchange(place, from_ns, to_ns, edge=edge)
    notes = exchange.notes
    if manifest.is_from_between:
        timeout_ns = exchange.network.buffer_timeout_ns
        notes = (*notes, pauses_in_words(exchange.pauses.values(), timeout_ns))
    elif edge is None:
        is_behind = exchange.delays.queued_at_start_ns > BEHIND_WORTH_NOTING_NS
        if QUEUES_START_EMPTY in notes or is_behind:
            exchange = _with_lead_in(exchange, place)
    return RecordedJob([JobEdge(own, replace(exchange, notes=notes))], manifest.origin, notes)


def _with_lead_in(exchange: RecordedExchange, place: RunPlace) -> RecordedExchange:
    """The exchange with the records of up to LEAD_IN_NS before it, which bring its queues into the
    state that they had when it began and do not count."""
    to_ns = exchange.measured_from_ns
    files = open_recordings(place).files
    found = read_arrivals(files, to_ns - LEAD_IN_NS, to_ns, exchange.measured_to_ns)
    before = found.within(to_ns - LEAD_IN_NS, to_ns).by_channel()
    channels = tuple(
        each.after(before[each.channel]) if each.channel in before else each
        for each in exchange.channels
    )
    from_ns = min(
        (int(each.first_ns.min()) for each in before.values() if len(each)), default=to_ns
    )
    return replace(exchange, channels=channels, measured_from_ns=from_ns)


def load_job(place: RunPlace, from_ns: int, to_ns: int, indexes: Sequence[int]) -> RecordedJob:
    """A job in a part of a recording, by the manifest keys of its edges in direction of flow."""
    manifest = manifest_of(place)
    known = {each.index: each for each in edges_in_flow(manifest)}
    edges = [known[each] for each in indexes]
    jobs, targets = {each.job for each in edges}, {each.target for each in edges}
    left = {
        each.target for each in known.values() if each.job in jobs and each.index not in indexes
    }
    whys = [each.why_unknown or (NOT_RECORDED if each.source in left else None) for each in edges]
    if manifest.is_from_between:
        return _load_captured(place, from_ns, to_ns, edges, whys)
    found = [load_exchange(place, from_ns, to_ns, edge=each.index) for each in edges]
    job_edges = [
        JobEdge(
            edge,
            replace(exchange, delays=found[0].delays) if edge.source in targets else exchange,
            has_own_instants=edge.source not in targets,
            why_unknown=why,
        )
        for edge, why, exchange in zip(edges, whys, found, strict=True)
    ]
    return RecordedJob(job_edges, notes=list(dict.fromkeys(n for e in found for n in e.notes)))


def _load_captured(
    place: RunPlace, from_ns: int, to_ns: int, edges: Sequence[Edge], whys: Sequence[str | None]
) -> RecordedJob:
    """The job that was captured between TaskManagers, its local channels filled in."""
    passed = local_channels.recorded_within(open_recordings(place), from_ns, to_ns)
    manifest = local_channels.at_places_of(manifest_of(place), place, from_ns, to_ns, passed)
    seen = {each.edge for each in passed}
    recorded: dict[int, RecordedExchange] = {}
    for n, edge in enumerate(edges):
        if edge.index in seen:
            recorded[n] = load_exchange(place, from_ns, to_ns, edge=edge.index, is_filled=True)
    late_beats = together([each.late_beats for each in recorded.values()])
    recorded = {n: replace(each, late_beats=late_beats) for n, each in recorded.items()}
    counted = from_ns - METRICS_AROUND_NS, to_ns + METRICS_AROUND_NS
    pauses = [pauses for each in recorded.values() for pauses in each.pauses.values()]
    timeouts_ns = [each.network.buffer_timeout_ns for each in recorded.values()]
    found: list[JobEdge] = []
    of_edges = [{*each.notes} for each in recorded.values()]
    common = set.intersection(*of_edges) if of_edges else set()
    notes = [
        note if note in common else f"edge {edges[n].number}: {note}"
        for n, fit in recorded.items()
        for note in fit.notes
    ]
    notes.append(pauses_in_words(pauses, max(timeouts_ns, default=0)))
    for n, edge in enumerate(edges):
        planned = local_channels.planned_edge(manifest, edge.index)
        if n in recorded:  # without a plan the tasks have no numbers yet
            exchange = _as_read(n, edges, recorded) if planned is None else recorded[n]
            in_turn = planned is not None and planned.partitioner in local_channels.IN_TURN
            found.append(JobEdge(edge, exchange, why_unknown=whys[n], is_in_turn=in_turn))
            continue
        before = next((m for m, each in enumerate(edges) if each.target == edge.source), None)
        behind = [m for m, each in enumerate(edges) if each.source == edge.target]
        near = next_one = filled = why = None
        if before is not None:
            near = found[before].exchange
        elif len(behind) == 1 and behind[0] in recorded:
            near, next_one = recorded[behind[0]], edges[behind[0]].index
        if planned is not None and near is not None:
            filled = local_channels.filled_edge(place, manifest, planned, counted, near, next_one)
        if filled is not None:
            notes += [FILLED_IN] if before is not None else [FILLED_IN, AS_PASSED_ON]
        else:
            filled = replace(next(iter(recorded.values())), channels=(), unseen=None)
            why = FIRST_IS_LOCAL if near is None else local_channels.NO_COUNTERS
        found.append(JobEdge(edge, filled, before is None, whys[n] or why))
    return checked(RecordedJob(found, manifest.origin, list(dict.fromkeys(notes))))


def _as_read(
    n: int, edges: Sequence[Edge], exchanges: Mapping[int, RecordedExchange]
) -> RecordedExchange:
    """An exchange with its consumers numbered as the producers of the exchanges behind it. A tap
    numbers consumers by subpartition; parallelism and Flink's distribution patterns give the
    subtask."""
    exchange = exchanges[n]
    behind = [each.producers for m, each in exchanges.items() if edges[m].source == edges[n].target]
    consumers = max(behind, default=0)
    most = 1 + max((each.consumer for each in exchange.channels), default=0)
    if most >= consumers:
        return exchange
    ends = exchange.producers, consumers
    channels = tuple(
        replace(each, consumer=consumer_of(each.producer, each.consumer, most, ends))
        for each in exchange.channels
    )
    costs = exchange.costs
    typical_ns = sorted(costs.consume_ns_per_record)[len(costs.consume_ns_per_record) // 2]
    costs = replace(costs, consume_ns_per_record=(typical_ns,) * consumers)
    return replace(exchange, consumers=consumers, channels=channels, costs=costs)


def consumer_of(
    producer: int, subpartition: int, subpartitions: int, parallelism: tuple[int, int]
) -> int:
    """The subtask that consumes a subpartition, by the most subpartitions of a producer of the
    edge, and the parallelism of the producing and of the consuming vertex."""
    producers, consumers = parallelism
    if subpartitions >= consumers:  # all-to-all
        return subpartition
    if consumers >= producers:  # pointwise: each producer feeds several
        return -(-producer * consumers // producers) + subpartition
    return ((producer + 1) * consumers - 1) // producers


def checked(job: RecordedJob) -> RecordedJob:
    """The job, without the edges whose recorded records do not follow those of the edge before them
    under the recorded settings. Records come late to an edge whose consumers or producers cannot
    keep up, and everything upstream of these is held up, too; others are held back on purpose."""
    before = job.feeding
    run = JobRun(job, job.settings, 0)
    whys: list[str | None] = [None] * len(job.edges)
    for number, (edge, arrived) in enumerate(zip(job.edges, run.arrived, strict=True)):
        if arrived is None or not edge.has_own_instants or _follows(edge.exchange, arrived):
            continue
        near = [each for each in (number, before[number]) if each is not None]
        busy = {each: busy_share(job.edges[each].exchange) for each in near}
        place = next((each for each in near if busy[each] >= SATURATED_FROM), None)
        if place is None:
            whys[number] = _NOT_FOLLOWING
            continue
        share = min(busy[place], 1.0)
        whose = "a consumer is" if place == number else "a producer is"
        whys[number] = _TASKS_SATURATED.format(whose, share)
        whys[place] = whys[place] or _TASKS_SATURATED.format("a consumer is", share)
        while (place := before[place]) is not None:
            whys[place] = whys[place] or HELD_UP
    edges = [
        each if why is None or each.why_unknown else replace(each, why_unknown=why)
        for each, why in zip(job.edges, whys, strict=True)
    ]
    return replace(job, edges=edges)


def busy_share(exchange: RecordedExchange) -> float:
    """Share of the time that the busiest consumer works on its records; above 1 if they are more
    than it can take."""
    busy_ns = [0.0] * exchange.consumers
    for each in exchange.channels:
        busy_ns[each.consumer] += each.records * exchange.costs.consume_ns_per_record[each.consumer]
    return max(busy_ns, default=0.0) / exchange.duration_ns


def _follows(exchange: RecordedExchange, arrived: Sequence[RecordedChannel]) -> bool:
    """Whether most records were recorded about when they come by what is before them."""
    timeout_ns = exchange.network.buffer_timeout_ns
    beat_ns = timeout_ns + exchange.flush_overhead_ns if timeout_ns > 0 else 0
    bound_ns = LATE_BEATS * beat_ns + LATE_NS
    ours, recorded = (
        np.sort(np.concatenate([each.arrivals_ns for each in channels]))
        for channels in (arrived, exchange.channels)
    )
    # the window begins and ends with records under way, on every edge others: shift the ranks
    reach = 2 * abs(len(recorded) - len(ours))
    filled_in = sum(each.records for each in exchange.channels if each.connection < 0)
    slack = round(FILLED_IN_OFF * float(np.sqrt(filled_in)))
    ranks = np.rint(np.linspace(0, len(ours) - 1, RANKS)).astype(np.int64)
    shares = []
    for shift in np.unique(np.linspace(-reach, reach, SHIFTS).astype(np.int64)):
        is_there = (ranks + shift >= 0) & (ranks + shift < len(recorded))
        own_ns, places = ours[ranks[is_there]], ranks[is_there] + shift
        first, last = (np.clip(places + each, 0, len(recorded) - 1) for each in (-slack, slack))
        is_near = recorded[first] - bound_ns <= own_ns
        is_near &= own_ns <= recorded[last] + bound_ns
        shares.append(float(is_near.mean()) if len(own_ns) else 0.0)
    return max(shares) >= FOLLOWING_SHARE
