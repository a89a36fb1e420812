"""Wiring: which subpartition of which partition each consumer reads (Flink:
VertexInputInfoComputationUtils).

Everything is computed from the two parallelisms; nothing is stored per channel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class DistributionPattern(Enum):
    """Which producers and consumers are connected (Flink: DistributionPattern)."""

    POINTWISE = "pointwise"
    ALL_TO_ALL = "all-to-all"


@dataclass(frozen=True, slots=True)
class Wiring:
    """The channels of one edge.

    All to all: consumer i reads subpartition i of every partition. Pointwise: with as many or more
    producers, each consumer reads a run of partitions with one subpartition each; with fewer, each
    partition feeds a run of k consumers, and consumer c reads its subpartition c mod k.
    """

    pattern: DistributionPattern
    producers: int
    consumers: int

    @property
    def is_all_to_all(self) -> bool:
        """Whether every producer is connected to every consumer."""
        return self.pattern is DistributionPattern.ALL_TO_ALL

    @property
    def channels(self) -> int:
        """Number of channels."""
        if self.is_all_to_all:
            return self.producers * self.consumers
        return max(self.producers, self.consumers)

    def partitions_of(self, consumer: int) -> range:
        """The partitions, by producer, that a consumer reads."""
        if self.is_all_to_all:
            return range(self.producers)
        if self.producers >= self.consumers:
            return range(
                consumer * self.producers // self.consumers,
                (consumer + 1) * self.producers // self.consumers,
            )
        producer = consumer * self.producers // self.consumers
        return range(producer, producer + 1)

    def consumers_of(self, producer: int) -> range:
        """The consumers that read the partition of a producer."""
        if self.is_all_to_all:
            return range(self.consumers)
        if self.producers >= self.consumers:
            consumer = ((producer + 1) * self.consumers - 1) // self.producers
            return range(consumer, consumer + 1)
        return range(
            -(-producer * self.consumers // self.producers),
            -(-(producer + 1) * self.consumers // self.producers),
        )

    def subpartitions(self, producer: int) -> int:
        """Number of subpartitions of a producer's partition."""
        return len(self.consumers_of(producer))

    def subpartition(self, producer: int, consumer: int) -> int:
        """The subpartition of a partition that a consumer reads."""
        return consumer if self.is_all_to_all else consumer % self.subpartitions(producer)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """(producer, consumer, subpartition) of each channel, by producer."""
        for producer in range(self.producers):
            for consumer in self.consumers_of(producer):
                yield producer, consumer, self.subpartition(producer, consumer)
