"""PeerProtocol: connections to TaskManagers that are not flinknet's."""

from __future__ import annotations

from typing import Any

from flinknet.core.consumer import ConsumerConnection
from flinknet.core.probe import Probe
from flinknet.core.producer import ProducerConnection, ResultPartitionManager
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.core.wire.layout_detection import LayoutDetectingDecoder
from flinknet.core.wire.response_decoder import ResponseSink
from flinknet.job.load.plan import LoadPlan

from .protocol import DataProtocol


class PeerProtocol(DataProtocol):
    """Connections to other implementations: the layout of their messages is detected, and channels
    are known by the ids that their consumers choose.
    """

    decoder: LayoutDetectingDecoder | None = None

    def __init__(
        self,
        load: LoadPlan,
        flow_control: str,
        partitions: ResultPartitionManager,
        probe: Probe,
        channel_of: dict[bytes, int],
        **settings: Any,
    ) -> None:
        super().__init__(flow_control, partitions, probe, channel_of, **settings)
        self._adopted = channel_of
        self._index_of = {
            (each.partition_id, each.subpartition): each.index for each in load.channels
        }
        if load.scenario.network.is_tls:
            from .tls import create_tls

            self.tls = create_tls(load.scenario.network)

    def server_connection(self) -> ProducerConnection:
        """Create the producer's end of an accepted connection."""
        return ProducerConnection(
            self._partitions,
            self._probe,
            self._channel_of,
            adopt=self._adopt,
            partition_request_timeout_ns=self._partition_request_timeout_ns,
        )

    def client_connection(self, peer: str) -> ConsumerConnection:
        """Create the consumer's end of a connection to another implementation."""
        address = peer.rpartition(" at ")[2]
        connection = ConsumerConnection(address, self._probe, self._create_decoder)
        connection.requests.policy = self._request_backoff
        return connection

    def _create_decoder(self, sink: ResponseSink) -> LayoutDetectingDecoder:
        self.decoder = LayoutDetectingDecoder(sink)
        return self.decoder

    def _adopt(
        self, partition_id: ResultPartitionID, subpartition: int, receiver_id: bytes
    ) -> None:
        index = self._index_of.get((partition_id, subpartition))
        if index is not None:
            self._adopted[receiver_id] = index
