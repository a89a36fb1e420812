"""The bottleneck of a job that recorded itself: pressure is followed downstream, task by task, to
the one that has work and does not wait for its own output, or to what lies between two tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean, median

from flinknet.results import (
    NEAR_FROM,
    PRESSED_FROM,
    UNPRESSED,
    Bottleneck,
    Cause,
    Remedy,
    TaskMetrics,
    VertexMetrics,
)

from ..ledger import Ledger, named
from ..verdict.saturated import slow_tasks
from .task_use import EdgeUse, JobUse, Pair

PASSES_ON_FROM = 0.5
"""A task that waits for its output for this much of the time in which it has input is not what its
producers wait for, but what is behind it is."""

OF_THE_SLOWEST = 0.5
"""Consumers that are at work for this much of what the slowest one is are slow as well."""

LATE_FROM = 0.5
"""A connection on which this many buffers are long on their way is slow itself; if fewer are, its
receiver did not read at times."""

STALLED_FROM = 0.02
"""If so many buffers are late at one TaskManager and not at others, it stood still at times ..."""

STALLED_SHARE = 0.1
"""... and it matters if the oldest record lay before it for so much of the time."""

BLOCKED_FROM = 0.1
"""Barriers that block a channel for this share of the time are worth a verdict."""

MAIN_SHARE = 0.4
"""What takes this share of the time of a task or channel is what its records wait for."""

LOADED_FROM = 0.9
"""A task, or an event loop, that is busy for so much of its time has nothing left."""

LACKED_FROM = 0.1
"""A TaskManager that wants a processor in vain for so much of its time reads late."""


def bottleneck_of(job: JobUse) -> Bottleneck:
    """What holds a job up; where nobody waits for buffers, what its records wait for."""
    found = [each for edge in job.edges for each in _candidates(job, edge)]
    if not found:
        return _unpressed(job)
    worst = max(found, key=lambda each: each.share)
    verdict = {
        Cause.SLOW_TASKS: _slow_consumers,
        Cause.ALIGNMENT: _blocked,
        Cause.NETWORK: _on_the_way,
        Cause.FEW_BUFFERS: _few_buffers,
    }[worst.cause]
    edge = worst.edge
    waiting = job.producer_name(edge, edge.most_waiting)
    return verdict(job, edge, f"and {waiting} waits {worst.share:.0%} of the time for its output")


@dataclass(frozen=True, slots=True)
class _Candidate:
    """What the producers of an edge wait for, and for how much of the time."""

    edge: EdgeUse
    cause: Cause
    share: float


def _candidates(job: JobUse, edge: EdgeUse) -> Iterable[_Candidate]:
    """Why the producers of an edge wait; nothing if they do not, or wait for what is behind it."""
    producer = edge.most_waiting
    waits = edge.waits[producer]
    if waits < PRESSED_FROM:
        return
    held = {consumer: each for (own, consumer), each in edge.held.items() if own == producer}
    at_work = max(held, key=lambda consumer: held[consumer].consumer)
    shares = {
        Cause.SLOW_TASKS: held[at_work].consumer,
        Cause.ALIGNMENT: max(each.barrier for each in held.values()),
        Cause.NETWORK: max(max(each.way for each in held.values()), edge.way[producer]),
        Cause.FEW_BUFFERS: edge.pool[producer],
    }
    cause = max(shares, key=lambda each: shares[each])
    pressed = job.pressed(edge.ends.target, at_work)
    if (
        cause is Cause.SLOW_TASKS
        and pressed >= PRESSED_FROM
        and pressed >= PASSES_ON_FROM * edge.working[at_work]
    ):
        return
    yield _Candidate(edge, cause, waits)


# Slow tasks


def _slow_consumers(job: JobUse, edge: EdgeUse, so: str) -> Bottleneck:
    """The verdict on the consumers of an edge that are at work most."""
    found = slow_tasks(_ledger_of(job), edge.ends.target)
    return replace(found, text=f"{found.text}. {_sentence(so)}", edge=edge.ends.name)


def _ledger_of(job: JobUse) -> Ledger:
    """The time of the tasks that read an edge, by the run's own events."""
    processes = {info.consumer_process for edge in job.edges for info in edge.channels.values()}
    stopped = frozenset(each for each in processes if _stands_still(job, each))
    vertices = {each.ends.target: _vertex_of(job, each) for each in job.edges}
    return Ledger(vertices, (), stopped=stopped)


def _vertex_of(job: JobUse, edge: EdgeUse) -> VertexMetrics:
    """The consumers of an edge; their records are counts, which compare as rates do."""
    vertex, name = edge.ends.target, edge.ends.target_name
    tasks = tuple(
        TaskMetrics(
            name=job.consumer_name(edge, each),
            task_manager=edge.process_of(each),
            busy=job.busy(vertex, each),
            idle=None,
            back_pressured=job.pressed(vertex, each),
            records_in_per_s=float(edge.records.get(each, 0)),
            records_out_per_s=None,
            in_pool_usage=None,
            out_pool_usage=None,
        )
        for each in sorted(edge.working)
    )
    return VertexMetrics(name, len(tasks), None, None, None, None, None, tasks)


# Between the tasks


def _blocked(job: JobUse, edge: EdgeUse, so: str) -> Bottleneck:
    by_consumer = {
        consumer: max(share for (_, own), share in edge.blocked.items() if own == consumer)
        for consumer in edge.working
    }
    slow = _most_of(by_consumer)
    names = tuple(job.consumer_name(edge, each) for each in slow)
    share = by_consumer[slow[0]]
    text = (
        f"alignment of checkpoints: barriers keep a channel to {named(names)} blocked for"
        f" {share:.0%} of the time, {so}; unaligned checkpoints, an aligned timeout or a longer"
        " interval help"
    )
    helps = (Remedy.CHECKPOINTS,)
    return Bottleneck(Cause.ALIGNMENT, names, share, text, edge.ends.name, None, helps)


def _on_the_way(job: JobUse, edge: EdgeUse, so: str) -> Bottleneck:
    """Between two TaskManagers something takes long: the connection itself, a receiver that does
    not read at times, or so few buffers that their round trip counts."""
    producer = edge.most_waiting
    way = {pair: each.way for pair, each in edge.held.items() if pair[0] == producer}
    if not any(way.values()):
        way = {pair: edge.in_socket[pair] for pair in way}
    pair = _largest(way)
    if edge.late.get(pair, 0.0) >= LATE_FROM:
        return _slow_connection(job, edge, pair, so)
    process = edge.channels[pair].consumer_process
    loaded = _loaded(job, edge, process, so)
    if loaded is not None:
        return loaded
    if _stands_still(job, process):
        return _standing_still(job, edge, process, so)
    return _few_buffers(job, edge, so)


def _slow_connection(job: JobUse, edge: EdgeUse, pair: Pair, so: str) -> Bottleneck:
    info = edge.channels[pair]
    loaded = _loaded(job, edge, info.consumer_process, so)
    if loaded is not None:
        return loaded
    readers = {
        consumer
        for (_, consumer), other in edge.channels.items()
        if other.connection == info.connection
    }
    names = tuple(job.consumer_name(edge, each) for each in sorted(readers))
    late = edge.late[pair]
    text = (
        f"the network from {info.producer_process} to {info.consumer_process}: {late:.0%} of the"
        f" buffers to {named(names)} take over 2 ms, {so}; look at its bandwidth and round trip;"
        " more buffers help against a long round trip"
    )
    helps = (Remedy.NETWORK, Remedy.BUFFERS)
    share = edge.in_socket[pair]
    return Bottleneck(Cause.NETWORK, names, share, text, edge.ends.name, info.connection, helps)


def _loaded(job: JobUse, edge: EdgeUse, process: str, so: str) -> Bottleneck | None:
    """The verdict on a TaskManager whose event loop gets to its buffers late; None if it has time
    left, or nothing is known of that."""
    lacked, busy = job.loop_lacked.get(process, 0.0), job.loop_busy.get(process, 0.0)
    if lacked >= LACKED_FROM:
        why = f"wanted a processor that others had for {lacked:.0%} of the time"
    elif busy >= LOADED_FROM:
        why = f"has an event loop that is busy {busy:.0%} of the time"
    else:
        return None
    names = tuple(
        job.consumer_name(edge, each) for each in edge.working if edge.process_of(each) == process
    )
    text = f"{process} {why}, so its tasks read their buffers late, {so}; more cores help"
    share, helps = max(lacked, busy), (Remedy.HOST,)
    return Bottleneck(Cause.SLOW_HOST, names, share, text, edge.ends.name, process, helps)


def _standing_still(job: JobUse, edge: EdgeUse, process: str, so: str) -> Bottleneck:
    own = [each for each in edge.working if edge.process_of(each) == process]
    names = tuple(job.consumer_name(edge, each) for each in own)
    late = _late_at(edge, process)
    text = (
        f"{process} stops at times: {late:.0%} of the buffers for its tasks wait there for over"
        f" 2 ms. {_sentence(so)}; check its CPU and what runs next to it"
    )
    in_socket = max(share for (_, each), share in edge.in_socket.items() if each in own)
    return Bottleneck(
        Cause.SLOW_HOST, names, in_socket, text, edge.ends.name, process, (Remedy.HOST,)
    )


def _sentence(so: str) -> str:
    """Who waits, as a sentence of its own."""
    return "No task waits for its output" if so == UNPRESSED else so.removeprefix("and ")


def _few_buffers(job: JobUse, edge: EdgeUse, so: str) -> Bottleneck:
    names = tuple(job.consumer_name(edge, each) for each in edge.working)
    busy = max(job.busy(edge.ends.target, each) for each in edge.working)
    text = (
        f"few buffers between {edge.ends.name}: {edge.ends.target_name} is busy {busy:.0%} of the"
        f" time at most and buffers are not long on their way, {so}; more buffers help"
    )
    share, helps = edge.waits[edge.most_waiting], (Remedy.BUFFERS,)
    return Bottleneck(Cause.FEW_BUFFERS, names, share, text, edge.ends.name, None, helps)


# Where nobody waits for buffers


def _unpressed(job: JobUse) -> Bottleneck:
    """What the records wait for, if anything."""
    aligning = [each for each in job.edges if each.has_barriers]
    if aligning:
        edge = max(aligning, key=lambda each: max(each.blocked.values()))
        if max(edge.blocked.values()) >= BLOCKED_FROM:
            return _blocked(job, edge, UNPRESSED)
    busiest = max(job.edges, key=lambda each: _busiest_share(job, each))
    if _busiest_share(job, busiest) >= LOADED_FROM:
        return _slow_consumers(job, busiest, UNPRESSED)
    late = [
        (share, place, pair)
        for place, edge in enumerate(job.edges)
        for pair, share in edge.late.items()
        if share >= LATE_FROM and not (job.is_tcp and _is_read_late(job, edge))
    ]
    if late:
        _, place, pair = max(late)
        return _slow_connection(job, job.edges[place], pair, UNPRESSED)
    processes = {info.consumer_process for edge in job.edges for info in edge.channels.values()}
    for process in sorted(processes):
        if _stands_still(job, process):
            edge = max(job.edges, key=lambda each: _late_at(each, process))
            return _standing_still(job, edge, process, UNPRESSED)
    if _busiest_share(job, busiest) >= NEAR_FROM:
        return _slow_consumers(job, busiest, UNPRESSED)
    edge = max(job.edges, key=lambda each: fmean(each.flush.values()))
    share = fmean(edge.flush.values())
    nothing = "nothing holds the job up: no task waits for its output"
    if share >= MAIN_SHARE:
        text = (
            f"{nothing}; on {edge.ends.name} the oldest record waits for the flusher {share:.0%} of"
            " the time, so a shorter buffer timeout cuts latency"
        )
        helps = (Remedy.TIMEOUT,)
        return Bottleneck(Cause.BUFFER_TIMEOUT, (), share, text, edge.ends.name, None, helps)
    text = (
        f"{nothing}, and none is busy for more than {_busiest_share(job, busiest):.0%} of the time"
    )
    return Bottleneck(Cause.NONE, (), None, text)


def _is_read_late(job: JobUse, edge: EdgeUse) -> bool:
    """Without credit, the connection of a slow consumer is not read."""
    return _busiest_share(job, edge) >= MAIN_SHARE


def _busiest_share(job: JobUse, edge: EdgeUse) -> float:
    return max(job.busy(edge.ends.target, each) for each in edge.working)


def _stands_still(job: JobUse, process: str) -> bool:
    """Whether buffers were late at a TaskManager now and then, and not at others."""
    own: list[float] = []
    elsewhere: list[float] = []
    lay = 0.0
    for edge in job.edges:
        for pair, share in edge.late.items():
            is_own = edge.channels[pair].consumer_process == process
            (own if is_own else elsewhere).append(share)
            lay = max(lay, edge.in_socket[pair] if is_own else 0.0)
    if lay < STALLED_SHARE or job.is_tcp:
        return False
    least = max(STALLED_FROM, 2 * median(elsewhere)) if elsewhere else STALLED_FROM
    return least <= max(own) < LATE_FROM


def _late_at(edge: EdgeUse, process: str) -> float:
    """The largest share of late buffers of a channel to a TaskManager."""
    return max(
        (
            share
            for pair, share in edge.late.items()
            if edge.channels[pair].consumer_process == process
        ),
        default=0.0,
    )


def _most_of(shares: Mapping[int, float]) -> list[int]:
    """Those that are near the largest share, the largest first."""
    most = max(shares.values())
    slow = [each for each, share in shares.items() if share >= OF_THE_SLOWEST * most]
    return sorted(slow, key=lambda each: (-shares[each], each))


def _largest(shares: Mapping[Pair, float]) -> Pair:
    return max(shares, key=lambda each: shares[each])
