"""The kernel's memory at the start of a run: everything of an exchange as words at addresses."""

from __future__ import annotations

import numpy as np

from flinknet.config import NetworkConfig
from flinknet.job.load.payload import MAX_RATE_BATCH_BYTES
from flinknet.job.load.plan import LoadPlan
from flinknet.simulator.cluster import OPENING_NS
from flinknet.simulator.cost_model import Preemptions

from .kernel import NEVER
from .kernel import memory as k
from .kernel.views import KernelMemory, power_of_two
from .layout_head import (
    Addresses,
    alignments_max,
    back_ns,
    first_checkpoint_ns,
    flusher_phase_ns,
    put_checkpoints,
    put_debloating,
    put_head,
)
from .recorded import RecordedChannel, RecordedExchange


def lay_out(
    exchange: RecordedExchange,
    network: NetworkConfig,
    load: LoadPlan,
    *,
    memory: KernelMemory | None = None,
    attempts: int = 0,
) -> Layout:
    """Lay an exchange out as the kernel starts with it.

    Args:
        memory: holds exchanges before this one; None for one of its own.
        attempts: that have had too little room for messages on their way.
    """
    layout = Layout(exchange, network, load, memory, attempts)
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

    def put_channels(self) -> None:
        """The channels, each with its arrivals and the bytes that left its subpartition before."""
        memory = self.memory
        exclusive_buffers = 0 if self.is_tcp else self.network.exclusive_buffers
        recorded = {channel.channel: channel for channel in self.exchange.channels}
        places = {channel: at for output in self.outputs for at, channel in enumerate(output)}
        for planned in self.load.channels:
            channel = recorded[planned.index]
            first, ramps, counted = self._put_arrivals(channel, places[planned.index])
            before_bytes = channel.records_before * self.record_bytes
            departures = 0
            if self.exchange.keeps_departures:
                departures = memory.take(channel.records)
                self.departures[channel.channel] = slice(departures, departures + channel.records)
            pair = (planned.producer_task_manager, planned.consumer_task_manager)
            is_local = pair[0] == pair[1]
            memory.put(
                k.Channel,
                self.channel_at[planned.index],
                source=self.source_at[planned.producer],
                place=places[planned.index],
                connection=0 if is_local else self.connection_at[pair],
                sink=self.sink_at[planned.consumer],
                ramp_end=first + ramps * k.Ramp.width(),
                ramp=first,
                opens_ramp=first,
                opens_record=-1,
                opens_base=channel.records_before,
                emitted=before_bytes,
                polled=before_bytes,
                **self._open_at(before_bytes),
                counted_ramp=first + counted[0] * k.Ramp.width(),
                counted_ramp_end=first + counted[1] * k.Ramp.width(),
                done_ramp=first,
                sent_ramp=first,
                last_sent_ns=self.exchange.measured_from_ns,
                departures=departures,
                front_event=1,
                credit=NEVER if self.is_tcp else exclusive_buffers,
                free_exclusive=exclusive_buffers,
                boundaries=memory.take(self.boundaries),
                ring=memory.take((1 if is_local else self.ring) * k.Message.width()),
            )

    def _put_arrivals(
        self, channel: RecordedChannel, place: int
    ) -> tuple[int, int, tuple[int, int]]:
        """The stretches in which the records of a channel come; at the highest rate these follow,
        and one that holds a record that does not count does not count.

        Returns: the address of the first, how many there are, and those that count, from and to."""
        arrivals = channel.arrivals
        counted = channel.counted or (0, len(arrivals))
        if self.exchange.is_max_rate:
            batches = self._batches[channel.producer][:, place]
            written = np.cumsum(batches[batches > 0])
            before = int(arrivals.records[: counted[0]].sum())
            uncounted = int(np.searchsorted(written, before)) + 1 if before else 0
            return self.memory.take(len(written) * k.Ramp.width()), 0, (uncounted, len(written))
        first = self.memory.table_of((arrivals.records, arrivals.first_ns, arrivals.ends_ns))
        return first, len(arrivals), counted

    def _open_at(self, size: int) -> dict[str, int]:
        """The position of a subpartition that begins behind a number of bytes."""
        if self.network.debloating_enabled:
            return {"segments_from": size, "open_from": size}
        return {"head": size // self.network.segment_size_bytes}

    def put_connections(self) -> None:
        """The connections, with room for all that may be under way or wait for its turn."""
        memory = self.memory
        for (upstream, downstream), address in self.connection_at.items():
            width = power_of_two(self.channels_between[upstream, downstream] + 1)
            slots = max(width * self.ring, self.least_slots)
            has_stamps = self.is_tcp and not self.exchange.has_instants
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
                stamps=memory.take(slots * k.Stamp.width()) if has_stamps else 0,
            )

    def _end_of(self, task_manager: int, address: int, *, is_upstream: bool) -> int:
        """Returns: the place of one more end in a k.TaskManager."""
        ends = self._ends[task_manager]
        ends += (address, int(is_upstream))
        return len(ends) // k.End.width() - 1

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
            self.memory.put(
                k.Source,
                address,
                outputs=self.memory.list_of(channels),
                outputs_count=output.subpartitions,
                unacknowledged=output.subpartitions,
                end_ns=max(end_ns, last_ns),
                pool_buffers=output.pool.max_buffers,
                overdraft_buffers=output.overdraft_buffers,
                most_records=self._most_records(output.pool.max_buffers),
                flush_ns=beat_ns if timeout_ns > 0 else NEVER,
                records_due=self.memory.timetable(len(channels)),
                segments_due=self.memory.timetable(len(channels)),
                next_barrier=barriers,
                barriers_end=barriers + len(words),
                times_out_ns=NEVER,
                touched=self.memory.take(len(channels)),
                batch=first_batch,
                batches_end=first_batch + len(batches),
            )

    def put_sinks(self) -> None:
        """The sinks, each with its channels, its gate's queue and its pool of floating buffers."""
        memory = self.memory
        for sink, (task, address) in enumerate(zip(self.load.sinks, self.sink_at, strict=True)):
            gate = task.inputs[0]
            inputs = gate.channels
            width = power_of_two(len(inputs) + 1)
            most = alignments_max(self.exchange, self.network) * k.Barrier.width()
            alignments = memory.take(most)
            if most:
                self.alignments.append(alignments)
            memory.put(
                k.Sink,
                address,
                inputs=memory.list_of([self.channel_at[each.index] for each in inputs]),
                inputs_count=len(inputs),
                consume_ns=round(self.exchange.costs.consume_ns_per_record[sink]),
                ready=memory.take(width),
                busy_until_ns=-1,
                deadline_ns=NEVER,
                announced=memory.take(len(inputs)),
                idle_since_ns=-1,
                marked_ns=self.exchange.measured_from_ns,
                pool_free=gate.pool.max_buffers,
                listeners=memory.take(width),
                gate_mask=width - 1,
                open_inputs=len(inputs),
                blocked=memory.take(len(inputs)),
                priorities=memory.take(width),
                alignments=alignments,
                alignments_end=alignments + most,
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
        places = len(self.manager_at)
        due_ns = [start_ns] * places + [first_checkpoint_ns(self.exchange, self.network)]
        coordinator = self.managers + places * k.TaskManager.width()
        memory.put(k.TaskManager, coordinator, number=places, asked=1 + self.timers)
        for place in range(self.timers):
            number = places + 1 + place
            address = self.managers + number * k.TaskManager.width()
            memory.put(k.TaskManager, address, number=number, asked=1 + place)
            has_gates = len(tasks[place][1]) > 0
            period_ns = self.network.debloating_period_ns
            due_ns.append(start_ns + period_ns if has_gates else NEVER)
        leaves = power_of_two(len(due_ns))
        nodes = dict(enumerate(due_ns, start=leaves))
        for node in range(leaves - 1, 0, -1):
            below = (nodes.get(each, NEVER) for each in (2 * node, 2 * node + 1))
            nodes[node] = min(below)
        memory.fill(self.wakes, nodes)

    def put_disturbances(self) -> None:
        """When TaskManagers are kept from their work, and how long they take to get going. Those
        that send over a connection have done that once: when it was opened."""
        memory, start_ns = self.memory, self.exchange.measured_from_ns
        sends_later = back_ns(self.exchange) > 0
        for number, each in preemptions_of(self.exchange, self.load).items():
            columns = each.starts_ns + start_ns, each.lengths_ns
            first, wakeups = memory.table_of(columns), len(each.wakeups_ns)
            has_woken = sends_later and any(up == number for up, _ in self.connection_at)
            memory.put(
                k.TaskManager,
                self.manager_at[number],
                free_since_ns=start_ns - OPENING_NS,
                idle_ns=0,
                preemption=first,
                preemptions_end=first + 2 * len(each.starts_ns),
                wakeups=memory.list_of(each.wakeups_ns),
                wakeups_count=wakeups,
                next_wakeup=int(has_woken) % max(wakeups, 1),
            )

    def _most_records(self, buffers: int) -> int:
        """The most records that are one batch, or fit into a number of buffers."""
        size = max(buffers * self.network.segment_size_bytes, MAX_RATE_BATCH_BYTES)
        return size // self.record_bytes


def preemptions_of(exchange: RecordedExchange, load: LoadPlan) -> dict[int, Preemptions]:
    """The preemptions of each TaskManager: those of the process of its first task."""
    found: dict[int, Preemptions] = {}
    for of_tasks, tasks in zip(exchange.preemptions, (load.sources, load.sinks), strict=True):
        for each, task in zip(of_tasks, tasks, strict=False):
            found.setdefault(task.task_manager, each)
    return found
