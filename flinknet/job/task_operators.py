"""The operators of a task: those of the program, with sinks and delays in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flinknet.graph.endpoints import Source
from flinknet.graph.job_graph import JobGraph
from flinknet.graph.operator_output import Output, TaskEvent
from flinknet.graph.operators import (
    OperatorFactory,
    RecordContext,
    SourceOperator,
    StreamOperator,
    StreamSink,
    StreamSource,
    TimestampsAndWatermarks,
    UserFunctionOperator,
)
from flinknet.graph.stream_config import StreamConfig
from flinknet.graph.user_functions import copied

from .context import ProcessingContext
from .event_time import TimestampsAndWatermarksOperator
from .io import TaskIO
from .sinks import sink_operator


class DelayedOperator(StreamOperator):
    """An operator that takes a fixed time per record.

    Attributes:
        delay_ns: time per record.
        operator: the delayed operator.
    """

    def __init__(self, operator: StreamOperator, delay_ns: int, context: ProcessingContext) -> None:
        self.operator = operator
        self.delay_ns = delay_ns
        self._context = context

    def open(self) -> None:
        self.operator.open()

    def process(self, value: Any, output: Output, input_number: int = 0) -> None:
        self._context.work_ns += self.delay_ns
        self.operator.process(value, output, input_number)

    def process_watermark(self, timestamp_ms: int, output: Output, input_number: int = 0) -> None:
        self.operator.process_watermark(timestamp_ms, output, input_number)

    def process_watermark_status(
        self, is_idle: bool, output: Output, input_number: int = 0
    ) -> None:
        self.operator.process_watermark_status(is_idle, output, input_number)

    @property
    def listens_to(self) -> Sequence[str]:
        return self.operator.listens_to

    def receive_task_event(self, event: TaskEvent, output: Output) -> None:
        self.operator.receive_task_event(event, output)

    def finish(self, output: Output) -> None:
        self.operator.finish(output)

    def close(self) -> None:
        self.operator.close()


class TaskOperators:
    """Creates the operators of one task.

    Attributes:
        names: operator names, by the operator's id().
    """

    def __init__(
        self,
        job: JobGraph,
        config: StreamConfig,
        context: ProcessingContext,
        io: TaskIO,
        subtask: int,
        parallelism: int,
    ) -> None:
        self.names: dict[int, str] = {}
        self._configs = {config.operator_id: config, **config.chained}
        self._context = context
        self._is_batch = job.is_batch
        self._sink = context, io, subtask, parallelism
        self.factories: Mapping[str, OperatorFactory] = {
            operator_id: self._factory(job.factories[operator_id], each)
            for operator_id, each in self._configs.items()
            if operator_id in job.factories
        }

    @staticmethod
    def call_functions(operators: Mapping[str, StreamOperator]) -> bool:
        """Whether any operator calls a function of the program, which may take any time."""
        return any(
            (isinstance(each, UserFunctionOperator) and source_of(each) is None)
            or (isinstance(each, TimestampsAndWatermarksOperator) and each.calls_functions)
            for each in plain(list(operators.values()))
        )

    @staticmethod
    def has_arrays(operators: Mapping[str, StreamOperator]) -> bool:
        """Whether any function of the program takes arrays."""
        return any(getattr(each, "batched", False) for each in plain(list(operators.values())))

    def batched(self, operators: Mapping[str, StreamOperator]) -> frozenset[str]:
        """Ids of operators that take batches, as do all operators chained after them. Sources
        produce batches.
        """
        return frozenset(each for each in operators if self._is_batched(each, operators, True))

    def _is_batched(
        self, operator_id: str, operators: Mapping[str, StreamOperator], is_entry: bool
    ) -> bool:
        operator = operators[operator_id]
        takes_batches = getattr(operator, "batched", False) or getattr(
            operator, "takes_batches", False
        )
        is_source = is_entry and source_of(operator) is not None
        return (takes_batches or (is_source and not delay_of(operator))) and all(
            self._is_batched(each.operator_id, operators, False)
            for each in self._configs[operator_id].chained_outputs
        )

    def _factory(self, made: OperatorFactory, config: StreamConfig) -> OperatorFactory:
        def create() -> StreamOperator:
            operator = made.create()
            if source_of(operator) is None:
                operator = copied(operator)
            if isinstance(operator, StreamSink):
                operator = sink_operator(operator, *self._sink)
            if isinstance(operator, TimestampsAndWatermarks):
                operator = TimestampsAndWatermarksOperator(
                    operator, self._context, is_progressive=not self._is_batch
                )
            if isinstance(operator, UserFunctionOperator):
                operator.context = RecordContext(operator, self._context.event_time_ms)
            self.names[id(operator)] = config.operator_name
            if config.delay_ns_per_record:
                operator = DelayedOperator(operator, config.delay_ns_per_record, self._context)
                self.names[id(operator)] = config.operator_name
            return operator

        return replace(made, create=create)


def plain(operators: Sequence[StreamOperator]) -> list[StreamOperator]:
    """The operators without their delays."""
    return [each.operator if isinstance(each, DelayedOperator) else each for each in operators]


def delay_of(operator: StreamOperator) -> int:
    """Time per record, in ns."""
    return operator.delay_ns if isinstance(operator, DelayedOperator) else 0


def source_of(operator: StreamOperator) -> Source | None:
    """The source of a source operator; None for other operators."""
    (operator,) = plain([operator])
    return operator.function if isinstance(operator, SourceOperator | StreamSource) else None
