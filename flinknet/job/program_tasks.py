"""Tasks of programs, built from a descriptor between its gates and partitions, for both drivers."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from flinknet.config import NetworkConfig
from flinknet.core.consumer import SingleInputGate, SpillStore
from flinknet.core.probe import Probe
from flinknet.core.producer import (
    ChannelSelector,
    CustomSelector,
    KeyGroupSelector,
    OutputFlusher,
    RecordWriter,
    ResultPartition,
)
from flinknet.core.wire.ids import JobVertexID
from flinknet.errors import ConfigError, TaskFailedError
from flinknet.graph.job_graph import JobGraph, NonChainedOutput
from flinknet.graph.operator_chain import OperatorChain
from flinknet.graph.stream_graph import StreamEdge
from flinknet.graph.transformations import StreamPartitioner
from flinknet.graph.user_functions import copied

from .barriers import CheckpointResponder, ignore
from .chain_runner import ChainRunner
from .channel_input import ChannelInput
from .context import defined_at
from .descriptor import ResultPartitionDeploymentDescriptor, Start, TaskDeploymentDescriptor
from .elements import StreamElementSerializer
from .event_time import StatusWatermarkValve, Timer, TimestampsAndWatermarksOperator
from .gates import input_of
from .io import TaskIO
from .network_input import ElementInput
from .record_output import RecordOutput
from .selectors import create_selector
from .serializers import serializer_of
from .sources import RequestNextInputSplit, record_source
from .stream_task import StreamTask
from .task_chain import TaskWorker
from .task_frame import TaskFrame
from .task_operators import TaskOperators, source_of

_KEYED = ("hash", "custom")


def network_of(job: JobGraph) -> NetworkConfig:
    """Network settings of a job, which has no checkpoints as a batch job."""
    return replace(job.config.network, checkpoint_interval_ns=job.checkpoints.get("interval_ns"))


def create_task(
    descriptor: TaskDeploymentDescriptor,
    job: JobGraph,
    partitions: Sequence[ResultPartition],
    gates: Sequence[SingleInputGate],
    probe: Probe,
    respond: CheckpointResponder = ignore,
    *,
    io: TaskIO,
    start: Start,
    seed: int = 1,
    spills: SpillStore | None = None,
    worker: Callable[[str], TaskWorker] | None = None,
    request_split: Callable[[RequestNextInputSplit], None] | None = None,
) -> StreamTask:
    """Create the task of a descriptor, with its operators opened, or to be opened by the worker.

    Args:
        job: of the same program; provides functions, partitioners and record types.
        partitions, gates: of the descriptor's outputs and inputs, in order.
        respond: sends the task's checkpoint answers, under its execution_vertex_id.
        io: takes the output of sinks. Inputs of sources are the task's `text_inputs`.
        seed: of all random choices: keys, arrivals, start of rebalance, shuffle.
        spills: takes records too long for memory; None to keep all records in memory.
        worker: creates the worker of the task of this name, if it calls functions of the program;
            None to call them in the task's steps.
        request_split: requests a split for a source; the answer is for its `receive`.

    Raises: ConfigError if the program differs from the deployed one; TaskFailedError if an
    operator cannot be opened.
    """
    return _ProgramTask(descriptor, job, probe, respond, start, seed).assembled(
        partitions, gates, io, spills, worker, request_split
    )


class _ProgramTask(TaskFrame):
    """Assembles one task."""

    def __init__(
        self,
        descriptor: TaskDeploymentDescriptor,
        job: JobGraph,
        probe: Probe,
        respond: CheckpointResponder,
        start: Start,
        seed: int,
    ) -> None:
        super().__init__(descriptor, descriptor.name, network_of(job), probe, respond, start)
        self._config = descriptor.information.stream_config
        self._job = job
        self._edge_of = dict(self._edges())
        self._seed = f"flinknet {seed} {descriptor.vertex} {descriptor.subtask}"

    def assembled(
        self,
        partitions: Sequence[ResultPartition],
        gates: Sequence[SingleInputGate],
        io: TaskIO,
        spills: SpillStore | None,
        worker: Callable[[str], TaskWorker] | None,
        request_split: Callable[[RequestNextInputSplit], None] | None,
    ) -> StreamTask:
        descriptor, start, context = self.descriptor, self.start, self.context
        subtask = descriptor.subtask, descriptor.parallelism
        outputs = list(map(self._output, descriptor.outputs, partitions))
        self.set_outputs(outputs, list(map(self._barriers, descriptor.outputs)))
        operators = TaskOperators(self._job, self._config, context, io, *subtask)
        try:
            chain = OperatorChain(
                self._config, self._job.factories, self._writers(outputs), create=operators.create
            )
        except (ConfigError, TaskFailedError):
            raise
        except Exception as error:
            raise TaskFailedError(
                f"{descriptor.name}: its operators cannot be made: {type(error).__name__}: {error}"
            ) from error
        has_arrays = operators.has_arrays(chain.operators)
        sources = {
            operator_id: record_source(
                source,
                *subtask,
                start_ns=start.start_ns,
                end_ns=start.end_ns,
                seed=self._drawn_seed(f"source {operator_id}"),
                has_arrays=has_arrays,
                request_split=request_split
                and partial(
                    request_split, RequestNextInputSplit(descriptor.attempt_id, operator_id)
                ),
            )
            for operator_id, operator in chain.operators.items()
            if (source := source_of(operator)) is not None
        }
        network_input = self._network_input(gates, spills, has_arrays) if gates else None
        runner = ChainRunner(
            descriptor.name,
            chain,
            operators.names,
            operators.batched(chain.operators),
            context,
            sources=list(sources),
            timers=self._timers(chain, start.start_ns),
        )
        for meter in runner.latency_meters:
            meter.measured_from_ns = start.measured_from_ns
            meter.measured_to_ns = start.measured_to_ns
        calls_functions = operators.call_functions(chain.operators) or any(
            each.partitioner in _KEYED for each in descriptor.outputs
        )
        own_worker = worker(descriptor.name) if worker is not None and calls_functions else None
        return self.task(runner, sources, network_input, own_worker)

    def _output(
        self, described: ResultPartitionDeploymentDescriptor, partition: ResultPartition
    ) -> RecordOutput:
        leaving = self._leaving(described)
        edge = self._edge_of[leaving.edge_id]
        partitioner = copied(edge.partitioner)
        made = self._job.factories[leaving.operator_id]
        writer = RecordWriter(
            partition,
            self._selector(described, partitioner),
            buffer_timeout_ns=described.buffer_timeout_ns,
        )
        return RecordOutput(
            self._config.all[leaving.operator_id].operator_name,
            described.edge,
            writer,
            StreamElementSerializer(serializer_of(edge.record_type)),
            OutputFlusher(described.buffer_timeout_ns, start_ns=self.start.start_ns),
            self.context,
            described.channels,
            key_selector=partitioner.key_selector if described.partitioner in _KEYED else None,
            hashes_keys=described.partitioner == "hash",
            has_event_time=edge.source.has_event_time,
            place=defined_at(getattr(made.create(), "function", None)),
        )

    def _leaving(self, described: ResultPartitionDeploymentDescriptor) -> NonChainedOutput:
        data_set_id = str(described.data_set_id)
        return next(each for each in self._config.outputs if each.data_set_id == data_set_id)

    def _timers(self, chain: OperatorChain, start_ns: int) -> list[Timer]:
        """The periodic watermarks of operators that assign event time."""
        interval_ns, timers = self._job.config.auto_watermark_interval_ns, list[Timer]()
        if interval_ns <= 0 or self._job.is_batch:
            return timers
        for operator_id in chain.operators:
            operator, output = chain.entry(operator_id)
            if isinstance(operator, TimestampsAndWatermarksOperator):
                emit = partial(operator.emit_periodic, output)
                timers.append(Timer(emit, interval_ns, first_ns=start_ns + interval_ns))
        return timers

    def _writers(self, outputs: Sequence[RecordOutput]) -> dict[str, Callable[[Any], None]]:
        """The writer of each edge; edges that share a data set write it once."""
        of_data_set = {
            str(described.data_set_id): output
            for described, output in zip(self.descriptor.outputs, outputs, strict=True)
        }
        return {
            leaving.edge_id: of_data_set.pop(leaving.data_set_id, lambda _: None)
            for leaving in self._config.outputs
        }

    def _selector(
        self, described: ResultPartitionDeploymentDescriptor, partitioner: StreamPartitioner
    ) -> ChannelSelector:
        channels = described.subpartitions
        if described.partitioner == "hash":
            return KeyGroupSelector(channels, described.target_key_groups)
        if described.partitioner == "custom":
            assert partitioner.function is not None
            return CustomSelector(channels, partitioner.function)
        seed = self._drawn_seed(f"edge {described.edge}")
        return create_selector(described.partitioner, channels, seed)

    def _barriers(self, described: ResultPartitionDeploymentDescriptor) -> str:
        """The partitioner that determines barrier alignment on an edge."""
        edge = self._edge_of[self._leaving(described).edge_id]
        if edge.supports_unaligned_checkpoints or self.network.forced_unaligned_checkpoints:
            return described.partitioner
        return "forward"

    def _network_input(
        self, gates: Sequence[SingleInputGate], spills: SpillStore | None, has_arrays: bool
    ) -> ElementInput:
        gate = input_of(gates)
        read_by = {each.edge_id: each for each in self._config.inputs}
        coming = [(each, read_by[each.stream_edge_id]) for each in self.descriptor.inputs]
        channels = Counter[tuple[str, int]]()  # of each operator and its input
        for described, read in coming:
            channels[read.operator_id, read.input_number] += len(described.channels)
        valves = {target: StatusWatermarkValve(total) for target, total in channels.items()}
        numbers: defaultdict[tuple[str, int], Iterator[int]] = defaultdict(count)
        receivers: list[ChannelInput] = []
        for described, read in coming:
            edge, target = self._edge_of[read.edge_id], (read.operator_id, read.input_number)
            serializer = serializer_of(edge.record_type)
            elements = StreamElementSerializer(serializer, has_arrays=has_arrays)
            epoch_ns = None if edge.source.has_own_time else self.start.timestamp_epoch_ns
            receivers += [
                ChannelInput(
                    described.edge,
                    *target,
                    elements,
                    next(numbers[target]),
                    valves[target],
                    has_event_time=edge.source.has_event_time,
                    due_epoch_ns=epoch_ns,
                    measured_from_ns=self.start.measured_from_ns,
                )
                for _ in described.channels
            ]
        checkpoints = self.input_checkpoints(gate)
        return ElementInput(gate, tuple(receivers), self.probe, checkpoints, spills=spills)

    def _edges(self) -> Iterator[tuple[str, StreamEdge]]:
        """The vertex's edges in the program, by their names at deployment: edge names are numbered
        across programs, so edges are matched by order.
        """
        information = self.descriptor.information
        vertex = self._job.vertices.get(JobVertexID(bytes.fromhex(information.vertex_id)))
        now, then = vertex.config if vertex else None, self._config.ends
        ends = [] if now is None else now.ends
        if [each.operator_id for each in then] != [each.operator_id for each in ends]:
            raise ConfigError(
                f"the program has no {information.vertex_name} as the job was deployed with; it has"
                " changed since, or does not build the same graph twice"
            )
        for known, own in zip(then, ends, strict=True):
            yield known.edge_id, self._job.stream_edges[own.edge_id]

    def _drawn_seed(self, what: str) -> int:
        digest = hashlib.sha256(f"{self._seed} {what}".encode()).digest()
        return int.from_bytes(digest[:6], "big")
