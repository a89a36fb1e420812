"""ResultPartitionType: the kind of exchange that a partition serves."""

from __future__ import annotations

from enum import Enum

from flinknet.errors import ConfigError


class ConsumingConstraint(Enum):
    """When a partition may be read."""

    BLOCKING = "blocking"  # only once it is complete
    CAN_BE_PIPELINED = "can be pipelined"  # while it is produced, or later
    MUST_BE_PIPELINED = "must be pipelined"  # only while it is produced


class ReleaseBy(Enum):
    """Who releases a partition."""

    UPSTREAM = "upstream"  # the producer, once it has ended and all consumers have read it
    SCHEDULER = "scheduler"  # the scheduler, once no task needs it


_MUST, _CAN = ConsumingConstraint.MUST_BE_PIPELINED, ConsumingConstraint.CAN_BE_PIPELINED
_BLOCKING = ConsumingConstraint.BLOCKING
_UPSTREAM, _SCHEDULER = ReleaseBy.UPSTREAM, ReleaseBy.SCHEDULER


class ResultPartitionType(Enum):
    """Flink's types, of which flinknet supports the first four (Flink: ResultPartitionType).

    Attributes:
        is_reconsumable: whether a subpartition may be read more than once.
        is_bounded: whether its pool has a finite maximum.
        is_persistent: whether it outlives its job.
        has_overdraft: whether its pool lends buffers beyond its size, to complete a record.
    """

    PIPELINED = ("pipelined", False, False, False, _MUST, _UPSTREAM, False, True)
    PIPELINED_BOUNDED = ("pipelined-bounded", False, True, False, _MUST, _UPSTREAM, False, True)
    PIPELINED_APPROXIMATE = (
        *("pipelined-approximate", False, True, False, _CAN, _UPSTREAM, False, False),
    )
    BLOCKING = ("blocking", True, False, False, _BLOCKING, _SCHEDULER, True, False)
    BLOCKING_PERSISTENT = (
        *("blocking-persistent", True, False, True, _BLOCKING, _SCHEDULER, True, False),
    )
    HYBRID_FULL = ("hybrid-full", True, False, False, _CAN, _SCHEDULER, True, False)
    HYBRID_SELECTIVE = ("hybrid-selective", False, False, False, _CAN, _SCHEDULER, True, False)

    def __init__(
        self,
        label: str,
        is_reconsumable: bool,
        is_bounded: bool,
        is_persistent: bool,
        constraint: ConsumingConstraint,
        release_by: ReleaseBy,
        supports_compression: bool,
        has_overdraft: bool,
    ) -> None:
        self.label = label
        self.is_reconsumable = is_reconsumable
        self.is_bounded = is_bounded
        self.is_persistent = is_persistent
        self.constraint = constraint
        self.release_by = release_by
        self.supports_compression = supports_compression
        self.has_overdraft = has_overdraft

    @property
    def must_be_pipelined_consumed(self) -> bool:
        return self.constraint is ConsumingConstraint.MUST_BE_PIPELINED

    @property
    def can_be_pipelined_consumed(self) -> bool:
        """Whether it may be read while it is produced: data is visible before the producer ends."""
        return self.constraint is not ConsumingConstraint.BLOCKING

    @property
    def is_blocking_or_blocking_persistent(self) -> bool:
        """Whether nothing is visible before the producer has ended."""
        return self.constraint is ConsumingConstraint.BLOCKING


def partition_type_of(label: str) -> ResultPartitionType:
    """The type with a label. Raises: ConfigError for a type that flinknet does not support."""
    for made in MADE:
        if made.label == label:
            return made
    known = ", ".join(made.label for made in MADE)
    refused = next((kind for kind in ResultPartitionType if kind.label == label), None)
    if refused is not None:
        raise ConfigError(f"{refusal_of(refused)}; use one of {known}")
    raise ConfigError(f"partition type {label!r} is not one that flinknet makes; those are {known}")


def refusal_of(kind: ResultPartitionType) -> str:
    """Why flinknet does not support a type."""
    reason = "its tiers (memory, disk, remote) are"
    if kind is ResultPartitionType.BLOCKING_PERSISTENT:
        reason = "data sets that outlive their job are"
    return f"flinknet makes no partitions of type {kind.label}, for {reason} out of scope"


MADE = (
    ResultPartitionType.PIPELINED,
    ResultPartitionType.PIPELINED_BOUNDED,
    ResultPartitionType.PIPELINED_APPROXIMATE,
    ResultPartitionType.BLOCKING,
)
"""Supported types. The others are for cached data sets and for hybrid shuffle."""
