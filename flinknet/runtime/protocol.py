"""DataProtocol: the handlers of the data port, for either end of a connection; PeerProtocol: those
of connections to TaskManagers that are not flinknet's.

Flink: NettyProtocol. From the socket inwards: TLS if it is on, then a connection of the core. The
producer's has the frame decoder, the handlers of messages, and the queue of readers; the consumer's
has the decoder that writes payload into buffers, and the channels with credit to announce.
Messages encode themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from flinknet.core.connection import Connection
from flinknet.core.consumer import ConsumerConnection
from flinknet.core.consumer.request_backoff import RequestBackoffPolicy
from flinknet.core.probe import Probe
from flinknet.core.producer import ProducerConnection, ResultPartitionManager
from flinknet.job.flow_control import (
    create_consumer_connection,
    create_producer_connection,
)

if TYPE_CHECKING:
    from .tls import Tls
from typing import Any

from flinknet.core.wire.ids import ResultPartitionID
from flinknet.core.wire.layout_detection import LayoutDetectingDecoder
from flinknet.core.wire.response_decoder import ResponseSink
from flinknet.job.load.plan import LoadPlan


class DataProtocol:
    """Creates the connections of one TaskManager.

    Args:
        flow_control: one of `tasks.flow_control`; without credit, the classic water marks apply.
        channel_of: index of each channel in the run, by receiver id.
    """

    def __init__(
        self,
        flow_control: str,
        partitions: ResultPartitionManager,
        probe: Probe,
        channel_of: Mapping[bytes, int],
        *,
        partition_request_timeout_ns: int,
        segment_size_bytes: int,
        request_backoff: RequestBackoffPolicy | None = None,
    ) -> None:
        self._flow_control = flow_control
        self._partitions = partitions
        self._probe = probe
        self._channel_of = channel_of
        self._partition_request_timeout_ns = partition_request_timeout_ns
        self._segment_size_bytes = segment_size_bytes
        self._request_backoff = request_backoff or RequestBackoffPolicy()
        self.tls: Tls | None = None

    def server_connection(self) -> ProducerConnection:
        """Create the producer's end of an accepted connection."""
        return create_producer_connection(
            self._flow_control,
            self._partitions,
            self._probe,
            self._channel_of,
            partition_request_timeout_ns=self._partition_request_timeout_ns,
            segment_size_bytes=self._segment_size_bytes,
        )

    def client_connection(self, peer: str) -> ConsumerConnection:
        """Create the consumer's end of a connection to `peer`."""
        connection = create_consumer_connection(self._flow_control, peer, self._probe)
        connection.requests.policy = self._request_backoff
        return connection

    def outermost(self, connection: Connection, *, is_server: bool) -> Connection:
        """The connection for the driver: the given one, or TLS around it."""
        if self.tls is None:
            return connection
        return self.tls.around(connection, is_server=is_server)


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
