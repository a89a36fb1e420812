"""The head of the kernel's memory: what does not change in a run."""

from __future__ import annotations

from flinknet.config import NetworkConfig
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
from flinknet.job.load.payload import MAX_RATE_BATCH_BYTES
from flinknet.job.stream_task import STEPS_PER_TURN
from flinknet.simulator.task_manager import BUSY_NS_MAX
from flinknet.units import NS_PER_MS

from .fast_addresses import Addresses
from .fast_clock import back_ns, catches_up, first_checkpoint_ns, one_way_ns, turns_max
from .fast_kernel import words as k
from .recorded import RecordedExchange


def put_head(at: Addresses) -> None:
    """What does not change in a run."""
    exchange, network = at.exchange, at.network
    counted_ns = exchange.counted_ns or (0, k.NEVER)
    beat_ns = exchange.beat_ns(network)
    marks = WriteWaterMarks()
    if at.is_tcp:
        marks = WriteWaterMarks.classic(network.segment_size_bytes)
    at.memory.record(
        0,
        {
            k.TASK_MANAGERS: at.load.task_managers,
            k.TIMEOUT_NS: network.buffer_timeout_ns,
            k.PERIOD_NS: at.period_ns,
            k.RECORD_BYTES: at.record_bytes,
            k.BATCH_RECORDS: max(1, MAX_RATE_BATCH_BYTES // at.record_bytes),
            k.SEGMENT_BYTES: network.segment_size_bytes,
            k.SEGMENT_BITS: network.segment_size_bytes.bit_length() - 1,
            k.EXCLUSIVE_BUFFERS: network.exclusive_buffers,
            k.QUOTA_BUFFERS: network.max_buffers_per_channel,
            k.HEADER_BYTES: BUFFER_RESPONSE_HEADER_BYTES,
            k.RECOVERY_BYTES: len(encode_pipelined(EndOfOutputChannelStateEvent())),
            k.END_OF_DATA_BYTES: len(encode_pipelined(EndOfData())),
            k.END_OF_PARTITION_BYTES: len(encode_pipelined(EndOfPartitionEvent())),
            k.BATCH_BYTES: SEND_BATCH_BYTES,
            k.RECEIVE_BYTES: RECEIVE_BYTES,
            k.STEPS_PER_TURN: STEPS_PER_TURN,
            k.BUSY_NS: BUSY_NS_MAX,
            k.LATENCY_NS: one_way_ns(exchange),
            k.BACK_NS: back_ns(exchange),
            k.RECEIVE_NS: int(exchange.costs.receive_ns_per_message),
            k.RING_MASK: at.ring - 1,
            k.BOUNDARIES_MASK: at.boundaries - 1,
            k.TURNS_MAX: turns_max(exchange, network, at.load.task_managers),
            k.FIRST_TASK_MANAGER: at.managers,
            k.CHANNELS: len(at.load.channels),
            k.FIRST_CHANNEL: at.channels,
            k.SOURCES: len(at.source_at),
            k.FIRST_SOURCE: at.source_at[0],
            k.SINKS: len(at.sink_at),
            k.FIRST_SINK: at.sink_at[0],
            k.TURNS_ASKED: 1 + at.timers,
            k.LINK_BYTES: exchange.socket_bytes,
            k.HIGH_BYTES: marks.high_bytes,
            k.LOW_BYTES: marks.low_bytes,
            k.WITHOUT_CREDIT: int(at.is_tcp),
            k.NARROW_BYTES: 2 * (SEND_BATCH_BYTES + network.segment_size_bytes),
            k.IS_MAX_RATE: int(exchange.is_max_rate),
            k.IS_DISTURBED: int(bool(exchange.preemptions[0])),
            k.WAKES: at.wakes,
            k.HAS_INSTANTS: int(exchange.has_instants),
            k.BEAT_NS: k.NEVER if beat_ns is None else beat_ns,
            k.CATCHES_UP: int(catches_up(exchange, network)),
            k.SMALLEST: k.NEVER,
            k.LOW_SMALLEST: k.NEVER,
            k.HIGH_SMALLEST: k.NEVER,
            k.COUNTED_FROM_NS: counted_ns[0],
            k.COUNTED_TO_NS: counted_ns[1],
        },
    )


def put_checkpoints(at: Addresses) -> None:
    """When they begin, and room for what becomes of them."""
    network, interval_ns = at.network, at.network.checkpoint_interval_ns
    if interval_ns is None:
        each_counts = network.buffer_timeout_ns == 0 or network.debloating_enabled
        at.memory.record(0, {k.STEPS_AT_RECORDS: int(each_counts)})
        return
    barrier = barrier_of(network, at.load.scenario.workload.partitioner, 1, 0)
    at.memory.record(
        0,
        {
            k.HAS_BARRIERS: 1,
            k.STEPS_AT_RECORDS: 1,
            k.IS_UNALIGNED: int(barrier.is_unaligned),
            k.IS_BLOCKING: int(data_type_of(barrier) in IS_BLOCKING_UPSTREAM),
            k.INTERVAL_NS: interval_ns,
            k.EXPIRES_NS: network.checkpoint_timeout_ns,
            k.BARRIER_BYTES: len(encode_pipelined(barrier)),
            k.ALIGNED_TIMEOUT_NS: _aligned_timeout_ns(barrier),
            k.TIMES: k.COUNTS + 4 * BUCKETS,
            k.TIME_SUMS: at.memory.take(k.TIME_KINDS * k.TIME_WORDS),
            k.NEXT_CHECKPOINT_NS: first_checkpoint_ns(at.exchange, at.network),
        },
    )


def put_debloating(at: Addresses) -> None:
    """How gates are looked at, and when."""
    network, memory = at.network, at.memory
    config = debloating_config(network)
    if config is None:
        return
    memory.record(
        0,
        {
            k.DEBLOAT_NS: config.period_ns,
            k.TARGET_MS: config.target_ns // NS_PER_MS,
            k.SMALLEST_BYTES: config.smallest_buffer_bytes,
            k.THRESHOLD_PERCENT: config.threshold_percent,
            k.SIZES: k.COUNTS + latency_kinds(network) * BUCKETS + 1,
        },
    )
    start_ns = at.exchange.measured_from_ns
    for address in at.sink_at:
        announced = {k.SEEN_NS: start_ns, k.ANNOUNCED_BYTES: config.starting_buffer_bytes}
        memory.record(address, announced)
    for address in at.channel_at.values():
        memory.record(address, {k.BUFFER_BYTES: config.starting_buffer_bytes})


def _aligned_timeout_ns(barrier: CheckpointBarrier) -> int:
    return barrier.aligned_timeout_ms * NS_PER_MS if barrier.is_timeoutable else 0


def first_number_behind(exchange: RecordedExchange, network: NetworkConfig) -> int:
    """The first of the kernel's floating-point numbers behind the buffer size of each sink."""
    return k.COUNTS + latency_kinds(network) * BUCKETS + 1 + exchange.consumers


def latency_kinds(network: NetworkConfig) -> int:
    """Histograms that the kernel fills: of latencies and their bounds, and of checkpoints."""
    return 4 if network.checkpoint_interval_ns is None else 4 + k.TIME_KINDS
