"""Wiring: which subpartition of which partition each consumer reads (Flink:
VertexInputInfoComputationUtils).

Everything is computed from the two parallelisms; nothing is stored per channel. Of an all-to-all
edge, pairs of TaskManagers are created only on demand: a thousand have a million.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
        return self.pattern is DistributionPattern.ALL_TO_ALL

    @property
    def channels(self) -> int:
        if self.is_all_to_all:
            return self.producers * self.consumers
        return max(self.producers, self.consumers)

    def partitions_of(self, consumer: int) -> range:
        """The partitions, by producer, that a consumer reads."""
        if self.is_all_to_all:
            return range(self.producers)
        first = consumer * self.producers // self.consumers
        return range(first, max(first + 1, (consumer + 1) * self.producers // self.consumers))

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
        return len(self.consumers_of(producer))

    def subpartition(self, producer: int, consumer: int) -> int:
        return consumer if self.is_all_to_all else consumer % self.subpartitions(producer)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """(producer, consumer, subpartition) of each channel, by producer."""
        for producer in range(self.producers):
            for consumer in self.consumers_of(producer):
                yield producer, consumer, self.subpartition(producer, consumer)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Channels by the TaskManagers of their ends.

    Attributes:
        producers, consumers: subtasks on each TaskManager.
        joined: for pointwise edges: channels by TaskManager of the producer, then of the consumer.
    """

    producers: Mapping[int, int]
    consumers: Mapping[int, int]
    joined: Mapping[int, Mapping[int, int]] | None = None

    def between(self, producer: int, consumer: int) -> int:
        """Channels from one TaskManager to another."""
        if self.joined is not None:
            return self.joined.get(producer, {}).get(consumer, 0)
        return self.producers.get(producer, 0) * self.consumers.get(consumer, 0)

    def reached_from(self, producer: int) -> Mapping[int, int]:
        """TaskManagers reached from one, as keys."""
        if self.joined is not None:
            return self.joined.get(producer, {})
        return self.consumers if producer in self.producers else {}

    @property
    def local_channels(self) -> int:
        return sum(self.between(each, each) for each in self.producers)

    @property
    def pairs(self) -> int:
        if self.joined is not None:
            return sum(map(len, self.joined.values()))
        return len(self.producers) * len(self.consumers)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """(from, to, channels) of each pair, in order."""
        for producer in sorted(self.producers):
            for consumer in sorted(self.reached_from(producer)):
                yield producer, consumer, self.between(producer, consumer)


def traffic_of(wiring: Wiring, sources: Sequence[int], targets: Sequence[int]) -> Traffic:
    producers, consumers = Counter(sources), Counter(targets)
    if wiring.is_all_to_all:
        return Traffic(producers, consumers)
    joined: dict[int, Counter[int]] = {}
    for producer, consumer, _ in wiring:
        joined.setdefault(sources[producer], Counter())[targets[consumer]] += 1
    return Traffic(producers, consumers, joined)
