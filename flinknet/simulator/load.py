"""SimulatedLoad: a deployment of the load generator, as a job of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flinknet.core.consumer import SingleInputGate
from flinknet.core.probe import Probe
from flinknet.core.producer import (
    OutputFlusher,
    RecordWriter,
    ResultPartition,
    partition_type_of,
)
from flinknet.core.producer.key_groups import default_max_parallelism
from flinknet.job.barriers import CheckpointResponder
from flinknet.job.descriptor import (
    InputChannelDescriptor,
    InputGateDeploymentDescriptor,
    ResultPartitionDeploymentDescriptor,
    TaskDeploymentDescriptor,
)
from flinknet.job.gates import input_of
from flinknet.job.load.assembly import LoadTasks, create_relay, delay_of
from flinknet.job.load.deployment import DeployedEdge, Deployment
from flinknet.job.load.generator import LoadGenerator, RecordBatcher
from flinknet.job.load.memory import (
    buffers_of_gate,
    most_buffers,
    partition_pool_size,
    segments_of,
)
from flinknet.job.load.payload import OVERHEAD_BYTES
from flinknet.job.load.run_input import PAUSED_NS
from flinknet.job.load.sink import LatencySink
from flinknet.job.scheduling import SchedulingType, StartCondition, scheduling_of
from flinknet.job.stream_task import StreamTask

from .cost_model import CostModel
from .simulated_job import SimulatedJob
from .source_plan import PlannedArrivals, PlannedSelector, SourcePlan, beat_phase_ns
from .stepped_tasks import SimulatedRelay, SimulatedRunSink, SimulatedSink, SimulatedSource
from .task_manager import BUSY_NS_MAX, SimulatedTaskManager, SteppedTask

OPENING_NS = 100_000_000
"""How long before the start the channels are requested."""


class SimulatedLoad(SimulatedJob):
    """Sources that emit what is planned, relays and sinks.

    Args:
        plans: what each producer emits.
        costs: what the steps take. Without a consume cost for a consumer its records take no time.
        start_condition: which inputs a vertex waits for, where it does not start at once.
        flush_overhead_ns: what the flusher's period is longer than the buffer timeout (0.1 ms in
            Flink).
    """

    def __init__(
        self,
        deployment: Deployment,
        plans: Sequence[SourcePlan],
        costs: CostModel,
        *,
        start_ns: int,
        flush_overhead_ns: int = 0,
        start_condition: StartCondition = StartCondition.ALL,
    ) -> None:
        scenario = deployment.scenario
        scheduling = scheduling_of(scenario)
        is_asked_for = scenario.workload.scheduling is not None
        waits = is_asked_for or scheduling is not SchedulingType.ALL_AT_ONCE
        super().__init__(
            list(_subtasks(deployment)),
            scenario.network,
            scenario.flow_control,
            costs,
            seed=scenario.seed,
            start_ns=start_ns,
            opening_ns=OPENING_NS,
            segments=[
                min(segments_of(scenario.network), most_buffers(deployment, index))
                for index in range(deployment.task_managers)
            ],
            scheduling=scheduling if waits else None,
            start_condition=start_condition,
        )
        self.deployment = deployment
        self._plans = plans
        self._flush_overhead_ns = flush_overhead_ns

    def checkpoint_name(self, subtask: TaskDeploymentDescriptor) -> str:
        """The name under which a task acknowledges checkpoints."""
        return self.deployment.task_name(*subtask.key)

    def create_task(
        self,
        subtask: TaskDeploymentDescriptor,
        partitions: Sequence[ResultPartition],
        gates: Sequence[SingleInputGate],
        task_manager: SimulatedTaskManager,
        probe: Probe,
        respond: CheckpointResponder,
    ) -> SteppedTask:
        """The task of a subtask."""
        load = LoadTasks(self.network, respond, start_ns=self.start_ns)
        index = subtask.subtask
        if not gates:
            return self._source(load, index, partitions[0], task_manager, probe)
        if partitions:
            return self._relay(load, subtask.key, gates, partitions[0], probe)
        return self._sink(load, index, gates, task_manager, probe)

    def _source(
        self,
        load: LoadTasks,
        producer: int,
        partition: ResultPartition,
        task_manager: SimulatedTaskManager,
        probe: Probe,
    ) -> SimulatedSource:
        deployment, plan = self.deployment, self._plans[producer]
        scenario, network = deployment.scenario, self.network
        workload = scenario.workload
        channels = deployment.channels_of_producer(producer)
        timeout_ns, start_ns = network.buffer_timeout_ns, self.start_ns
        flusher = self._create_flusher(producer)
        writer = RecordWriter(partition, PlannedSelector(plan), buffer_timeout_ns=timeout_ns)
        arrivals = None
        if plan.instants_ns is not None:
            arrivals = PlannedArrivals(plan.instants_ns, plan.end_ns)
        stops = None
        ends_anywhere = network.debloating_enabled or network.checkpoint_interval_ns is not None
        if timeout_ns != 0 and not ends_anywhere:
            stops = plan.segment_instants(workload.record_size, network.segment_size_bytes)
        batcher = RecordBatcher(
            workload,
            (plan.only,) if plan.only < 0 else tuple(range(len(channels))),
            epoch_ns=start_ns,
            seed=scenario.seed * 7_368_787 + producer,
        )
        task = load.source(
            producer,
            LoadGenerator(
                arrivals,
                batcher.batch_records,
                records=plan.records,
                start_ns=start_ns,
                measured_from_ns=start_ns,
                end_ns=None,
            ),
            batcher,
            writer,
            flusher,
            probe,
            [each.index for each in channels],
            partitioner=deployment.edges[0].partitioner,
            seed=scenario.seed,
        )
        return SimulatedSource(
            task,
            writer,
            flusher,
            arrivals,
            stops,
            plan.end_ns,
            emit_ns_per_record=self.costs.emit_ns_per_record,
            jitter_ns=task_manager.jitter.write_ns,
            idle_ns=lambda: task_manager.idle_ns,
        )

    def _relay(
        self,
        load: LoadTasks,
        key: tuple[int, int],
        gates: Sequence[SingleInputGate],
        partition: ResultPartition,
        probe: Probe,
    ) -> SimulatedRelay:
        (vertex, subtask), gate = key, input_of(gates)
        # a number of its own, behind those of the sources, for the phase of its flusher
        number = vertex * self.deployment.vertices[vertex].parallelism + subtask
        task = create_relay(
            load,
            self.deployment,
            vertex,
            subtask,
            gate,
            partition,
            tuple(LatencySink(epoch_ns=self.start_ns, is_open_loop=False) for _ in gate.channels),
            self._create_flusher(number),
            probe,
        )
        return SimulatedRelay(
            task,
            receive_ns_per_message=self.costs.receive_ns_per_message,
            emit_ns_per_record=self.costs.emit_ns_per_record,
        )

    def _sink(
        self,
        load: LoadTasks,
        consumer: int,
        gates: Sequence[SingleInputGate],
        task_manager: SimulatedTaskManager,
        probe: Probe,
    ) -> SimulatedSink | SimulatedRunSink:
        """The sink of a consumer, as slow as the scenario and the costs have it."""
        costs = self.costs
        delay_ns = delay_of(consumer, self.deployment.scenario.workload.slow_consumers)
        consume_ns = costs.consume_ns_per_record
        own_ns = consume_ns[consumer] if consumer < len(consume_ns) else 0.0
        takes_runs = self._reads_runs(delay_ns, own_ns)
        if not takes_runs and delay_ns != PAUSED_NS:
            delay_ns += round(own_ns)
        task = self._sink_task(load, consumer, gates, delay_ns, probe, takes_runs=takes_runs)
        if takes_runs:
            return SimulatedRunSink(
                task,
                receive_ns_per_turn=costs.receive_ns_per_message,
                consume_ns_per_record=own_ns,
                jitter_ns=task_manager.jitter.read_ns,
            )
        return SimulatedSink(task, receive_ns_per_message=costs.receive_ns_per_message)

    def _reads_runs(self, delay_ns: int, consume_ns_per_record: float) -> bool:
        """Whether a consumer reads what waits at one go, as those do whose records take no time of
        their own.
        """
        scenario = self.deployment.scenario
        record_bytes = scenario.workload.record_size.mean_bytes + OVERHEAD_BYTES
        records = scenario.network.segment_size_bytes / record_bytes
        is_quick = delay_ns == 0 and consume_ns_per_record * records <= BUSY_NS_MAX
        return self.costs.turns is not None and is_quick

    def _sink_task(
        self,
        load: LoadTasks,
        consumer: int,
        gates: Sequence[SingleInputGate],
        delay_ns: int,
        probe: Probe,
        *,
        takes_runs: bool,
    ) -> StreamTask:
        gate = input_of(gates)
        sinks = tuple(
            LatencySink(
                epoch_ns=self.start_ns, delay_ns_per_record=max(delay_ns, 0), is_open_loop=False
            )
            for _ in gate.channels
        )
        return load.sink(
            consumer, gate, sinks, probe, delay_ns_per_record=delay_ns, takes_runs=takes_runs
        )

    def _create_flusher(self, number: int) -> OutputFlusher:
        timeout_ns = self.network.buffer_timeout_ns
        period_ns = timeout_ns + self._flush_overhead_ns if timeout_ns > 0 else timeout_ns
        phase_ns = beat_phase_ns(self.seed, number, period_ns)
        return OutputFlusher(period_ns, start_ns=self.start_ns - phase_ns)


def _subtasks(deployment: Deployment) -> Iterator[TaskDeploymentDescriptor]:
    """The subtasks of a deployment, by vertex; there is no program that they are of."""
    for number, vertex in enumerate(deployment.vertices):
        max_parallelism = default_max_parallelism(vertex.parallelism)
        for subtask, task_manager in enumerate(vertex.task_managers):
            yield TaskDeploymentDescriptor(
                job_id="",
                job_name="",
                vertex=number,
                vertex_id="",
                vertex_name=vertex.name,
                subtask=subtask,
                parallelism=vertex.parallelism,
                max_parallelism=max_parallelism,
                attempt_id=deployment.partition_id(subtask, number).producer_id,
                task_manager=task_manager,
                slot=0,
                stage=0,
                stream_config="",
                outputs=tuple(
                    _output(deployment, edge, subtask) for edge in deployment.outputs_of(number)
                ),
                inputs=tuple(
                    _input(deployment, edge, subtask) for edge in deployment.inputs_of(number)
                ),
            )


def _output(
    deployment: Deployment, edge: DeployedEdge, producer: int
) -> ResultPartitionDeploymentDescriptor:
    scenario = deployment.scenario
    channels = deployment.channels_of_producer(producer, edge.index)
    return ResultPartitionDeploymentDescriptor(
        edge.index,
        deployment.partition_id(producer, edge.index),
        partition_type_of(scenario.workload.partition_type),
        edge.partitioner,
        default_max_parallelism(deployment.vertices[edge.target].parallelism),
        tuple(each.index for each in channels),
        scenario.network.buffer_timeout_ns,
        partition_pool_size(scenario, len(channels)),
        scenario.network.max_overdraft_buffers,
    )


def _input(
    deployment: Deployment, edge: DeployedEdge, consumer: int
) -> InputGateDeploymentDescriptor:
    scenario = deployment.scenario
    channels = deployment.channels_of_consumer(consumer, edge.index)
    buffers = buffers_of_gate(scenario, len(channels))
    return InputGateDeploymentDescriptor(
        edge.index,
        "",
        deployment.partition_id(0, edge.index).partition_id.intermediate_data_set_id,
        partition_type_of(scenario.workload.partition_type),
        edge.partitioner,
        buffers.exclusive_per_channel,
        buffers.pool,
        tuple(
            InputChannelDescriptor(
                each.index,
                each.producer,
                deployment.partition_id(each.producer, edge.index),
                each.subpartition,
                deployment.producer_task_manager(each),
                each.receiver_id,
                deployment.is_local(each),
                0,
            )
            for each in channels
        ),
    )
