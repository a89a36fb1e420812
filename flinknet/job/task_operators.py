"""The operators of a task: those of the program, with its sinks and delays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from flinknet.graph.endpoints import DiscardSink, FileSink, LatencySink, PrintSink, Source
from flinknet.graph.job_graph import JobGraph, StreamConfig
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
from flinknet.graph.user_functions import copied
from flinknet.graph.watermarks import Output

from .context import ProcessingContext
from .event_time import TimestampsAndWatermarksOperator
from .io import TaskIO
from .task_chain import RecordLatency

FILE_BYTES = 64 * 1024
"""Bytes that a file sink gathers before it writes them."""


class PrintOperator(StreamOperator):
    """Prints records, each with its subtask number if there are several subtasks (Flink:
    PrintSinkOutputWriter).
    """

    def __init__(self, io: TaskIO, subtask: int, parallelism: int) -> None:
        self._print = io.print_line
        self._prefix = f"{subtask + 1}> " if parallelism > 1 else ""

    def process(self, value: Any, output: Output, input_number: int = 0) -> None:
        self._print(self._prefix + as_text(value))


class DiscardOperator(StreamOperator):
    """Drops records (Flink: DiscardingSink)."""

    takes_batches = True

    def process(self, value: Any, output: Output, input_number: int = 0) -> None:
        pass

    def process_batch(self, values: Sequence[Any], output: Output, input_number: int = 0) -> None:
        pass


class FileOperator(StreamOperator):
    """Writes records as lines to the file `path`, or to one file per subtask in the directory
    `path` if there are several (Flink: TextOutputFormat).
    """

    def __init__(self, io: TaskIO, path: str, subtask: int, parallelism: int) -> None:
        self.path = f"{path}/{subtask + 1}" if parallelism > 1 else path
        self._io = io
        self._gathered = bytearray()
        self._is_open = False

    def open(self) -> None:
        self._io.open_file(self.path)
        self._is_open = True

    def process(self, value: Any, output: Output, input_number: int = 0) -> None:
        self._gathered += as_text(value).encode("utf-8", "replace")
        self._gathered += b"\n"
        if len(self._gathered) >= FILE_BYTES:
            self._write()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._write()
            self._io.close_file(self.path)

    def _write(self) -> None:
        if self._gathered:
            self._io.write_file(self.path, bytes(self._gathered))
            self._gathered.clear()


class LatencyOperator(StreamOperator):
    """Measures how old records are, from when they were due, when the task is done with them."""

    takes_batches = True

    def __init__(self, context: ProcessingContext) -> None:
        self._context = context
        self.meter = RecordLatency()

    def process(self, value: Any, output: Output, input_number: int = 0) -> None:
        context = self._context
        self.meter.add(context.instant_ns, context.done_ns)

    def process_batch(self, values: Sequence[Any], output: Output, input_number: int = 0) -> None:
        context = self._context
        instants = context.instants
        if instants is None or len(instants) != len(values):
            instants = np.full(len(values), context.instant_ns, np.int64)
        self.meter.add_batch(instants, context.done_ns)


def sink_operator(
    operator: StreamSink, context: ProcessingContext, io: TaskIO, subtask: int, parallelism: int
) -> StreamOperator:
    """The operator of a sink in a subtask; a function sink is its own operator."""
    sink = operator.function
    if isinstance(sink, PrintSink):
        return PrintOperator(io, subtask, parallelism)
    if isinstance(sink, DiscardSink):
        return DiscardOperator()
    if isinstance(sink, FileSink):
        return FileOperator(io, sink.path, subtask, parallelism)
    if isinstance(sink, LatencySink):
        return LatencyOperator(context)
    return operator


def as_text(value: Any) -> str:
    """Format a record as Flink prints it: (word,3), [1, 2], true, null."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, np.generic | np.ndarray):
        return as_text(value.tolist())
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return f"({','.join(map(as_text, value))})"
    if isinstance(value, list | set | frozenset):
        return f"[{', '.join(map(as_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{as_text(k)}={as_text(v)}' for k, v in value.items())}}}"
    return str(value)


def delay(operator: StreamOperator, delay_ns: int, context: ProcessingContext) -> None:
    """Make an operator take a fixed time for each record, also if these come in batches."""
    process = operator.process

    def process_delayed(value: Any, output: Output, input_number: int = 0) -> None:
        context.work_ns += delay_ns
        process(value, output, input_number)

    operator.delay_ns = delay_ns
    operator.process = process_delayed  # type: ignore[method-assign]
    operator.process_batch = partial(StreamOperator.process_batch, operator)  # type: ignore[method-assign]


class TaskOperators:
    """Creates the operators of one task, with their names by the operator's id()."""

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
        self._configs = config.all
        self._context = context
        self._is_batch = job.is_batch
        self._sink = context, io, subtask, parallelism

    @staticmethod
    def call_functions(operators: Mapping[str, StreamOperator]) -> bool:
        """Whether any operator calls a function of the program, which may take any time."""
        return any(
            (isinstance(each, UserFunctionOperator) and source_of(each) is None)
            or (isinstance(each, TimestampsAndWatermarksOperator) and each.calls_functions)
            for each in operators.values()
        )

    @staticmethod
    def has_arrays(operators: Mapping[str, StreamOperator]) -> bool:
        return any(
            isinstance(each, UserFunctionOperator) and each.takes_batches
            for each in operators.values()
        )

    def batched(self, operators: Mapping[str, StreamOperator]) -> frozenset[str]:
        """Ids of operators that take batches, as do all chained after them and all sources."""
        return frozenset(each for each in operators if self._is_batched(each, operators, True))

    def _is_batched(
        self, operator_id: str, operators: Mapping[str, StreamOperator], is_entry: bool
    ) -> bool:
        operator = operators[operator_id]
        is_source = is_entry and source_of(operator) is not None
        if operator.delay_ns or not (operator.takes_batches or is_source):
            return False
        return all(
            self._is_batched(each.operator_id, operators, False)
            for each in self._configs[operator_id].chained_outputs
        )

    def create(self, made: OperatorFactory, config: StreamConfig) -> StreamOperator:
        """Create an operator, with a copy of the function of the program."""
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
        if config.delay_ns_per_record:
            delay(operator, config.delay_ns_per_record, self._context)
        self.names[id(operator)] = config.operator_name
        return operator


def source_of(operator: StreamOperator) -> Source | None:
    """The source of a source operator; None for other operators."""
    return operator.function if isinstance(operator, SourceOperator | StreamSource) else None
