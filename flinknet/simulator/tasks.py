"""SimulatedTasks: the tasks of a cluster, made from its deployment, plans and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flinknet.core.consumer import SingleInputGate, UnionInputGate
from flinknet.core.probe import Probe
from flinknet.core.producer import BufferWritingResultPartition, OutputFlusher, RecordWriter
from flinknet.jobs.load.assembly import LoadTasks, create_relay, delay_of
from flinknet.jobs.load.generator import LoadGenerator, RecordBatcher
from flinknet.jobs.load.run_input import PAUSED_NS
from flinknet.jobs.stream_task import StreamTask
from flinknet.tasks.assembly import input_of
from flinknet.tasks.checkpoints import CheckpointResponder
from flinknet.tasks.deployment import Deployment
from flinknet.workload.payload import OVERHEAD_BYTES
from flinknet.workload.sink import LatencySink

from .cost_model import CostModel
from .jitter import RunningJitter
from .source_plan import PlannedArrivals, PlannedSelector, SourcePlan, beat_phase_ns
from .task_manager import (
    BUSY_NS_MAX,
    SimulatedRelay,
    SimulatedRunSink,
    SimulatedSink,
    SimulatedSource,
    SimulatedTaskManager,
)


class SimulatedTasks:
    """Makes the tasks of a cluster whose channels are open.

    Args:
        partition_of: partitions by edge and producer.
        gate_of: gates by edge and consumer.
        plans, costs, probes, start_ns, flush_overhead_ns: see Cluster.
        respond: takes the tasks' answers about checkpoints.
    """

    def __init__(
        self,
        deployment: Deployment,
        task_managers: Sequence[SimulatedTaskManager],
        partition_of: Mapping[tuple[int, int], BufferWritingResultPartition],
        gate_of: Mapping[tuple[int, int], SingleInputGate],
        plans: Sequence[SourcePlan],
        costs: CostModel,
        probes: Sequence[Probe],
        respond: CheckpointResponder,
        *,
        start_ns: int,
        flush_overhead_ns: int,
    ) -> None:
        self._deployment = deployment
        self._task_managers = task_managers
        self._partition_of = partition_of
        self._gate_of = gate_of
        self._plans = plans
        self._costs = costs
        self._probes = probes
        self._load = LoadTasks(deployment.scenario.network, respond, start_ns=start_ns)
        self._start_ns = start_ns
        self._flush_overhead_ns = flush_overhead_ns

    def create_source(self, producer: int) -> SimulatedSource:
        """The source that writes the partition of a producer."""
        scenario, plan = self._deployment.scenario, self._plans[producer]
        network, workload = scenario.network, scenario.workload
        channels = self._deployment.channels_of_producer(producer)
        timeout_ns, start_ns = network.buffer_timeout_ns, self._start_ns
        flusher = self._create_flusher(producer)
        writer = RecordWriter(
            self._partition_of[0, producer],
            PlannedSelector(plan),
            buffer_timeout_ns=timeout_ns,
        )
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
        task = self._load.source(
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
            self._probes[self._deployment.producer_task_managers[producer]],
            [each.index for each in channels],
            partitioner=self._deployment.edges[0].partitioner,
            seed=scenario.seed,
        )
        return SimulatedSource(
            task,
            writer,
            flusher,
            arrivals,
            stops,
            plan.end_ns,
            emit_ns_per_record=self._costs.emit_ns_per_record,
            jitter_ns=self._jitter_of(self._deployment.producer_task_managers[producer]).write_ns,
        )

    def create_relay(self, vertex: int, subtask: int) -> SimulatedRelay:
        """A subtask of a vertex between the first and the last."""
        deployment = self._deployment
        gate = self._input_of(vertex, subtask)
        edge = deployment.outputs_of(vertex)[0].index
        # a number of its own, behind those of the sources, for the phase of its flusher
        number = vertex * len(deployment.vertices[vertex].task_managers) + subtask
        task = create_relay(
            self._load,
            deployment,
            vertex,
            subtask,
            gate,
            self._partition_of[edge, subtask],
            tuple(LatencySink(epoch_ns=self._start_ns, is_open_loop=False) for _ in gate.channels),
            self._create_flusher(number),
            self._probes[deployment.vertices[vertex].task_managers[subtask]],
        )
        return SimulatedRelay(
            task,
            receive_ns_per_message=self._costs.receive_ns_per_message,
            emit_ns_per_record=self._costs.emit_ns_per_record,
        )

    def create_sink(self, consumer: int) -> SimulatedSink | SimulatedRunSink:
        """The sink of a consumer, as slow as the scenario and the costs have it."""
        scenario = self._deployment.scenario
        delay_ns = delay_of(consumer, scenario.workload.slow_consumers)
        consume_ns = self._costs.consume_ns_per_record
        receive_ns = self._costs.receive_ns_per_message
        own_ns = consume_ns[consumer] if consumer < len(consume_ns) else 0.0
        if self._reads_runs(delay_ns, own_ns):
            task = self._create_sink_task(consumer, 0, takes_runs=True)
            return SimulatedRunSink(
                task,
                receive_ns_per_turn=receive_ns,
                consume_ns_per_record=own_ns,
                jitter_ns=self._jitter_of(
                    self._deployment.consumer_task_managers[consumer]
                ).read_ns,
            )
        if delay_ns != PAUSED_NS:
            delay_ns += round(own_ns)
        task = self._create_sink_task(consumer, delay_ns, takes_runs=False)
        return SimulatedSink(task, receive_ns_per_message=receive_ns)

    def _reads_runs(self, delay_ns: int, consume_ns_per_record: float) -> bool:
        """Whether a consumer reads what waits at one go, as those do whose records take no time of
        their own.
        """
        scenario = self._deployment.scenario
        record_bytes = scenario.workload.record_size.mean_bytes + OVERHEAD_BYTES
        records = scenario.network.segment_size_bytes / record_bytes
        is_quick = delay_ns == 0 and consume_ns_per_record * records <= BUSY_NS_MAX
        return self._costs.turns is not None and is_quick

    def _create_sink_task(self, consumer: int, delay_ns: int, *, takes_runs: bool) -> StreamTask:
        gate = self._input_of(len(self._deployment.vertices) - 1, consumer)
        sinks = tuple(
            LatencySink(
                epoch_ns=self._start_ns, delay_ns_per_record=max(delay_ns, 0), is_open_loop=False
            )
            for _ in gate.channels
        )
        return self._load.sink(
            consumer,
            gate,
            sinks,
            self._probes[self._deployment.consumer_task_managers[consumer]],
            delay_ns_per_record=delay_ns,
            takes_runs=takes_runs,
        )

    def _jitter_of(self, task_manager: int) -> RunningJitter:
        return self._task_managers[task_manager].jitter

    def _create_flusher(self, number: int) -> OutputFlusher:
        timeout_ns = self._deployment.scenario.network.buffer_timeout_ns
        period_ns = timeout_ns + self._flush_overhead_ns if timeout_ns > 0 else timeout_ns
        phase_ns = beat_phase_ns(self._deployment.scenario.seed, number, period_ns)
        return OutputFlusher(period_ns, start_ns=self._start_ns - phase_ns)

    def _input_of(self, vertex: int, subtask: int) -> SingleInputGate | UnionInputGate:
        return input_of(
            [self._gate_of[edge.index, subtask] for edge in self._deployment.inputs_of(vertex)]
        )
