"""Plans of an exchange with flinknet at one end only.

The other end is a TaskManager of Flink, which chooses the ids of its partitions and channels
itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinknet.config import Scenario
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.errors import ConfigError

from .plan import ListedChannel, LoadPlan, listed_load_plan

PRODUCERS, CONSUMERS = 0, 1
"""TaskManagers of the writers and the readers."""


def consumer_plan(
    scenario: Scenario, partition_ids: Sequence[ResultPartitionID], subpartitions: Sequence[int]
) -> LoadPlan:
    """One consumer that reads these subpartitions of each of these partitions.

    Raises: ConfigError if one is named twice.
    """
    _check_distinct(partition_ids, subpartitions)
    pairs = [(p, subpartition) for p in range(len(partition_ids)) for subpartition in subpartitions]
    channels = [ListedChannel(index, p, 0, each) for index, (p, each) in enumerate(pairs)]
    return _plan(scenario, partition_ids, 1, channels)


def producers_plan(scenario: Scenario, partition_ids: Sequence[ResultPartitionID]) -> LoadPlan:
    """One producer per partition, with a subpartition per consumer of the workload; receiver ids
    are placeholders for those that the consumers will choose.

    Raises: ConfigError if a partition is named twice.
    """
    _check_distinct(partition_ids, ())
    consumers = scenario.workload.consumers
    pairs = [(p, consumer) for p in range(len(partition_ids)) for consumer in range(consumers)]
    channels = [ListedChannel(index, p, each, each) for index, (p, each) in enumerate(pairs)]
    return _plan(scenario, partition_ids, consumers, channels)


def _plan(
    scenario: Scenario,
    partition_ids: Sequence[ResultPartitionID],
    consumers: int,
    channels: Sequence[ListedChannel],
) -> LoadPlan:
    places = (PRODUCERS,) * len(partition_ids), (CONSUMERS,) * consumers
    return listed_load_plan(scenario, places, channels, partition_ids)


def _check_distinct(
    partition_ids: Sequence[ResultPartitionID], subpartitions: Sequence[int]
) -> None:
    for each in partition_ids:
        if partition_ids.count(each) > 1:
            raise ConfigError(f"--partition: {each} is given twice")
    for number in subpartitions:
        if subpartitions.count(number) > 1:
            raise ConfigError(f"--subpartition: {number} is given twice")
