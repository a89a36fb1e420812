# mypyc
"""AdoptingProducerConnection: a producer's end whose consumers are strangers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from flinknet.core.probe import Probe
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.core.wire.messages import PartitionRequest

from .connection import ProducerConnection
from .partition_manager import ResultPartitionManager


class ChannelAdopter(Protocol):
    """Who numbers the channels of a run."""

    def __call__(
        self, partition_id: ResultPartitionID, subpartition: int, receiver_id: bytes
    ) -> None:
        """A consumer calls a subpartition by this id from now on."""


class AdoptingProducerConnection(ProducerConnection):
    """Consumers choose the ids of their channels, so that a request is the first to tell which
    channel of the run goes by which.

    Args:
        adopt: told of every request before it is served; what it notes is found in `channel_of`.
    """

    def __init__(
        self,
        partitions: ResultPartitionManager,
        probe: Probe,
        channel_of: Mapping[bytes, int],
        *,
        adopt: ChannelAdopter,
        partition_request_timeout_ns: int,
    ) -> None:
        self._adopt = adopt
        super().__init__(
            partitions,
            probe,
            channel_of,
            partition_request_timeout_ns=partition_request_timeout_ns,
        )

    def _open_channel(self, message: PartitionRequest) -> None:
        self._adopt(message.partition_id, message.queue_index_set.start_index, message.receiver_id)
        super()._open_channel(message)
