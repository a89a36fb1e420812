"""DataProtocol: the handlers of the data port, for either end of a connection; PeerProtocol: those
of connections to TaskManagers that are not flinknet's.

Flink: NettyProtocol. From the socket inwards: TLS if it is on, then a connection of the core. The
producer's has the frame decoder, the handlers of messages, and the queue of readers; the consumer's
has the decoder that writes payload into buffers, and the channels with credit to announce.
Messages encode themselves.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flinknet.config import NetworkConfig
from flinknet.core.connection import Connection
from flinknet.core.consumer import ConsumerConnection
from flinknet.core.probe import Probe
from flinknet.core.producer import ProducerConnection, ResultPartitionManager
from flinknet.core.wire.frames import LayoutDetectingDecoder
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.core.wire.response_decoder import ResponseSink
from flinknet.errors import RemoteTransportError, TransportError
from flinknet.job.gates import (
    create_consumer_connection,
    create_producer_connection,
    request_backoff_of,
)
from flinknet.job.load.plan import LoadPlan

from .clock import monotonic_ns
from .event_loop import EventLoop
from .sockets import connect, connect_error

if TYPE_CHECKING:
    from .tls import Tls


class DataProtocol:
    """Creates the connections of one TaskManager.

    Args:
        flow_control: one of `tasks.flow_control`; without credit, the classic water marks apply.
        channel_of: index of each channel in the run, by receiver id.
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
        self._request_backoff = request_backoff_of(network)
        self.tls: Tls | None = None

    def server_connection(self) -> ProducerConnection:
        """Create the producer's end of an accepted connection."""
        return create_producer_connection(
            self._flow_control,
            self._partitions,
            self._probe,
            self._channel_of,
            partition_request_timeout_ns=self._network.partition_request_timeout_ns,
            segment_size_bytes=self._network.segment_size_bytes,
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


class PartitionRequestClientFactory:
    """The clients (consumers' ends of connections) of one TaskManager."""

    def __init__(self, network: NetworkConfig, loop: EventLoop, protocol: DataProtocol) -> None:
        self._network = network
        self._loop = loop
        self._protocol = protocol
        self._clients: dict[ConnectionID, ConsumerConnection] = {}
        self._connecting: list[ConnectingChannel] = []
        self._number_of: dict[object, tuple[int, int]] = {}
        self._opened: Counter[int] = Counter()
        self.connections: list[ConsumerConnection] = []

    def create_client(self, connection_id: ConnectionID) -> ConsumerConnection:
        """Return the client of a connection, with one more reference; closing a channel drops its
        reference.
        """
        connection_id = replace(
            connection_id, index=connection_id.index % self._network.max_tcp_connections
        )
        client = self._clients.get(connection_id)
        if client is None or not client.is_usable:
            client = self._protocol.client_connection(str(connection_id))
            client.is_reusable = self._network.reuse_connections
            self._clients[connection_id] = client
            self.connections.append(client)
            peer = connection_id.task_manager
            self._number_of[client] = peer, self._opened[peer]
            self._opened[peer] += 1
            self._connect(client, connection_id)
        client.references += 1
        return client

    def number_of(self, client: object) -> tuple[int, int]:
        """The TaskManager that a client is connected to, and the number of connections opened to it
        before.
        """
        return self._number_of[client]

    def forget_closed(self) -> None:
        """Forget connections that can carry no more channels."""
        self.connections = [each for each in self.connections if each.is_usable]
        known = self._number_of
        self._number_of = {each: known[each] for each in self.connections}

    def next_deadline_ns(self) -> int | None:
        """When the first connection attempt times out, None for never."""
        return min((each.deadline_ns for each in self._connecting), default=None)

    def handle_deadline(self, *, now_ns: int) -> None:
        for each in list(self._connecting):
            if now_ns >= each.deadline_ns:
                each.handle_timeout()

    def close(self) -> None:
        for each in self._connecting:
            each.close()
        self._connecting.clear()

    def _connect(self, client: ConsumerConnection, connection_id: ConnectionID) -> None:
        def connected(sock: socket.socket) -> None:
            self._connecting.remove(connecting)
            self._loop.add_transport(sock, self._protocol.outermost(client, is_server=False))

        def failed(error: TransportError) -> None:
            self._connecting.remove(connecting)
            client.fail_to_connect(error, now_ns=monotonic_ns())

        connecting = ConnectingChannel(
            connection_id.address, self._network, self._loop, connected, failed
        )
        self._connecting.append(connecting)
        connecting.begin()


class ConnectingChannel:
    """A connection being opened: the first attempt, and immediate retries if the peer refuses
    (`taskmanager.network.retries`).

    A fault on this side is not retried. Exactly one of the two callbacks is called.
    """

    def __init__(
        self,
        address: tuple[str, int],
        network: NetworkConfig,
        loop: EventLoop,
        connected: Callable[[socket.socket], None],
        failed: Callable[[TransportError], None],
    ) -> None:
        self._address = address
        self._network = network
        self._loop = loop
        self._connected = connected
        self._failed = failed
        self._attempts = 0
        self._sock: socket.socket | None = None
        self.deadline_ns = 0

    def begin(self) -> None:
        """Start an attempt."""
        self._attempts += 1
        self.deadline_ns = monotonic_ns() + self._network.connect_timeout_ns
        try:
            self._sock = connect(self._address, self._network)
        except TransportError as error:
            self._handle_failure(error)
        else:
            self._loop.add_writer(self._sock, self._handle_writable)

    def handle_timeout(self) -> None:
        """Fail the attempt: the peer has not answered in time."""
        seconds = self._network.connect_timeout_ns / 1e9
        self._give_up_socket().close()
        self._handle_failure(RemoteTransportError(f"no answer within {seconds:g} s"))

    def close(self) -> None:
        if self._sock is not None:
            self._give_up_socket().close()

    def _handle_writable(self) -> None:
        sock = self._give_up_socket()
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            sock.close()
            self._handle_failure(connect_error(code))
        else:
            self._connected(sock)

    def _handle_failure(self, error: TransportError) -> None:
        if isinstance(error, RemoteTransportError) and (
            self._attempts <= self._network.connect_retries
        ):
            self.begin()
            return
        tries = f" in {self._attempts} attempts" if self._attempts > 1 else ""
        self._failed(type(error)(f"could not be made{tries}: {error}"))

    def _give_up_socket(self) -> socket.socket:
        sock, self._sock = self._sock, None
        assert sock is not None
        self._loop.remove(sock)
        return sock
