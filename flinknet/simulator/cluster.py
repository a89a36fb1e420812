"""Cluster: a Deployment in virtual time, on the same core and tasks that the runtime drives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from flinknet.config import TCP, Scenario
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.connection import Connection
from flinknet.core.consumer import ConsumerConnection, SingleInputGate, UnionInputGate
from flinknet.core.probe import NullProbe, Probe
from flinknet.core.producer import (
    BufferWritingResultPartition,
    OutputFlusher,
    ProducerConnection,
    RecordWriter,
    ResultPartitionManager,
)
from flinknet.core.water_marks import WriteWaterMarks
from flinknet.errors import FlinknetError, SimulationError, StalledError
from flinknet.tasks import RecordBatcher, RelayTask, SinkTask, SourceTask
from flinknet.tasks.assembly import (
    create_gate,
    create_partition,
    create_relay,
    input_of,
    request_backoff_of,
)
from flinknet.tasks.checkpoint_coordinator import AbortCheckpoint, Answer, CheckpointCoordinator
from flinknet.tasks.checkpoints import (
    InputCheckpoints,
    OutputCheckpoints,
    barrier_of,
    sink_name,
    source_name,
    task_names,
)
from flinknet.tasks.debloating import BufferDebloating, GateDebloating, debloated_gates
from flinknet.tasks.deployment import DeployedChannel, Deployment, deploy
from flinknet.tasks.flow_control import create_consumer_connection, create_producer_connection
from flinknet.tasks.memory import most_buffers, segments_of
from flinknet.tasks.scheduling import SchedulingType, StartCondition, scheduling_of
from flinknet.tasks.sink import PAUSED_NS, delay_of
from flinknet.workload.recorded import CostModel
from flinknet.workload.sink import LatencySink

from .disturbances import schedule_faults
from .faults import NO_FAULTS, FaultPlan, LinkFaults
from .link import LinkEnd, LinkSettings, SendCosts, SimulatedLink
from .scheduler import Scheduler
from .source_plan import PlannedArrivals, PlannedSelector, SourcePlan, beat_phase_ns, plan_sources
from .stages import Stages
from .task_manager import SimulatedRelay, SimulatedSink, SimulatedSource, SimulatedTaskManager

TYPICAL_COSTS = CostModel(
    send_ns_per_message=12_000.0,
    send_ns_per_byte=0.15,
    transit_ns=50_000.0,
    receive_ns_per_message=12_000.0,
    emit_ns_per_record=100.0,
    consume_ns_per_record=(),
)
"""What flinknet's own stack was measured to need on one core; for runs without a record."""

START_NS = 1_000_000_000
"""When the tasks of a scenario start; the channels were opened before."""

OPENING_NS = 100_000_000
"""How long before the start the channels are requested."""


class Cluster:
    """All TaskManagers of a deployment, with their connections and tasks.

    Args:
        plans: what each producer emits.
        costs: what the steps take. Without a consume cost for a consumer its records take no time.
            `transit_ns` counts from the hand-over of a message, so the link's latency is what the
            sending itself leaves of it.
        start_ns: when tasks start.
        probes: one for each TaskManager; none to record nothing.
        link: bandwidth and capacity of the links; their latency follows from `costs`.
        start_condition: which inputs a vertex waits for, where it does not start at once.
        flush_overhead_ns: what the flusher's period is longer than the buffer timeout (0.1 ms in
            Flink).
    """

    def __init__(
        self,
        deployment: Deployment,
        plans: Sequence[SourcePlan],
        costs: CostModel = TYPICAL_COSTS,
        *,
        start_ns: int = START_NS,
        probes: Sequence[Probe] = (),
        link: LinkSettings = LinkSettings(),  # noqa: B008 - frozen
        faults: FaultPlan = NO_FAULTS,
        flush_overhead_ns: int = 0,
        start_condition: StartCondition = StartCondition.ALL,
    ) -> None:
        self.deployment = deployment
        self.seed = deployment.scenario.seed
        self.scheduler = Scheduler(start_ns=start_ns - OPENING_NS)
        self.error: FlinknetError | None = None
        self._plans = plans
        self._costs = costs
        self._start_ns = start_ns
        self.faults = faults
        self._flush_overhead_ns = flush_overhead_ns
        self._send_costs = SendCosts(costs.send_ns_per_message, costs.send_ns_per_byte)
        latency_ns = max(0, int(costs.transit_ns - costs.send_ns_per_message))
        self.link_settings = replace(link, latency_ns=latency_ns)
        count = deployment.task_managers
        self._probes = tuple(probes) or tuple(NullProbe() for _ in range(count))
        network = deployment.scenario.network
        self.task_managers = tuple(
            SimulatedTaskManager(
                f"tm-{index}",
                self.scheduler,
                NetworkBufferPool(
                    min(segments_of(network), most_buffers(deployment, index)),
                    network.segment_size_bytes,
                ),
            )
            for index in range(count)
        )
        self._managers = tuple(ResultPartitionManager() for _ in self.task_managers)
        self.partitions: list[BufferWritingResultPartition] = []
        self.partition_of: dict[tuple[int, int], BufferWritingResultPartition] = {}
        self.gates: list[SingleInputGate] = []
        self.gate_of: dict[tuple[int, int], SingleInputGate] = {}
        self._connections: dict[tuple[int, int], ConsumerConnection] = {}
        self.links: dict[tuple[int, int], SimulatedLink] = {}
        self.producer_connections: list[ProducerConnection] = []
        self.consumer_connections: list[ConsumerConnection] = []
        self.sources: list[SourceTask] = []
        self.relays: list[RelayTask] = []
        self.sinks: list[SinkTask] = []
        self.debloated_gates: list[GateDebloating] = []
        self.stages: Stages | None = None
        scheduling = scheduling_of(deployment.scenario)
        is_asked_for = deployment.scenario.workload.scheduling is not None
        if is_asked_for or scheduling is not SchedulingType.ALL_AT_ONCE:
            self.stages = Stages(self, scheduling, start_condition)
        self.checkpoints = self._create_coordinator()
        self._planned_checkpoints: int | None = None
        self._open_channels()
        self.scheduler.at(start_ns, self._start_tasks)

    @classmethod
    def of_scenario(
        cls,
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
        deployment = deploy(scenario)
        return cls(
            deployment,
            plan_sources(deployment, start_ns=START_NS),
            costs,
            probes=probes,
            link=link,
            faults=faults,
            flush_overhead_ns=flush_overhead_ns,
        )

    @property
    def is_finished(self) -> bool:
        """Whether every sink came to its end and every partition was given back."""
        return all(sink.is_finished for sink in self.sinks) and all(
            partition.is_consumed for partition in self.partitions
        )

    @property
    def reading_tasks(self) -> list[RelayTask | SinkTask]:
        """Every task that has an input."""
        return [*self.relays, *self.sinks]

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
            if self.stages is not None:
                self.stages.advance()
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
        """Run to the end.

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

    def cancel(self, error: FlinknetError) -> None:
        """End the job: close all connections, give everything back. The first error is kept."""
        self.error = self.error or error
        for task_manager in self.task_managers:
            task_manager.sources = task_manager.relays = task_manager.sinks = ()
        for link in self.links.values():
            link.reset(now_ns=self.now_ns)
        for task in self.reading_tasks:
            task.cancel()
        for partition in self.partitions:
            partition.release()
        for gate in self.gates:
            for channel in gate.channels:
                channel.release()

    def _open_channels(self) -> None:
        deployment = self.deployment
        for edge in deployment.edges:
            source = deployment.vertices[edge.source]
            for producer, task_manager in enumerate(source.task_managers):
                partition = create_partition(
                    deployment,
                    producer,
                    self.task_managers[task_manager].memory,
                    self._managers[task_manager],
                    edge=edge.index,
                )
                self.partitions.append(partition)
                self.partition_of[edge.index, producer] = partition
        for edge in deployment.edges:
            target = deployment.vertices[edge.target]
            for consumer, task_manager in enumerate(target.task_managers):
                gate = create_gate(
                    deployment,
                    consumer,
                    self.task_managers[task_manager].memory,
                    edge=edge.index,
                    index=deployment.inputs_of(edge.target).index(edge),
                    partitions=self._managers[task_manager],
                    connect=self._connection_of,
                    probe=self._probes[task_manager],
                )
                self.gates.append(gate)
                self.gate_of[edge.index, consumer] = gate
                if self.stages is None:
                    gate.request_partitions(now_ns=self.now_ns)
        for each_manager in self.task_managers:
            each_manager.wake(self.now_ns)

    def _connection_of(self, channel: DeployedChannel) -> ConsumerConnection:
        deployment = self.deployment
        pair = deployment.producer_task_manager(channel), deployment.consumer_task_manager(channel)
        if pair not in self._connections:
            self._connections[pair] = self._connect(*pair)
        return self._connections[pair]

    def _connect(self, upstream: int, downstream: int) -> ConsumerConnection:
        scenario = self.deployment.scenario
        producer = create_producer_connection(
            scenario.flow_control,
            self._managers[upstream],
            self._probes[upstream],
            {each.receiver_id: each.index for each in self.deployment.channels},
            partition_request_timeout_ns=scenario.network.partition_request_timeout_ns,
        )
        if scenario.flow_control == TCP:
            marks = WriteWaterMarks.classic(scenario.network.segment_size_bytes)
            producer.batch_bytes = marks.high_bytes + 1
        consumer = create_consumer_connection(
            scenario.flow_control, f"tm-{upstream}", self._probes[downstream]
        )
        consumer.request_backoff = request_backoff_of(scenario.network)
        self.producer_connections.append(producer)
        self.consumer_connections.append(consumer)
        ends = (
            self._create_end(producer, upstream, self._send_costs, side=0),
            self._create_end(consumer, downstream, SendCosts(), side=1),
        )
        ends[0].join(ends[1])
        self.links[upstream, downstream] = SimulatedLink(*ends)
        return consumer

    def _create_end(
        self, connection: Connection, index: int, costs: SendCosts, *, side: int
    ) -> LinkEnd:
        task_manager = self.task_managers[index]
        faults = LinkFaults.of(self.faults, len(self.links), side, origin_ns=self._start_ns)
        end = LinkEnd(connection, self.link_settings, costs, task_manager.wake, faults)
        task_manager.ends.append(end)
        return end

    def _start_tasks(self) -> None:
        deployment = self.deployment
        for index, task_manager in enumerate(self.task_managers):
            task_manager.sources = [
                self._create_source(producer) for producer in deployment.producers_on(index)
            ]
            task_manager.relays = [
                self._create_relay(vertex, subtask)
                for vertex in range(1, len(deployment.vertices) - 1)
                for subtask in deployment.vertices[vertex].subtasks_on(index)
            ]
            task_manager.sinks = [
                self._create_sink(consumer) for consumer in deployment.consumers_on(index)
            ]
            task_manager.has_local_channels = any(
                deployment.is_local(each) and deployment.consumer_task_manager(each) == index
                for each in deployment.channels
            )
            self.sources.extend(each.task for each in task_manager.sources)
            self.relays.extend(each.task for each in task_manager.relays)
            self.sinks.extend(each.task for each in task_manager.sinks)
            task_manager.wake(self.now_ns)
        self.sources.sort(key=lambda source: source.index)
        self.relays.sort(key=lambda relay: (relay.input_edge, relay.index))
        self.sinks.sort(key=lambda sink: sink.index)
        for slow in deployment.scenario.workload.slow_consumers:
            if slow.slow_ns is not None:
                self.set_delay(slow.index, slow.delay_ns_per_record)
                free = partial(self.set_delay, slow.index, 0)
                self.scheduler.at(self._start_ns + slow.slow_ns, free)
        self._start_debloating()
        schedule_faults(self, self.faults, start_ns=self._start_ns)
        self._advance_checkpoints()

    def _start_debloating(self) -> None:
        network = self.deployment.scenario.network
        if not network.debloating_enabled:
            return
        for task_manager in self.task_managers:
            readers: list[RelayTask | SinkTask] = [each.task for each in task_manager.relays]
            readers += [each.task for each in task_manager.sinks]
            debloating = BufferDebloating(
                debloated_gates(readers, network, now_ns=self.now_ns),
                network.debloating_period_ns,
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

    def _create_coordinator(self) -> CheckpointCoordinator | None:
        """Timestamps of barriers are milliseconds of virtual time."""
        network = self.deployment.scenario.network
        if network.checkpoint_interval_ns is None:
            return None
        return CheckpointCoordinator(
            task_names(self.deployment),
            interval_ns=network.checkpoint_interval_ns,
            timeout_ns=network.checkpoint_timeout_ns,
            start_ns=self._start_ns,
        )

    def _advance_checkpoints(self) -> None:
        """Tell the sources what the coordinator has to say, in no time."""
        coordinator, now_ns = self.checkpoints, self.now_ns
        self._planned_checkpoints = None
        if coordinator is None or self.is_finished or self.error is not None:
            return
        if all(source.is_finished for source in self.sources):
            coordinator.stop()
        for command in coordinator.advance(now_ns=now_ns):
            for source in self.sources:
                if isinstance(command, AbortCheckpoint):
                    source.abort_checkpoint(command.checkpoint_id)
                else:
                    partitioner = self.deployment.edges[0].partitioner
                    network = self.deployment.scenario.network
                    barrier = barrier_of(
                        network, partitioner, command.checkpoint_id, command.timestamp_ms
                    )
                    source.trigger_checkpoint(barrier, now_ns=now_ns)
            for task_manager in self.task_managers:
                task_manager.wake(now_ns)
        self._plan_checkpoints(coordinator)

    def _plan_checkpoints(self, coordinator: CheckpointCoordinator) -> None:
        """Come back when the coordinator next has something to say, and not when it once had."""
        if self._planned_checkpoints is not None:
            self.scheduler.cancel(self._planned_checkpoints)
            self._planned_checkpoints = None
        due_ns = coordinator.next_deadline_ns()
        if due_ns is not None:
            self._planned_checkpoints = self.scheduler.at(due_ns, self._advance_checkpoints)

    def _respond(self, answer: Answer) -> None:
        """A task's answer reaches the coordinator at once; it may begin what it had put off."""
        coordinator = self.checkpoints
        if coordinator is not None:
            was_pending = coordinator.pending_id is not None
            coordinator.receive(answer, now_ns=self.now_ns)
            if was_pending and coordinator.pending_id is None:
                self._plan_checkpoints(coordinator)

    def _create_source(self, producer: int) -> SimulatedSource:
        scenario, plan = self.deployment.scenario, self._plans[producer]
        network, workload = scenario.network, scenario.workload
        channels = self.deployment.channels_of_producer(producer)
        timeout_ns, start_ns = network.buffer_timeout_ns, self._start_ns
        period_ns = timeout_ns + self._flush_overhead_ns if timeout_ns > 0 else timeout_ns
        flusher = OutputFlusher(
            period_ns, start_ns=start_ns - beat_phase_ns(self.seed, producer, period_ns)
        )
        writer = RecordWriter(
            self.partition_of[0, producer], PlannedSelector(plan), buffer_timeout_ns=timeout_ns
        )
        arrivals = None
        if plan.instants_ns is not None:
            arrivals = PlannedArrivals(plan.instants_ns, plan.end_ns)
        stops = None
        if timeout_ns != 0 and not network.debloating_enabled:  # its buffers end anywhere
            stops = plan.segment_instants(workload.record_size, network.segment_size_bytes)
        task = SourceTask(
            producer,
            writer,
            RecordBatcher(
                workload,
                (plan.only,) if plan.only < 0 else tuple(range(len(channels))),
                epoch_ns=start_ns,
                seed=scenario.seed * 7_368_787 + producer,
            ),
            flusher,
            self._probes[self.deployment.producer_task_managers[producer]],
            tuple(each.index for each in channels),
            arrivals=arrivals,
            records=plan.records,
            start_ns=start_ns,
            measured_from_ns=start_ns,
            end_ns=None,
            seed=scenario.seed,
            checkpoints=OutputCheckpoints(
                source_name(producer), writer, [each.index for each in channels], self._respond
            ),
        )
        return SimulatedSource(
            task,
            writer,
            flusher,
            arrivals,
            stops,
            plan.end_ns,
            emit_ns_per_record=self._costs.emit_ns_per_record,
        )

    def _create_relay(self, vertex: int, subtask: int) -> SimulatedRelay:
        deployment = self.deployment
        gate = self._input_of(vertex, subtask)
        edge = deployment.outputs_of(vertex)[0].index
        timeout_ns = deployment.scenario.network.buffer_timeout_ns
        period_ns = timeout_ns + self._flush_overhead_ns if timeout_ns > 0 else timeout_ns
        # a number of its own, behind those of the sources, for the phase of its flusher
        number = vertex * len(deployment.vertices[vertex].task_managers) + subtask
        task = create_relay(
            deployment,
            vertex,
            subtask,
            gate,
            self.partition_of[edge, subtask],
            tuple(LatencySink(epoch_ns=self._start_ns, is_open_loop=False) for _ in gate.channels),
            OutputFlusher(
                period_ns, start_ns=self._start_ns - beat_phase_ns(self.seed, number, period_ns)
            ),
            self._probes[deployment.vertices[vertex].task_managers[subtask]],
            self._respond,
            epoch_ns=self._start_ns,
        )
        return SimulatedRelay(
            task,
            receive_ns_per_message=self._costs.receive_ns_per_message,
            emit_ns_per_record=self._costs.emit_ns_per_record,
        )

    def _input_of(self, vertex: int, subtask: int) -> SingleInputGate | UnionInputGate:
        return input_of(
            [self.gate_of[edge.index, subtask] for edge in self.deployment.inputs_of(vertex)]
        )

    def set_delay(self, consumer: int, delay_ns_per_record: int) -> None:
        """How long a consumer takes for each record from now on."""
        self.sinks[consumer].set_delay(delay_ns_per_record)
        self.task_managers[self.deployment.consumer_task_managers[consumer]].wake(self.now_ns)

    def _create_sink(self, consumer: int) -> SimulatedSink:
        scenario = self.deployment.scenario
        delay_ns = delay_of(consumer, scenario.workload.slow_consumers)
        consume_ns = self._costs.consume_ns_per_record
        if delay_ns != PAUSED_NS and consumer < len(consume_ns):
            delay_ns += round(consume_ns[consumer])
        gate = self._input_of(len(self.deployment.vertices) - 1, consumer)
        sinks = tuple(
            LatencySink(
                epoch_ns=self._start_ns, delay_ns_per_record=max(delay_ns, 0), is_open_loop=False
            )
            for _ in gate.channels
        )
        task = SinkTask(
            consumer,
            gate,
            sinks,
            self._probes[self.deployment.consumer_task_managers[consumer]],
            delay_ns_per_record=delay_ns,
            start_ns=self._start_ns,
            checkpoints=InputCheckpoints(
                sink_name(consumer), gate, scenario.network, self._respond
            ),
        )
        return SimulatedSink(task, receive_ns_per_message=self._costs.receive_ns_per_message)
