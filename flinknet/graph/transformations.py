"""Transformations: the steps of a program, each with references to its inputs, and the partitioners
and resource demands (Flink: ResourceSpec) that they carry.

Transformation
├── PhysicalTransformation             becomes a node of the StreamGraph
│   ├── SourceTransformation  LegacySourceTransformation
│   ├── OneInputTransformation  ReduceTransformation
│   ├── TwoInputTransformation  MultipleInputTransformation
│   └── SinkTransformation
└── UnionTransformation  PartitionTransformation  SideOutputTransformation     live on edges
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from flinknet.units import format_size_bytes

from .operators import ChainingStrategy, OperatorFactory
from .user_functions import known_type
from .watermarks import OutputTag

KeySelector = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class StreamPartitioner:
    """A way to distribute records (Flink: StreamPartitioner): one of those below, HASH (by key
    group; Flink: KeyGroupStreamPartitioner), or CUSTOM (Flink: CustomPartitionerWrapper).

    Attributes:
        is_pointwise: whether each consumer is connected to only some of the producers.
        supports_unaligned_checkpoint: whether records in flight can be redistributed after the
            number of consumers has changed.
        key_selector: for hash.
        function: for custom: (key, channels) -> channel.
    """

    name: str
    is_pointwise: bool = False
    supports_unaligned_checkpoint: bool = True
    key_selector: KeySelector | None = None
    function: Callable[[Any, int], int] | None = None

    @property
    def is_forward(self) -> bool:
        return self.name == "FORWARD"

    def __str__(self) -> str:
        return self.name


FORWARD = StreamPartitioner("FORWARD", is_pointwise=True, supports_unaligned_checkpoint=False)
REBALANCE = StreamPartitioner("REBALANCE")
RESCALE = StreamPartitioner("RESCALE", is_pointwise=True, supports_unaligned_checkpoint=False)
SHUFFLE = StreamPartitioner("SHUFFLE")
GLOBAL = StreamPartitioner("GLOBAL")
BROADCAST = StreamPartitioner("BROADCAST", supports_unaligned_checkpoint=False)


@dataclass(frozen=True, slots=True)
class ResourceSpec:
    """CPU cores and heap of an operator; None: unknown."""

    cpu_cores: float | None = None
    heap_bytes: int | None = None

    def merge(self, other: ResourceSpec) -> ResourceSpec:
        """The sum of both, for operators of one chain; unknown where either is unknown."""
        return ResourceSpec(*(None if None in pair else sum(pair) for pair in self._with(other)))

    def is_at_most(self, other: ResourceSpec) -> bool:
        """Whether no demand exceeds that of the other."""
        return all(None in pair or pair[0] <= pair[1] for pair in self._with(other))

    def _with(self, other: ResourceSpec) -> Any:
        return (self.cpu_cores, other.cpu_cores), (self.heap_bytes, other.heap_bytes)

    def __str__(self) -> str:
        cpu = "" if self.cpu_cores is None else f"{self.cpu_cores:g} CPU cores"
        heap = "" if self.heap_bytes is None else f"{format_size_bytes(self.heap_bytes)} heap"
        return ", ".join(filter(None, (cpu, heap)))


UNKNOWN = ResourceSpec()


def least_of(tasks: Iterable[ResourceSpec]) -> ResourceSpec:
    """The least that tasks running at the same time need: the sum of known demands."""
    known = list(tasks)
    cpu_cores = [each.cpu_cores for each in known if each.cpu_cores is not None]
    heap_bytes = [each.heap_bytes for each in known if each.heap_bytes is not None]
    return ResourceSpec(sum(cpu_cores) if cpu_cores else None, sum(heap_bytes) or None)


_node_ids = itertools.count(1)
"""One counter per process, as in Flink: a program that is built twice gets different ids the second
time. That is why operators have hashes.
"""


class StreamExchangeMode(Enum):
    """When an edge exchanges records: while they are produced, or all of them at once."""

    PIPELINED = "pipelined"
    BATCH = "batch"
    UNDEFINED = "undefined"


def new_node_id() -> int:
    """The next id of the process, for a transformation or a virtual node."""
    return next(_node_ids)


class Transformation:
    """One step of a program (Flink: Transformation). A parallelism or buffer timeout of None is
    that of the job, a slot sharing group that of the inputs.

    Attributes:
        id: numbered per process.
        declared_type: type of the records, or MissingType.
        max_parallelism: None: that of the job, or derived from the parallelism.
        uid: a name for its state that stays the same when the program changes.
        uid_hash: hexadecimal hash of the operator in an older program.
        managed_memory_weight: relative share of its slot's managed memory.
        delay_ns_per_record: artificial delay, for experiments; not in Flink.
    """

    def __init__(self, name: str, output_type: Any, inputs: Sequence[Transformation] = ()) -> None:
        self.id = new_node_id()
        self.name = name
        self.inputs = tuple(inputs)
        self.description = ""
        self.declared_type = output_type
        self.parallelism: int | None = None
        self.max_parallelism: int | None = None
        self.slot_sharing_group: str | None = None
        self.co_location_group_key: str | None = None
        self.uid: str | None = None
        self.uid_hash: str | None = None
        self.buffer_timeout_ns: int | None = None
        self.min_resources: ResourceSpec = UNKNOWN
        self.preferred_resources: ResourceSpec = UNKNOWN
        self.managed_memory_weight = 0
        self.delay_ns_per_record = 0

    @property
    def output_type(self) -> Any:
        """Type of the records. Raises: ConfigError if it is unknown."""
        return known_type(self.declared_type)


class PhysicalTransformation(Transformation):
    """A transformation that becomes a node with an operator (Flink: PhysicalTransformation). It may
    assign event time, with a function of the program (`assigns_own_time`) or without.
    """

    name_prefix = ""
    invokable = "OneInputStreamTask"
    """Class of the task if the operator is the head of a chain."""

    def __init__(
        self,
        name: str,
        operator_factory: OperatorFactory | None,
        output_type: Any,
        inputs: Sequence[Transformation] = (),
        key_selector: KeySelector | None = None,
    ) -> None:
        super().__init__(name, output_type, inputs)
        self.operator_factory = operator_factory
        self.key_selector = key_selector
        self.chaining_strategy = (
            operator_factory.chaining_strategy if operator_factory else ChainingStrategy.ALWAYS
        )
        self.assigns_time = self.assigns_own_time = False


class SourceTransformation(PhysicalTransformation):
    """A source that is polled for records."""

    name_prefix = "Source: "
    invokable = "SourceOperatorStreamTask"
    is_bounded = True
    is_parallel = True


class LegacySourceTransformation(SourceTransformation):
    """A source that pushes records."""

    invokable = "SourceStreamTask"


class OneInputTransformation(PhysicalTransformation):
    """An operator with one input."""


class ReduceTransformation(OneInputTransformation):
    """A reduce by key; streaming and batch have different operators for it."""

    def __init__(
        self,
        name: str,
        reduce: Callable[[Any, Any], Any],
        key_selector: KeySelector,
        source: Transformation,
    ) -> None:
        super().__init__(name, None, source.output_type, [source], key_selector)
        self.reduce = reduce


class TwoInputTransformation(PhysicalTransformation):
    """An operator with two inputs; their edges have type numbers 1 and 2."""

    invokable = "TwoInputStreamTask"


class MultipleInputTransformation(PhysicalTransformation):
    """An operator with any number of inputs, numbered from 1."""

    invokable = "MultipleInputStreamTask"


class SinkTransformation(PhysicalTransformation):
    """The end of a stream."""

    name_prefix = "Sink: "


class UnionTransformation(Transformation):
    """The records of several inputs."""

    def __init__(self, inputs: Sequence[Transformation]) -> None:
        super().__init__("Union", inputs[0].output_type, inputs)


class PartitionTransformation(Transformation):
    """A partitioner for the records of an input."""

    def __init__(
        self,
        source: Transformation,
        partitioner: StreamPartitioner,
        exchange_mode: StreamExchangeMode | None = None,
    ) -> None:
        super().__init__("Partition", source.output_type, [source])
        self.partitioner = partitioner
        self.exchange_mode = exchange_mode


class SideOutputTransformation(Transformation):
    """A side output of an input."""

    def __init__(self, source: Transformation, tag: OutputTag) -> None:
        super().__init__("SideOutput", tag.output_type, [source])
        self.tag = tag
