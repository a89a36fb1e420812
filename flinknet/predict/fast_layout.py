"""The kernel's memory at the start of a run: everything of an exchange as words at addresses."""

from __future__ import annotations

from collections import Counter

from flinknet.arrays import IntArray
from flinknet.config import NetworkConfig
from flinknet.core.buffers.data_type import IS_BLOCKING_UPSTREAM
from flinknet.core.connection import RECEIVE_BYTES, SEND_BATCH_BYTES
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
from flinknet.simulator.cluster import OPENING_NS
from flinknet.simulator.direction import LinkSettings
from flinknet.simulator.task_manager import BUSY_NS_MAX
from flinknet.units import NS_PER_MS

from .fast_clock import (
    alignments_max,
    catches_up,
    first_checkpoint_ns,
    flusher_phase_ns,
    one_way_ns,
    turns_max,
)
from .fast_kernel import words as k
from .fast_memory import KernelMemory, power_of_two
from .recorded import RecordedExchange


def memory_of_run(
    exchange: RecordedExchange, network: NetworkConfig, load: LoadPlan
) -> tuple[IntArray, dict[int, slice], list[int]]:
    """The memory that the kernel starts with; and, if the exchange asks for departures, where it
    will note when each record is done with, by channel, and from where on when checkpoints are
    aligned, by sink.
    """
    layout = _Layout(exchange, network, load)
    layout.put_head()
    layout.put_checkpoints()
    layout.put_debloating()
    layout.put_channels()
    layout.put_connections()
    layout.put_sources()
    layout.put_sinks()
    layout.put_task_managers()
    return layout.memory.to_array(), layout.departures, layout.alignments


class _Layout:
    """Addresses of everything in a run; each `put_` method fills the records of one kind."""

    def __init__(self, exchange: RecordedExchange, network: NetworkConfig, load: LoadPlan) -> None:
        self.memory = memory = KernelMemory(k.HEAD_WORDS)
        self._exchange, self._network, self._load = exchange, network, load
        self._record_bytes = load.scenario.workload.record_size.low_bytes + OVERHEAD_BYTES
        self._period_ns = network.buffer_timeout_ns + exchange.flush_overhead_ns
        said = 4  # under way, beside buffers
        if network.debloating_enabled:
            said += one_way_ns(exchange) // network.debloating_period_ns + 1
        self._ring = power_of_two(network.exclusive_buffers + network.floating_buffers + said)
        self._channels = memory.take(len(load.channels) * k.CHANNEL_WORDS)
        self._channel_at = {
            each.index: self._channels + place * k.CHANNEL_WORDS
            for place, each in enumerate(load.channels)
        }
        self._source_at = [memory.take(k.SOURCE_WORDS) for _ in load.sources]
        self._sink_at = [memory.take(k.SINK_WORDS) for _ in load.sinks]
        self._timers = load.task_managers if network.debloating_enabled else 0
        turns = load.task_managers + 1 + self._timers  # and the coordinator's
        self._wakes = memory.timetable(turns)
        self._managers = memory.take(turns * k.TASK_MANAGER_WORDS)
        self._manager_at = [
            self._managers + number * k.TASK_MANAGER_WORDS for number in range(load.task_managers)
        ]
        self._boundaries = _boundaries(network)
        self._outputs = [task.outputs[0].channels for task in load.sources]
        remote = [
            (each.task_manager, task.task_manager)
            for task in load.sinks
            for each in task.inputs[0].channels
            if not each.is_local
        ]
        self._channels_between = Counter(remote)  # in the order in which connections are made
        self._connection_at = {
            pair: memory.take(k.CONNECTION_WORDS) for pair in self._channels_between
        }
        self._ends: list[list[int]] = [[] for _ in self._manager_at]
        self.departures: dict[int, slice] = {}
        self.alignments: list[int] = []

    def put_head(self) -> None:
        """What does not change in a run."""
        exchange, network = self._exchange, self._network
        counted_ns = exchange.counted_ns or (0, k.NEVER)
        beat_ns = exchange.beat_ns(network)
        self.memory.record(
            0,
            {
                k.TASK_MANAGERS: self._load.task_managers,
                k.TIMEOUT_NS: network.buffer_timeout_ns,
                k.PERIOD_NS: self._period_ns,
                k.RECORD_BYTES: self._record_bytes,
                k.BATCH_RECORDS: max(1, MAX_RATE_BATCH_BYTES // self._record_bytes),
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
                k.RECEIVE_NS: int(exchange.costs.receive_ns_per_message),
                k.RING_MASK: self._ring - 1,
                k.BOUNDARIES_MASK: self._boundaries - 1,
                k.TURNS_MAX: turns_max(exchange, network, self._load.task_managers),
                k.FIRST_TASK_MANAGER: self._managers,
                k.CHANNELS: len(self._load.channels),
                k.FIRST_CHANNEL: self._channels,
                k.SOURCES: len(self._source_at),
                k.FIRST_SOURCE: self._source_at[0],
                k.SINKS: len(self._sink_at),
                k.FIRST_SINK: self._sink_at[0],
                k.TURNS_ASKED: 1 + self._timers,
                k.LINK_BYTES: LinkSettings().capacity_bytes,
                k.WAKES: self._wakes,
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

    def _most_records(self, buffers: int) -> int:
        """More than these are no single batch, and do not fit into so many buffers."""
        size = max(buffers * self._network.segment_size_bytes, MAX_RATE_BATCH_BYTES)
        return size // self._record_bytes

    def put_checkpoints(self) -> None:
        """When they begin, and room for what becomes of them."""
        network, interval_ns = self._network, self._network.checkpoint_interval_ns
        if interval_ns is None:
            each_counts = network.buffer_timeout_ns == 0 or network.debloating_enabled
            self.memory.record(0, {k.STEPS_AT_RECORDS: int(each_counts)})
            return
        barrier = barrier_of(network, self._load.scenario.workload.partitioner, 1, 0)
        self.memory.record(
            0,
            {
                k.STEPS_AT_RECORDS: 1,
                k.IS_UNALIGNED: int(barrier.is_unaligned),
                k.IS_BLOCKING: int(data_type_of(barrier) in IS_BLOCKING_UPSTREAM),
                k.INTERVAL_NS: interval_ns,
                k.EXPIRES_NS: network.checkpoint_timeout_ns,
                k.BARRIER_BYTES: len(encode_pipelined(barrier)),
                k.ALIGNED_TIMEOUT_NS: self._aligned_timeout_ns(barrier),
                k.TIMES: k.COUNTS + 4 * BUCKETS,
                k.TIME_SUMS: self.memory.take(k.TIME_KINDS * k.TIME_WORDS),
                k.NEXT_CHECKPOINT_NS: first_checkpoint_ns(self._exchange, self._network),
            },
        )

    @staticmethod
    def _aligned_timeout_ns(barrier: CheckpointBarrier) -> int:
        return barrier.aligned_timeout_ms * NS_PER_MS if barrier.is_timeoutable else 0

    def put_debloating(self) -> None:
        """How gates are looked at, and when."""
        network, memory = self._network, self.memory
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
        start_ns = self._exchange.measured_from_ns
        for address in self._sink_at:
            announced = {k.SEEN_NS: start_ns, k.ANNOUNCED_BYTES: config.starting_buffer_bytes}
            memory.record(address, announced)
        for address in self._channel_at.values():
            memory.record(address, {k.BUFFER_BYTES: config.starting_buffer_bytes})

    def put_channels(self) -> None:
        """The channels, each with its arrivals and what has left its subpartition before."""
        memory, exclusive_buffers = self.memory, self._network.exclusive_buffers
        recorded = {channel.channel: channel for channel in self._exchange.channels}
        places = {channel: at for output in self._outputs for at, channel in enumerate(output)}
        for planned in self._load.channels:
            channel = recorded[planned.index]
            arrivals = channel.arrivals
            counted = channel.counted or (0, len(arrivals))
            columns = arrivals.records, arrivals.first_ns, arrivals.last_ns
            first = memory.table_of(columns)
            before_bytes = channel.records_before * self._record_bytes
            departures = 0
            if self._exchange.keeps_departures:
                departures = memory.take(channel.records)
                self.departures[channel.channel] = slice(departures, departures + channel.records)
            pair = (planned.producer_task_manager, planned.consumer_task_manager)
            is_local = pair[0] == pair[1]
            memory.record(
                self._channel_at[planned.index],
                {
                    k.SOURCE: self._source_at[planned.producer],
                    k.PLACE: places[planned.index],
                    k.CONNECTION: 0 if is_local else self._connection_at[pair],
                    k.SINK: self._sink_at[planned.consumer],
                    k.RAMP_END: first + len(arrivals) * k.RAMP_WORDS,
                    k.RAMP: first,
                    k.OPENS_RAMP: first,
                    k.OPENS_RECORD: -1,
                    k.OPENS_BASE: channel.records_before,
                    k.EMITTED: before_bytes,
                    k.POLLED: before_bytes,
                    **self._open_at(before_bytes),
                    k.COUNTED_RAMP: first + counted[0] * k.RAMP_WORDS,
                    k.COUNTED_RAMP_END: first + counted[1] * k.RAMP_WORDS,
                    k.DONE_RAMP: first,
                    k.SENT_RAMP: first,
                    k.LAST_SENT_NS: self._exchange.measured_from_ns,
                    k.DEPARTURES: departures,
                    k.FRONT_EVENT: 1,
                    k.CREDIT: exclusive_buffers,
                    k.FREE_EXCLUSIVE: exclusive_buffers,
                    k.BOUNDARIES: memory.take(self._boundaries),
                    k.RING: memory.take((1 if is_local else self._ring) * k.MESSAGE_WORDS),
                },
            )

    def _open_at(self, size: int) -> dict[int, int]:
        """Where a subpartition stands that begins behind so many bytes."""
        if self._network.debloating_enabled:
            return {k.SEGMENTS_FROM: size, k.OPEN_FROM: size}
        return {k.HEAD: size // self._network.segment_size_bytes}

    def put_connections(self) -> None:
        """The connections, with room for all that may be under way or wait for its turn."""
        memory = self.memory
        for (upstream, downstream), address in self._connection_at.items():
            width = power_of_two(self._channels_between[upstream, downstream] + 1)
            slots = width * self._ring
            memory.record(
                address,
                {
                    k.UPSTREAM: self._manager_at[upstream],
                    k.UPSTREAM_PLACE: self._end_of(upstream, address, is_upstream=True),
                    k.DOWNSTREAM: self._manager_at[downstream],
                    k.DOWNSTREAM_PLACE: self._end_of(downstream, address, is_upstream=False),
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

    def _end_of(self, task_manager: int, address: int, *, is_upstream: bool) -> int:
        """Returns: the place of one more end in a TaskManager."""
        ends = self._ends[task_manager]
        ends += (address, int(is_upstream))
        return len(ends) // k.END_WORDS - 1

    def put_sources(self) -> None:
        """The sources, each with its channels, its pool and the first beat of its flusher."""
        exchange, timeout_ns = self._exchange, self._network.buffer_timeout_ns
        end_ns = exchange.data_ends_ns(self._network)
        ends_ns = {each.channel: int(each.arrivals.last_ns[-1]) for each in exchange.channels}
        tasks = zip(self._load.sources, self._source_at, strict=True)
        for source, (task, address) in enumerate(tasks):
            output = task.outputs[0]
            channels = [self._channel_at[each] for each in output.channels]
            last_ns = max(ends_ns[each] for each in output.channels)
            barriers_ns = exchange.barriers_ns[source].tolist() if exchange.barriers_ns else []
            barriers = self.memory.list_of(barriers_ns)
            phase_ns = flusher_phase_ns(
                exchange, exchange.flushers_before + source, self._period_ns
            )
            beat_ns = exchange.measured_from_ns - phase_ns + self._period_ns
            self.memory.record(
                address,
                {
                    k.OUTPUTS: self.memory.list_of(channels),
                    k.OUTPUTS_COUNT: output.subpartitions,
                    k.UNACKNOWLEDGED: output.subpartitions,
                    k.END_NS: max(end_ns, last_ns),
                    k.POOL_BUFFERS: output.pool.max_buffers,
                    k.OVERDRAFT_BUFFERS: output.overdraft_buffers,
                    k.MOST_RECORDS: self._most_records(output.pool.max_buffers),
                    k.FLUSH_NS: beat_ns if timeout_ns > 0 else k.NEVER,
                    k.RECORDS_DUE: self.memory.timetable(len(channels)),
                    k.SEGMENTS_DUE: self.memory.timetable(len(channels)),
                    k.NEXT_BARRIER: barriers,
                    k.BARRIERS_END: barriers + len(barriers_ns),
                    k.TIMES_OUT_NS: k.NEVER,
                    k.TOUCHED: self.memory.take(len(channels)),
                },
            )

    def put_sinks(self) -> None:
        """The sinks, each with its channels, its gate's queue and its pool of floating buffers."""
        memory = self.memory
        for sink, (task, address) in enumerate(zip(self._load.sinks, self._sink_at, strict=True)):
            gate = task.inputs[0]
            inputs = gate.channels
            width = power_of_two(len(inputs) + 1)
            most = alignments_max(self._exchange, self._network)
            alignments = memory.take(most)
            if most:
                self.alignments.append(alignments)
            memory.record(
                address,
                {
                    k.INPUTS: memory.list_of([self._channel_at[each.index] for each in inputs]),
                    k.INPUTS_COUNT: len(inputs),
                    k.CONSUME_NS: round(self._exchange.costs.consume_ns_per_record[sink]),
                    k.READY: memory.take(width),
                    k.BUSY_UNTIL_NS: -1,
                    k.DEADLINE_NS: k.NEVER,
                    k.ANNOUNCED: memory.take(len(inputs)),
                    k.IDLE_SINCE_NS: -1,
                    k.MARKED_NS: self._exchange.measured_from_ns,
                    k.POOL_FREE: gate.pool.max_buffers,
                    k.LISTENERS: memory.take(width),
                    k.GATE_MASK: width - 1,
                    k.OPEN_INPUTS: len(inputs),
                    k.BLOCKED: memory.take(len(inputs)),
                    k.PRIORITIES: memory.take(width),
                    k.ALIGNMENTS: alignments,
                    k.ALIGNMENTS_END: alignments + most,
                },
            )

    def put_task_managers(self) -> None:
        """The TaskManagers, each with its tasks and its ends of connections."""
        memory, start_ns = self.memory, self._exchange.measured_from_ns
        local = {
            each.task_manager
            for task in self._load.sinks
            for each in task.inputs[0].channels
            if each.is_local
        }
        tasks: list[tuple[list[int], list[int]]] = [([], []) for _ in self._manager_at]
        for kind, (found, addresses) in enumerate(
            ((self._load.sources, self._source_at), (self._load.sinks, self._sink_at))
        ):
            for task, address in zip(found, addresses, strict=True):
                tasks[task.task_manager][kind].append(address)
        for number, address in enumerate(self._manager_at):
            (sources, sinks), ends = tasks[number], self._ends[number]
            memory.record(
                address,
                {
                    k.NUMBER: number,
                    k.FREE_SINCE_NS: start_ns,
                    k.IDLE_NS: OPENING_NS,
                    k.OWN_SOURCES: memory.list_of(sources),
                    k.OWN_SOURCES_COUNT: len(sources),
                    k.OWN_SINKS: memory.list_of(sinks),
                    k.OWN_SINKS_COUNT: len(sinks),
                    k.HAS_LOCAL_CHANNELS: int(number in local),
                    k.ENDS: memory.list_of(ends),
                    k.ARRIVALS: memory.timetable(len(ends) // k.END_WORDS),
                    k.UNSENT: memory.timetable(len(ends) // k.END_WORDS),
                },
            )
        places = len(self._manager_at)
        due_ns = [start_ns] * places + [first_checkpoint_ns(self._exchange, self._network)]
        memory.record(self._managers + places * k.TASK_MANAGER_WORDS, {k.ASKED: 1 + self._timers})
        for place in range(self._timers):
            number = places + 1 + place
            address = self._managers + number * k.TASK_MANAGER_WORDS
            memory.record(address, {k.NUMBER: number, k.ASKED: 1 + place})
            has_gates = len(tasks[place][1]) > 0
            period_ns = self._network.debloating_period_ns
            due_ns.append(start_ns + period_ns if has_gates else k.NEVER)
        leaves = power_of_two(len(due_ns))
        nodes = dict(enumerate(due_ns, start=leaves))
        for node in range(leaves - 1, 0, -1):
            below = (nodes.get(each, k.NEVER) for each in (2 * node, 2 * node + 1))
            nodes[node] = min(below)
        memory.record(self._wakes, nodes)


def latency_kinds(network: NetworkConfig) -> int:
    """Histograms that the kernel fills: of latencies and their bounds, and of checkpoints."""
    return 4 if network.checkpoint_interval_ns is None else 4 + k.TIME_KINDS


def _boundaries(network: NetworkConfig) -> int:
    """Room for places in a subpartition where segments have been closed early: an aligned barrier
    has to leave before the next one comes, others need not, and with debloating all may be."""
    if not network.debloating_enabled:
        if network.checkpoint_interval_ns is None:
            return 1
        if not network.unaligned_checkpoints:
            return 2
    return power_of_two(network.max_buffers_per_channel + 4)
