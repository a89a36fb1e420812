"""Cluster: a Deployment in virtual time, on the same core and tasks that the runtime drives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from flinknet.config import TCP, Scenario
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.connection import Connection
from flinknet.core.consumer import ConsumerConnection, SingleInputGate
from flinknet.core.probe import NullProbe, Probe
from flinknet.core.producer import (
    BufferWritingResultPartition,
    ProducerConnection,
    ResultPartitionManager,
)
from flinknet.core.water_marks import WriteWaterMarks
from flinknet.errors import FlinknetError, SimulationError, StalledError
from flinknet.jobs.debloating import BufferDebloating, GateDebloating, debloated_gates
from flinknet.jobs.load.assembly import run_input_of
from flinknet.jobs.stream_task import StreamTask
from flinknet.tasks.assembly import (
    create_gate,
    create_partition,
    request_backoff_of,
)
from flinknet.tasks.checkpoints import ignore
from flinknet.tasks.deployment import DeployedChannel, Deployment, deploy
from flinknet.tasks.flow_control import create_consumer_connection, create_producer_connection
from flinknet.tasks.memory import most_buffers, segments_of
from flinknet.tasks.scheduling import SchedulingType, StartCondition, scheduling_of

from .checkpoints import SimulatedCheckpoints
from .cost_model import TYPICAL_COSTS, CostModel, Outages
from .disturbances import Disturbances
from .faults import NO_FAULTS, FaultPlan, LinkFaults
from .link import LinkEnd, LinkSettings, SimulatedLink, socket_costs
from .scheduler import START_NS, Scheduler
from .source_plan import SourcePlan, plan_sources
from .stages import Stages
from .task_manager import SimulatedTaskManager
from .tasks import SimulatedTasks

NO_OUTAGES: Mapping[int, Outages] = {}

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
        outages: of TaskManagers, counted from `start_ns`.
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
        outages: Mapping[int, Outages] = NO_OUTAGES,
    ) -> None:
        self.deployment = deployment
        self.seed = deployment.scenario.seed
        self.scheduler = Scheduler(start_ns=start_ns - OPENING_NS)
        self.error: FlinknetError | None = None
        self._start_ns = start_ns
        self.faults = faults
        self._back_ns = costs.back_ns
        self._socket_costs = socket_costs(costs)
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
                answers_at_once=costs.turns is not None,
            )
            for index in range(count)
        )
        for index, each in outages.items():
            self.task_managers[index].set_outages(each, start_ns=start_ns)
        self._managers = tuple(ResultPartitionManager() for _ in self.task_managers)
        self.partitions: list[BufferWritingResultPartition] = []
        self.partition_of: dict[tuple[int, int], BufferWritingResultPartition] = {}
        self.gates: list[SingleInputGate] = []
        self.gate_of: dict[tuple[int, int], SingleInputGate] = {}
        self._connections: dict[tuple[int, int], ConsumerConnection] = {}
        self.links: dict[tuple[int, int], SimulatedLink] = {}
        self.producer_connections: list[ProducerConnection] = []
        self.consumer_connections: list[ConsumerConnection] = []
        self.sources: list[StreamTask] = []
        self.relays: list[StreamTask] = []
        self.sinks: list[StreamTask] = []
        self.debloated_gates: list[GateDebloating] = []
        self.stages: Stages | None = None
        scheduling = scheduling_of(deployment.scenario)
        is_asked_for = deployment.scenario.workload.scheduling is not None
        if is_asked_for or scheduling is not SchedulingType.ALL_AT_ONCE:
            self.stages = Stages(
                deployment,
                self.task_managers,
                self.partition_of,
                self.gate_of,
                scheduling,
                start_condition,
            )
        interval_ns = network.checkpoint_interval_ns
        self.checkpoints: SimulatedCheckpoints | None = None
        if interval_ns is not None:
            self.checkpoints = SimulatedCheckpoints(
                deployment,
                self.scheduler,
                self.task_managers,
                self.sources,
                self.relays,
                self.sinks,
                lambda: self.is_finished or self.error is not None,
                interval_ns=interval_ns,
                start_ns=start_ns,
            )
        self._tasks = SimulatedTasks(
            deployment,
            self.task_managers,
            self.partition_of,
            self.gate_of,
            plans,
            costs,
            self._probes,
            ignore if self.checkpoints is None else self.checkpoints.receive,
            start_ns=start_ns,
            flush_overhead_ns=flush_overhead_ns,
        )
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
    def reading_tasks(self) -> list[StreamTask]:
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

    def set_delay(self, consumer: int, delay_ns_per_record: int) -> None:
        """How long a consumer takes for each record from now on."""
        run_input_of(self.sinks[consumer]).set_delay(delay_ns_per_record)
        self.task_managers[self.deployment.consumer_task_managers[consumer]].wake(self.now_ns)

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
        consumer.requests.policy = request_backoff_of(scenario.network)
        self.producer_connections.append(producer)
        self.consumer_connections.append(consumer)
        ends = (
            self._create_end(producer, upstream, side=0),
            self._create_end(consumer, downstream, side=1),
        )
        ends[0].join(ends[1])
        self.links[upstream, downstream] = SimulatedLink(*ends)
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

    def _start_tasks(self) -> None:
        deployment = self.deployment
        for index, task_manager in enumerate(self.task_managers):
            task_manager.sources = [
                self._tasks.create_source(producer) for producer in deployment.producers_on(index)
            ]
            task_manager.relays = [
                self._tasks.create_relay(vertex, subtask)
                for vertex in range(1, len(deployment.vertices) - 1)
                for subtask in deployment.vertices[vertex].subtasks_on(index)
            ]
            task_manager.sinks = [
                self._tasks.create_sink(consumer) for consumer in deployment.consumers_on(index)
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
        self.relays.sort(key=lambda relay: (relay.outputs[0].edge, relay.index))
        self.sinks.sort(key=lambda sink: sink.index)
        for slow in deployment.scenario.workload.slow_consumers:
            if slow.slow_ns is not None:
                self.set_delay(slow.index, slow.delay_ns_per_record)
                free = partial(self.set_delay, slow.index, 0)
                self.scheduler.at(self._start_ns + slow.slow_ns, free)
        self._start_debloating()
        Disturbances(
            deployment,
            self.scheduler,
            self.task_managers,
            list(self.links.values()),
            self.gate_of,
            self.sinks,
        ).schedule(self.faults, start_ns=self._start_ns)
        if self.checkpoints is not None:
            self.checkpoints.advance()

    def _start_debloating(self) -> None:
        network = self.deployment.scenario.network
        if not network.debloating_enabled:
            return
        for task_manager in self.task_managers:
            readers: list[StreamTask] = [each.task for each in task_manager.relays]
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
