"""LoadPlan: a scenario's load as a job, source → relays → sink, planned like a program's job.

Pure; ids follow from the seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from flinknet.config import (
    FLOW_CONTROLS,
    PARTITIONERS,
    PLACEMENTS,
    SCHEDULINGS,
    TCP,
    Scenario,
    check_keys,
)
from flinknet.core.buffers.pool_sizes import (
    TaskManagerBuffers,
    buffers_by_task_manager,
    shortage,
)
from flinknet.core.producer import partition_type_of
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.errors import ConfigError
from flinknet.graph import transformations
from flinknet.graph.execution_graph import execution_graph_of
from flinknet.graph.job_config import JobConfig
from flinknet.graph.job_graph_generator import job_graph_of
from flinknet.graph.operators import ChainingStrategy
from flinknet.graph.physical_plan import PhysicalPlan
from flinknet.graph.planning import placed_plan_of
from flinknet.graph.slots import PlacedSlot, SharedSlot
from flinknet.graph.stream_graph import DEFAULT_SLOT_SHARING_GROUP, StreamGraph, StreamNode
from flinknet.graph.transformations import StreamPartitioner
from flinknet.units import counted

from ..descriptor import (
    InputChannelDescriptor,
    TaskDeploymentDescriptor,
    deployed_channels,
    descriptors_of,
    receiver_id_of,
)
from ..scheduling import scheduling_of

LONGEST_RUN_NS = 4 * 3600 * 10**9
"""Less than the 2**44 ns that a record's stamp can hold (`payload`)."""

_PARTITIONERS = {
    each.name.lower(): each
    for each in (
        *(transformations.FORWARD, transformations.REBALANCE, transformations.RESCALE),
        *(transformations.SHUFFLE, transformations.GLOBAL, transformations.BROADCAST),
        StreamPartitioner("HASH"),
    )
}


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """A scenario and its tasks (sources, relays, sinks), with their channels by index."""

    scenario: Scenario
    plan: PhysicalPlan
    tasks: tuple[TaskDeploymentDescriptor, ...]
    channels: tuple[InputChannelDescriptor, ...]

    @property
    def sources(self) -> list[TaskDeploymentDescriptor]:
        return [each for each in self.tasks if not each.inputs]

    @property
    def sinks(self) -> list[TaskDeploymentDescriptor]:
        return [each for each in self.tasks if not each.outputs]

    @property
    def last_vertex(self) -> int:
        """Index of the sinks' vertex; the sources' is 0."""
        return self.tasks[-1].vertex

    @property
    def task_managers(self) -> int:
        """Number of TaskManagers, up to the last one used."""
        return 1 + max(each.task_manager for each in self.tasks)

    def tasks_on(self, task_manager: int) -> list[TaskDeploymentDescriptor]:
        return [each for each in self.tasks if each.task_manager == task_manager]

    def is_last(self, channel: InputChannelDescriptor) -> bool:
        """Whether records leave the job here: latency ends here, and records count once."""
        return channel.edge == self.last_vertex - 1

    def connections(self) -> dict[str, int]:
        """Number of channels of each TCP connection, by its name."""
        return dict(Counter(str(each.connection) for each in self.channels if not each.is_local))

    def credit_buffers(self) -> int | None:
        """Most buffers under way to the consumers of the exchange that has fewest: those of their
        gates, of which a channel gets no more floating ones than its producer may announce. None
        if some channels are local.
        """
        if any(each.is_local for each in self.channels):
            return None
        of_edges = Counter[int]()
        for gate in (each for task in self.tasks for each in task.inputs):
            channels, buffers = len(gate.channels), gate.buffers
            announced = channels * self.scenario.network.max_buffers_per_channel
            of_edges[gate.edge] += min(buffers.pool.max_buffers, announced)
            of_edges[gate.edge] += channels * buffers.exclusive_per_channel
        return min(of_edges.values(), default=None)

    def buffers(self) -> list[TaskManagerBuffers]:
        """Network memory demand of each TaskManager."""
        count = max(self.scenario.task_managers, self.task_managers)
        needs = (each.buffers for each in self.tasks)
        return buffers_by_task_manager(needs, count, self.scenario.network.segments)

    def check_memory(self) -> None:
        """Raises: ConfigError, with the numbers and a remedy, if the buffers do not fit."""
        why = shortage(self.buffers(), self.scenario.network.segment_size_bytes)
        if why is not None:
            raise ConfigError(why)


def task_name(task: TaskDeploymentDescriptor) -> str:
    """Name of a load task in all output: source 0, relay 1.0 or sink 0."""
    if not task.inputs:
        return f"source {task.subtask}"
    if not task.outputs:
        return f"sink {task.subtask}"
    return f"relay {task.vertex}.{task.subtask}"


def load_plan_of(scenario: Scenario) -> LoadPlan:
    """The plan of a scenario. A relay is connected one to one to the previous stage if parallelisms
    are equal, else by rebalance, as Flink connects operators; the partitioner of the workload is
    that of the last edge. Raises: ConfigError if the scenario cannot be deployed.
    """
    _check(scenario)
    parallelisms = scenario.workload.parallelisms
    partitioners = [
        "forward" if before == own else "rebalance" for before, own in pairwise(parallelisms[:-1])
    ]
    partitioners.append(scenario.workload.partitioner)
    return placed_load_plan(scenario, partitioners, _places(parallelisms, scenario))


def placed_load_plan(
    scenario: Scenario, partitioners: Sequence[str], places: Sequence[Sequence[int]]
) -> LoadPlan:
    """The plan with a partitioner for each edge and a TaskManager for each subtask."""
    plan = _physical_plan(scenario, partitioners, places)
    tasks = _tasks_of(plan)
    return LoadPlan(scenario, plan, tuple(tasks), tuple(deployed_channels(tasks)))


def listed_load_plan(
    scenario: Scenario,
    places: tuple[Sequence[int], Sequence[int]],
    channels: Mapping[int, tuple[int, int, int]],
    partition_ids: Sequence[ResultPartitionID] = (),
) -> LoadPlan:
    """The plan of one exchange with given channels: those of a recorded run, or with one end that
    is not flinknet's.

    Args:
        places: TaskManager of each producer, and of each consumer.
        channels: producer, consumer and subpartition of each by its index, in the order of their
            gates.
        partition_ids: of each producer; if empty, our own ids.
    """
    plan = _physical_plan(scenario, ("rescale",), places)  # fewest channels to replace
    kind, partitioner = plan.edges[0].partition_type, scenario.workload.partitioner
    written: dict[int, list[tuple[int, int]]] = {}
    read: dict[int, list[tuple[int, int, int]]] = {}
    for index, (producer, consumer, subpartition) in channels.items():
        written.setdefault(producer, []).append((subpartition, index))
        read.setdefault(consumer, []).append((index, producer, subpartition))
    tasks = _tasks_of(plan)
    ids = partition_ids or [each.outputs[0].partition_id for each in tasks if each.outputs]
    found = []
    for task in tasks:
        if task.outputs:
            outputs = sorted(written.get(task.subtask, []))
            output = replace(
                task.outputs[0],
                partition_id=ids[task.subtask],
                partitioner=partitioner,
                channels=tuple(index for _, index in outputs),
                pool=plan.partition_pool(kind, len(outputs)),
            )
            task = replace(task, outputs=(output,))
        else:
            inputs = read.get(task.subtask, [])
            gate = replace(
                task.inputs[0],
                buffers=plan.gate_buffers(len(inputs), kind),
                channels=tuple(
                    InputChannelDescriptor(
                        *(index, 0, producer, task.subtask, subpartition),
                        *(places[0][producer], task.task_manager, 0),
                        receiver_id_of(index, task.attempt_id, ids[producer]),
                        ids[producer],
                    )
                    for index, producer, subpartition in inputs
                ),
            )
            task = replace(task, inputs=(gate,))
        found.append(task)
    return LoadPlan(scenario, plan, tuple(found), tuple(deployed_channels(found)))


def _tasks_of(plan: PhysicalPlan) -> list[TaskDeploymentDescriptor]:
    own = (each for on_one in descriptors_of(plan) for each in on_one)
    return sorted(own, key=lambda each: each.key)


def _physical_plan(
    scenario: Scenario, partitioners: Sequence[str], places: Sequence[Sequence[int]]
) -> PhysicalPlan:
    """Place the load without stages: readers of a blocking partition are deployed from the start,
    and request it later.
    """
    job = job_graph_of(_stream_graph(scenario, partitioners, list(map(len, places))))
    kind = partition_type_of(scenario.workload.partition_type)
    for job_vertex in job.vertices.values():
        for data_set in job_vertex.results:
            data_set.partition_type = kind  # programs cannot express all of them
    graph = execution_graph_of(job, str(scenario.seed))
    slots: dict[tuple[int, int], SharedSlot] = {}
    for vertex, own in zip(graph.vertices.values(), places, strict=True):
        used: Counter[int] = Counter()
        for subtask, task_manager in zip(vertex.task_vertices, own, strict=True):
            key = task_manager, used[task_manager]
            slots.setdefault(key, SharedSlot(DEFAULT_SLOT_SHARING_GROUP, 0)).subtasks[vertex.id] = (
                subtask.id
            )
            used[task_manager] += 1
    placed = [PlacedSlot(*key, shared) for key, shared in sorted(slots.items())]
    count = max(scenario.task_managers, 1 + max(slot.task_manager for slot in placed))
    plan = placed_plan_of(graph, placed, count, 1 + max(slot.slot for slot in placed))
    return replace(plan, vertices=tuple(replace(each, stage=0) for each in plan.vertices))


def _stream_graph(
    scenario: Scenario, partitioners: Sequence[str], parallelisms: Sequence[int]
) -> StreamGraph:
    """One task per operator, even where Flink would chain."""
    network = scenario.network
    config = JobConfig(
        is_chaining_enabled=False,
        restart_strategy="none",
        flow_control=scenario.flow_control,
        network=network,
    )
    graph = StreamGraph("bench", config, is_batch=False)
    last = len(parallelisms) - 1
    names = ["source", *(f"relay {index}" for index in range(1, last)), "sink"]
    for index, (name, parallelism) in enumerate(zip(names, parallelisms, strict=True)):
        node = StreamNode(
            id=index,
            operator_name=name,
            operator_factory=None,
            parallelism=parallelism,
            max_parallelism=None,
            slot_sharing_group=DEFAULT_SLOT_SHARING_GROUP,
            invokable="OneInputStreamTask" if index else "SourceStreamTask",
            buffer_timeout_ns=network.buffer_timeout_ns,
            output_type=bytes if index < last else None,
            chaining_strategy=ChainingStrategy.NEVER,
        )
        graph.nodes[index] = node
        if index:
            partitioner = _PARTITIONERS[partitioners[index - 1]]
            graph.add_actual_edge(graph.nodes[index - 1], node, partitioner=partitioner)
    graph.source_ids.append(0)
    graph.sink_ids.append(last)
    return graph


def _places(parallelisms: Sequence[int], scenario: Scenario) -> list[tuple[int, ...]]:
    """The TaskManager of each subtask of each stage.

    split: each stage has TaskManagers of its own, so every channel crosses a connection.
    spread: subtask i of every stage is on TaskManager i modulo their number, as Flink's slot
    sharing places equal parallelisms.
    """
    count, stages = scenario.task_managers, len(parallelisms)
    if scenario.placement == "spread":
        return [tuple(i % count for i in range(parallelism)) for parallelism in parallelisms]
    places = []
    first = 0
    for stage, parallelism in enumerate(parallelisms):
        own = count // stages + (stage < count % stages)
        places.append(tuple(first + i % own for i in range(parallelism)))
        first += own
    return places


def _check(scenario: Scenario) -> None:
    workload = scenario.workload
    for name, given, known in (  # which a manifest may say, too
        ("flow control", scenario.flow_control, FLOW_CONTROLS),
        ("partitioner", workload.partitioner, PARTITIONERS),
        ("placement", scenario.placement, PLACEMENTS),
        ("scheduling", workload.scheduling, (None, *SCHEDULINGS)),
    ):
        if given not in known:
            words = ", ".join(filter(None, known))
            raise ConfigError(f"{name} {given!r} is not known; choose from {words}")
    check_keys(workload.keys, workload.key_skew, "--keys")
    if scenario.network.debloating_enabled and scenario.flow_control == TCP:
        raise ConfigError(
            "taskmanager.network.memory.buffer-debloat.enabled: buffer debloating needs the backlog"
            " that comes with credit, and flow control is tcp; use --flow-control credit"
        )
    scheduling_of(scenario)
    stages = workload.relays + 2
    if scenario.placement == "split" and scenario.task_managers < stages:
        there = counted(scenario.task_managers, "TaskManager")
        raise ConfigError(
            f"{there} for {stages} stages that are split: each needs one of its own; use"
            f" --task-managers {stages} or more, or --placement spread"
        )
    *_, writers, readers = workload.parallelisms
    if workload.partitioner == "forward" and writers != readers:
        raise ConfigError(
            f"forward needs as many consumers as {'relays' if workload.relays else 'producers'},"
            f" not {writers} and {readers}; make them equal, or use --partitioner rebalance"
        )
    for slow in workload.slow_consumers:
        if not 0 <= slow.index < workload.consumers:
            raise ConfigError(
                f"there is no consumer {slow.index} to slow down; they are 0 to"
                f" {workload.consumers - 1}"
            )
        is_paused = slow.delay_ns_per_record < 0
        has_end = workload.duration_ns is not None or (
            not workload.is_max_rate and workload.arrivals == "constant"
        )
        if is_paused and not has_end:
            raise ConfigError(
                "a paused consumer at the highest rate or with irregular arrivals needs --duration:"
                " a number of records may never be reached"
            )
    if workload.warmup_ns + (workload.duration_ns or 0) > LONGEST_RUN_NS:
        raise ConfigError(
            "a run may last at most four hours, the limit of the stamps in its records"
        )
    if workload.record_size.low_bytes < 8:
        raise ConfigError(
            f"records of {workload.record_size.low_bytes} bytes cannot carry what the consumer"
            " checks; the smallest is 8b"
        )
