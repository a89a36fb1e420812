"""When the readers of an exchange are deployed: with its producers, with its first output, or when
it is complete.

Flink has had two ways to decide. Before pipelined regions, each kind of exchange had a kind of
scheduling, and a vertex with several inputs had a flag for waiting for all or any of them. Since
then, tasks joined by pipelined exchanges, bounded or not, are deployed together, and the others
when their inputs are complete. Both are here; by default the exchange alone decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from flinknet.config import Scenario
from flinknet.core.producer import (
    ResultPartition,
    ResultPartitionType,
    partition_type_of,
)
from flinknet.errors import ConfigError


class SchedulingType(Enum):
    """What the readers of an exchange wait for (Flink: ScheduleMode)."""

    ALL_AT_ONCE = "all-at-once"  # nothing (EAGER)
    ON_FIRST_OUTPUT = "first-output"  # the first output of their inputs (LAZY_FROM_SOURCES)
    ON_COMPLETE_OUTPUT = "complete-output"  # their complete inputs


class StartCondition(Enum):
    """Which of its inputs a vertex waits for (Flink: InputDependencyConstraint)."""

    ALL = "all"
    ANY = "any"


_Type, _When = ResultPartitionType, SchedulingType

USES: Mapping[tuple[ResultPartitionType, SchedulingType], str] = {
    (_Type.PIPELINED, _When.ALL_AT_ONCE): "streaming",
    (_Type.PIPELINED_BOUNDED, _When.ON_FIRST_OUTPUT): "batch",
    (_Type.BLOCKING, _When.ON_COMPLETE_OUTPUT): "batch",
    # since pipelined regions
    (_Type.PIPELINED_BOUNDED, _When.ALL_AT_ONCE): "streaming",
    (_Type.PIPELINED_APPROXIMATE, _When.ALL_AT_ONCE): "streaming",
}
"""Purpose of each valid combination of exchange and scheduling."""


def scheduling_of(scenario: Scenario) -> SchedulingType:
    """The configured scheduling, or else the default of the exchange.

    Raises: ConfigError for a combination missing from USES.
    """
    kind, asked = partition_type_of(scenario.workload.partition_type), scenario.workload.scheduling
    if asked is None:
        at_once = kind.can_be_pipelined_consumed
        return SchedulingType.ALL_AT_ONCE if at_once else SchedulingType.ON_COMPLETE_OUTPUT
    labels = {each.value: each for each in SchedulingType}
    if asked not in labels:
        raise ConfigError(f"scheduling {asked!r} is not known; choose from {', '.join(labels)}")
    if (kind, labels[asked]) not in USES:
        fitting = " or ".join(when.value for each, when in USES if each is kind)
        raise ConfigError(
            f"scheduling {asked} does not go with {kind.label} exchanges; they have {fitting}"
        )
    return labels[asked]


def has_output(partition: ResultPartition) -> bool:
    """Whether a partition has data to read, or is finished."""
    return partition.is_finished or any(each.buffers_in_backlog for each in partition.subpartitions)


def is_consumable(partition: ResultPartition, scheduling: SchedulingType) -> bool:
    """Whether a partition has what its readers wait for."""
    if scheduling is SchedulingType.ALL_AT_ONCE:
        return True
    if scheduling is SchedulingType.ON_COMPLETE_OUTPUT:
        return partition.is_finished
    return has_output(partition)


def is_result_consumable(partitions: Sequence[ResultPartition], scheduling: SchedulingType) -> bool:
    """Whether readers of these partitions of one result may be deployed: with the first output of
    any, or when all are complete; at once if there are none.
    """
    if scheduling is SchedulingType.ON_FIRST_OUTPUT and partitions:
        return any(map(has_output, partitions))
    return all(is_consumable(each, scheduling) for each in partitions)


def may_start(inputs: Iterable[bool], condition: StartCondition) -> bool:
    """Whether a vertex may be deployed, given which of its inputs are consumable. A vertex without
    inputs may.
    """
    states = list(inputs)
    if not states:
        return True
    return all(states) if condition is StartCondition.ALL else any(states)
