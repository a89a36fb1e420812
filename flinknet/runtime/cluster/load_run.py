"""LoadRun: the measured part of a load on one TaskManager, its milestones, and its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from flinknet.config import Scenario
from flinknet.job.load.load_tasks import generator_of, run_input_of
from flinknet.job.load.sink import ForeignSink, LatencySink
from flinknet.job.task_metrics import memory_metrics
from flinknet.results import FillSample
from flinknet.trace.writer import EventStatistics

from ..clock import monotonic_ns, process_time_ns
from ..fill_meter import FillMeter
from ..other_processes import Standstill
from ..shuffle_environment import ShuffleEnvironment
from . import control_messages as messages
from .attempt import Attempt
from .reports import ConsumerChannelReport, Metrics, ProducerChannelReport, Report, StoredOutput


class _Times(NamedTuple):
    """Monotonic clock, CPU time, and the loop's waiting and sleeping time, or differences (ns)."""

    clock_ns: int
    cpu_ns: int
    waited_ns: int
    slept_ns: int

    def since(self, before: _Times) -> _Times:
        clock_ns, *others = (now - then for now, then in zip(self, before, strict=True))
        return _Times(max(1, clock_ns), *others)


class LoadRun:
    """Follows the load tasks of one TaskManager from the start to the end of a run. Slow consumers
    with a limited duration are slow from the start of the measured part.
    """

    def __init__(
        self,
        environment: ShuffleEnvironment,
        statistics: EventStatistics,
        scenario: Scenario,
        start: messages.Start,
    ) -> None:
        self._environment = environment
        self._statistics = statistics
        self._tasks: dict[str, Attempt] = {}
        self._ended: set[str] = set()
        self._meter = FillMeter(
            total_buffers=environment.pool.total_buffers,
            segment_size_bytes=scenario.network.segment_size_bytes,
            is_broadcast=scenario.workload.is_broadcast,
        )
        self._milestones: list[tuple[int, Callable[[], None]]] = [
            (start.measured_from_ns, self._begin)
        ]
        if start.measured_to_ns is not None:
            self._milestones.append((start.measured_to_ns, self.end))
        for slow in scenario.workload.slow_consumers:
            if slow.slow_ns is not None:
                from_ns, set_delay = start.measured_from_ns, partial(self._set_delay, slow.index)
                self._milestones += [
                    (from_ns, partial(set_delay, slow.delay_ns_per_record)),
                    (from_ns + slow.slow_ns, partial(set_delay, 0)),
                ]
        self._milestones.sort(key=lambda milestone: milestone[0])
        self._since_ns = 0
        self._starved_before_ns: Counter[int] = Counter()
        self._taken_before: Counter[int] = Counter()
        self._is_over = False
        self._starved_ns: Mapping[int, int] = {}
        self._taken_per_s: Mapping[int, float] = {}
        self._metrics: dict[str, Metrics] = {}
        self._memory: Metrics = {}
        self._stored: list[StoredOutput] = []
        self._standstill = Standstill()
        self._begun = self._now()
        self._busy_share = self._stolen_share = 0.0
        self._measured = self._begun
        self._cpu_share: float | None = None

    def add(self, running: Attempt) -> None:
        self._tasks[running.task.name] = running
        if not running.task.is_source and not running.task.outputs.each:
            channels = (each for gate in running.descriptor.inputs for each in gate.channels)
            run_input_of(running.task).catches_up = not any(each.is_local for each in channels)
        self._meter.add(
            running.partitions,
            running.task.gates,
            [output.channels for output in running.task.outputs.each],
        )

    def ended(self, running: Attempt) -> None:
        """Record the final figures of a task that has finished, before it is released."""
        name = running.task.name
        self._ended.add(name)
        if not self._is_over:
            self._metrics[name] = running.metrics.sample_end(now_ns=monotonic_ns(), is_drained=True)
            self._note_cpu()
        for output, partition in zip(running.descriptor.outputs, running.partitions, strict=True):
            if partition.partition_type.is_blocking_or_blocking_persistent:
                sizes = partition.data_bytes, partition.stored_data_bytes
                self._stored.append(StoredOutput(output.edge, *sizes))
        self._note_shares()

    def next_deadline_ns(self) -> int | None:
        return self._milestones[0][0] if self._milestones else None

    def handle_deadline(self, *, now_ns: int) -> None:
        while self._milestones and self._milestones[0][0] <= now_ns:
            self._milestones.pop(0)[1]()

    def fill_sample(self) -> FillSample:
        return self._meter.sample(
            self._environment.loop.transports,
            [each.task for each in self._tasks.values() if each.task.is_source],
            now_ns=monotonic_ns(),
        )

    def end(self) -> None:
        """End the measured part and let paused consumers drain. A second call has no effect."""
        if self._is_over:
            return
        self._is_over = True
        now_ns = monotonic_ns()
        if len(self._ended) < len(self._tasks):
            self._note_cpu()
        elapsed_ns, before = max(1, now_ns - self._since_ns), self._taken_before
        taken = self._taken_records().items()
        self._taken_per_s = {at: (count - before[at]) / elapsed_ns * 1e9 for at, count in taken}
        for name, running in self._tasks.items():
            if name not in self._ended:
                self._metrics[name] = running.metrics.sample_end(now_ns=now_ns, is_drained=False)
        if len(self._ended) < len(self._tasks) or not self._memory:
            self._memory = memory_metrics(self._environment.pool)
        starved_ns = self._starved_until_now_ns().items()
        self._starved_ns = {at: each - self._starved_before_ns[at] for at, each in starved_ns}
        for sink in self._sinks:
            run_input_of(sink.task).unpause()

    def note_statistics(self, memory: Metrics, *, within_ns: int) -> None:
        """Note whether the process stood still, and keep the latest memory metrics of the measured
        part. Called each time statistics are sent, which was due `within_ns` after the last time.
        """
        self._standstill.look(within_ns=within_ns)
        if memory and not self._is_over:
            self._memory = memory

    def report(self, totals: Report) -> Report:
        """End the measured part and return the final report, with the totals of all messages."""
        self.end()
        tasks = self._tasks_in_order
        sources = [generator_of(each.task) for each in tasks if each.task.is_source]
        return replace(
            totals,
            consumer_channels=self.consumer_channels(),
            producer_channels=self.producer_channels(),
            late_ns_max=max((each.late_ns_max for each in sources), default=0),
            busy_share=self._busy_share,
            stolen_share=self._stolen_share,
            stood_still_ns=self._standstill.stood_ns,
            fill_bounds=self._meter.bounds(),
            tasks={each.task.name: self._metrics[each.task.name] for each in tasks},
            memory=self._memory,
            debloating=tuple(
                (gate.name, tuple(gate.samples))
                for each in tasks
                if each.debloating is not None
                for gate in each.debloating.gates
            ),
            stored=tuple(self._stored),
            cpu_share=self._cpu_share,
        )

    def producer_channels(self) -> tuple[ProducerChannelReport, ...]:
        return tuple(
            _producer_channel(
                self._statistics,
                index,
                each.task.sent_records.get(index, 0),
                self._starved_ns.get(index, 0),
            )
            for each in self._tasks_in_order
            for output in each.task.outputs.each
            for index in output.channels
        )

    @property
    def _tasks_in_order(self) -> list[Attempt]:
        return sorted(self._tasks.values(), key=lambda each: each.descriptor.key)

    @property
    def _sinks(self) -> list[Attempt]:
        return [each for each in self._tasks.values() if not each.task.outputs.each]

    def _begin(self) -> None:
        """Begin the measured part: note all counters."""
        self._starved_before_ns = self._starved_until_now_ns()
        self._taken_before = self._taken_records()
        self._since_ns = monotonic_ns()
        self._measured = self._now()
        for running in self._tasks.values():
            running.metrics.start_window(now_ns=self._since_ns)

    def _set_delay(self, consumer: int, delay_ns_per_record: int) -> None:
        for sink in self._sinks:
            if sink.task.index == consumer:
                run_input_of(sink.task).set_delay(delay_ns_per_record)

    def _now(self) -> _Times:
        loop = self._environment.loop
        return _Times(monotonic_ns(), process_time_ns(), loop.waited_ns, loop.slept_ns)

    def _note_shares(self) -> None:
        """Update the busy and stolen share of the process since the start."""
        spent = self._now().since(self._begun)
        stolen_ns = max(0, spent.clock_ns - spent.slept_ns - spent.cpu_ns)
        stood_ns = 0
        queued_ns = self._standstill.queued_ns
        if self._standstill.stood_ns and queued_ns is not None:
            stood_ns = max(0, stolen_ns - queued_ns)
        self._busy_share = max(0.0, 1 - (spent.waited_ns + stood_ns) / spent.clock_ns)
        self._stolen_share = (stolen_ns - stood_ns) / spent.clock_ns

    def _note_cpu(self) -> None:
        """Update the CPU share of the process in the measured part, without polling."""
        spent = self._now().since(self._measured)
        polled_ns = spent.waited_ns - spent.slept_ns
        polled_cpu_ns = polled_ns * min(1.0, spent.cpu_ns / max(1, spent.clock_ns - spent.slept_ns))
        self._cpu_share = max(0.0, (spent.cpu_ns - polled_cpu_ns) / spent.clock_ns)

    def consumer_channels(self) -> tuple[ConsumerChannelReport, ...]:
        size_bytes = self._statistics.channel_bytes_in
        return tuple(
            ConsumerChannelReport(
                *(index, sink.records, sink.measured_records, sink.measured_bytes),
                sink.last_measured_ns,
                *(sink.latency.to_bytes(), sink.uncorrected.to_bytes()),
                *(sink.disorder.lost, sink.disorder.repeated, sink.disorder.reordered),
                self._taken_per_s.get(index),
                int(size_bytes[index]),
                sink.value_bytes if isinstance(sink, ForeignSink) else None,
                sink.other_elements if isinstance(sink, ForeignSink) else None,
            )
            for index, sink in _settled(x for x in self._tasks_in_order if not x.task.is_source)
        )

    def _starved_until_now_ns(self) -> Counter[int]:
        """Credit-starved time so far of each channel that was read from here, in ns."""
        now_ns, accepted = monotonic_ns(), self._environment.connections.accepted
        found = (x for each in accepted for x in each.connection.snapshot(now_ns=now_ns))
        return Counter({each.channel: each.starved_ns for each in found})

    def _taken_records(self) -> Counter[int]:
        return Counter({index: sink.records for index, sink in _settled(self._sinks)})


def _settled(readers: Iterable[Attempt]) -> Iterator[tuple[int, LatencySink]]:
    """The channels that these attempts read, each with its settled receiver."""
    for each in readers:
        reading = run_input_of(each.task)
        for channel, sink in zip(reading.gate.channels, reading.receivers, strict=True):
            sink.settle()
            yield channel.index, sink


def totals_of(statistics: EventStatistics) -> Report:
    """The totals of all messages, and those of the channels at their producers."""
    channels = statistics.channel_buffers.nonzero()[0].tolist()
    return Report(
        producer_channels=tuple(_producer_channel(statistics, each, 0, 0) for each in channels),
        buffers=statistics.buffers,
        events=statistics.events,
        reasons=tuple(statistics.reasons.tolist()),
        credit_announced=statistics.credit_announced,
        credit_messages=statistics.credit_messages,
    )


def _producer_channel(
    statistics: EventStatistics, index: int, sent_records: int, starved_ns: int
) -> ProducerChannelReport:
    return ProducerChannelReport(
        index,
        sent_records,
        starved_ns,
        int(statistics.channel_buffers[index]),
        int(statistics.channel_backlog_sum[index]),
        int(statistics.channel_backlog_max[index]),
    )
