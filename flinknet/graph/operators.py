"""Operators: how a task processes records.

    StreamOperator                         open, process, finish, close; forwards watermarks
    ├── StreamProject                      picks fields; needs no function of the user
    ├── TimestampsAndWatermarks            assigns event time
    └── UserFunctionOperator               calls a function of the program
        ├── StreamMap  StreamFilter  StreamFlatMap
        ├── ProcessOperator                may write side outputs
        ├── StreamGroupedReduce            a running result for each key
        │   └── BatchGroupedReduce         the last result of each key, at the end
        ├── CoMap  MultipleInputOperator   several inputs
        ├── StreamSource                   a source that pushes (legacy)
        ├── SourceOperator                 a source that is polled for records
        └── StreamSink

An operator belongs to one subtask and is used by one task at a time. It emits results to an
`Output`; operators of one chain are each other's outputs, so a record passes by plain calls.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from .endpoints import Sink, Source
from .user_functions import NO_KEY, NO_RECORDS, FlinkApi, WrongResultError
from .watermarks import MIN_WATERMARK_MS, CombinedWatermark, Output, TaskEvent, WatermarkStrategy


class ChainingStrategy(Enum):
    """Whether an operator may be chained to another (Flink: ChainingStrategy)."""

    ALWAYS = "always"
    NEVER = "never"
    HEAD = "head"  # others may be chained to it, it to none
    HEAD_WITH_SOURCES = "head with sources"  # as HEAD, but its sources are chained to it


class StreamOperator:
    """Base of operators (Flink: AbstractStreamOperator); its watermark is its inputs' lowest."""

    inputs = 1
    current_watermark_ms = MIN_WATERMARK_MS
    takes_batches = False
    delay_ns = 0
    """Artificial delay per record."""
    _combined: CombinedWatermark | None = None
    chaining_strategy = ChainingStrategy.ALWAYS
    is_yielding = False
    """Whether it yields its thread while it waits (Flink: YieldingOperatorFactory)."""

    @property
    def listens_to(self) -> Sequence[str]:
        return ()

    def receive_task_event(self, event: TaskEvent, output: Output) -> None:
        """Handle an event that it listens to."""

    def open(self) -> None:
        """Prepare for the first record; called once."""

    def process(self, value: Any, output: Output, input_number: int = 0) -> None:
        """Process one record. Operators with several inputs number them from 1."""
        raise NotImplementedError

    def process_batch(self, values: Sequence[Any], output: Output, input_number: int = 0) -> None:
        for value in as_list(values):
            self.process(value, output, input_number)

    def process_watermark(self, timestamp_ms: int, output: Output, input_number: int = 0) -> None:
        """Process a watermark of an input; forward the watermark combined over all inputs."""
        if self.inputs > 1:
            self._combined = combined = self._combined or CombinedWatermark(self.inputs)
            if combined.update_watermark(input_number - 1, timestamp_ms):
                self._advance_watermark(combined.watermark_ms, output)
        else:
            self._advance_watermark(timestamp_ms, output)

    def process_watermark_status(
        self, is_idle: bool, output: Output, input_number: int = 0
    ) -> None:
        """Process that an input is idle, or active again."""
        if self.inputs > 1:
            self._combined = combined = self._combined or CombinedWatermark(self.inputs)
            was_idle = combined.is_idle
            if combined.update_status(input_number - 1, is_idle):
                self._advance_watermark(combined.watermark_ms, output)
            if combined.is_idle == was_idle:
                return
            is_idle = combined.is_idle
        output.emit_watermark_status(is_idle)

    def finish(self, output: Output) -> None:
        """Emit remaining results after the last record; called once."""

    def close(self) -> None:
        """Release resources; called once, even after an error."""

    def _advance_watermark(self, timestamp_ms: int, output: Output) -> None:
        self.current_watermark_ms = timestamp_ms
        output.emit_watermark(timestamp_ms)


class RecordContext(FlinkApi):
    """Context of a record, for functions (Flink: ProcessFunction.Context, SinkFunction.Context)."""

    def __init__(self, operator: StreamOperator, timestamp_ms: Callable[[], int | None]) -> None:
        self._operator = operator
        self._timestamp_ms = timestamp_ms

    @property
    def timestamp_ms(self) -> int | None:
        """Event time of the record; None if it has none."""
        return self._timestamp_ms()

    @property
    def current_watermark_ms(self) -> int:
        """The operator's watermark: records up to it are late. MIN_WATERMARK_MS before the first,
        MAX_WATERMARK_MS once all sources have ended.
        """
        return self._operator.current_watermark_ms


class StreamProject(StreamOperator):
    """Selects fields of a tuple, in a given order (Flink: StreamProject)."""

    def __init__(self, fields: Sequence[int]) -> None:
        self.fields = tuple(fields)

    def process(self, value: Any, output: Output, input_number: int = 0) -> None:
        output.collect(tuple(value[field] for field in self.fields))


class TimestampsAndWatermarks(StreamOperator):
    """Assigns timestamps and generates watermarks. The implementation, which needs the clock, is in
    the task (Flink: TimestampsAndWatermarksOperator).
    """

    def __init__(self, strategy: WatermarkStrategy) -> None:
        self.strategy = strategy


class UserFunctionOperator(StreamOperator):
    """An operator that calls a function of the program (Flink: AbstractUdfStreamOperator), and its
    methods `open` and `close`, if it has them (Flink: RichFunction). A `batched` one takes and
    returns numpy arrays of records. The task sets the context.
    """

    context: RecordContext | None = None

    def __init__(self, function: Any, *, batched: bool = False) -> None:
        self.function = function
        self.takes_batches = batched

    def open(self) -> None:
        _call_if_there(self.function, "open")

    def close(self) -> None:
        _call_if_there(self.function, "close")

    def process(self, value: Any, output: Output, input_number: int = 0) -> None:
        if self.takes_batches:
            self._process_array(np.asarray([value]), output)
        else:
            self._process_one(value, output)

    def process_batch(self, values: Sequence[Any], output: Output, input_number: int = 0) -> None:
        if self.takes_batches:
            self._process_array(np.asarray(values), output)
        else:
            super().process_batch(values, output, input_number)

    def _process_one(self, value: Any, output: Output) -> None:
        raise NotImplementedError

    def _process_array(self, values: Any, output: Output) -> None:
        output.collect_batch(self.function(values))


class StreamMap(UserFunctionOperator):
    """Turns each record into one other (Flink: StreamMap)."""

    def _process_one(self, value: Any, output: Output) -> None:
        output.collect(self.function(value))


class StreamFilter(UserFunctionOperator):
    """Keeps records for which the function returns true (Flink: StreamFilter); if batched, the
    function returns an array of booleans."""

    def _process_one(self, value: Any, output: Output) -> None:
        if self.function(value):
            output.collect(value)

    def _process_array(self, values: Any, output: Output) -> None:
        output.collect_batch(values[self.function(values)])


class StreamFlatMap(UserFunctionOperator):
    """Turns each record into any number of others (Flink: StreamFlatMap)."""

    def _process_one(self, value: Any, output: Output) -> None:
        results = self.function(value)
        try:
            results = iter(results)
        except TypeError:
            raise WrongResultError(self.function, results, NO_RECORDS) from None
        for result in results:
            output.collect(result)


class ProcessOperator(UserFunctionOperator):
    """Turns each record into any number of others, and side outputs. The function takes a record
    and the output, and the context if it has a third parameter (Flink: ProcessOperator).

    A function with `listens_to`, names of event classes, receives such events from downstream
    tasks, between two portions of records: `on_task_event(event, output)`.
    """

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._has_context = _parameters(function) >= 3

    @property
    def listens_to(self) -> Sequence[str]:
        found: Sequence[str] = getattr(self.function, "listens_to", ())
        return found

    def receive_task_event(self, event: TaskEvent, output: Output) -> None:
        self.function.on_task_event(event, output)

    def _process_one(self, value: Any, output: Output) -> None:
        if self._has_context:
            self.function(value, output, self.context)
        else:
            self.function(value, output)


class StreamGroupedReduce(UserFunctionOperator):
    """Emits the reduced records of a key after each record (Flink: StreamGroupedReduce)."""

    def __init__(self, function: Any, key_selector: Callable[[Any], Any]) -> None:
        super().__init__(function)
        self.key_selector = key_selector
        self.results: dict[Any, Any] = {}

    def _process_one(self, value: Any, output: Output) -> None:
        output.collect(self._reduced(value))

    def _reduced(self, value: Any) -> Any:
        key = self.key_selector(value)
        try:
            known = key in self.results
        except TypeError:
            raise WrongResultError(self.key_selector, key, NO_KEY) from None
        self.results[key] = self.function(self.results[key], value) if known else value
        return self.results[key]


class BatchGroupedReduce(StreamGroupedReduce):
    """Emits the reduced records of each key at the end (Flink: BatchGroupedReduceOperator)."""

    def _process_one(self, value: Any, output: Output) -> None:
        self._reduced(value)

    def finish(self, output: Output) -> None:
        for result in self.results.values():
            output.collect(result)
        self.results.clear()


class CoMap(UserFunctionOperator):
    """Applies one function per input, of two (Flink: CoStreamMap)."""

    inputs = 2

    def __init__(self, first: Callable[[Any], Any], second: Callable[[Any], Any]) -> None:
        super().__init__(first)
        self.second = second

    def open(self) -> None:
        super().open()
        _call_if_there(self.second, "open")

    def close(self) -> None:
        super().close()
        _call_if_there(self.second, "close")

    def process(self, value: Any, output: Output, input_number: int = 0) -> None:
        output.collect((self.second if input_number == 2 else self.function)(value))


class MultipleInputOperator(UserFunctionOperator):
    """Applies a function of record and input number (Flink: MultipleInputStreamOperator)."""

    def __init__(self, function: Any, inputs: int) -> None:
        super().__init__(function)
        self.inputs = inputs

    def process(self, value: Any, output: Output, input_number: int = 0) -> None:
        output.collect(self.function(value, input_number))


class StreamSource(UserFunctionOperator):
    """A source that pushes records, so it is the first in its task (Flink: StreamSource)."""

    chaining_strategy = ChainingStrategy.HEAD
    function: Source


class SourceOperator(UserFunctionOperator):
    """A source that is polled for records (Flink: SourceOperator)."""

    function: Source


class StreamSink(UserFunctionOperator):
    """A sink (Flink: StreamSink). A function with two parameters also takes the context; one with a
    method `write_watermark` receives each watermark.
    """

    function: Sink

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._call = getattr(sink, "function", None)
        self._has_context = self._call is not None and _parameters(self._call) >= 2

    def _process_one(self, value: Any, output: Output) -> None:
        assert self._call is not None
        if self._has_context:
            self._call(value, self.context)
        else:
            self._call(value)

    def _advance_watermark(self, timestamp_ms: int, output: Output) -> None:
        super()._advance_watermark(timestamp_ms, output)
        _call_if_there(self._call, "write_watermark", timestamp_ms)


@dataclass(frozen=True, slots=True)
class OperatorFactory:
    """Creates the operator of each subtask, and describes it to the graphs (Flink:
    StreamOperatorFactory).

    Attributes:
        master_hook: called with the parallelism when the job is submitted, before anything is
            deployed (Flink: InitializeOnMaster); an exception rejects the job.
        measures_latency: whether its operators measure the age of records.
    """

    create: Callable[[], StreamOperator]
    kind: type[StreamOperator]
    chaining_strategy: ChainingStrategy
    master_hook: Callable[[int], None] | None = None
    measures_latency: bool = False

    @property
    def is_legacy_source(self) -> bool:
        return issubclass(self.kind, StreamSource)

    @property
    def is_source(self) -> bool:
        return issubclass(self.kind, SourceOperator)


def as_list(values: Any) -> Sequence[Any]:
    """Records as a sequence; those of an array as plain Python values."""
    found: Sequence[Any] = values.tolist() if isinstance(values, np.ndarray) else values
    return found


def factory(kind: type[StreamOperator], *arguments: Any, **options: Any) -> OperatorFactory:
    """A factory that creates operators of a kind, all with the same arguments."""
    return OperatorFactory(lambda: kind(*arguments, **options), kind, kind.chaining_strategy)


def _call_if_there(function: Any, name: str, *arguments: Any) -> None:
    method = getattr(function, name, None)
    if callable(method):
        method(*arguments)


def _parameters(function: Any) -> int:
    """Number of required arguments of a function; 0 if unknown, as for some C functions."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0
    needed = (each for each in parameters if each.default is each.empty)
    return sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in needed)
