"""Partitioners: which of the consumers of an edge gets a record, as a value of the graphs.

How records are really dealt out is up to core.producer.channel_selector; the names agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

KeySelector = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class StreamPartitioner:
    """One way to deal out records (Flink: StreamPartitioner).

    Attributes:
        name: as Flink prints it.
        is_pointwise: joins each consumer to some of the producers only.
        is_broadcast: every record goes to every consumer.
        supports_unaligned_checkpoint: whether records in flight find their consumer again after
            the number of consumers has changed.
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
        """Whether producer i feeds consumer i and no other."""
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
    """By key group (Flink: KeyGroupStreamPartitioner)."""
    return StreamPartitioner("HASH", key_selector=key_selector)


def custom(function: Callable[[Any, int], int], key_selector: KeySelector) -> StreamPartitioner:
    """By a function of the user (Flink: CustomPartitionerWrapper)."""
    return StreamPartitioner(
        "CUSTOM",
        supports_unaligned_checkpoint=False,
        key_selector=key_selector,
        function=function,
    )
