"""DataProtocol: the handlers of the data port, for either end of a connection; PeerProtocol: those
of connections to TaskManagers that are not flinknet's.

Flink: NettyProtocol. From the socket inwards: TLS if it is on, then a connection of the core. The
producer's has the frame decoder, the handlers of messages, and the queue of readers; the consumer's
has the decoder that writes payload into buffers, and the channels with credit to announce.
Messages encode themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinknet.config import NetworkConfig
from flinknet.core.connection import Connection
from flinknet.core.consumer import ConsumerConnection
from flinknet.core.probe import Probe
from flinknet.core.producer import ProducerConnection, ResultPartitionManager
from flinknet.core.wire.frames import LayoutDetectingDecoder
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.core.wire.response_decoder import ResponseSink
from flinknet.job.gates import (
    create_consumer_connection,
    create_producer_connection,
    request_backoff_of,
)
from flinknet.job.load.plan import LoadPlan

if TYPE_CHECKING:
    from .tls import Tls


class DataProtocol:
    """Creates the connections of one TaskManager; without credit, the classic water marks apply.
    The index of each channel in the run is known by its receiver id.
    """

    def __init__(
        self,
        network: NetworkConfig,
        flow_control: str,
        partitions: ResultPartitionManager,
        probe: Probe,
        channel_of: Mapping[bytes, int],
    ) -> None:
        self._network = network
        self._flow_control = flow_control
        self._partitions = partitions
        self._probe = probe
        self._channel_of = channel_of
        self.tls: Tls | None = None

    def server_connection(self) -> ProducerConnection:
        """Create the producer's end of an accepted connection."""
        return create_producer_connection(
            self._network, self._flow_control, self._partitions, self._probe, self._channel_of
        )

    def client_connection(self, peer: str) -> ConsumerConnection:
        """Create the consumer's end of a connection to `peer`."""
        return create_consumer_connection(self._network, self._flow_control, peer, self._probe)

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
        network: NetworkConfig,
        flow_control: str,
        partitions: ResultPartitionManager,
        probe: Probe,
        channel_of: dict[bytes, int],
    ) -> None:
        super().__init__(network, flow_control, partitions, probe, channel_of)
        self._adopted = channel_of
        self._index_of = {
            (each.partition_id, each.subpartition): each.index for each in load.channels
        }
        if load.scenario.network.is_tls:
            from .tls import create_tls

            self.tls = create_tls(load.scenario.network)

    def server_connection(self) -> ProducerConnection:
        return ProducerConnection(
            self._partitions,
            self._probe,
            self._channel_of,
            adopt=self._adopt,
            partition_request_timeout_ns=self._network.partition_request_timeout_ns,
        )

    def client_connection(self, peer: str) -> ConsumerConnection:
        address = peer.rpartition(" at ")[2]
        connection = ConsumerConnection(address, self._probe, self._create_decoder)
        connection.backoff_policy = request_backoff_of(self._network)
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


@dataclass(frozen=True, slots=True)
class ConnectionID:
    """The identity of a connection: channels with the same one share it (Flink: ConnectionID).

    Attributes:
        index: index of the data set (the exchange) of the channel; the factory takes it modulo
            `taskmanager.network.max-num-tcp-connections`. With 1, as always in Flink 2.x, there is
            one connection for each ordered pair of TaskManagers; with as many as there are data
            sets it is one for each of them, as before Flink 1.15. Flink draws the index at random,
            here data sets take turns.
    """

    task_manager: int
    address: tuple[str, int]
    index: int = 0

    def __str__(self) -> str:
        return f"tm-{self.task_manager} at {self.address[0]}:{self.address[1]}"
