"""Partitioners: which consumers of an edge get a record, as values of the graphs.

core.producer.channel_selector distributes the records, under the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

KeySelector = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class StreamPartitioner:
    """A way to distribute records (Flink: StreamPartitioner).

    Attributes:
        name: Flink's name.
        is_pointwise: whether each consumer is connected to only some of the producers.
        is_broadcast: whether every record goes to every consumer.
        supports_unaligned_checkpoint: whether records in flight can be redistributed after the
            number of consumers has changed.
        key_selector: for hash.
        function: for custom: (key, channels) -> channel.
    """

    name: str
    is_pointwise: bool = False
    is_broadcast: bool = False
    supports_unaligned_checkpoint: bool = True
    key_selector: KeySelector | None = None
    function: Callable[[Any, int], int] | None = None

    @property
    def is_forward(self) -> bool:
        """Whether producer i feeds only consumer i."""
        return self.name == "FORWARD"

    def __str__(self) -> str:
        return self.name


FORWARD = StreamPartitioner("FORWARD", is_pointwise=True, supports_unaligned_checkpoint=False)
REBALANCE = StreamPartitioner("REBALANCE")
RESCALE = StreamPartitioner("RESCALE", is_pointwise=True, supports_unaligned_checkpoint=False)
SHUFFLE = StreamPartitioner("SHUFFLE")
GLOBAL = StreamPartitioner("GLOBAL")
BROADCAST = StreamPartitioner("BROADCAST", is_broadcast=True, supports_unaligned_checkpoint=False)


def hash_by(key_selector: KeySelector) -> StreamPartitioner:
    """Partition by key group (Flink: KeyGroupStreamPartitioner)."""
    return StreamPartitioner("HASH", key_selector=key_selector)


def custom(function: Callable[[Any, int], int], key_selector: KeySelector) -> StreamPartitioner:
    """Partition by a function of the program (Flink: CustomPartitionerWrapper)."""
    return StreamPartitioner(
        "CUSTOM",
        supports_unaligned_checkpoint=False,
        key_selector=key_selector,
        function=function,
    )
