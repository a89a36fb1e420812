"""Traffic: channels of an edge per pair of TaskManagers.

For all-to-all edges that is a product, and stored as one: a thousand TaskManagers have a million
pairs, which are created only on demand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .wiring import Wiring


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
        """Channels within a TaskManager."""
        return sum(self.between(each, each) for each in self.producers)

    @property
    def pairs(self) -> int:
        """Number of pairs with channels."""
        if self.joined is not None:
            return sum(map(len, self.joined.values()))
        return len(self.producers) * len(self.consumers)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """(from, to, channels) of each pair, in order."""
        for producer in sorted(self.producers):
            for consumer in sorted(self.reached_from(producer)):
                yield producer, consumer, self.between(producer, consumer)


def traffic_of(wiring: Wiring, sources: Sequence[int], targets: Sequence[int]) -> Traffic:
    """The traffic of an edge whose subtasks are on these TaskManagers."""
    producers, consumers = Counter(sources), Counter(targets)
    if wiring.is_all_to_all:
        return Traffic(producers, consumers)
    joined: dict[int, Counter[int]] = {}
    for producer, consumer, _ in wiring:
        joined.setdefault(sources[producer], Counter())[targets[consumer]] += 1
    return Traffic(producers, consumers, joined)
