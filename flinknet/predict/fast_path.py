"""The fast path of what-if: which exchanges the compiled kernel covers, and what it needs to know.

Covered is what runs smoothly: records that come at a rate, channels over connections with credit
and exclusive buffers, network memory for all pools, writers that never wait for buffers. The kernel
notices by itself if a writer would have to wait; everything else is told by `is_covered`. What is
not covered is simulated with the real core.

Differs from the simulator, within the bound that its tests state: many latencies of one buffer are
counted by their density; records of a turn are written channel by channel, not in batches of 128
KiB.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray
from flinknet.config import CREDIT, NetworkConfig
from flinknet.core.connection import RECEIVE_BYTES
from flinknet.core.producer.connection import SEND_BATCH_BYTES
from flinknet.core.wire import BUFFER_RESPONSE_HEADER_BYTES
from flinknet.core.wire.events import (
    EndOfData,
    EndOfOutputChannelStateEvent,
    EndOfPartitionEvent,
    encode_pipelined,
)
from flinknet.histogram import BUCKETS, LogLinearHistogram, bucket_bounds_ns, bucket_index
from flinknet.job.load.payload import OVERHEAD_BYTES
from flinknet.job.load.plan import LoadPlan
from flinknet.job.stream_task import STEPS_PER_TURN
from flinknet.simulator.cluster import OPENING_NS
from flinknet.simulator.link import LinkSettings
from flinknet.simulator.source_plan import beat_phase_ns
from flinknet.simulator.task_manager import BUSY_NS_MAX

from .fast_kernel import words as k
from .recorded import RecordedExchange

FloatArray = npt.NDArray[np.float64]

_TURNS_PER_RECORD = 20
"""Turns of all TaskManagers for each record and channel at most, far above what there can be."""


@dataclass(frozen=True, slots=True, eq=False)
class FastOutcome:
    """What the kernel came to, in the terms of `recorded.SimulatedOutcome`; `last_ns` is
    when the last record was taken, `turns` how many turns all TaskManagers had.
    """

    latency: LogLinearHistogram
    records: int
    messages: int
    backlog_total: int
    backlog_max: int
    credits: int
    credit_messages: int
    last_ns: int
    turns: int


def is_covered(exchange: RecordedExchange, network: NetworkConfig, load: LoadPlan) -> bool:
    """Whether the kernel knows this kind of exchange."""
    scenario = load.scenario
    upstream = {each.task_manager for each in load.sources}
    latency_ns = _latency_ns(exchange)
    return (
        not exchange.is_max_rate
        and not exchange.outages[0]
        and exchange.costs.back_ns is None
        and exchange.flow_control == CREDIT
        and network.exclusive_buffers > 0
        and network.required_buffers_per_gate_max is None
        and network.checkpoint_interval_ns is None
        and not network.debloating_enabled
        and upstream.isdisjoint(each.task_manager for each in load.sinks)
        and scenario.workload.record_size.low_bytes + OVERHEAD_BYTES <= network.segment_size_bytes
        and 0 < latency_ns < OPENING_NS // 4
        and (network.exclusive_buffers + network.floating_buffers) * network.segment_size_bytes
        < LinkSettings().capacity_bytes // max(len(load.channels), 1)
        and all(each.most_buffers <= each.total_buffers for each in load.buffers())
    )


def run_fast(
    exchange: RecordedExchange, network: NetworkConfig, load: LoadPlan
) -> FastOutcome | None:
    """Run a covered exchange. Returns: None if a writer would have to wait for buffers."""
    from .fast_kernel.run import run

    memory = _layout(exchange, network, load)
    costs = exchange.costs
    numbers = np.zeros(k.COUNTS + 2 * BUCKETS + 1)
    numbers[k.SEND_NS_PER_MESSAGE] = costs.send_ns_per_message
    numbers[k.SEND_NS_PER_BYTE] = costs.send_ns_per_byte
    numbers[k.EMIT_NS_PER_RECORD] = costs.emit_ns_per_record
    if run(memory, numbers, BUCKETS) != k.DONE:
        return None
    counts, slopes = np.split(numbers[k.COUNTS : k.COUNTS + 2 * BUCKETS], 2)
    return FastOutcome(
        latency=_histogram(counts, slopes, memory),
        records=int(memory[k.RECORDS]),
        messages=int(memory[k.MESSAGES]),
        backlog_total=int(memory[k.BACKLOG_TOTAL]),
        backlog_max=int(memory[k.BACKLOG_MAX]),
        credits=int(memory[k.CREDITS]),
        credit_messages=int(memory[k.CREDIT_MESSAGES]),
        last_ns=int(memory[k.LAST_NS]),
        turns=int(memory[k.TURNS]),
    )


def _latency_ns(exchange: RecordedExchange) -> int:
    costs = exchange.costs
    return max(0, int(costs.transit_ns - costs.send_ns_per_message))


def _histogram(counts: FloatArray, slopes: FloatArray, memory: IntArray) -> LogLinearHistogram:
    """Counts and densities as whole records, whose sum is exact."""
    latency = LogLinearHistogram()
    records = int(memory[k.RECORDS])
    if not records:
        return latency
    low_ns, high_ns = int(memory[k.SMALLEST]), int(memory[k.LARGEST])
    filled = np.maximum(counts + np.cumsum(slopes) * _widths(), 0.0)
    low, high = bucket_index(np.array([low_ns, high_ns])).tolist()
    filled[:low] = filled[high + 1 :] = 0.0  # but for rounding they are
    reached = np.cumsum(filled)
    reached *= records / reached[-1]
    latency.counts = np.diff(np.rint(reached).astype(np.int64), prepend=0)
    latency.count, latency.total = records, int(memory[k.LATENCY_TOTAL])
    latency.min, latency.max = low_ns, high_ns
    return latency


@cache
def _widths() -> IntArray:
    bounds = map(bucket_bounds_ns, range(BUCKETS))
    return np.array([high - low for low, high in bounds], np.int64)


class _Memory:
    """Words that are handed out once, and filled by address."""

    def __init__(self, first: int) -> None:
        self._parts: list[tuple[int, IntArray]] = []
        self._words = first

    def take(self, words: int) -> int:
        """Returns: the address of that many words."""
        address, self._words = self._words, self._words + words
        return address

    def put(self, address: int, values: Iterable[int] | IntArray) -> None:
        """Fill words from an address on."""
        array = values if isinstance(values, np.ndarray) else np.array([*values], np.int64)
        self._parts.append((address, array))

    def list_of(self, values: Sequence[int]) -> int:
        """Returns: the address of the values."""
        address = self.take(max(len(values), 1))
        self.put(address, values)
        return address

    def record(self, address: int, fields: dict[int, int]) -> None:
        """Fill some words of a record."""
        for field, value in fields.items():
            self.put(address + field, (value,))

    def to_array(self) -> IntArray:
        """All of it."""
        memory = np.zeros(self._words, np.int64)
        for address, values in self._parts:
            memory[address : address + len(values)] = values
        return memory


def _layout(exchange: RecordedExchange, network: NetworkConfig, load: LoadPlan) -> IntArray:
    """The kernel's memory at the start of a run."""
    memory = _Memory(k.HEAD_WORDS)
    counted_ns = exchange.counted_ns or (0, k.NEVER)
    record_bytes = load.scenario.workload.record_size.low_bytes + OVERHEAD_BYTES
    segment_bytes = network.segment_size_bytes
    count, start_ns = len(load.channels), exchange.measured_from_ns
    channels = memory.take(count * k.CHANNEL_WORDS)
    channel_at = {
        each.index: channels + place * k.CHANNEL_WORDS for place, each in enumerate(load.channels)
    }
    source_at = [memory.take(k.SOURCE_WORDS) for _ in load.sources]
    sink_at = [memory.take(k.SINK_WORDS) for _ in load.sinks]
    task_managers = memory.take(load.task_managers * k.TASK_MANAGER_WORDS)
    manager_at = [
        task_managers + number * k.TASK_MANAGER_WORDS for number in range(load.task_managers)
    ]
    pairs = [(each.producer_task_manager, each.consumer_task_manager) for each in load.channels]
    connection_at = {pair: memory.take(k.CONNECTION_WORDS) for pair in dict.fromkeys(pairs)}
    ring = _power_of_two(network.exclusive_buffers + network.floating_buffers + 4)
    memory.record(
        0,
        {
            k.TASK_MANAGERS: load.task_managers,
            k.TIMEOUT_NS: network.buffer_timeout_ns,
            k.PERIOD_NS: network.buffer_timeout_ns + exchange.flush_overhead_ns,
            k.RECORD_BYTES: record_bytes,
            k.SEGMENT_BYTES: segment_bytes,
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
            k.LATENCY_NS: _latency_ns(exchange),
            k.RECEIVE_NS: int(exchange.costs.receive_ns_per_message),
            k.RING_MASK: ring - 1,
            k.TURNS_MAX: 1_000_000 + _TURNS_PER_RECORD * exchange.records,
            k.FIRST_TASK_MANAGER: task_managers,
            k.CHANNELS: count,
            k.FIRST_CHANNEL: channels,
            k.SMALLEST: k.NEVER,
            k.COUNTED_FROM_NS: counted_ns[0],
            k.COUNTED_TO_NS: counted_ns[1],
        },
    )
    recorded = {channel.channel: channel for channel in exchange.channels}
    for each, pair in zip(load.channels, pairs, strict=True):
        channel = recorded[each.index]
        arrivals, before = channel.arrivals, channel.records_before
        counted = channel.counted or (0, len(arrivals))
        ramps = np.stack([arrivals.records, arrivals.first_ns, arrivals.last_ns], axis=1)
        first = memory.take(ramps.size)
        memory.put(first, ramps.ravel())
        memory.record(
            channel_at[each.index],
            {
                k.SOURCE: source_at[each.producer],
                k.CONNECTION: connection_at[pair],
                k.SINK: sink_at[each.consumer],
                k.RAMP_END: first + ramps.size,
                k.RAMP: first,
                k.OPENS_RAMP: first,
                k.OPENS_RECORD: -1,
                k.OPENS_BASE: before,
                k.EMITTED: before * record_bytes,
                k.POLLED: before * record_bytes,
                k.HEAD: before * record_bytes // segment_bytes,
                k.COUNTED_RAMP: first + counted[0] * k.RAMP_WORDS,
                k.COUNTED_RAMP_END: first + counted[1] * k.RAMP_WORDS,
                k.DONE_RAMP: first,
                k.FRONT_EVENT: 1,
                k.CREDIT: network.exclusive_buffers,
                k.FREE_EXCLUSIVE: network.exclusive_buffers,
                k.RING: memory.take(ring * k.MESSAGE_WORDS),
            },
        )
    for pair, address in connection_at.items():
        width = _power_of_two(pairs.count(pair) + 1)
        slots = width * ring
        memory.record(
            address,
            {
                k.UPSTREAM: manager_at[pair[0]],
                k.DOWNSTREAM: manager_at[pair[1]],
                k.SLOTS_MASK: slots - 1,
                k.WIDTH_MASK: width - 1,
                k.READERS: memory.take(width),
                k.NOTIFIED: memory.take(width),
                k.DOWN: memory.take(slots * k.DOWN_WORDS),
                k.UP: memory.take(slots * k.UP_WORDS),
                k.CREDITORS: memory.take(width),
                k.CONTROL: memory.take(2 * width * k.CONTROL_WORDS),
            },
        )
    timeout_ns = network.buffer_timeout_ns
    end_ns = exchange.data_ends_ns(network)
    for source, (task, address) in enumerate(zip(load.sources, source_at, strict=True)):
        output = task.outputs[0]
        last_ns = max(
            int(channel.arrivals.last_ns[-1])
            for channel in exchange.channels
            if channel.producer == source
        )
        period_ns = timeout_ns + exchange.flush_overhead_ns
        beat_ns = start_ns - beat_phase_ns(exchange.seed, source, period_ns) + period_ns
        memory.record(
            address,
            {
                k.OUTPUTS: memory.list_of([channel_at[each] for each in output.channels]),
                k.OUTPUTS_COUNT: output.subpartitions,
                k.UNACKNOWLEDGED: output.subpartitions,
                k.END_NS: max(end_ns, last_ns),
                k.POOL_BUFFERS: output.pool.max_buffers,
                k.BEAT_NS: beat_ns if timeout_ns > 0 else k.NEVER,
            },
        )
    for sink, (task, address) in enumerate(zip(load.sinks, sink_at, strict=True)):
        gate = task.inputs[0]
        width = _power_of_two(len(gate.channels) + 1)
        memory.record(
            address,
            {
                k.INPUTS: memory.list_of([channel_at[each.index] for each in gate.channels]),
                k.INPUTS_COUNT: len(gate.channels),
                k.CONSUME_NS: round(exchange.costs.consume_ns_per_record[sink]),
                k.READY: memory.take(width),
                k.BUSY_UNTIL_NS: -1,
                k.POOL_FREE: gate.pool.max_buffers,
                k.LISTENERS: memory.take(width),
                k.GATE_MASK: width - 1,
            },
        )
    for number, address in enumerate(manager_at):
        own = load.tasks_on(number)
        own_sources = [source_at[each.subtask] for each in own if each.outputs]
        own_sinks = [sink_at[each.subtask] for each in own if each.inputs]
        outgoing = [at for pair, at in connection_at.items() if pair[0] == number]
        incoming = [at for pair, at in connection_at.items() if pair[1] == number]
        memory.record(
            address,
            {
                k.WAKE_NS: start_ns,
                k.FREE_SINCE_NS: start_ns,
                k.IDLE_NS: OPENING_NS,
                k.SOURCES: memory.list_of(own_sources),
                k.SOURCES_COUNT: len(own_sources),
                k.SINKS: memory.list_of(own_sinks),
                k.SINKS_COUNT: len(own_sinks),
                k.OUTGOING: memory.list_of(outgoing),
                k.OUTGOING_COUNT: len(outgoing),
                k.INCOMING: memory.list_of(incoming),
                k.INCOMING_COUNT: len(incoming),
            },
        )
    return memory.to_array()


def _power_of_two(count: int) -> int:
    """The first one that is not smaller."""
    return 1 << (count - 1).bit_length()
