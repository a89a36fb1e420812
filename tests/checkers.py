"""Checkers: rules for every run; safety (nothing wrong happens) and liveness (something happens).

They look from outside: at the events of probes, and at the public state of the stack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flinknet.core.producer import PipelinedSubpartition
from flinknet.errors import InvariantViolatedError, StalledError
from flinknet.job.load.load_tasks import run_input_of
from flinknet.simulator.cluster import Cluster
from flinknet.simulator.task_manager import NEVER_NS
from tests import invariants
from tests.faults import plan_of
from tests.invariants import free_segments, queued_segments, unflushed_bytes
from tests.protocol_checker import ProtocolChecker

LATE_FLUSH_NS = 2_000_000
"""Tolerated delay of a flusher whose loop is busy, in ns."""

_CHECK_INTERVAL_STEPS = 16
"""Steps between two checks of the credits and segments of all channels."""


def check_credits(cluster: Cluster, checker: ProtocolChecker) -> None:
    """Check that credits are conserved on every open channel.

    Producer's credit + AddCredit under way + unannounced credit + data under way = free buffers of
    the consumer, without the buffer of a message that has arrived in part. The consumer requires
    its exclusive buffers plus the last backlog.

    Raises: InvariantViolatedError.
    """
    for gate in cluster.gates:
        for channel in gate.remote_channels:
            view = checker.channels.get(channel.index)
            if view is None or channel.is_released or not view.sent_messages or view.is_resetting:
                continue
            under_way = view.announced - view.credited + view.sent_buffers - view.received_buffers
            expected = view.credit + channel.unannounced_credit + under_way
            free = channel.buffers.available_buffers
            is_receiving = view.sent_buffers > view.received_buffers
            required = view.backlog + channel.initial_credit - channel.buffers.required_buffers
            if view.backlog >= 0 and required != 0 and not (is_receiving and required == 1):
                raise InvariantViolatedError(
                    f"channel {channel.index} wants {channel.buffers.required_buffers} buffers for"
                    f" a backlog of {view.backlog} and {channel.initial_credit} exclusive buffers",
                    cluster.seed,
                )
            if free != expected and not (is_receiving and free == expected - 1):
                raise InvariantViolatedError(
                    f"channel {channel.index}: {free} buffers free for {expected} credits",
                    cluster.seed,
                )


def check_invariants(cluster: Cluster) -> None:
    """Check the invariants of all pools, queues, channels and connections.

    Raises: InvariantViolatedError.
    """
    try:
        for task_manager in cluster.task_managers:
            invariants.check_invariants(task_manager.memory)
        for partition in cluster.partitions:
            for queue in partition.subpartitions:
                if isinstance(queue, PipelinedSubpartition):
                    invariants.check_invariants(queue)
        for gate in cluster.gates:
            invariants.check_invariants(gate)
            for channel in gate.remote_channels:
                invariants.check_invariants(channel)
        for connection in cluster.channels.producer_connections:
            invariants.check_invariants(connection)
        for consumer in cluster.channels.consumer_connections:
            invariants.check_invariants(consumer)
    except AssertionError as error:
        raise InvariantViolatedError(str(error), cluster.seed) from error


class FlushChecker:
    """Checks that written data leaves within the buffer timeout if the reader can take it.

    It checks nothing with clocks that jump, or after a TaskManager has died with its flushers.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._timeouts_ns = {
            (output.edge, subtask.subtask): output.buffer_timeout_ns
            for subtask in cluster.job.subtasks
            for output in subtask.outputs
        }
        self._hidden: dict[PipelinedSubpartition, tuple[int, int]] = {}
        self._until_ns = cluster.job.start_ns + min(
            (at_ns for _, at_ns in plan_of(cluster).crashes), default=NEVER_NS
        )

    def check(self) -> None:
        """Check all queues. Raises: InvariantViolatedError."""
        cluster = self._cluster
        has_ended = cluster.error is not None or cluster.now_ns >= self._until_ns
        if plan_of(cluster).clocks or has_ended:
            return
        for place, partition in cluster.partition_of.items():
            late_ns = timeout_ns = self._timeouts_ns[place]
            if timeout_ns < 0:
                continue
            if timeout_ns:
                late_ns += LATE_FLUSH_NS + 2 * plan_of(cluster).tick_ns
            for queue in partition.subpartitions:
                if not isinstance(queue, PipelinedSubpartition):
                    continue
                if not unflushed_bytes(queue):
                    self._hidden.pop(queue, None)
                    continue
                left = queue.buffers_out
                since, since_ns = self._hidden.setdefault(queue, (left, cluster.now_ns))
                if since != left:
                    self._hidden[queue] = left, cluster.now_ns
                elif cluster.now_ns - since_ns >= late_ns:
                    raise InvariantViolatedError(
                        f"{unflushed_bytes(queue)} bytes wait for a flush for"
                        f" {cluster.now_ns - since_ns} ns",
                        cluster.seed,
                    )


def check_records(cluster: Cluster) -> None:
    """Check that every record arrived once and in order. Raises: InvariantViolatedError."""
    sent = {
        channel: count
        for task in (*cluster.sources, *cluster.relays)
        for channel, count in task.sent_records.items()
    }
    for task in (*cluster.relays, *cluster.sinks):
        network_input = run_input_of(task)
        for sink, channel in zip(network_input.receivers, network_input.gate.channels, strict=True):
            sink.check()
            found = sink.disorder
            expected = sent[channel.index]
            if sink.records != expected or found.lost or found.repeated or found.reordered:
                raise InvariantViolatedError(
                    f"channel {channel.index}: {sink.records} records of {expected}, {found}",
                    cluster.seed,
                )


def check_segments(cluster: Cluster) -> None:
    """Check that a free segment is free in one place, and not in use.

    Raises: InvariantViolatedError.
    """
    free: Counter[int] = Counter()
    for task_manager in cluster.task_managers:
        free.update(free_segments(task_manager.memory))
    used: set[int] = set()
    for partition in cluster.partitions:
        for queue in partition.subpartitions:
            if isinstance(queue, PipelinedSubpartition):
                used |= queued_segments(queue)
    for gate in cluster.gates:
        for channel in gate.remote_channels:
            free.update(free_segments(channel.buffers))
            used |= {id(buffer.segment) for buffer, _ in channel.received}
    if free and max(free.values()) > 1:
        raise InvariantViolatedError("a segment is free in two places", cluster.seed)
    if not used.isdisjoint(free):
        raise InvariantViolatedError("a segment in use was given back", cluster.seed)


def check_memory(cluster: Cluster) -> None:
    """Close a cluster that has ended, and check that all its segments were returned.

    Raises: InvariantViolatedError.
    """
    cluster.close()
    for task_manager in cluster.task_managers:
        memory = task_manager.memory
        invariants.check_invariants(memory)
        if memory.available_buffers != memory.total_buffers or memory.pools:
            raise InvariantViolatedError(
                f"{task_manager.name}: {memory.available_buffers} of {memory.total_buffers} buffers"
                f" came back, {len(memory.pools)} pools are left",
                cluster.seed,
            )


@dataclass(frozen=True, slots=True)
class Watched:
    """A cluster and its probe, a checker; None if the protocol is not to be checked."""

    cluster: Cluster
    checker: ProtocolChecker | None
    checks_records: bool = True


def run_checked(cluster: Cluster, checker: ProtocolChecker, *, limit: int = 1_000_000) -> None:
    """Run a cluster, whose probe is `checker`, to its end with all checks.

    The job may fail if its faults can end it, but all its memory must be returned.

    Raises: InvariantViolatedError, StalledError.
    """
    run_all_checked([Watched(cluster, checker)], limit=limit)
    check_memory(cluster)


def run_all_checked(
    all_watched: Sequence[Watched],
    *,
    limit: int = 1_000_000,
    interval_steps: int = 1,
    look: Callable[[], None] = lambda: None,
) -> None:
    """Run clusters on the same hosts to their end, with all checks except that of memory.

    Args:
        interval_steps: steps between two checks of the invariants.
        look: called before each of these checks.

    Raises: InvariantViolatedError, StalledError.
    """
    watched_partitions = -1
    partitions_of = [each.cluster.partition_of for each in all_watched]
    flushes = [FlushChecker(each.cluster) for each in all_watched]
    first, others = all_watched[0].cluster, [each.cluster for each in all_watched[1:]]
    for steps in range(limit):
        partitions = sum(map(len, partitions_of))
        if partitions != watched_partitions:
            watched_partitions = partitions
            for each in all_watched:
                if each.checker is not None:
                    each.checker.watch(each.cluster)
        has_stepped = first.step()
        for other in others:
            other.advance()
        has_stepped = has_stepped or first.scheduler.next_ns is not None
        if steps % interval_steps == 0 or not has_stepped:
            look()
            for checker in flushes:
                checker.check()
            for each in all_watched:
                check_invariants(each.cluster)
                if steps % (_CHECK_INTERVAL_STEPS * interval_steps) == 0 or not has_stepped:
                    check_segments(each.cluster)
                    if each.checker is not None and each.checker.is_credit_based:
                        check_credits(each.cluster, each.checker)
        if not has_stepped:
            break
    else:
        raise StalledError(f"not finished after {limit} steps", all_watched[0].cluster.seed)
    for each in all_watched:
        _check_end(each)


def _check_end(watched: Watched) -> None:
    cluster, error = watched.cluster, watched.cluster.error
    if error is not None:
        if not plan_of(cluster).may_end_the_job:
            raise InvariantViolatedError(
                f"{type(error).__name__}: {error}", cluster.seed
            ) from error
    elif not cluster.is_finished:
        raise StalledError("nothing can happen any more, but records are left", cluster.seed)
    elif watched.checks_records:
        check_records(cluster)
