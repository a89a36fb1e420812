"""The kernel's memory at the start of a run: everything of an exchange as words at addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from flinknet.config import MAX_RATE_BATCH_BYTES
from flinknet.histogram import BUCKETS
from flinknet.simulator.cluster import OPENING_NS

from .kernel import NEVER
from .kernel import memory as k
from .kernel.views import KernelMemory, float_bits, power_of_two
from .kernel_edge import KernelEdge, batches_of
from .recorded import RecordedChannel

TCP_SLOTS = 1 << 10
"""Messages on the way of a connection without credit, for which there is room at first."""

TCP_SLOTS_MAX = 1 << 16
"""Most messages on the way: nearly the number of the smallest ones that a socket holds."""

ROOM_BYTES_MAX = 1 << 28
"""Room for messages on the way of all connections together."""

ROOM_BITS = 3
"""Binary logarithm of the factor by which the next attempt has more room."""


class Layout:
    """An exchange as the kernel starts with it: channels, connections and tasks at their addresses.
    The memory holds the job, and exchanges before this one. Each attempt, after runs that have had
    too little room for messages on their way, has more."""

    def __init__(self, edge: KernelEdge, memory: KernelMemory, attempts: int = 0) -> None:
        self.edge, self.exchange, self.network = edge, edge.exchange, edge.network
        exchange, network = edge.exchange, edge.network
        self.memory, self.head = memory, memory.take(k.Exchange.width())
        said = 4  # under way, next to buffers
        if network.debloating_enabled:
            said += edge.back_ns // network.debloating_period_ns + 1
        buffers = network.exclusive_buffers + network.floating_buffers
        if edge.is_tcp:  # a gate's are there for any of its channels
            buffers = max(task.pool_buffers for task in edge.sinks)
        self._ring = power_of_two(buffers + said)
        self._least_slots = TCP_SLOTS << attempts * ROOM_BITS if edge.is_tcp else 0
        # Places in a subpartition where segments have been closed early: an aligned barrier has to
        # leave before the next one comes, others need not, and with debloating all may be.
        self._boundaries = 1
        is_checkpointed = network.checkpoint_interval_ns is not None
        if network.debloating_enabled or (is_checkpointed and network.unaligned_checkpoints):
            self._boundaries = power_of_two(network.max_buffers_per_channel + 4)
        elif is_checkpointed:
            self._boundaries = 2
        self._batches = batches_of(exchange, edge.record_bytes) if exchange.is_max_rate else []
        addresses = memory.rows(k.Channel, len(exchange.channels))
        indices = (each.channel for each in exchange.channels)
        self.channel_at = dict(zip(indices, addresses, strict=True))  # by their index
        self.source_at = memory.rows(k.Source, len(edge.sources))
        self.sink_at = memory.rows(k.Sink, len(edge.sinks))
        self.manager_at = memory.rows(k.TaskManager, len(edge.buffers))
        self._timers = len(edge.buffers) if network.debloating_enabled else 0
        self._clocks = memory.rows(k.TaskManager, 1 + self._timers)  # right behind them
        self._channels_between = Counter(  # in the order in which connections are made
            ends
            for task in edge.sinks
            for ends in map(edge.ends, task.channels)
            if ends[0] != ends[1]
        )
        addresses = memory.rows(k.Connection, len(self._channels_between))
        self._connection_at = dict(zip(self._channels_between, addresses, strict=True))
        self._ends: list[list[int]] = [[] for _ in self.manager_at]
        self.departures: dict[int, slice] = {}  # by channel, if the exchange asks for them
        self.alignments: list[int] = []  # likewise, from where on they are noted, by sink
        self.logs: dict[int, slice] = {}  # channels of records, by consumer that hands these on
        self._put_exchange()
        self._put_channels()
        self._put_connections()
        self._put_sources()
        self._put_sinks()
        self._put_task_managers()

    @property
    def may_have_more_room(self) -> bool:
        """Whether another attempt may have more for messages on their way."""
        words = k.Sent.width() + k.Said.width() + k.Staged.width()
        next_slots = self._least_slots << ROOM_BITS
        needed_bytes = 8 * words * next_slots * len(self._connection_at)
        return 0 < next_slots <= TCP_SLOTS_MAX and needed_bytes <= ROOM_BYTES_MAX

    def _put_exchange(self) -> None:
        """Numbers, tables, the first turns, and histograms: of latencies, of their bounds where
        arrivals are assumed, of checkpoints."""
        network, memory, start_ns = self.network, self.memory, self.exchange.measured_from_ns
        turns_ns = [start_ns] * len(self.manager_at) + [self.edge.first_checkpoint_ns]
        has_gates = {task.task_manager for task in self.edge.sinks}
        for number in range(self._timers):
            looks_ns = start_ns + network.debloating_period_ns
            turns_ns.append(looks_ns if number in has_gates else NEVER)
        histograms = ["latencies"]
        if network.checkpoint_interval_ns is not None:
            histograms += ["checkpoint_times", "start_delays", "alignments", "travels"]
        addresses = memory.rows(k.Histogram, len(histograms))
        for address in addresses:
            memory.put(k.Histogram, address, smallest_ns=NEVER, counts=memory.take(BUCKETS))
        memory.put(
            k.Exchange,
            self.head,
            **self.edge.numbers(),
            ring_mask=self._ring - 1,
            boundaries_mask=self._boundaries - 1,
            wakes=memory.timetable(len(turns_ns), turns_ns),
            turns_asked=1 + self._timers,
            managers=self.manager_at[0],
            channels_count=len(self.channel_at),
            channels=min(self.channel_at.values()),
            sources_count=len(self.source_at),
            sources=self.source_at[0],
            sinks_count=len(self.sink_at),
            sinks=self.sink_at[0],
            densities=memory.take(BUCKETS + 1),
            **dict(zip(histograms, addresses, strict=True)),
        )

    def _put_channels(self) -> None:
        memory, network = self.memory, self.network
        outputs = (task.channels for task in self.edge.sources)
        places = {each.channel: at for output in outputs for at, each in enumerate(output)}
        for channel in self.exchange.channels:
            address, place = self.channel_at[channel.channel], places[channel.channel]
            first, ramps, counted = self._put_arrivals(channel, place)
            before_bytes = channel.records_before * self.edge.record_bytes
            departures = 0
            if self.exchange.keeps_departures:
                departures = memory.take(channel.records)
                self.departures[channel.channel] = slice(departures, departures + channel.records)
            ends = self.edge.ends(channel)
            is_local = ends[0] == ends[1]
            memory.put(
                k.Channel,
                address,
                source=self.source_at[channel.producer],
                place=place,
                connection=0 if is_local else self._connection_at[ends],
                sink=self.sink_at[channel.consumer],
                ramp_end=first + ramps * k.Ramp.width(),
                ramp=first,
                opens_ramp=first,
                opens_record=-1,
                opens_base=channel.records_before,
                emitted=before_bytes,
                polled=before_bytes,
                counted_ramp=first + counted[0] * k.Ramp.width(),
                counted_ramp_end=first + counted[1] * k.Ramp.width(),
                done_ramp=first,
                departures=departures,
                front_event=1,
                credit=NEVER if self.edge.is_tcp else network.exclusive_buffers,
                free_exclusive=network.exclusive_buffers,
                boundaries=memory.take(self._boundaries),
                ring=memory.take((1 if is_local else self._ring) * k.Message.width()),
            )
            own = {"head": before_bytes // network.segment_size_bytes}
            if network.debloating_enabled:
                own = {"segments_from": before_bytes, "open_from": before_bytes}
                own["buffer_bytes"] = network.starting_segment_size_bytes
            memory.put(k.Channel, address, **own)

    def _put_arrivals(
        self, channel: RecordedChannel, place: int
    ) -> tuple[int, int, tuple[int, int]]:
        """The stretches in which the records of a channel come. They follow in the run where a task
        of another exchange writes them, and at the highest rate; there one that holds a record that
        does not count does not count. Returns: the address of the first, how many there are, and
        those that count, from and to."""
        arrivals, memory = channel.arrivals, self.memory
        counted = channel.counted or (0, len(arrivals))
        if self.exchange.is_max_rate:
            batches = self._batches[channel.producer][:, place]
            written = np.cumsum(batches[batches > 0])
            before = int(arrivals.records[: counted[0]].sum())
            uncounted = int(np.searchsorted(written, before)) + 1 if before else 0
            return memory.take(len(written) * k.Ramp.width()), 0, (uncounted, len(written))
        if self.edge.producers[channel.producer] in self.edge.passages:
            return memory.take(len(arrivals) * k.Ramp.width()), 0, counted
        first = memory.table_of((arrivals.records, arrivals.first_ns, arrivals.ends_ns))
        return first, len(arrivals), counted

    def _put_connections(self) -> None:
        memory = self.memory
        for (upstream, downstream), address in self._connection_at.items():
            width = power_of_two(self._channels_between[upstream, downstream] + 1)
            slots = max(width * self._ring, self._least_slots)
            memory.put(
                k.Connection,
                address,
                upstream=self.manager_at[upstream],
                upstream_place=self._end_of(upstream, address, is_upstream=True),
                downstream=self.manager_at[downstream],
                downstream_place=self._end_of(downstream, address, is_upstream=False),
                slots_mask=slots - 1,
                width_mask=width - 1,
                readers=memory.take(width),
                notified=memory.take(width),
                down=memory.take(slots * k.Sent.width()),
                up=memory.take(slots * k.Said.width()),
                creditors=memory.take(width),
                control=memory.take(2 * width * k.Said.width()),
                staged=memory.take(slots * k.Staged.width()),
            )

    def _end_of(self, task_manager: int, address: int, *, is_upstream: bool) -> int:
        """Returns: the place of one more end in a k.TaskManager."""
        ends = self._ends[task_manager]
        ends += (address, int(is_upstream))
        return len(ends) // k.End.width() - 1

    def _put_sources(self) -> None:
        """The sources, each with its channels, its pool and the first beat of its flusher. Whether
        one ends that another exchange writes is only known in the run."""
        exchange, network, memory = self.exchange, self.network, self.memory
        end_ns = exchange.data_ends_ns(network)
        ends_ns = {each.channel: int(each.arrivals.ends_ns[-1]) for each in exchange.channels}
        tasks = zip(self.edge.sources, self.source_at, self.edge.producers, strict=True)
        for source, (task, address, producer) in enumerate(tasks):
            is_relayed = producer in self.edge.passages
            channels = [self.channel_at[each.channel] for each in task.channels]
            last_ns = max(ends_ns[each.channel] for each in task.channels)
            words = exchange.barriers[source].ravel() if exchange.barriers else ()
            barriers = memory.list_of(words)
            batches = self._batches[source].ravel() if exchange.is_max_rate else ()
            first_batch = memory.list_of(batches)
            beat_ns = exchange.measured_from_ns - self.edge.phase_ns(source) + self.edge.period_ns
            most_bytes = max(task.pool_buffers * network.segment_size_bytes, MAX_RATE_BATCH_BYTES)
            memory.put(
                k.Source,
                address,
                outputs=memory.list_of(channels),
                outputs_count=len(channels),
                unacknowledged=len(channels),
                end_ns=NEVER if is_relayed else max(end_ns, last_ns),
                pool_buffers=task.pool_buffers,
                overdraft_buffers=network.max_overdraft_buffers,
                most_records=most_bytes // self.edge.record_bytes,
                flush_ns=beat_ns if network.buffer_timeout_ns > 0 else NEVER,
                records_due=memory.timetable(len(channels)),
                segments_due=memory.timetable(len(channels)),
                next_barrier=barriers,
                barriers_end=barriers + (0 if is_relayed else len(words)),
                times_out_ns=NEVER,
                touched=memory.take(len(channels)),
                batch=first_batch,
                batches_end=first_batch + len(batches),
            )

    def _put_sinks(self) -> None:
        memory, start_ns = self.memory, self.exchange.measured_from_ns
        starting_bytes = self.network.starting_segment_size_bytes
        most = self.edge.alignments_max * k.Barrier.width()
        for sink, (task, address) in enumerate(zip(self.edge.sinks, self.sink_at, strict=True)):
            inputs = task.channels
            width = power_of_two(len(inputs) + 1)
            alignments = memory.take(most)
            if most:
                self.alignments.append(alignments)
            memory.put(
                k.Sink,
                address,
                inputs=memory.list_of([self.channel_at[each.channel] for each in inputs]),
                inputs_count=len(inputs),
                consume_ns=round(self.exchange.costs.consume_ns_per_record[sink]),
                ready=memory.take(width),
                busy_until_ns=-1,
                deadline_ns=NEVER,
                announced=memory.take(len(inputs)),
                idle_since_ns=-1,
                marked_ns=start_ns,
                pool_free=task.pool_buffers,
                listeners=memory.take(width),
                gate_mask=width - 1,
                open_inputs=len(inputs),
                blocked=memory.take(len(inputs)),
                priorities=memory.take(width),
                alignments=alignments,
                alignments_end=alignments + most,
                seen_ns=start_ns,
                announced_bytes=starting_bytes,
                wanted_bytes=float_bits(starting_bytes),
            )

    def _put_task_managers(self) -> None:
        """The TaskManagers, each with its tasks, its ends of connections, and the times in which it
        is kept from its work; the coordinator, and timers of debloating."""
        memory, start_ns = self.memory, self.exchange.measured_from_ns
        ends_of = map(self.edge.ends, self.exchange.channels)
        local = {downstream for upstream, downstream in ends_of if upstream == downstream}
        tasks = (self.edge.sources, self.source_at), (self.edge.sinks, self.sink_at)
        for number, address in enumerate(self.manager_at):
            ends = self._ends[number]
            sources, sinks = (
                [at for task, at in zip(*each, strict=True) if task.task_manager == number]
                for each in tasks
            )
            memory.put(
                k.TaskManager,
                address,
                number=number,
                free_since_ns=start_ns,
                idle_ns=OPENING_NS,
                own_sources=memory.list_of(sources),
                own_sources_count=len(sources),
                own_sinks=memory.list_of(sinks),
                own_sinks_count=len(sinks),
                has_local_channels=int(number in local),
                ends=memory.list_of(ends),
                arrivals=memory.timetable(len(ends) // k.End.width()),
                unsent=memory.timetable(len(ends) // k.End.width()),
            )
        for place, address in enumerate(self._clocks):
            asked = place or 1 + self._timers  # the coordinator's comes behind those of timers
            memory.put(k.TaskManager, address, number=len(self.manager_at) + place, asked=asked)
        for number, each in self.edge.preemptions.items():
            first = memory.table_of((each.starts_ns + start_ns, each.lengths_ns))
            memory.put(
                k.TaskManager,
                self.manager_at[number],
                free_since_ns=start_ns - OPENING_NS,
                idle_ns=0,
                preemption=first,
                preemptions_end=first + k.Preemption.width() * len(each.starts_ns),
            )


def put_relays(layout: Layout, behind: Sequence[Layout]) -> None:
    """Lay out the tasks that read an exchange and write those behind it, each with its links."""
    if not behind:
        return
    edge, memory = layout.edge, layout.memory
    all_taken, tasks = edge.taken, zip(layout.sink_at, edge.sinks, strict=True)
    for consumer, (sink, task) in zip(edge.consumers, tasks, strict=True):
        links = [each for each in behind if consumer in each.edge.passages]
        if not links:
            continue
        taken, relay = all_taken[consumer], memory.take(k.Relay.width())
        log = memory.take(taken)
        layout.logs[consumer] = slice(log, log + taken)
        memory.put(k.Sink, sink, relay=relay)
        addresses = [_put_link(each, consumer, relay, taken) for each in links]
        memory.put(
            k.Relay,
            relay,
            exchange=layout.head,
            sink=sink,
            task_manager=layout.manager_at[task.task_manager],
            all_records=taken,
            taken_from=log,
            links=memory.list_of(addresses),
            links_count=len(links),
            seen_barriers=memory.at(k.Sink, sink).alignments.at,
        )


def _put_link(layout: Layout, producer: int, relay: int, taken: int) -> int:
    """Lay out the records that a task writes to one exchange. Returns: the address of the link."""
    edge, memory = layout.edge, layout.memory
    address, passage = memory.take(k.Link.width()), edge.passages[producer]
    place = edge.producers.index(producer)
    source, task = layout.source_at[place], edge.sources[place]
    inputs = passage.inputs(taken)
    channels, places = np.unique(passage.routes[: len(inputs)], return_inverse=True)
    routes = np.array([layout.channel_at[each] for each in channels.tolist()], np.int64)[places]
    ends_ns = edge.exchange.measured_to_ns
    memory.put(k.Source, source, link=address)
    memory.put(
        k.Link,
        address,
        exchange=layout.head,
        source=source,
        task_manager=layout.manager_at[task.task_manager],
        routes=memory.list_of(routes),
        routes_count=len(routes),
        written_after=memory.list_of(np.searchsorted(inputs, np.arange(taken), "right")),
        ends_from_ns=ends_ns,
        ends_after_ns=edge.exchange.data_ends_ns(edge.network) - ends_ns,
        waits_since_ns=NEVER,
        withheld=memory.take(len(task.channels)),
        relay=relay,
    )
    return address
