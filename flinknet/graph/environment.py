"""StreamExecutionEnvironment: the entry point of a program, with its transformations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from flinknet.config import RATE_MAX, check_arrivals, check_keys
from flinknet.errors import ConfigError
from flinknet.options.network import check_rules
from flinknet.results import RunWarning
from flinknet.units import parse_rate_per_s, parse_size_bytes

from . import endpoints, job_config, operators, transformations
from .data_stream import DataStream, DataStreamSource, SingleOutputStreamOperator, duration_ns
from .operators import factory
from .stream_graph import StreamGraph
from .stream_graph_generator import StreamGraphGenerator
from .user_functions import FlinkApi, check_function, shown


class StreamExecutionEnvironment(FlinkApi):
    """The entry point of a program (Flink: StreamExecutionEnvironment). Nothing runs here:
    `execute` only registers the job; the loader of the program decides what to do with it.

    Args:
        cache: directory of the copies of cached files; None outside of TaskManagers.

    Attributes:
        config: settings of the job; those of the program override Flink's keys.
        transformations: those with an operator, in the order of their calls.
        artifacts: path of each cached file, by name.
    """

    def __init__(
        self, settings: Mapping[str, str] | None = None, cache: Path | None = None
    ) -> None:
        self._cache = cache
        self.config, self.warnings = job_config.job_config(settings or {})
        self.transformations: list[transformations.PhysicalTransformation] = []
        self.artifacts: dict[str, str] = {}
        self.job_name: str | None = None
        self.executed: list[StreamGraph] = []

    def set_parallelism(self, parallelism: int) -> None:
        """Set the default number of subtasks of operators."""
        job_config.check_parallelism(parallelism, "parallelism")
        self.config.parallelism = parallelism

    def set_max_parallelism(self, max_parallelism: int) -> None:
        """Set the default number of key groups of operators."""
        job_config.check_max_parallelism(max_parallelism, "max parallelism")
        self.config.max_parallelism = max_parallelism

    def set_buffer_timeout(self, timeout: str | int) -> None:
        """How long a record may wait in a buffer: "5ms"; 0: not at all; -1: until it is full."""
        timeout_ns = duration_ns(timeout, "buffer timeout")
        self.config.network = replace(self.config.network, buffer_timeout_ns=timeout_ns)

    def set_runtime_mode(self, mode: str) -> None:
        """Choose STREAMING, BATCH, or AUTOMATIC: batch if all sources end."""
        if mode not in ("STREAMING", "BATCH", "AUTOMATIC"):
            raise ConfigError(f"runtime mode {mode!r} is not one of STREAMING, BATCH, AUTOMATIC")
        self.config.runtime_mode = mode

    def set_default_input_dependency_constraint(self, constraint: str) -> None:
        """Set whether a task with several blocking inputs waits for ALL of them, or for ANY (Flink
        until 1.12: ExecutionConfig.setDefaultInputDependencyConstraint).
        """
        chosen = job_config.input_dependency_constraint(constraint)
        self.config.input_dependency_constraint = chosen

    def disable_operator_chaining(self) -> None:
        """Run every operator in a task of its own."""
        self.config.is_chaining_enabled = False

    def enable_checkpointing(self, interval: str | int, *, unaligned: bool = False) -> None:
        """Take a checkpoint at this interval."""
        self.config.network = replace(
            self.config.network,
            checkpoint_interval_ns=duration_ns(interval, "checkpoint interval"),
            unaligned_checkpoints=unaligned,
        )
        check_rules(self.config.network)

    def set_auto_watermark_interval(self, interval: str | int) -> None:
        """Set the interval of periodic watermarks; 0: only those emitted for single records."""
        self.config.auto_watermark_interval_ns = duration_ns(interval, "auto watermark interval")

    def register_cached_file(self, path: str, name: str) -> Path:
        """Copy a file or directory for the functions of the job, from its submission to its end.
        Returns: where functions find it; see `cached_file`.
        """
        self.artifacts[name] = path
        return self.cached_file(name)

    def cached_file(self, name: str) -> Path:
        """Path of a registered file: in a TaskManager that of the copy, which TaskManagers of one
        host share (Flink: DistributedCache.getFile). Raises: ConfigError.
        """
        if name not in self.artifacts:
            raise ConfigError(f"{name!r} was not registered; call register_cached_file first")
        return self._cache / quote(name, safe="") if self._cache else Path(self.artifacts[name])

    def from_sequence(self, first: int, last: int) -> DataStreamSource:
        """The numbers from first to last, inclusive."""
        return self.from_source(endpoints.SequenceSource(first, last), int)

    def from_collection(
        self, values: Sequence[Any], *, output_type: Any = None
    ) -> DataStreamSource:
        """Given values; their type is that of the first. Raises: ConfigError."""
        if not values:
            raise ConfigError("from_collection: the collection is empty")
        kind = type(values[0])
        others = [each for each in values if not isinstance(each, kind)]
        if others and output_type is None:
            raise ConfigError(
                f"from_collection: {shown(others[0])} is not of the first value's type,"
                f" {kind.__name__}; give output_type=…"
            )
        return self.from_source(
            endpoints.CollectionSource(tuple(values)), output_type or kind, is_parallel=False
        )

    def generate(
        self,
        *,
        records: int | None = None,
        rate: str = "max",
        arrivals: str = "constant",
        record_size: str = "100b",
        keys: int = 1000,
        key_skew: float = 0.0,
    ) -> DataStreamSource:
        """Generate records (key, payload).

        Args:
            records: over all subtasks; None: without end.
            rate: per subtask, such as "20k/s".
            arrivals: distribution over time: constant, poisson, bursts, on-off:ON:OFF.
            record_size: size of the payload.
            keys: number of distinct keys.
            key_skew: exponent of the Zipf distribution of keys; 0: uniform.
        """
        if keys < 1 or key_skew < 0 or (records is not None and records < 1):
            raise ConfigError("generate: records and keys begin at 1, and key_skew at 0")
        check_arrivals(arrivals, "generate: arrivals")
        check_keys(keys, key_skew, "generate: keys")
        rate_per_s = parse_rate_per_s(rate, "rate")
        size = parse_size_bytes(record_size, "record_size")
        source = endpoints.GeneratedSource(
            records, RATE_MAX if rate_per_s is None else rate_per_s, arrivals, size, keys, key_skew
        )
        return self.from_source(source, tuple[int, bytes])

    def read_text_file(self, path: str) -> DataStreamSource:
        """The lines of a file."""
        return self.from_source(endpoints.FileSource(path), str)

    def create_input(
        self,
        create_splits: Callable[[int], Iterable[Any]],
        read: Callable[[Any], Iterable[Any]],
        *,
        output_type: Any = None,
    ) -> SingleOutputStreamOperator:
        """Read splits, each once: a subtask requests its next split when it is done with the one
        before, so quick subtasks read more (Flink: createInput with an InputFormat).

        Args:
            create_splits: called once, by the JobManager, with the parallelism of the environment;
                returns JSON values.
            read: returns the records of a split.
        """
        check_function(create_splits, "create_input")
        return self.from_source(endpoints.SplitSource(create_splits), object).flat_map(
            read, output_type=output_type
        )

    def socket_text_stream(self, host: str, port: int) -> DataStreamSource:
        """The lines received over a TCP connection; read by one subtask. The source pushes its
        records, as Flink's does, so it is always the first in its task.
        """
        if not 0 < port < 1 << 16:
            raise ConfigError(f"socket_text_stream: {port} is not a port; give one from 1 to 65535")
        source = endpoints.SocketTextSource(host, port)
        made_by = factory(operators.StreamSource, source)
        made = transformations.LegacySourceTransformation(source.NAME, made_by, str)
        return self._added(made, source, is_parallel=False)

    def from_source(
        self, source: endpoints.Source, output_type: Any, *, is_parallel: bool = True
    ) -> DataStreamSource:
        """Read from a source of any kind."""
        made_by = factory(operators.SourceOperator, source)
        made = transformations.SourceTransformation(source.NAME, made_by, output_type)
        return self._added(made, source, is_parallel=is_parallel)

    def _added(
        self,
        made: transformations.SourceTransformation,
        source: endpoints.Source,
        *,
        is_parallel: bool,
    ) -> DataStreamSource:
        made.is_bounded, made.is_parallel = source.is_bounded, is_parallel
        if not is_parallel:
            made.parallelism = 1
        self.transformations.append(made)
        return DataStreamSource(self.transformations, made)

    def multiple_inputs(
        self,
        name: str,
        streams: Sequence[DataStream],
        function: Any,
        *,
        output_type: Any,
        chains_sources: bool = False,
    ) -> SingleOutputStreamOperator:
        """Add one operator for several streams, into whose task sources among them may be chained.
        The function takes a record and the number of its input, from 1.
        """
        check_function(function, "multiple_inputs")
        made_by = factory(operators.MultipleInputOperator, function, len(streams))
        if chains_sources:
            strategy = operators.ChainingStrategy.HEAD_WITH_SOURCES
            made_by = replace(made_by, chaining_strategy=strategy)
        inputs = [each.transformation for each in streams]
        made = transformations.MultipleInputTransformation(name, made_by, output_type, inputs)
        self.transformations.append(made)
        return SingleOutputStreamOperator(self.transformations, made)

    def execute(self, job_name: str | None = None) -> StreamGraph:
        """Register the job under a name. Raises: ConfigError for an invalid graph."""
        self.job_name = job_name
        graph = self.get_stream_graph()
        unmeasured = (
            RunWarning(
                "latency-not-known",
                f"{each.operator_name} measures no latency of records from the network: a"
                " record has one timestamp, and an assigner of the program sets it",
            )
            for each in graph.nodes.values()
            if each.has_own_time
            and each.operator_factory
            and each.operator_factory.measures_latency
        )
        self.warnings = (*self.warnings, *unmeasured)
        self.executed.append(graph)
        return graph

    def get_stream_graph(self) -> StreamGraph:
        """The program as a StreamGraph. Raises: ConfigError."""
        return StreamGraphGenerator(
            self.transformations, self.config, self.job_name, self.artifacts
        ).generate()

    def get_execution_plan(self) -> str:
        """The plan as JSON for Flink's plan visualizer. Raises: ConfigError."""
        return self.get_stream_graph().execution_plan()
