"""The kernel's memory at the start of a run: everything of an exchange as words at addresses."""

from __future__ import annotations

from flinknet.config import NetworkConfig
from flinknet.job.load.payload import MAX_RATE_BATCH_BYTES
from flinknet.job.load.plan import LoadPlan
from flinknet.simulator.cluster import OPENING_NS

from .fast_addresses import Addresses
from .fast_clock import alignments_max, back_ns, first_checkpoint_ns, flusher_phase_ns
from .fast_head import put_checkpoints, put_debloating, put_head
from .fast_kernel import words as k
from .fast_memory import power_of_two
from .full_speed import batches_of, preemptions_of
from .recorded import RecordedChannel, RecordedExchange


def lay_out(
    exchange: RecordedExchange, network: NetworkConfig, load: LoadPlan, *, attempts: int = 0
) -> Layout:
    """The memory that the kernel starts with.

    Args:
        attempts: that have had too little room for messages on their way.
    """
    layout = Layout(exchange, network, load, attempts)
    put_head(layout)
    put_checkpoints(layout)
    put_debloating(layout)
    layout.put_channels()
    layout.put_connections()
    layout.put_sources()
    layout.put_sinks()
    layout.put_task_managers()
    layout.put_disturbances()
    return layout


class Layout(Addresses):
    """Channels, connections and tasks at their addresses; each `put_` method fills the records of
    one kind.

    Attributes:
        departures: if the exchange asks for them, where the kernel notes when each record is done
            with, by channel.
        alignments: likewise, from where on it notes when checkpoints are aligned, by sink.
    """

    def __init__(
        self, exchange: RecordedExchange, network: NetworkConfig, load: LoadPlan, attempts: int
    ) -> None:
        super().__init__(exchange, network, load, attempts)
        self._ends: list[list[int]] = [[] for _ in self.manager_at]
        self.departures: dict[int, slice] = {}
        self.alignments: list[int] = []
        self._batches = batches_of(exchange, self.record_bytes) if exchange.is_max_rate else []

    def put_channels(self) -> None:
        """The channels, each with its arrivals and what has left its subpartition before."""
        memory = self.memory
        exclusive_buffers = 0 if self.is_tcp else self.network.exclusive_buffers
        recorded = {channel.channel: channel for channel in self.exchange.channels}
        places = {channel: at for output in self.outputs for at, channel in enumerate(output)}
        for planned in self.load.channels:
            channel = recorded[planned.index]
            first, ramps, most_ramps = self._put_arrivals(channel, places[planned.index])
            counted = channel.counted or (0, most_ramps)
            before_bytes = channel.records_before * self.record_bytes
            departures = 0
            if self.exchange.keeps_departures:
                departures = memory.take(channel.records)
                self.departures[channel.channel] = slice(departures, departures + channel.records)
            pair = (planned.producer_task_manager, planned.consumer_task_manager)
            is_local = pair[0] == pair[1]
            memory.record(
                self.channel_at[planned.index],
                {
                    k.SOURCE: self.source_at[planned.producer],
                    k.PLACE: places[planned.index],
                    k.CONNECTION: 0 if is_local else self.connection_at[pair],
                    k.SINK: self.sink_at[planned.consumer],
                    k.RAMP_END: first + ramps * k.RAMP_WORDS,
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
                    k.LAST_SENT_NS: self.exchange.measured_from_ns,
                    k.DEPARTURES: departures,
                    k.FRONT_EVENT: 1,
                    k.CREDIT: k.NEVER if self.is_tcp else exclusive_buffers,
                    k.FREE_EXCLUSIVE: exclusive_buffers,
                    k.BOUNDARIES: memory.take(self.boundaries),
                    k.RING: memory.take((1 if is_local else self.ring) * k.MESSAGE_WORDS),
                },
            )

    def _put_arrivals(self, channel: RecordedChannel, place: int) -> tuple[int, int, int]:
        """The stretches in which the records of a channel come; at the highest rate these follow.

        Returns: the address of the first, how many there are, and how many there will be.
        """
        if self.exchange.is_max_rate:
            most = int((self._batches[channel.producer][:, place] > 0).sum())
            return self.memory.take(most * k.RAMP_WORDS), 0, most
        arrivals = channel.arrivals
        first = self.memory.table_of((arrivals.records, arrivals.first_ns, arrivals.ends_ns))
        return first, len(arrivals), len(arrivals)

    def _open_at(self, size: int) -> dict[int, int]:
        """Where a subpartition stands that begins behind so many bytes."""
        if self.network.debloating_enabled:
            return {k.SEGMENTS_FROM: size, k.OPEN_FROM: size}
        return {k.HEAD: size // self.network.segment_size_bytes}

    def put_connections(self) -> None:
        """The connections, with room for all that may be under way or wait for its turn."""
        memory = self.memory
        for (upstream, downstream), address in self.connection_at.items():
            width = power_of_two(self.channels_between[upstream, downstream] + 1)
            slots = max(width * self.ring, self.least_slots)
            has_stamps = self.is_tcp and not self.exchange.has_instants
            memory.record(
                address,
                {
                    k.UPSTREAM: self.manager_at[upstream],
                    k.UPSTREAM_PLACE: self._end_of(upstream, address, is_upstream=True),
                    k.DOWNSTREAM: self.manager_at[downstream],
                    k.DOWNSTREAM_PLACE: self._end_of(downstream, address, is_upstream=False),
                    k.SLOTS_MASK: slots - 1,
                    k.WIDTH_MASK: width - 1,
                    k.READERS: memory.take(width),
                    k.NOTIFIED: memory.take(width),
                    k.DOWN: memory.take(slots * k.DOWN_WORDS),
                    k.UP: memory.take(slots * k.UP_WORDS),
                    k.CREDITORS: memory.take(width),
                    k.CONTROL: memory.take(2 * width * k.CONTROL_WORDS),
                    k.STAGED: memory.take(slots * k.STAGED_WORDS),
                    k.STAMPS: memory.take(slots * k.STAMP_WORDS) if has_stamps else 0,
                },
            )

    def _end_of(self, task_manager: int, address: int, *, is_upstream: bool) -> int:
        """Returns: the place of one more end in a TaskManager."""
        ends = self._ends[task_manager]
        ends += (address, int(is_upstream))
        return len(ends) // k.END_WORDS - 1

    def put_sources(self) -> None:
        """The sources, each with its channels, its pool and the first beat of its flusher."""
        exchange, timeout_ns = self.exchange, self.network.buffer_timeout_ns
        end_ns = exchange.data_ends_ns(self.network)
        ends_ns = {each.channel: int(each.arrivals.ends_ns[-1]) for each in exchange.channels}
        tasks = zip(self.load.sources, self.source_at, strict=True)
        for source, (task, address) in enumerate(tasks):
            output = task.outputs[0]
            channels = [self.channel_at[each] for each in output.channels]
            last_ns = max(ends_ns[each] for each in output.channels)
            words = exchange.barriers[source].ravel() if exchange.barriers else ()
            barriers = self.memory.list_of(words)
            batches = self._batches[source].ravel() if exchange.is_max_rate else ()
            first_batch = self.memory.list_of(batches)
            phase_ns = flusher_phase_ns(exchange, exchange.flushers_before + source, self.period_ns)
            beat_ns = exchange.measured_from_ns - phase_ns + self.period_ns
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
                    k.BARRIERS_END: barriers + len(words),
                    k.TIMES_OUT_NS: k.NEVER,
                    k.TOUCHED: self.memory.take(len(channels)),
                    k.BATCH: first_batch,
                    k.BATCHES_END: first_batch + len(batches),
                },
            )

    def put_sinks(self) -> None:
        """The sinks, each with its channels, its gate's queue and its pool of floating buffers."""
        memory = self.memory
        for sink, (task, address) in enumerate(zip(self.load.sinks, self.sink_at, strict=True)):
            gate = task.inputs[0]
            inputs = gate.channels
            width = power_of_two(len(inputs) + 1)
            most = alignments_max(self.exchange, self.network) * k.BARRIER_WORDS
            alignments = memory.take(most)
            if most:
                self.alignments.append(alignments)
            memory.record(
                address,
                {
                    k.INPUTS: memory.list_of([self.channel_at[each.index] for each in inputs]),
                    k.INPUTS_COUNT: len(inputs),
                    k.CONSUME_NS: round(self.exchange.costs.consume_ns_per_record[sink]),
                    k.READY: memory.take(width),
                    k.BUSY_UNTIL_NS: -1,
                    k.DEADLINE_NS: k.NEVER,
                    k.ANNOUNCED: memory.take(len(inputs)),
                    k.IDLE_SINCE_NS: -1,
                    k.MARKED_NS: self.exchange.measured_from_ns,
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
        memory, start_ns = self.memory, self.exchange.measured_from_ns
        local = {
            each.task_manager
            for task in self.load.sinks
            for each in task.inputs[0].channels
            if each.is_local
        }
        tasks: list[tuple[list[int], list[int]]] = [([], []) for _ in self.manager_at]
        for kind, (found, addresses) in enumerate(
            ((self.load.sources, self.source_at), (self.load.sinks, self.sink_at))
        ):
            for task, address in zip(found, addresses, strict=True):
                tasks[task.task_manager][kind].append(address)
        for number, address in enumerate(self.manager_at):
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
        places = len(self.manager_at)
        due_ns = [start_ns] * places + [first_checkpoint_ns(self.exchange, self.network)]
        coordinator = self.managers + places * k.TASK_MANAGER_WORDS
        memory.record(coordinator, {k.NUMBER: places, k.ASKED: 1 + self.timers})
        for place in range(self.timers):
            number = places + 1 + place
            address = self.managers + number * k.TASK_MANAGER_WORDS
            memory.record(address, {k.NUMBER: number, k.ASKED: 1 + place})
            has_gates = len(tasks[place][1]) > 0
            period_ns = self.network.debloating_period_ns
            due_ns.append(start_ns + period_ns if has_gates else k.NEVER)
        leaves = power_of_two(len(due_ns))
        nodes = dict(enumerate(due_ns, start=leaves))
        for node in range(leaves - 1, 0, -1):
            below = (nodes.get(each, k.NEVER) for each in (2 * node, 2 * node + 1))
            nodes[node] = min(below)
        memory.record(self.wakes, nodes)

    def put_disturbances(self) -> None:
        """When TaskManagers are kept from their work, and how long they take to get going. Those
        that send over a connection have done that once: when it was opened.
        """
        memory, start_ns = self.memory, self.exchange.measured_from_ns
        sends_later = back_ns(self.exchange) > 0
        for number, each in preemptions_of(self.exchange, self.load).items():
            columns = each.starts_ns + start_ns, each.lengths_ns
            first, wakeups = memory.table_of(columns), len(each.wakeups_ns)
            has_woken = sends_later and any(up == number for up, _ in self.connection_at)
            memory.record(
                self.manager_at[number],
                {
                    k.FREE_SINCE_NS: start_ns - OPENING_NS,
                    k.IDLE_NS: 0,
                    k.PREEMPTION: first,
                    k.PREEMPTIONS_END: first + 2 * len(each.starts_ns),
                    k.WAKEUPS: memory.list_of(each.wakeups_ns),
                    k.WAKEUPS_COUNT: wakeups,
                    k.NEXT_WAKEUP: int(has_woken) % max(wakeups, 1),
                },
            )

    def _most_records(self, buffers: int) -> int:
        """More than these are no single batch, and do not fit into so many buffers."""
        size = max(buffers * self.network.segment_size_bytes, MAX_RATE_BATCH_BYTES)
        return size // self.record_bytes
