"""PeerDeployment: an exchange of which one end only is flinknet's.

The other end is a TaskManager of Flink: what it produces has ids of its own making, and so have the
channels by which it consumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flinknet.config import Scenario
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.errors import ConfigError

from .deployment import (
    DeployedChannel,
    DeployedEdge,
    DeployedVertex,
    Deployment,
    channel_receiver_id,
)

PRODUCERS, CONSUMERS = 0, 1
"""TaskManagers: who writes, and who reads."""


@dataclass(frozen=True, slots=True)
class PeerDeployment(Deployment):
    """A deployment whose partitions have these ids; producer i writes the i-th."""

    partition_ids: tuple[ResultPartitionID, ...]

    def partition_id(self, producer: int, edge: int = 0) -> ResultPartitionID:
        """The partition that a subtask writes; there is one edge only."""
        return self.partition_ids[producer]

    def find_channel(self, partition_id: ResultPartitionID, subpartition: int) -> int | None:
        """Index of the channel that reads a subpartition, None if there is none."""
        for channel in self.channels:
            if (
                channel.subpartition == subpartition
                and self.partition_ids[channel.producer] == partition_id
            ):
                return channel.index
        return None


def deploy_consumer(
    scenario: Scenario, partition_ids: Sequence[ResultPartitionID], subpartitions: Sequence[int]
) -> PeerDeployment:
    """One consumer that reads these subpartitions of each of these partitions.

    Raises: ConfigError when one is named twice.
    """
    _check_distinct(partition_ids, subpartitions)
    pairs = [(p, subpartition) for p in range(len(partition_ids)) for subpartition in subpartitions]
    channels = tuple(
        DeployedChannel(index, producer, 0, subpartition, channel_receiver_id(scenario.seed, index))
        for index, (producer, subpartition) in enumerate(pairs)
    )
    return _deployment(scenario, partition_ids, 1, channels)


def deploy_producers(
    scenario: Scenario, partition_ids: Sequence[ResultPartitionID]
) -> PeerDeployment:
    """A producer for each partition, with a subpartition for each consumer of the workload; the
    receiver ids stand for those that the consumers will choose.

    Raises: ConfigError when a partition is named twice.
    """
    _check_distinct(partition_ids, ())
    consumers = scenario.workload.consumers
    pairs = [(p, consumer) for p in range(len(partition_ids)) for consumer in range(consumers)]
    channels = tuple(
        DeployedChannel(
            index, producer, consumer, consumer, channel_receiver_id(scenario.seed, index)
        )
        for index, (producer, consumer) in enumerate(pairs)
    )
    return _deployment(scenario, partition_ids, consumers, channels)


def _deployment(
    scenario: Scenario,
    partition_ids: Sequence[ResultPartitionID],
    consumers: int,
    channels: tuple[DeployedChannel, ...],
) -> PeerDeployment:
    vertices = (
        DeployedVertex("producers", (PRODUCERS,) * len(partition_ids)),
        DeployedVertex("consumers", (CONSUMERS,) * consumers),
    )
    edge = DeployedEdge(0, 0, 1, scenario.workload.partitioner)
    return PeerDeployment(scenario, vertices, (edge,), channels, tuple(partition_ids))


def _check_distinct(
    partition_ids: Sequence[ResultPartitionID], subpartitions: Sequence[int]
) -> None:
    for each in partition_ids:
        if partition_ids.count(each) > 1:
            raise ConfigError(f"--partition: {each} is given twice")
    for number in subpartitions:
        if subpartitions.count(number) > 1:
            raise ConfigError(f"--subpartition: {number} is given twice")
