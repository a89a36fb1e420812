"""When the tasks that read an exchange are deployed: with its producers, when there is something to
read, or when there is everything to read.

Flink has decided that in two ways. Before its pipelined regions each kind of exchange had a kind of
scheduling, and a vertex with several inputs a flag which says whether it needs all or any of them.
Since then tasks that are joined by exchanges which must be pipelined are deployed together,
bounded or not, and others when their inputs are complete. Both are here; the exchange alone decides
where nothing else is asked for.
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
    """What a vertex that reads waits for (Flink: ScheduleMode)."""

    ALL_AT_ONCE = "all-at-once"  # nothing (EAGER)
    ON_FIRST_OUTPUT = "first-output"  # the first output of what it reads (LAZY_FROM_SOURCES)
    ON_COMPLETE_OUTPUT = "complete-output"  # that what it reads is complete


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
"""Type of exchange and scheduling -> what it is for. Other combinations there are none."""


def scheduling_of(scenario: Scenario) -> SchedulingType:
    """What is asked for, or what the exchange alone decides.

    Raises: ConfigError for a combination that is not in the table.
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
    """Whether there is something to read in a partition, or will never be."""
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
    any of them, or when all are complete; at once where there are none.
    """
    if scheduling is SchedulingType.ON_FIRST_OUTPUT and partitions:
        return any(map(has_output, partitions))
    return all(is_consumable(each, scheduling) for each in partitions)


def may_start(inputs: Iterable[bool], condition: StartCondition) -> bool:
    """Whether a vertex may be deployed, given for each input whether it can be consumed; one
    without inputs may.
    """
    states = list(inputs)
    if not states:
        return True
    return all(states) if condition is StartCondition.ALL else any(states)
