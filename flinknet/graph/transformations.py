"""Transformations: the steps of a program, each with references to its inputs.

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
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from flinknet.errors import ConfigError

from .job_config import MAX_PARALLELISM
from .operator_output import OutputTag
from .operators import ChainingStrategy, OperatorFactory
from .partitioners import KeySelector, StreamPartitioner
from .resources import UNKNOWN, ResourceSpec
from .type_information import known_type

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
    """One step of a program (Flink: Transformation).

    Attributes:
        id: numbered per process.
        parallelism: None: that of the job.
        max_parallelism: None: that of the job, or derived from the parallelism.
        slot_sharing_group: None: that of the inputs.
        uid: a name for its state that stays the same when the program changes.
        uid_hash: hexadecimal hash of the operator in an older program.
        buffer_timeout_ns: of its outputs; None: that of the job.
        managed_memory_weight: relative share of its slot's managed memory.
        delay_ns_per_record: artificial delay, for experiments; not in Flink.
    """

    def __init__(self, name: str, output_type: Any, inputs: Sequence[Transformation] = ()) -> None:
        self.id = new_node_id()
        self.name = name
        self.inputs = tuple(inputs)
        self.description = ""
        self._output_type = output_type
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
        return known_type(self._output_type)

    def set_parallelism(self, parallelism: int) -> None:
        """Set the number of subtasks. Raises: ConfigError."""
        if parallelism < 1:
            raise ConfigError(
                f"{self.name}: parallelism {parallelism} is too little; give 1 or more"
            )
        self.parallelism = parallelism

    def set_max_parallelism(self, max_parallelism: int) -> None:
        """Set the number of key groups. Raises: ConfigError."""
        if not 1 <= max_parallelism <= MAX_PARALLELISM:
            raise ConfigError(
                f"{self.name}: max parallelism {max_parallelism} is not in 1 to {MAX_PARALLELISM}"
            )
        self.max_parallelism = max_parallelism

    def set_uid_hash(self, uid_hash: str) -> None:
        """Set the hash that the operator had in an older program. Raises: ConfigError."""
        if len(uid_hash) != 32 or not all(digit in "0123456789abcdef" for digit in uid_hash):
            raise ConfigError(
                f"{self.name}: uid hash {uid_hash!r} is not 32 hexadecimal digits in lower case"
            )
        self.uid_hash = uid_hash

    def set_resources(self, least: ResourceSpec, preferred: ResourceSpec) -> None:
        """Set the needed and the preferred resources. Raises: ConfigError."""
        if not least.is_at_most(preferred):
            raise ConfigError(
                f"{self.name}: its minimum resources are more than its preferred ones"
            )
        self.min_resources, self.preferred_resources = least, preferred


class PhysicalTransformation(Transformation):
    """A transformation that becomes a node with an operator (Flink: PhysicalTransformation).

    Attributes:
        assigns_time: whether it assigns event time; `assigns_own_time`: with a function of the
            program.
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
        self.emits_only_at_end = False
        self.assigns_time = self.assigns_own_time = False


class SourceTransformation(PhysicalTransformation):
    """A source that is polled for records."""

    name_prefix = "Source: "
    invokable = "SourceOperatorStreamTask"
    is_bounded = True


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
