"""Cluster: a job in virtual time, on the same core and tasks that the runtime drives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from flinknet.config import Scenario
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.connection import Connection
from flinknet.core.consumer import ConsumerConnection, SingleInputGate
from flinknet.core.probe import NullProbe, Probe
from flinknet.core.producer import (
    ProducerConnection,
    ResultPartition,
    ResultPartitionManager,
)
from flinknet.core.producer.partition_type import ReleaseBy
from flinknet.errors import FlinknetError, SimulationError, StalledError
from flinknet.job.barriers import ignore
from flinknet.job.debloating import BufferDebloating, GateDebloating, debloated_gates
from flinknet.job.descriptor import (
    InputChannelDescriptor,
    SubtaskKey,
    TaskDeploymentDescriptor,
)
from flinknet.job.flow_control import create_consumer_connection, create_producer_connection
from flinknet.job.gates import (
    blocking_storage,
    create_gates,
    create_partitions,
    request_backoff_of,
)
from flinknet.job.load.load_tasks import run_input_of
from flinknet.job.load.plan import LoadPlan, load_plan_of
from flinknet.job.stream_task import StreamTask

from .checkpoints import SimulatedCheckpoints
from .cost_model import TYPICAL_COSTS, CostModel, Preemptions
from .disturbances import Disturbances
from .faults import NO_FAULTS, FaultPlan, LinkFaults
from .link import LinkEnd, LinkSettings, SimulatedLink, socket_costs
from .load import OPENING_NS, SimulatedLoad
from .scheduler import START_NS, Scheduler
from .simulated_job import SimulatedJob
from .source_plan import SourcePlan, plan_sources
from .stages import Stages
from .task_manager import SimulatedTaskManager, SteppedTask

__all__ = ["OPENING_NS", "START_NS", "TYPICAL_COSTS", "Cluster"]

NO_PREEMPTIONS: Mapping[int, Preemptions] = {}


class Cluster:
    """All TaskManagers of a job, with their connections and tasks.

    The subtasks of the first stage are deployed at once, those of another when all tasks of the one
    before it have ended. An error of a task or of the stack cancels the job.

    Attributes:
        error: why the job was cancelled.
        partition_of: by edge and subtask.
        gate_of: by edge and subtask.
        links: by TaskManager of the producer, TaskManager of the consumer, and number of the
            connection between the two.
        tasks: those that have been started, in the order of the job's subtasks.
        stages: where the job's vertices wait for their inputs before they request them.

    Args:
        probes: one for each TaskManager; none to record nothing.
        link: bandwidth and capacity of the links; their latency follows from the job's costs:
            `transit_ns` counts from the hand-over of a message, so it is what the sending itself
            leaves of it.
        preemptions: of TaskManagers, counted from the start of the tasks.
    """

    def __init__(
        self,
        job: SimulatedJob,
        *,
        probes: Sequence[Probe] = (),
        link: LinkSettings = LinkSettings(),  # noqa: B008 - frozen
        faults: FaultPlan = NO_FAULTS,
        preemptions: Mapping[int, Preemptions] = NO_PREEMPTIONS,
    ) -> None:
        self.job = job
        self.network = job.network
        self.seed = job.seed
        self.faults = faults
        self.scheduler = Scheduler(start_ns=job.start_ns - job.opening_ns)
        self.error: FlinknetError | None = None
        self._start_ns = job.start_ns
        costs = job.costs
        self._back_ns = costs.back_ns
        self._socket_costs = socket_costs(costs)
        latency_ns = max(0, int(costs.transit_ns - costs.send_ns_per_message))
        self.link_settings = replace(link, latency_ns=latency_ns)
        self._channel_of: dict[bytes, int] = {
            channel.receiver_id: channel.index
            for subtask in job.subtasks
            for gate in subtask.inputs
            for channel in gate.channels
        }
        self.task_managers = tuple(
            SimulatedTaskManager(
                f"tm-{index}",
                self.scheduler,
                NetworkBufferPool(segments, self.network.segment_size_bytes),
                answers_at_once=costs.loop is not None,
            )
            for index, segments in enumerate(job.segments)
        )
        for index, each in preemptions.items():
            self.task_managers[index].set_preemptions(each, start_ns=job.start_ns)
        self._probes = tuple(probes) or tuple(NullProbe() for _ in self.task_managers)
        self._managers = tuple(ResultPartitionManager() for _ in self.task_managers)
        self._storages = tuple(blocking_storage(self.network) for _ in self.task_managers)
        self.partition_of: dict[tuple[int, int], ResultPartition] = {}
        self.gate_of: dict[tuple[int, int], SingleInputGate] = {}
        self._connections: dict[tuple[int, int, int], ConsumerConnection] = {}
        self.links: dict[tuple[int, int, int], SimulatedLink] = {}
        self.producer_connections: list[ProducerConnection] = []
        self.consumer_connections: list[ConsumerConnection] = []
        self.tasks: dict[SubtaskKey, StreamTask] = {}
        self.debloated_gates: list[GateDebloating] = []
        self.stages: Stages | None = None
        if job.scheduling is not None:
            self.stages = Stages(
                job.subtasks,
                self.task_managers,
                self.partition_of,
                self.gate_of,
                job.scheduling,
            )
        self.checkpoints: SimulatedCheckpoints | None = None
        if self.network.checkpoint_interval_ns is not None:
            self.checkpoints = SimulatedCheckpoints(
                [each.execution_vertex_id for each in job.subtasks],
                self.scheduler,
                self.task_managers,
                self.tasks,
                lambda: self.is_finished or self.error is not None,
                interval_ns=self.network.checkpoint_interval_ns,
                timeout_ns=self.network.checkpoint_timeout_ns,
                start_ns=job.start_ns,
            )
        self._stage = 0
        self._last_stage = max(each.stage for each in job.subtasks)
        self._deploy_stage()

    @staticmethod
    def of_load(
        load: LoadPlan,
        plans: Sequence[SourcePlan],
        costs: CostModel = TYPICAL_COSTS,
        *,
        start_ns: int = START_NS,
        probes: Sequence[Probe] = (),
        link: LinkSettings = LinkSettings(),  # noqa: B008 - frozen
        faults: FaultPlan = NO_FAULTS,
        flush_overhead_ns: int = 0,
        preemptions: Mapping[int, Preemptions] = NO_PREEMPTIONS,
    ) -> Cluster:
        """The cluster of a planned load (see SimulatedLoad)."""
        job = SimulatedLoad(
            load,
            plans,
            costs,
            start_ns=start_ns,
            flush_overhead_ns=flush_overhead_ns,
        )
        cluster = Cluster(job, probes=probes, link=link, faults=faults, preemptions=preemptions)
        at = cluster.scheduler.at
        for slow in load.scenario.workload.slow_consumers:
            if slow.slow_ns is not None:
                set_delay = partial(cluster.set_delay, slow.index)
                at(start_ns, partial(set_delay, slow.delay_ns_per_record))
                at(start_ns + slow.slow_ns, partial(set_delay, 0))
        return cluster

    @staticmethod
    def of_scenario(
        scenario: Scenario,
        costs: CostModel = TYPICAL_COSTS,
        *,
        probes: Sequence[Probe] = (),
        link: LinkSettings = LinkSettings(),  # noqa: B008 - frozen
        faults: FaultPlan = NO_FAULTS,
        flush_overhead_ns: int = 0,
    ) -> Cluster:
        """The cluster of a scenario, whose workload must say how many records there are.

        Raises: ConfigError.
        """
        load = load_plan_of(scenario)
        return Cluster.of_load(
            load,
            plan_sources(load, start_ns=START_NS),
            costs,
            probes=probes,
            link=link,
            faults=faults,
            flush_overhead_ns=flush_overhead_ns,
        )

    @property
    def partitions(self) -> list[ResultPartition]:
        """All of them, in the order of the subtasks that write them."""
        return list(self.partition_of.values())

    @property
    def gates(self) -> list[SingleInputGate]:
        """All of them, in the order of the subtasks that read them."""
        return list(self.gate_of.values())

    @property
    def sources(self) -> list[StreamTask]:
        """Every task that has no input."""
        return [task for task in self.tasks.values() if task.is_source]

    @property
    def relays(self) -> list[StreamTask]:
        """Every task that has inputs and outputs."""
        return [task for task in self.reading_tasks if task.outputs.each]

    @property
    def sinks(self) -> list[StreamTask]:
        """Every task that has an input and no output."""
        return [task for task in self.reading_tasks if not task.outputs.each]

    @property
    def reading_tasks(self) -> list[StreamTask]:
        """Every task that has an input."""
        return [task for task in self.tasks.values() if not task.is_source]

    @property
    def is_finished(self) -> bool:
        """Whether every task has ended and every partition was given back that nobody keeps."""
        return (
            self._stage == self._last_stage
            and all(task.is_finished for task in self.tasks.values())
            and all(
                partition.is_consumed
                for partition in self.partition_of.values()
                if partition.partition_type.release_by is ReleaseBy.UPSTREAM
            )
        )

    @property
    def now_ns(self) -> int:
        """Virtual time."""
        return self.scheduler.now_ns

    def step(self) -> bool:
        """Let the next thing happen. Returns: False if nothing will happen any more.

        An error of the stack cancels the job, as a failing task does in Flink; it is kept in
        `error`.
        """
        try:
            has_stepped = self.scheduler.step()
            if self._stage != self._last_stage and self._is_stage_over():
                self._stage += 1
                self._deploy_stage()
            if self.stages is not None:
                self.stages.advance(now_ns=self.now_ns)
            return has_stepped
        except SimulationError:
            raise
        except FlinknetError as error:
            self.cancel(error)
            return True

    def run_until(self, at_ns: int) -> None:
        """Let everything happen up to and including an instant."""
        while (next_ns := self.scheduler.next_ns) is not None and next_ns <= at_ns:
            if not self.step():
                return

    def run_until_idle(self, limit: int = 100_000_000) -> None:
        """Run until nothing happens any more.

        Args:
            limit: steps at most; a livelock fails instead of running for ever.

        Raises: StalledError when work is left that nothing will ever do, or when the limit is
            reached.
        """
        for _ in range(limit):
            if not self.step():
                break
        else:
            raise StalledError(f"not finished after {limit} steps", self.seed)
        if self.error is None and not self.is_finished:
            raise StalledError("nothing can happen any more, but records are left", self.seed)

    def run(self, *, until_ns: int | None = None, limit: int = 20_000_000) -> None:
        """Run until the job has ended, or to an instant counted from the start.

        Args:
            limit: steps at most; a livelock fails instead of running for ever.

        Raises: what the job was cancelled for; StalledError when nothing can happen any more, or
            when the limit is reached.
        """
        for _ in range(limit):
            if self.error is not None:
                raise self.error
            next_ns = self.scheduler.next_ns
            if self.is_finished:
                return
            if until_ns is not None and next_ns and next_ns > self._start_ns + until_ns:
                return
            if not self.step():
                left = ", ".join(e.name for e in self.tasks.values() if not e.is_finished)
                raise StalledError(
                    f"nothing can happen any more, but these are left: {left}", self.seed
                )
        raise StalledError(f"not finished after {limit} steps", self.seed)

    def stop(self) -> None:
        """Let the sources end; the job runs to its end then."""
        for task in self.tasks.values():
            task.stop()
        for task_manager in self.task_managers:
            task_manager.wake(self.now_ns)

    def cancel(self, error: FlinknetError) -> None:
        """End the job: close all connections, give everything back. The first error is kept."""
        self.error = self.error or error
        for task_manager in self.task_managers:
            task_manager.tasks = ()
        for link in self.links.values():
            link.reset(now_ns=self.now_ns)
        for task in self.tasks.values():
            task.cancel()
        for partition in self.partitions:
            partition.release()
        self.close()

    def close(self) -> None:
        """The job is over: give back what its gates still have, and results that were kept."""
        for partition in self.partitions:
            if partition.is_finished:
                partition.release()
        for gate in self.gates:
            gate.close()

    def set_delay(self, consumer: int, delay_ns_per_record: int) -> None:
        """How long a consumer of the load generator takes for each record from now on."""
        task, task_manager = self._consumers()[consumer]
        run_input_of(task).set_delay(delay_ns_per_record)
        task_manager.wake(self.now_ns)

    def _consumers(self) -> list[tuple[StreamTask, SimulatedTaskManager]]:
        """The sinks, and where they run."""
        return [
            (self.tasks[each.key], self.task_managers[each.task_manager])
            for each in self.job.subtasks
            if each.key in self.tasks and each.inputs and not each.outputs
        ]

    # Deploying

    def _is_stage_over(self) -> bool:
        return all(task.is_finished for task in self.tasks.values())

    def _deploy_stage(self) -> None:
        """Partitions and gates of all subtasks of the stage before any of its tasks runs."""
        subtasks = [each for each in self.job.subtasks if each.stage == self._stage]
        for each in subtasks:
            partitions = create_partitions(
                each,
                self.network,
                self.task_managers[each.task_manager].memory,
                self._managers[each.task_manager],
                storage=self._storages[each.task_manager],
            )
            for output, partition in zip(each.outputs, partitions, strict=True):
                self.partition_of[output.edge, each.subtask] = partition
        opened: list[SingleInputGate] = []
        for each in subtasks:
            gates = create_gates(
                each,
                self.network,
                self.task_managers[each.task_manager].memory,
                partitions=self._managers[each.task_manager],
                connect=partial(self._connection_of, each.task_manager),
                probe=self._probes[each.task_manager],
            )
            for described, gate in zip(each.inputs, gates, strict=True):
                self.gate_of[described.edge, each.subtask] = gate
            opened += gates
        if self.stages is None:
            for gate in opened:
                gate.request_partitions(now_ns=self.now_ns)
        for task_manager in self.task_managers:
            task_manager.wake(self.now_ns)
        if self.now_ns < self._start_ns:
            self.scheduler.at(self._start_ns, partial(self._start_tasks, subtasks))
        else:
            self._start_tasks(subtasks)

    def _start_tasks(self, subtasks: Sequence[TaskDeploymentDescriptor]) -> None:
        created = [self._create_task(each) for each in subtasks]
        for index, task_manager in enumerate(self.task_managers):
            here = [position for position, e in enumerate(subtasks) if e.task_manager == index]
            task_manager.tasks = [created[position] for position in here]
            task_manager.has_local_channels = any(
                channel.is_local
                for position in here
                for gate in subtasks[position].inputs
                for channel in gate.channels
            )
            task_manager.wake(self.now_ns)
            self._start_debloating(task_manager)
        if self._stage == 0:
            self._disturbances().schedule(self.faults, start_ns=self._start_ns)
            if self.checkpoints is not None:
                self.checkpoints.advance()

    def _create_task(self, subtask: TaskDeploymentDescriptor) -> SteppedTask:
        stepped = self.job.create_task(
            subtask,
            [self.partition_of[each.edge, subtask.subtask] for each in subtask.outputs],
            [self.gate_of[each.edge, subtask.subtask] for each in subtask.inputs],
            self.task_managers[subtask.task_manager],
            self._probes[subtask.task_manager],
            ignore if self.checkpoints is None else self.checkpoints.receive,
        )
        self.tasks[subtask.key] = stepped.task
        return stepped

    def _disturbances(self) -> Disturbances:
        return Disturbances(
            self.scheduler,
            self.task_managers,
            list(self.links.values()),
            [
                [gate for each in task_manager.tasks for gate in each.task.gates]
                for task_manager in self.task_managers
            ],
            self._consumers(),
        )

    def _start_debloating(self, task_manager: SimulatedTaskManager) -> None:
        if not self.network.debloating_enabled:
            return
        debloating = BufferDebloating(
            debloated_gates(
                [each.task for each in task_manager.tasks], self.network, now_ns=self.now_ns
            ),
            self.network.debloating_period_ns,
            start_ns=self.now_ns,
        )
        self.debloated_gates += debloating.gates
        self._debloat(debloating, task_manager)

    def _debloat(self, debloating: BufferDebloating, task_manager: SimulatedTaskManager) -> None:
        """Evaluate the gates of a TaskManager when it is time, in no time."""
        debloating.handle_deadline(now_ns=self.now_ns)
        task_manager.wake(self.now_ns)
        due_ns = debloating.next_deadline_ns()
        if due_ns is not None and not self.is_finished and self.error is None:
            self.scheduler.at(due_ns, partial(self._debloat, debloating, task_manager))

    # Connecting

    def _connection_of(
        self, downstream: int, channel: InputChannelDescriptor
    ) -> ConsumerConnection:
        key = channel.task_manager, downstream, channel.connection_index
        if key not in self._connections:
            self._connections[key] = self._connect(*key)
        return self._connections[key]

    def _connect(self, upstream: int, downstream: int, index: int) -> ConsumerConnection:
        network, flow_control = self.network, self.job.flow_control
        producer = create_producer_connection(
            flow_control,
            self._managers[upstream],
            self._probes[upstream],
            self._channel_of,
            partition_request_timeout_ns=network.partition_request_timeout_ns,
            segment_size_bytes=network.segment_size_bytes,
        )
        consumer = create_consumer_connection(
            flow_control, f"tm-{upstream}", self._probes[downstream]
        )
        consumer.requests.policy = request_backoff_of(network)
        self.producer_connections.append(producer)
        self.consumer_connections.append(consumer)
        ends = (
            self._create_end(producer, upstream, side=0),
            self._create_end(consumer, downstream, side=1),
        )
        ends[0].join(ends[1])
        self.links[upstream, downstream, index] = SimulatedLink(*ends)
        return consumer

    def _create_end(self, connection: Connection, index: int, *, side: int) -> LinkEnd:
        task_manager = self.task_managers[index]
        faults = LinkFaults.of(self.faults, len(self.links), side, origin_ns=self._start_ns)
        settings, back_ns = self.link_settings, self._back_ns
        if side == 1 and back_ns is not None:
            settings = replace(settings, latency_ns=int(back_ns))
        send, receive = self._socket_costs[side]
        end = LinkEnd(connection, settings, send, task_manager.wake, faults, receive)
        jitter = task_manager.jitter
        end.receive_jitter_ns = jitter.decode_ns if side else jitter.pick_ns
        end.send_jitter_ns = jitter.announce_ns if side else jitter.send_ns
        task_manager.ends.append(end)
        return end
