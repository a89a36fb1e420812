"""JobCluster: a whole job in virtual time: its TaskManagers, their connections, its tasks.

A streaming job is deployed at once, one with blocking exchanges stage by stage. A task that fails
ends the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from flinknet.config import TCP
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.connection import Connection
from flinknet.core.consumer import ConsumerConnection, SingleInputGate
from flinknet.core.probe import NullProbe, Probe
from flinknet.core.producer import (
    BufferWritingResultPartition,
    ProducerConnection,
    ResultPartitionManager,
)
from flinknet.core.producer.partition_type import ReleaseBy
from flinknet.core.water_marks import WriteWaterMarks
from flinknet.errors import FlinknetError, SimulationError, StalledError
from flinknet.graph.job_graph import JobGraph
from flinknet.graph.physical_plan import PhysicalPlan
from flinknet.jobs.assembly import create_gates, create_partitions, create_task, network_of
from flinknet.jobs.descriptor import (
    InputChannelDescriptor,
    SubtaskKey,
    TaskDeploymentDescriptor,
    descriptors_of,
)
from flinknet.jobs.io import FileTextInput, MemoryIO, SocketTextInput, TextInput
from flinknet.jobs.stream_task import STEPS_PER_TURN, StreamTask
from flinknet.results import CheckpointSummary
from flinknet.tasks.assembly import request_backoff_of, segments_of
from flinknet.tasks.checkpoint_coordinator import (
    AbortCheckpoint,
    Answer,
    CheckpointCoordinator,
    Command,
)
from flinknet.tasks.flow_control import create_consumer_connection, create_producer_connection

from .cost_model import CostModel
from .faults import NO_FAULTS, FaultPlan, LinkFaults
from .link import LinkEnd, LinkSettings, SendCosts, SimulatedLink
from .scheduler import START_NS, Scheduler
from .task_manager import NEVER_NS, SimulatedTaskManager

TEXT_BYTES = 4096
"""Of a text, brought at once."""


class SimulatedStreamTask:
    """Steps a StreamTask, brings it its texts, and charges the loop for what it does.

    Args:
        texts: by path of a file, or host:port.
    """

    def __init__(
        self, task: StreamTask, costs: CostModel, texts: Mapping[str, bytes], cluster: JobCluster
    ) -> None:
        self.task = task
        self._receive_ns = costs.receive_ns_per_message
        self._emit_ns = costs.emit_ns_per_record
        self._texts = texts
        self._cluster = cluster
        self._brought: dict[int, int] = {}

    def step(self, now_ns: int) -> tuple[int, int]:
        """Do some work. Returns: when the loop is done with that, and when to step again."""
        task = self.task
        for text in task.text_inputs:
            self._bring(text)
        next_ns: int | None = now_ns
        for _ in range(STEPS_PER_TURN):
            emitted, processed = task.emitted_records, task.processed_records
            try:
                next_ns = task.step(now_ns=now_ns)
            except FlinknetError as error:
                self._cluster.fail(error)
                return now_ns, NEVER_NS
            took_ns = (task.emitted_records - emitted) * self._emit_ns
            if task.processed_records != processed:
                took_ns += self._receive_ns
            if task.is_finished:
                self._cluster.task_finished()
            again = next_ns is not None and next_ns <= now_ns
            now_ns += int(took_ns)
            if not again:
                break
        else:
            next_ns = now_ns
        return now_ns, NEVER_NS if next_ns is None else max(next_ns, now_ns)

    def _bring(self, text: TextInput) -> None:
        content = self._texts.get(str(text))
        if content is None:
            if not text.is_ended:
                text.fail("there is no such text")
            return
        if isinstance(text, FileTextInput):
            if not text.is_sized:
                text.set_size(len(content))
            position = text.next_byte
        else:
            assert isinstance(text, SocketTextInput)
            position = text.received_bytes
        if text.wants_data:
            data = content[position : position + TEXT_BYTES]
            if data:
                text.receive_data(data)
            else:
                text.receive_eof()


class JobCluster:
    """All TaskManagers of a plan, with their connections and tasks.

    Attributes:
        io: what the sinks put out.
        tasks: by vertex and subtask.
        error: why a task failed; the others are cancelled then.

    Args:
        job: that the plan is of.
        texts: what sources read: by path of a file, or host:port of a socket.
        costs: what the steps take.
        probes: one for each TaskManager; none to record nothing.
        faults: of links, and exhaustions; consumers are not slowed down by it.
        end_ns: generated records are due before, counted from the start; None for no end.
        attempt_numbers: of subtasks that do not run for the first time.
    """

    def __init__(
        self,
        plan: PhysicalPlan,
        job: JobGraph,
        costs: CostModel,
        *,
        texts: Mapping[str, bytes] | None = None,
        probes: Sequence[Probe] = (),
        link: LinkSettings = LinkSettings(),  # noqa: B008 - frozen
        faults: FaultPlan = NO_FAULTS,
        end_ns: int | None = None,
        seed: int = 1,
        attempt_numbers: Mapping[SubtaskKey, int] | None = None,
    ) -> None:
        self.plan, self.job = plan, job
        self.network = network_of(job)
        self.scheduler = Scheduler(start_ns=START_NS)
        self.io = MemoryIO()
        self.error: FlinknetError | None = None
        self.seed = seed
        self.faults = faults
        self._costs = costs
        self._texts = texts or {}
        self._end_ns = None if end_ns is None else START_NS + end_ns
        self._link_settings = replace(
            link, latency_ns=max(0, int(costs.transit_ns - costs.send_ns_per_message))
        )
        count = plan.task_managers
        self._probes = tuple(probes) or tuple(NullProbe() for _ in range(count))
        self.descriptors = descriptors_of(plan, attempt_numbers)
        self._channel_of: dict[bytes, int] = {
            channel.receiver_id: channel.index
            for own in self.descriptors
            for task in own
            for gate in task.inputs
            for channel in gate.channels
        }
        self.task_managers = tuple(
            SimulatedTaskManager(
                f"tm-{index}",
                self.scheduler,
                NetworkBufferPool(segments_of(self.network), self.network.segment_size_bytes),
            )
            for index in range(count)
        )
        self._managers = tuple(ResultPartitionManager() for _ in range(count))
        self._connections: dict[tuple[int, int, int], ConsumerConnection] = {}
        self.links: dict[tuple[int, int, int], SimulatedLink] = {}
        self.partitions: dict[SubtaskKey, tuple[BufferWritingResultPartition, ...]] = {}
        self.gates: dict[SubtaskKey, tuple[SingleInputGate, ...]] = {}
        self.tasks: dict[SubtaskKey, StreamTask] = {}
        self._coordinator = self._create_coordinator()
        self._stage = 0
        self._deploy()
        for number, at_ns in faults.resets:
            reset = partial(self._reset, list(self.links.values())[number])
            self.scheduler.at(START_NS + at_ns, reset)
        if self._coordinator is not None:
            self._advance_checkpoints()

    @property
    def now_ns(self) -> int:
        """Virtual time."""
        return self.scheduler.now_ns

    @property
    def is_finished(self) -> bool:
        """Whether every task has ended and every partition was given back."""
        return (
            self._stage + 1 == self.plan.stages
            and all(task.is_finished for task in self.tasks.values())
            and all(
                partition.is_consumed
                for own in self.partitions.values()
                for partition in own
                if partition.partition_type.release_by is ReleaseBy.UPSTREAM
            )
        )

    @property
    def checkpoints(self) -> CheckpointSummary | None:
        """What became of the checkpoints so far; None for a job that draws none."""
        return None if self._coordinator is None else self._coordinator.summary()

    def run(self, *, until_ns: int | None = None, limit: int = 20_000_000) -> None:
        """Until the job has ended, or to an instant counted from the start.

        Args:
            limit: steps at most; a livelock fails instead of running for ever.

        Raises: the error of the task that failed, TransportError when a link broke; StalledError
            when nothing can happen any more, or when the limit is reached.
        """
        end_ns = None if until_ns is None else START_NS + until_ns
        for _ in range(limit):
            if self.error is not None:
                raise self.error
            next_ns = self.scheduler.next_ns
            if self.is_finished or (end_ns is not None and next_ns and next_ns > end_ns):
                return
            try:
                has_stepped = self.scheduler.step()
            except SimulationError:
                raise
            except FlinknetError as error:
                self.fail(error)
                continue
            if not has_stepped:
                break
        left = ", ".join(each.name for each in self.tasks.values() if not each.is_finished)
        raise StalledError(f"nothing can happen any more, but these are left: {left}", self.seed)

    def close(self) -> None:
        """The job is over: give back what its gates still have, and results that were kept."""
        for own in self.partitions.values():
            for partition in own:
                if partition.is_finished:
                    partition.release()
        for gates in self.gates.values():
            for gate in gates:
                gate.close()

    def stop(self) -> None:
        """Let the sources end; the job runs to its end then."""
        for task in self.tasks.values():
            task.stop()
        self._wake_all()

    def fail(self, error: FlinknetError) -> None:
        """End the job: close all connections, give everything back. The first error is kept."""
        self.error = self.error or error
        for task_manager in self.task_managers:
            task_manager.stream_tasks = ()
        for link in self.links.values():
            link.reset(now_ns=self.now_ns)
        for task in self.tasks.values():
            task.cancel()
        for own in self.partitions.values():
            for partition in own:
                partition.release()
        self.close()

    def _reset(self, link: SimulatedLink) -> None:
        link.reset(now_ns=self.now_ns)

    def task_finished(self) -> None:
        """A task has ended; when all have, the next stage begins."""
        is_last = self._stage + 1 == self.plan.stages
        if not is_last and all(task.is_finished for task in self.tasks.values()):
            self._stage += 1
            self._deploy()

    def _deploy(self) -> None:
        """Partitions and gates of all tasks of the stage before any of them runs, as slots and
        descriptors are.
        """
        descriptors = [
            [each for each in own if each.stage == self._stage] for own in self.descriptors
        ]
        for index, own in enumerate(descriptors):
            for each in own:
                self.partitions[each.key] = create_partitions(
                    each, self.network, self.task_managers[index].memory, self._managers[index]
                )
        for index, own in enumerate(descriptors):
            for each in own:
                self.gates[each.key] = create_gates(
                    each,
                    self.network,
                    self.task_managers[index].memory,
                    partitions=self._managers[index],
                    connect=partial(self._connection_of, index),
                    probe=self._probes[index],
                )
        for index, own in enumerate(descriptors):
            task_manager = self.task_managers[index]
            task_manager.stream_tasks = [
                SimulatedStreamTask(self._start(each, index), self._costs, self._texts, self)
                for each in own
            ]
            task_manager.has_local_channels = any(
                channel.is_local
                for each in own
                for gate in each.inputs
                for channel in gate.channels
            )
            task_manager.wake(self.now_ns)

    def _start(self, descriptor: TaskDeploymentDescriptor, task_manager: int) -> StreamTask:
        gates = self.gates[descriptor.key]
        for gate in gates:
            gate.request_partitions(now_ns=self.now_ns)
        task = create_task(
            descriptor,
            self.job,
            self.partitions[descriptor.key],
            gates,
            self._probes[task_manager],
            self._receive,
            io=self.io,
            start_ns=START_NS,
            end_ns=self._end_ns,
            measured_from_ns=START_NS,
            seed=self.seed,
        )
        self.tasks[descriptor.key] = task
        return task

    def _connection_of(
        self, downstream: int, channel: InputChannelDescriptor
    ) -> ConsumerConnection:
        key = channel.task_manager, downstream, channel.connection_index
        if key not in self._connections:
            self._connections[key] = self._connect(*key)
        return self._connections[key]

    def _connect(self, upstream: int, downstream: int, index: int) -> ConsumerConnection:
        flow_control = self.job.config.flow_control
        producer: ProducerConnection = create_producer_connection(
            flow_control,
            self._managers[upstream],
            self._probes[upstream],
            self._channel_of,
            partition_request_timeout_ns=self.network.partition_request_timeout_ns,
        )
        if flow_control == TCP:
            marks = WriteWaterMarks.classic(self.network.segment_size_bytes)
            producer.batch_bytes = marks.high_bytes + 1
        consumer = create_consumer_connection(
            flow_control, f"tm-{upstream}", self._probes[downstream]
        )
        consumer.requests.policy = request_backoff_of(self.network)
        send = SendCosts(self._costs.send_ns_per_message, self._costs.send_ns_per_byte)
        ends = (
            self._create_end(producer, upstream, send, side=0),
            self._create_end(consumer, downstream, SendCosts(), side=1),
        )
        ends[0].join(ends[1])
        self.links[upstream, downstream, index] = SimulatedLink(*ends)
        return consumer

    def _create_end(
        self, connection: Connection, index: int, costs: SendCosts, *, side: int
    ) -> LinkEnd:
        task_manager = self.task_managers[index]
        faults = LinkFaults.of(self.faults, len(self.links), side, origin_ns=START_NS)
        end = LinkEnd(connection, self._link_settings, costs, task_manager.wake, faults)
        task_manager.ends.append(end)
        return end

    # Checkpoints: the coordinator is heard, and answered, in no time

    def _create_coordinator(self) -> CheckpointCoordinator | None:
        interval_ns = self.network.checkpoint_interval_ns
        if interval_ns is None:
            return None
        return CheckpointCoordinator(
            [each.execution_vertex_id for own in self.descriptors for each in own],
            interval_ns=interval_ns,
            timeout_ns=self.network.checkpoint_timeout_ns,
            start_ns=START_NS,
        )

    def _advance_checkpoints(self) -> None:
        coordinator = self._coordinator
        assert coordinator is not None
        if self.is_finished or self.error is not None:
            return
        if all(task.is_finished for task in self.tasks.values() if task.is_source):
            coordinator.stop()
        for command in coordinator.advance(now_ns=self.now_ns):
            self._tell(command)
        due_ns = coordinator.next_deadline_ns()
        if due_ns is not None:
            self.scheduler.at(due_ns, self._advance_checkpoints)

    def _receive(self, answer: Answer) -> None:
        coordinator = self._coordinator
        assert coordinator is not None
        was_pending = coordinator.pending_id is not None
        for command in coordinator.receive(answer, now_ns=self.now_ns):
            self._tell(command)
        due_ns = coordinator.next_deadline_ns()
        if was_pending and coordinator.pending_id is None and due_ns is not None:
            self.scheduler.at(due_ns, self._advance_checkpoints)

    def _tell(self, command: Command) -> None:
        for task in self.tasks.values():
            if isinstance(command, AbortCheckpoint):
                task.abort_checkpoint(command.checkpoint_id)
            else:
                task.trigger_checkpoint(
                    command.checkpoint_id, command.timestamp_ms, now_ns=self.now_ns
                )
        self._wake_all()

    def _wake_all(self) -> None:
        for task_manager in self.task_managers:
            task_manager.wake(self.now_ns)
