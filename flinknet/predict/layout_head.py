"""The head of the kernel's memory, which does not change in a run; and what happens by the clock:
checkpoints begin, flushers beat, gates are looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from flinknet.arrays import IntArray
from flinknet.config import TCP, NetworkConfig
from flinknet.core.buffers.data_type import IS_BLOCKING_UPSTREAM
from flinknet.core.connection import RECEIVE_BYTES, SEND_BATCH_BYTES
from flinknet.core.water_marks import WriteWaterMarks
from flinknet.core.wire import BUFFER_RESPONSE_HEADER_BYTES
from flinknet.core.wire.checkpoint_barrier import CheckpointBarrier
from flinknet.core.wire.events import (
    EndOfData,
    EndOfOutputChannelStateEvent,
    EndOfPartitionEvent,
    data_type_of,
    encode_pipelined,
)
from flinknet.histogram import BUCKETS
from flinknet.job.barriers import barrier_of
from flinknet.job.debloating import debloating_config
from flinknet.job.load.payload import MAX_RATE_BATCH_BYTES, OVERHEAD_BYTES
from flinknet.job.load.plan import LoadPlan
from flinknet.job.stream_task import STEPS_PER_TURN
from flinknet.simulator.source_plan import beat_phase_ns
from flinknet.simulator.task_manager import BUSY_NS_MAX
from flinknet.units import NS_PER_MS

from .kernel import COUNTS, NEVER, TIME_KINDS
from .kernel import memory as k
from .kernel.views import KernelMemory, power_of_two
from .ramps import Ramps
from .recorded import RecordedChannel, RecordedExchange

RESERVED_WORDS = 1 << 21
"""Most words of a memory that has its size from the beginning: growth takes half as long again.
Larger memories grow: they would be new each time."""

TCP_SLOTS = 1 << 10
"""Messages on the way of a connection without credit, for which there is room at first."""

TCP_SLOTS_MAX = 1 << 16
"""Most messages on the way: nearly the number of the smallest ones that a socket holds."""

ROOM_BYTES_MAX = 1 << 28
"""Room for messages on the way of all connections together."""

ROOM_BITS = 3
"""Binary logarithm of the factor by which the next attempt has more room."""

_TURNS_PER_RECORD = 20
"""Most turns of all TaskManagers for each record and channel, far more than there can be."""


def one_way_ns(exchange: RecordedExchange) -> int:
    """Latency of a link: the way of a message without the sending that the sender itself does."""
    costs = exchange.costs
    return max(0, int(costs.transit_ns - costs.send_ns_per_message))


def back_ns(exchange: RecordedExchange) -> int:
    """Latency of the way back, for messages of consumers."""
    costs = exchange.costs
    return one_way_ns(exchange) if costs.back_ns is None else int(costs.back_ns)


def catches_up(exchange: RecordedExchange, network: NetworkConfig) -> bool:
    """Whether quiet turns are made up for: buffers may end anywhere, so that the simulator has a
    turn for each record. Not where each record leaves at once, nor where messages arrive at the
    same instant while records take time, as the order of turns counts then; at the highest rate
    no turn is quiet."""
    if exchange.is_max_rate:
        return False
    ends_anywhere = network.checkpoint_interval_ns is not None or network.debloating_enabled
    is_apart = (
        min(one_way_ns(exchange), back_ns(exchange)) > 0 or exchange.costs.emit_ns_per_record == 0.0
    )
    return ends_anywhere and is_apart and network.buffer_timeout_ns != 0


def first_checkpoint_ns(exchange: RecordedExchange, network: NetworkConfig) -> int:
    """When the coordinator begins the first one; NEVER if there is none, or tasks before the
    sources pass them on."""
    interval_ns = network.checkpoint_interval_ns
    if interval_ns is None or exchange.barriers is not None:
        return NEVER
    start_ns, since_ns = exchange.measured_from_ns, exchange.checkpoints_from_ns
    if since_ns is None:
        return start_ns + interval_ns
    return since_ns + ((start_ns - since_ns) // interval_ns + 1) * interval_ns


def alignments_max(exchange: RecordedExchange, network: NetworkConfig) -> int:
    """How many checkpoints sinks note at most."""
    interval_ns = network.checkpoint_interval_ns
    if interval_ns is None or not exchange.keeps_departures:
        return 0
    if exchange.barriers is not None:
        return max(len(each) for each in exchange.barriers)
    return 1 + 2 * (exchange.duration_ns // interval_ns)


def flusher_phase_ns(exchange: RecordedExchange, flusher: int, period_ns: int) -> int:
    """Time since the last beat of a flusher when the run begins."""
    if exchange.starts_within_ns is None or period_ns <= 0:
        return beat_phase_ns(exchange.seed, flusher, period_ns)
    first_ns = beat_phase_ns(exchange.seed, exchange.flushers_before, period_ns)
    apart_ns = min(exchange.starts_within_ns, period_ns)
    return (first_ns + beat_phase_ns(exchange.seed + 1, flusher, apart_ns)) % period_ns


def turns_max(exchange: RecordedExchange, network: NetworkConfig, task_managers: int) -> int:
    """How many turns all TaskManagers have at most, roughly, and with much to spare."""
    duration_ns, beats = exchange.duration_ns, 0
    if network.checkpoint_interval_ns is not None:
        beats = 10 * (task_managers + 1) * (duration_ns // network.checkpoint_interval_ns)
    if network.debloating_enabled:
        beats += 10 * task_managers * (duration_ns // network.debloating_period_ns)
    if network.buffer_timeout_ns > 0:
        period_ns = network.buffer_timeout_ns + exchange.flush_overhead_ns
        beats += 2 * exchange.producers * duration_ns // period_ns
    return 1_000_000 + _TURNS_PER_RECORD * exchange.records + beats


class Addresses:
    """Addresses of everything in a run, in a memory that has room for it.

    Args:
        attempts: that have had too little room for messages on their way.
    """

    def __init__(
        self,
        exchange: RecordedExchange,
        network: NetworkConfig,
        load: LoadPlan,
        memory: KernelMemory | None,
        attempts: int,
    ) -> None:
        arrivals_words = k.Ramp.width() * sum(len(each.arrivals) for each in exchange.channels)
        is_small = arrivals_words < RESERVED_WORDS
        memory = memory or KernelMemory(arrivals_words if is_small else 0)
        self.memory, self.head = memory, memory.take(k.Exchange.width())
        self.exchange, self.network, self.load = exchange, network, load
        self.record_bytes = load.scenario.workload.record_size.low_bytes + OVERHEAD_BYTES
        self.period_ns = network.buffer_timeout_ns + exchange.flush_overhead_ns
        said = 4  # under way, beside buffers
        if network.debloating_enabled:
            said += back_ns(exchange) // network.debloating_period_ns + 1
        self.is_tcp = exchange.flow_control == TCP
        buffers = network.exclusive_buffers + network.floating_buffers
        if self.is_tcp:  # a gate's are there for any of its channels
            buffers = max(task.inputs[0].pool.max_buffers for task in load.sinks)
        self.ring = power_of_two(buffers + said)
        self.least_slots = TCP_SLOTS << attempts * ROOM_BITS if self.is_tcp else 0
        self.channels = memory.take(len(load.channels) * k.Channel.width())
        self.channel_at = {
            each.index: self.channels + place * k.Channel.width()
            for place, each in enumerate(load.channels)
        }
        self.source_at = [memory.take(k.Source.width()) for _ in load.sources]
        self.sink_at = [memory.take(k.Sink.width()) for _ in load.sinks]
        self.timers = load.task_managers if network.debloating_enabled else 0
        turns = load.task_managers + 1 + self.timers  # and the coordinator's
        self.wakes = memory.timetable(turns)
        self.managers = memory.take(turns * k.TaskManager.width())
        self.manager_at = [
            self.managers + number * k.TaskManager.width() for number in range(load.task_managers)
        ]
        self.boundaries = _boundaries(network)
        self.outputs = [task.outputs[0].channels for task in load.sources]
        remote = [
            (each.task_manager, task.task_manager)
            for task in load.sinks
            for each in task.inputs[0].channels
            if not each.is_local
        ]
        self._ends: list[list[int]] = [[] for _ in self.manager_at]
        self.departures: dict[int, slice] = {}
        self.alignments: list[int] = []
        self._batches = batches_of(exchange, self.record_bytes) if exchange.is_max_rate else []
        self.channels_between = Counter(remote)  # in the order in which connections are made
        self.connection_at = {
            pair: memory.take(k.Connection.width()) for pair in self.channels_between
        }

    @property
    def may_have_more_room(self) -> bool:
        """Whether another attempt may have more for messages on their way."""
        words = k.Sent.width() + k.Said.width() + k.Staged.width() + k.Stamp.width()
        next_slots = self.least_slots << ROOM_BITS
        needed_bytes = 8 * words * next_slots * len(self.connection_at)
        return 0 < next_slots <= TCP_SLOTS_MAX and needed_bytes <= ROOM_BYTES_MAX


def _boundaries(network: NetworkConfig) -> int:
    """Room for places in a subpartition where segments have been closed early: an aligned barrier
    has to leave before the next one comes, others need not, and with debloating all may be."""
    if not network.debloating_enabled:
        if network.checkpoint_interval_ns is None:
            return 1
        if not network.unaligned_checkpoints:
            return 2
    return power_of_two(network.max_buffers_per_channel + 4)


def put_head(at: Addresses) -> None:
    """Numbers that do not change in a run."""
    exchange, network = at.exchange, at.network
    counted_ns = exchange.counted_ns or (0, NEVER)
    beat_ns = exchange.beat_ns(network)
    marks = WriteWaterMarks()
    if at.is_tcp:
        marks = WriteWaterMarks.classic(network.segment_size_bytes)
    at.memory.put(
        k.Exchange,
        at.head,
        task_managers=at.load.task_managers,
        timeout_ns=network.buffer_timeout_ns,
        period_ns=at.period_ns,
        record_bytes=at.record_bytes,
        batch_records=max(1, MAX_RATE_BATCH_BYTES // at.record_bytes),
        segment_bytes=network.segment_size_bytes,
        segment_bits=network.segment_size_bytes.bit_length() - 1,
        exclusive_buffers=network.exclusive_buffers,
        quota_buffers=network.max_buffers_per_channel,
        header_bytes=BUFFER_RESPONSE_HEADER_BYTES,
        recovery_bytes=len(encode_pipelined(EndOfOutputChannelStateEvent())),
        end_of_data_bytes=len(encode_pipelined(EndOfData())),
        end_of_partition_bytes=len(encode_pipelined(EndOfPartitionEvent())),
        batch_bytes=SEND_BATCH_BYTES,
        receive_bytes=RECEIVE_BYTES,
        steps_per_turn=STEPS_PER_TURN,
        busy_ns=BUSY_NS_MAX,
        latency_ns=one_way_ns(exchange),
        back_ns=back_ns(exchange),
        receive_ns=int(exchange.costs.receive_ns_per_message),
        ring_mask=at.ring - 1,
        boundaries_mask=at.boundaries - 1,
        turns_max=turns_max(exchange, network, at.load.task_managers),
        managers=at.managers,
        channels_count=len(at.load.channels),
        channels=at.channels,
        sources_count=len(at.source_at),
        sources=at.source_at[0],
        sinks_count=len(at.sink_at),
        sinks=at.sink_at[0],
        turns_asked=1 + at.timers,
        link_bytes=exchange.socket_bytes,
        high_bytes=marks.high_bytes,
        low_bytes=marks.low_bytes,
        without_credit=int(at.is_tcp),
        narrow_bytes=2 * (SEND_BATCH_BYTES + network.segment_size_bytes),
        is_max_rate=int(exchange.is_max_rate),
        is_disturbed=int(bool(exchange.preemptions[0])),
        wakes=at.wakes,
        has_instants=int(exchange.has_instants),
        beat_ns=NEVER if beat_ns is None else beat_ns,
        catches_up=int(catches_up(exchange, network)),
        smallest=NEVER,
        low_smallest=NEVER,
        high_smallest=NEVER,
        counted_from_ns=counted_ns[0],
        counted_to_ns=counted_ns[1],
    )


def put_checkpoints(at: Addresses) -> None:
    """When they begin, and room for what becomes of them."""
    network, interval_ns = at.network, at.network.checkpoint_interval_ns
    if interval_ns is None:
        each_counts = network.buffer_timeout_ns == 0 or network.debloating_enabled
        at.memory.put(k.Exchange, at.head, steps_at_records=int(each_counts))
        return
    barrier = barrier_of(network, at.load.scenario.workload.partitioner, 1, 0)
    at.memory.put(
        k.Exchange,
        at.head,
        has_barriers=1,
        steps_at_records=1,
        is_unaligned=int(barrier.is_unaligned),
        is_blocking=int(data_type_of(barrier) in IS_BLOCKING_UPSTREAM),
        interval_ns=interval_ns,
        expires_ns=network.checkpoint_timeout_ns,
        barrier_bytes=len(encode_pipelined(barrier)),
        aligned_timeout_ns=_aligned_timeout_ns(barrier),
        times=COUNTS + 4 * BUCKETS,
        time_sums=at.memory.take(TIME_KINDS * k.TimeSum.width()),
        next_checkpoint_ns=first_checkpoint_ns(at.exchange, at.network),
    )


def put_debloating(at: Addresses) -> None:
    """How gates are looked at, and when."""
    network, memory = at.network, at.memory
    config = debloating_config(network)
    if config is None:
        return
    memory.put(
        k.Exchange,
        at.head,
        debloat_ns=config.period_ns,
        target_ms=config.target_ns // NS_PER_MS,
        smallest_bytes=config.smallest_buffer_bytes,
        threshold_percent=config.threshold_percent,
        sizes=COUNTS + latency_kinds(network) * BUCKETS + 1,
    )
    start_ns = at.exchange.measured_from_ns
    for address in at.sink_at:
        memory.put(k.Sink, address, seen_ns=start_ns, announced_bytes=config.starting_buffer_bytes)
    for address in at.channel_at.values():
        memory.put(k.Channel, address, buffer_bytes=config.starting_buffer_bytes)


def _aligned_timeout_ns(barrier: CheckpointBarrier) -> int:
    return barrier.aligned_timeout_ms * NS_PER_MS if barrier.is_timeoutable else 0


def first_number_behind(exchange: RecordedExchange, network: NetworkConfig) -> int:
    """The first of the kernel's floating-point numbers behind the buffer size of each sink."""
    return COUNTS + latency_kinds(network) * BUCKETS + 1 + exchange.consumers


def latency_kinds(network: NetworkConfig) -> int:
    """Histograms that the kernel fills: of latencies and their bounds, and of checkpoints."""
    return 4 if network.checkpoint_interval_ns is None else 4 + TIME_KINDS


def batches_of(exchange: RecordedExchange, record_bytes: int) -> list[IntArray]:
    """The batches that each producer writes, one after the other: in each row how many records go
    to each of its subpartitions.
    """
    batch_records = max(1, MAX_RATE_BATCH_BYTES // record_bytes)
    found = []
    for producer in range(exchange.producers):
        own = [channel for channel in exchange.channels if channel.producer == producer]
        found.append(np.diff(_records_before(own, batch_records), axis=0, prepend=0))
    return found


def _records_before(channels: Sequence[RecordedChannel], batch_records: int) -> IntArray:
    """How many of the records that were emitted up to the end of each batch went to each of some
    channels: for each batch a row.
    """
    total = sum(channel.records for channel in channels)
    if len(channels) == 1:
        return np.append(np.arange(batch_records, total, batch_records), total)[:, np.newaxis]
    from .kernel.times import count_batches

    memory = KernelMemory()
    head = memory.take(k.Batches.width())
    places = memory.take(k.Arrivals.width() * len(channels))
    first_ns, last_ns = [], []
    for number, channel in enumerate(channels):
        each = _one_after_another(channel.arrivals)
        first = memory.table_of((each.records, each.first_ns, each.ends_ns))
        end = first + len(each) * k.Ramp.width()
        memory.put(k.Arrivals, places + number * k.Arrivals.width(), ramp=first, end=end)
        first_ns.append(int(each.first_ns[0]))
        last_ns.append(int(each.ends_ns[-1]))
    batches = -(-total // batch_records)
    counts = memory.take(batches * len(channels))
    memory.put(k.Batches, head, channels_count=len(channels), channels=places, counts=counts)
    words = memory.to_array()
    count_batches(words, batch_records, min(first_ns), max(last_ns))
    return words[counts:].reshape(batches, len(channels))


def _one_after_another(arrivals: Ramps) -> Ramps:
    """Split ramps so that they do not overlap."""
    if (arrivals.first_ns[1:] >= arrivals.ends_ns[:-1]).all():  # as good as always
        return arrivals
    return Ramps.of(np.sort(arrivals.instants()[1]))
