"""DataStream: the API in which programs are written (Flink: DataStream API).

Each call creates one transformation that refers to its inputs. Functions are ordinary Python
functions; with `batched=True` they take and return numpy arrays of records.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

from flinknet.errors import ConfigError
from flinknet.units import parse_duration_ns

from . import operators, transformations, user_functions
from .endpoints import DiscardSink, FileSink, FunctionSink, LatencySink, PrintSink, Sink
from .job_config import check_max_parallelism, check_parallelism
from .operators import ChainingStrategy, factory
from .transformations import KeySelector, PhysicalTransformation, ResourceSpec, StreamPartitioner
from .watermarks import OutputTag, WatermarkStrategy


def duration_ns(value: str | int, name: str) -> int:
    """A duration with its unit, 0, or -1 for never where that makes sense."""
    return parse_duration_ns(str(value), name, allow_never=True, bare_unit=None)


class _Operator(user_functions.FlinkApi):
    """Settings of an operator after its creation; each call returns it for the next."""

    transformation: PhysicalTransformation

    def name(self, name: str) -> Self:
        """Set its name, also for metrics."""
        self.transformation.name = name
        return self

    def uid(self, uid: str) -> Self:
        """Set an id that stays the same when the program changes."""
        self.transformation.uid = uid
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Set the hash that the operator had in an older program."""
        if not re.fullmatch("[0-9a-f]{32}", uid_hash):
            raise ConfigError(
                f"{self.transformation.name}: uid hash {uid_hash!r} is not 32 hexadecimal digits in"
                " lower case"
            )
        self.transformation.uid_hash = uid_hash
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of subtasks."""
        check_parallelism(parallelism, f"{self.transformation.name}: parallelism")
        self.transformation.parallelism = parallelism
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups."""
        check_max_parallelism(max_parallelism, f"{self.transformation.name}: max parallelism")
        self.transformation.max_parallelism = max_parallelism
        return self

    def slot_sharing_group(self, group: str) -> Self:
        """Set the group of operators it shares slots with; downstream operators inherit it."""
        self.transformation.slot_sharing_group = group
        return self

    def disable_chaining(self) -> Self:
        """Run it in a task of its own."""
        self.transformation.chaining_strategy = ChainingStrategy.NEVER
        return self

    def start_new_chain(self) -> Self:
        """Begin a new task with it; others may be chained after it."""
        self.transformation.chaining_strategy = ChainingStrategy.HEAD
        return self

    def set_buffer_timeout(self, timeout: str | int) -> Self:
        """How long a record may wait in a buffer: "5ms"; 0: not at all; -1: until it is full."""
        self.transformation.buffer_timeout_ns = duration_ns(timeout, "buffer timeout")
        return self

    def set_resources(self, least: ResourceSpec, preferred: ResourceSpec | None = None) -> Self:
        """Set the resources that each subtask needs and prefers."""
        made, preferred = self.transformation, preferred or least
        if not least.is_at_most(preferred):
            raise ConfigError(
                f"{made.name}: its minimum resources are more than its preferred ones"
            )
        made.min_resources, made.preferred_resources = least, preferred
        return self

    def delay(self, delay: str | int) -> Self:
        """Delay each record by this time, for experiments. Not in Flink."""
        delay_ns = duration_ns(delay, "delay")
        if delay_ns < 0:
            raise ConfigError(f"{self.transformation.name}: a delay cannot be negative")
        self.transformation.delay_ns_per_record = delay_ns
        return self


class DataStream(user_functions.FlinkApi):
    """A stream of records of one type (Flink: DataStream); `made`: all operators of its program."""

    _key_selector: KeySelector | None = None
    transformation: transformations.Transformation

    def __init__(
        self,
        made: list[PhysicalTransformation],
        transformation: transformations.Transformation,
    ) -> None:
        self._operators = made
        self.transformation = transformation

    @property
    def output_type(self) -> Any:
        """Type of the records. Raises: ConfigError if it is unknown."""
        return self.transformation.output_type

    def map(
        self, function: Any, *, output_type: Any = None, batched: bool = False
    ) -> SingleOutputStreamOperator:
        """Turn each record into one other."""
        user_functions.check_function(function, "map")
        result = user_functions.type_of_results(function, "Map", output_type, are_elements=batched)
        made_by = factory(operators.StreamMap, function, batched=batched)
        return self.transform("Map", made_by, result)

    def flat_map(
        self, function: Any, *, output_type: Any = None, batched: bool = False
    ) -> SingleOutputStreamOperator:
        """Turn each record into any number of others: the function returns an iterable."""
        user_functions.check_function(function, "flat_map")
        user_functions.check_results(function, "flat_map", "__iter__", user_functions.NO_RECORDS)
        result = user_functions.type_of_results(
            function, "Flat Map", output_type, are_elements=True
        )
        made_by = factory(operators.StreamFlatMap, function, batched=batched)
        return self.transform("Flat Map", made_by, result)

    def filter(self, function: Any, *, batched: bool = False) -> SingleOutputStreamOperator:
        """Keep the records for which the function returns true."""
        user_functions.check_function(function, "filter")
        made_by = factory(operators.StreamFilter, function, batched=batched)
        return self.transform("Filter", made_by, self.output_type)

    def process(self, function: Any, *, output_type: Any) -> SingleOutputStreamOperator:
        """Turn each record into any number of others, and side outputs. The function takes a record
        and the output, which has `collect` and `collect_side`. A third parameter is the context,
        which has `timestamp_ms` and `current_watermark_ms`.
        """
        user_functions.check_function(function, "process")
        return self.transform("Process", factory(operators.ProcessOperator, function), output_type)

    def project(self, *fields: int) -> SingleOutputStreamOperator:
        """Select fields of a tuple, in this order."""
        return self.transform("Projection", factory(operators.StreamProject, fields), tuple)

    def assign_timestamps_and_watermarks(
        self, strategy: WatermarkStrategy
    ) -> SingleOutputStreamOperator:
        """Assign event time to the records, and emit watermarks."""
        for each in (strategy.create, strategy.assigner):
            if each is not None:
                user_functions.check_function(each, "assign_timestamps_and_watermarks")
        made = factory(operators.TimestampsAndWatermarks, strategy)
        added = self.transform("Timestamps/Watermarks", made, self.output_type)
        added.transformation.assigns_time = True
        added.transformation.assigns_own_time = strategy.assigner is not None
        return added

    def transform(
        self, name: str, operator_factory: operators.OperatorFactory, output_type: Any
    ) -> SingleOutputStreamOperator:
        """Add an operator. Raises: ConfigError if the type of this stream is unknown."""
        _ = self.output_type  # raises if it is unknown
        return self._added(
            transformations.OneInputTransformation(
                name, operator_factory, output_type, [self.transformation], self._key_selector
            )
        )

    def union(self, *others: DataStream) -> DataStream:
        """Merge this stream and others of its type, in any order. Raises: ConfigError."""
        programs = {id(each._operators) for each in (self, *others)}
        if not others or len(programs) > 1:
            raise ConfigError("union: give one or more other streams of the same environment")
        inputs = [each.transformation for each in (self, *others)]
        for each in inputs:
            if not user_functions.are_alike(each.output_type, self.output_type):
                one, other = map(user_functions.type_name, (self.output_type, each.output_type))
                raise ConfigError(
                    f"union: {one} and {other} are different types; map both to one, or connect the"
                    " streams"
                )
        return DataStream(self._operators, transformations.UnionTransformation(inputs))

    def connect(self, other: DataStream) -> ConnectedStreams:
        """Connect two streams for one operator."""
        return ConnectedStreams(self, other)

    def key_by(self, key_selector: KeySelector) -> KeyedStream:
        """Send all records of a key to the same subtask."""
        return KeyedStream(self, key_selector)

    def shuffle(self) -> DataStream:
        """Send each record to a random subtask."""
        return self._partitioned(transformations.SHUFFLE)

    def rebalance(self) -> DataStream:
        """Send records to all subtasks in turn."""
        return self._partitioned(transformations.REBALANCE)

    def rescale(self) -> DataStream:
        """Send records in turn to the few subtasks connected to each producer."""
        return self._partitioned(transformations.RESCALE)

    def broadcast(self) -> DataStream:
        """Send each record to all subtasks."""
        return self._partitioned(transformations.BROADCAST)

    def forward(self) -> DataStream:
        """Send records to the subtask with the same number."""
        return self._partitioned(transformations.FORWARD)

    def global_(self) -> DataStream:
        """Send all records to the first subtask."""
        return self._partitioned(transformations.GLOBAL)

    def partition_custom(
        self, function: Callable[[Any, int], int], key_selector: KeySelector
    ) -> DataStream:
        """Send each record to the channel that a function of key and number of channels returns."""
        user_functions.check_function(function, "partition_custom")
        user_functions.check_function(key_selector, "partition_custom")
        return self._partitioned(
            StreamPartitioner(
                "CUSTOM",
                supports_unaligned_checkpoint=False,
                key_selector=key_selector,
                function=function,
            )
        )

    def print(self) -> DataStreamSink:
        """Print records to standard output."""
        return self.sink_to(PrintSink())

    def discard(self) -> DataStreamSink:
        """Drop records."""
        return self.sink_to(DiscardSink())

    def write_as_text(self, path: str) -> DataStreamSink:
        """Write records as lines, to one file per subtask."""
        return self.sink_to(FileSink(path))

    def measure_latency(self) -> DataStreamSink:
        """Drop records, and measure the age of each."""
        return self.sink_to(LatencySink())

    def add_sink(self, function: Callable[[Any], Any]) -> DataStreamSink:
        """Call a function with each record, and the context if it takes two (see `process`)."""
        user_functions.check_function(function, "add_sink")
        return self.sink_to(FunctionSink(function))

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Add a sink. Raises: ConfigError if the type of the records is unknown."""
        _ = self.output_type  # raises if it is unknown
        made_by = replace(
            factory(operators.StreamSink, sink),
            measures_latency=isinstance(sink, LatencySink),
            master_hook=sink.initialize_on_master if isinstance(sink, FileSink) else None,
        )
        made = transformations.SinkTransformation(sink.NAME, made_by, None, [self.transformation])
        self._operators.append(made)
        return DataStreamSink(made)

    def _partitioned(self, partitioner: StreamPartitioner) -> DataStream:
        made = transformations.PartitionTransformation(self.transformation, partitioner)
        return DataStream(self._operators, made)

    def _added(self, transformation: PhysicalTransformation) -> SingleOutputStreamOperator:
        self._operators.append(transformation)
        return SingleOutputStreamOperator(self._operators, transformation)


class SingleOutputStreamOperator(DataStream, _Operator):
    """A stream and the operator that produces it (Flink: SingleOutputStreamOperator)."""

    transformation: PhysicalTransformation

    def __init__(
        self, made: list[PhysicalTransformation], transformation: PhysicalTransformation
    ) -> None:
        super().__init__(made, transformation)
        self._tags: dict[str, OutputTag] = {}

    def returns(self, output_type: Any) -> SingleOutputStreamOperator:
        """Set the type of the records."""
        self.transformation.declared_type = output_type
        return self

    def get_side_output(self, tag: OutputTag) -> DataStream:
        """A side output. Raises: ConfigError if the tag was used with another type."""
        if self._tags.setdefault(tag.id, tag).output_type != tag.output_type:
            raise ConfigError(
                f"{self.transformation.name}: there is a side output {tag.id!r} of another type;"
                " a tag has one type"
            )
        made = transformations.SideOutputTransformation(self.transformation, tag)
        return DataStream(self._operators, made)


class DataStreamSource(SingleOutputStreamOperator):
    """A stream produced by a source (Flink: DataStreamSource)."""

    transformation: transformations.SourceTransformation

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of subtasks. Raises: ConfigError if the source is not parallel."""
        if parallelism != 1 and not self.transformation.is_parallel:
            raise ConfigError(
                f"{self.transformation.name}: this source is not parallel; its parallelism is 1"
            )
        return super().set_parallelism(parallelism)


class KeyedStream(DataStream):
    """A stream partitioned by key (Flink: KeyedStream)."""

    def __init__(self, source: DataStream, key_selector: KeySelector) -> None:
        partitioner = StreamPartitioner("HASH", key_selector=key_selector)
        partition = transformations.PartitionTransformation(source.transformation, partitioner)
        user_functions.check_function(key_selector, "key_by")
        user_functions.check_results(key_selector, "key_by", "__hash__", user_functions.NO_KEY)
        super().__init__(source._operators, partition)
        self._key_selector = key_selector

    def reduce(self, function: Callable[[Any, Any], Any]) -> SingleOutputStreamOperator:
        """Combine the records of each key: the function makes one of two."""
        user_functions.check_function(function, "reduce")
        return self._reduced("Keyed Reduce", function)

    def sum(self, field: int) -> SingleOutputStreamOperator:
        """Sum a field of the tuples of each key."""
        if not isinstance(field, int) or field < 0:
            raise ConfigError(f"sum: {field!r} is not the number of a field; the first is 0")

        def add(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
            return (*one[:field], one[field] + other[field], *one[field + 1 :])

        return self._reduced("Keyed Aggregation", add)

    def _reduced(
        self, name: str, function: Callable[[Any, Any], Any]
    ) -> SingleOutputStreamOperator:
        assert self._key_selector is not None
        return self._added(
            transformations.ReduceTransformation(
                name, function, self._key_selector, self.transformation
            )
        )


class ConnectedStreams(user_functions.FlinkApi):
    """Two streams connected for one operator (Flink: ConnectedStreams)."""

    def __init__(self, first: DataStream, second: DataStream) -> None:
        self.first, self.second = first, second

    def map(
        self, first: Any, second: Any, *, output_type: Any = None
    ) -> SingleOutputStreamOperator:
        """Turn each record into one other, with the function of its stream."""
        for function, stream in ((first, self.first), (second, self.second)):
            user_functions.check_function(function, "map")
            _ = stream.output_type  # raises if it is unknown
        made = transformations.TwoInputTransformation(
            "Co-Map",
            factory(operators.CoMap, first, second),
            user_functions.type_of_results(first, "Co-Map", output_type),
            [self.first.transformation, self.second.transformation],
        )
        return self.first._added(made)


class DataStreamSink(_Operator):
    """The end of a stream (Flink: DataStreamSink)."""

    def __init__(self, transformation: PhysicalTransformation) -> None:
        self.transformation = transformation
