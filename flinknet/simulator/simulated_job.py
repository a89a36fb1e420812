"""SimulatedJob: the job of a cluster; creates its tasks; SimulatedLoad: that of the load
generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flinknet.config import NetworkConfig
from flinknet.core.consumer import SingleInputGate
from flinknet.core.probe import Probe
from flinknet.core.producer import OutputFlusher, RecordWriter, ResultPartition
from flinknet.job.barriers import CheckpointResponder
from flinknet.job.descriptor import Start, TaskDeploymentDescriptor
from flinknet.job.gates import input_of
from flinknet.job.load.arrivals import RecordedArrivals, RecordedSelector
from flinknet.job.load.load_tasks import LoadTask
from flinknet.job.load.outputs import LoadGenerator, RecordBatcher
from flinknet.job.load.plan import LoadPlan
from flinknet.job.load.sink import LatencySink

from .cost_model import CostModel
from .source_plan import SourcePlan, beat_phase_ns
from .task_manager import SimulatedSink, SimulatedSource, SimulatedTaskManager, SteppedTask


@dataclass(eq=False)
class SimulatedJob:
    """The subtasks and settings of a job. `create_task` determines the kind of its tasks and the
    cost of their steps.

    Attributes:
        subtasks: in the order in which their channels are opened; on each TaskManager, subtasks
            that write an edge come before those that read it.
        opening_ns: time from the requests of channels to the start of the tasks.
        segments: numbers of segments of the TaskManagers' network memory, if the job has new hosts.
    """

    subtasks: Sequence[TaskDeploymentDescriptor]
    network: NetworkConfig
    flow_control: str
    costs: CostModel
    seed: int
    start_ns: int
    opening_ns: int
    segments: Callable[[], Sequence[int]]

    def create_task(
        self,
        subtask: TaskDeploymentDescriptor,
        partitions: Sequence[ResultPartition],
        gates: Sequence[SingleInputGate],
        task_manager: SimulatedTaskManager,
        probe: Probe,
        respond: CheckpointResponder,
    ) -> SteppedTask:
        """Create the task of a subtask; `respond` takes its answers about checkpoints."""
        raise NotImplementedError

    def requester(self, cluster: Any) -> Callable[[int], None] | None:
        """What requests the channels of a Cluster, called with the instant after each of its
        actions; None: the cluster requests all of them when it deploys their tasks."""
        return None


OPENING_NS = 100_000_000
"""Time from the requests of channels to the start of the tasks, in ns."""


class SimulatedLoad(SimulatedJob):
    """Sources that emit planned records, and sinks.

    Args:
        plans: records of each producer.
        costs: time that the steps take; records of a consumer without a consume cost take none.
        flush_overhead_ns: the flusher's period minus the buffer timeout (0.1 ms in Flink).
    """

    def __init__(
        self,
        load: LoadPlan,
        plans: Sequence[SourcePlan],
        costs: CostModel,
        *,
        start_ns: int,
        flush_overhead_ns: int = 0,
    ) -> None:
        scenario = load.scenario
        super().__init__(
            load.tasks,
            scenario.network,
            scenario.flow_control,
            costs,
            seed=scenario.seed,
            start_ns=start_ns,
            opening_ns=OPENING_NS,
            segments=lambda: [
                min(each.total_buffers, each.most_buffers)
                for each in load.buffers()[: load.task_managers]
            ],
        )
        self._scenario = scenario
        self._plans = plans
        self._flush_overhead_ns = flush_overhead_ns

    def create_task(
        self,
        subtask: TaskDeploymentDescriptor,
        partitions: Sequence[ResultPartition],
        gates: Sequence[SingleInputGate],
        task_manager: SimulatedTaskManager,
        probe: Probe,
        respond: CheckpointResponder,
    ) -> SteppedTask:
        start = Start(self.start_ns, self.start_ns)
        task = LoadTask(subtask, self._scenario, probe, respond, start=start)
        if not gates:
            return self._source(task, subtask, partitions[0], task_manager)
        delay_ns = self._delay_ns(subtask.subtask)
        gate = input_of(gates)
        sinks = tuple(
            LatencySink(
                epoch_ns=self.start_ns, delay_ns_per_record=max(delay_ns, 0), is_open_loop=False
            )
            for _ in gate.channels
        )
        sink = task.sink(gate, sinks, delay_ns_per_record=delay_ns)
        return SimulatedSink(sink, receive_ns_per_message=self.costs.receive_ns_per_message)

    def _source(
        self,
        task: LoadTask,
        descriptor: TaskDeploymentDescriptor,
        partition: ResultPartition,
        task_manager: SimulatedTaskManager,
    ) -> SimulatedSource:
        producer, scenario, network = descriptor.subtask, self._scenario, self.network
        plan, workload = self._plans[producer], scenario.workload
        timeout_ns, start_ns = network.buffer_timeout_ns, self.start_ns
        flusher = self._create_flusher(producer)
        writer = RecordWriter(
            partition, RecordedSelector(plan.subpartitions, plan.only), buffer_timeout_ns=timeout_ns
        )
        arrivals = None
        if plan.instants_ns is not None:
            arrivals = RecordedArrivals(plan.instants_ns, plan.end_ns)
        stops = None
        ends_anywhere = network.debloating_enabled or network.checkpoint_interval_ns is not None
        if timeout_ns != 0 and not ends_anywhere:
            stops = plan.segment_instants(workload.record_size, network.segment_size_bytes)
        batcher = RecordBatcher(
            workload,
            (plan.only,) if plan.only < 0 else tuple(range(descriptor.outputs[0].subpartitions)),
            epoch_ns=start_ns,
            seed=scenario.seed * 7_368_787 + producer,
            records=plan.records,
        )
        start = Start(start_ns, start_ns)
        generator = LoadGenerator(arrivals, batcher.batch_records, start, records=plan.records)
        return SimulatedSource(
            task.source(generator, batcher, writer, flusher),
            writer,
            flusher,
            arrivals,
            stops,
            plan.end_ns,
            emit_ns_per_record=self.costs.emit_ns_per_record,
            idle_ns=lambda: task_manager.idle_ns,
        )

    def _delay_ns(self, consumer: int) -> int:
        """Time of a consumer per record, by the costs."""
        consume_ns = self.costs.consume_ns_per_record
        return round(consume_ns[consumer]) if consumer < len(consume_ns) else 0

    def _create_flusher(self, number: int) -> OutputFlusher:
        timeout_ns, overhead_ns = self.network.buffer_timeout_ns, self._flush_overhead_ns
        period_ns = timeout_ns + overhead_ns if timeout_ns > 0 else timeout_ns
        since_ns = beat_phase_ns(self.seed, number, period_ns) - overhead_ns
        return OutputFlusher(timeout_ns, start_ns=self.start_ns - since_ns, overhead_ns=overhead_ns)
