"""ConnectionManager: the connections of a TaskManager (Flink: NettyConnectionManager, NettyServer,
NettyClient), and the protocol that creates their ends (NettyProtocol): TLS if it is on, then a
connection of the core.

Where we differ: server and client are one event loop on one thread, whose name in the process table
shows the port, as Flink's thread groups do ("Flink Netty Server (PORT) …").
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinknet import errors
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
from flinknet.results import Strangers

from .clock import monotonic_ns
from .event_loop import EventLoop
from .sockets import connect, connect_error, listed_ports, listen
from .transport import TcpTransport
from .visitors import VisitedPort

if TYPE_CHECKING:
    from .tls import Tls

LOCAL_ONLY_PORT = -1
"""Port of a TaskManager that has no data port (as in Flink)."""

_THREAD_NAME = Path("/proc/thread-self/comm")
"""The file of a thread's name on Linux, at most 15 characters."""


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
        channel_of: dict[bytes, int],
    ) -> None:
        self._network = network
        self._flow_control = flow_control
        self._partitions = partitions
        self._probe = probe
        self._channel_of = channel_of
        self.tls: Tls | None = None

    def use_tls(self, network: NetworkConfig) -> None:
        """Put TLS around connections, if it is on. Raises: ConfigError for unusable settings."""
        if network.is_tls:
            from .tls import create_tls

            self.tls = create_tls(network)

    def server_connection(self) -> ProducerConnection:
        return create_producer_connection(
            self._network, self._flow_control, self._partitions, self._probe, self._channel_of
        )

    def client_connection(self, peer: str) -> ConsumerConnection:
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

    def __init__(self, load: LoadPlan, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._index_of = {
            (each.partition_id, each.subpartition): each.index for each in load.channels
        }
        self.use_tls(load.scenario.network)

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
            self._channel_of[receiver_id] = index


@dataclass(frozen=True, slots=True)
class ConnectionID:
    """The identity of a connection: channels with the same one share it (Flink: ConnectionID).

    Attributes:
        index: index of the data set (the exchange) of the channel; the factory takes it modulo
            `taskmanager.network.max-num-tcp-connections`. Flink draws it at random, here data sets
            take turns.
    """

    task_manager: int
    address: tuple[str, int]
    index: int = 0

    def __str__(self) -> str:
        return f"tm-{self.task_manager} at {self.address[0]}:{self.address[1]}"


@dataclass(frozen=True, slots=True)
class AcceptedConnection:
    """A connection that a consumer opened to us, and its address."""

    peer: str
    connection: ProducerConnection

    def loss_error(self, reader_names: Mapping[int, str]) -> errors.TransportError:
        """The error for a consumer, known by the names of its readers, that left open channels."""
        loss, channels = self.connection.loss, self.connection.lost_channels
        assert loss is not None
        names = {reader_names[index] for index in channels if index in reader_names}
        peer = f"{' and '.join(sorted(names)) or 'a consumer'} at {self.peer}"
        is_remote = isinstance(loss, errors.RemoteTransportError)
        text = f"{loss}{'; that task manager may be lost' if is_remote else ''}"
        failed = errors.failed_channels(channels)
        return type(loss)(f"the connection from {peer} {text}. {failed}", peer, channels)


def _strangeness(transport: TcpTransport, connection: ProducerConnection) -> Strangers:
    if connection.trust.is_of_run:
        return Strangers(requests=connection.trust.strange_requests)
    return Strangers(1, connection.trust.strange_requests, transport.received_bytes)


class ConnectionManager:
    """All connections of one TaskManager, started in Flink's order: client, then server. Closed
    connections stay among the `accepted` ones if they had opened channels.
    """

    def __init__(self, network: NetworkConfig, loop: EventLoop, protocol: DataProtocol) -> None:
        self._network = network
        self._loop = loop
        self._is_started = self._is_shut_down = False
        self.protocol = protocol
        self.clients: list[ConsumerConnection] = []
        self._client_of: dict[ConnectionID, ConsumerConnection] = {}
        self._connecting: list[ConnectingChannel] = []
        self._number_of: dict[object, tuple[int, int]] = {}
        self._opened: Counter[int] = Counter()
        self.port: VisitedPort[ProducerConnection] | None = None
        self.accepted: list[AcceptedConnection] = []
        self._closed: list[AcceptedConnection] = []
        self._gone = Strangers()

    def start(self) -> int:
        """Prepare to connect, then listen. Returns: the port to advertise (see `advertised_port`).
        Raises: ConfigError for unusable TLS settings; as `sockets.listen`; LocalProtocolError when
        it has been started or shut down before (Flink: "already been initialized").
        """
        if self._is_started or self._is_shut_down:
            what = "shut down" if self._is_shut_down else "initialized"
            raise errors.LocalProtocolError(f"the network client has already been {what}")
        self._is_started = True
        self.protocol.use_tls(self._network)
        sock = listen(self._network)
        port: int = sock.getsockname()[1]
        self.port = VisitedPort(
            self._loop,
            sock,
            self._add,
            is_known=lambda connection: connection.trust.is_of_run,
            is_waiting=lambda connection: bool(connection.waiting_requests),
        )
        with suppress(OSError):  # the system may not allow it
            _THREAD_NAME.write_text(f"flinknet:{port}")
        return advertised_port(self._network, port)

    def create_client(self, connection_id: ConnectionID) -> ConsumerConnection:
        """Return the client of a connection with a new reference, which a closed channel drops
        (Flink: PartitionRequestClientFactory). Raises: LocalProtocolError after `close`.
        """
        if self._is_shut_down:
            raise errors.LocalProtocolError("the network client has already been shut down")
        index = connection_id.index % self._network.max_tcp_connections
        connection_id = replace(connection_id, index=index)
        client = self._client_of.get(connection_id)
        if client is None or not client.is_usable:
            client = self.protocol.client_connection(str(connection_id))
            client.is_reusable = self._network.reuse_connections
            self._client_of[connection_id] = client
            self.clients.append(client)
            peer = connection_id.task_manager
            self._number_of[client] = peer, self._opened[peer]
            self._opened[peer] += 1
            setting = connection_id.address, self._network, self._loop
            self._connecting.append(ConnectingChannel(client, *setting, self._end_connecting))
            self._connecting[-1].begin()
        client.references += 1
        return client

    def number_of(self, client: object) -> tuple[int, int]:
        """The TaskManager of a client, and the number of earlier connections to it."""
        return self._number_of[client]

    def next_deadline_ns(self) -> int | None:
        """When the first connection attempt times out, None for never."""
        return min((each.deadline_ns for each in self._connecting), default=None)

    def handle_deadline(self, *, now_ns: int) -> None:
        for each in list(self._connecting):
            if now_ns >= each.deadline_ns:
                each.handle_timeout()

    def forget_closed(self) -> None:
        """Forget closed connections, whatever channels they had."""
        self.clients = [each for each in self.clients if each.is_usable]
        self._number_of = {each: self._number_of[each] for each in self.clients}
        for accepted in self._closed:
            self.accepted.remove(accepted)
        self._closed.clear()

    def check_accepting(self) -> None:
        """Raises: LocalTransportError while no connection can be accepted."""
        if self.port is not None and self.port.refusal is not None:
            raise errors.LocalTransportError(f"the data port {self.port.refusal}")

    def strangers(self) -> Strangers:
        """Counts of connections that did not belong to the run, gone and still there."""
        visitors = [] if self.port is None else self.port.visitors()
        return sum((_strangeness(*each) for each in visitors), self._gone)

    def close_port(self) -> None:
        if self.port is not None:
            self.port.close()

    def close(self) -> None:
        """Stop connecting and listening; open connections stay open."""
        self._is_shut_down = True
        for each in self._connecting:
            each.close()
        self._connecting.clear()
        self.close_port()

    def _end_connecting(
        self, connecting: ConnectingChannel, result: socket.socket | errors.TransportError
    ) -> None:
        self._connecting.remove(connecting)
        client = connecting.client
        if isinstance(result, errors.TransportError):
            client.fail_to_connect(result, now_ns=monotonic_ns())
        else:
            self._loop.add_transport(result, self.protocol.outermost(client, is_server=False))

    def _add(self, sock: socket.socket, peer: str) -> tuple[TcpTransport, ProducerConnection]:
        connection = self.protocol.server_connection()
        accepted = AcceptedConnection(peer, connection)
        self.accepted.append(accepted)

        def closed(transport: TcpTransport) -> None:
            self._gone += _strangeness(transport, connection)
            if connection.opened_readers:
                self._closed.append(accepted)
            else:
                self.accepted.remove(accepted)

        wrapped = self.protocol.outermost(connection, is_server=True)
        return self._loop.add_transport(sock, wrapped, closed), connection


class LocalConnectionManager(ConnectionManager):
    """All connections of a cluster of one TaskManager: every channel is local, there is no port."""

    def start(self) -> int:
        return LOCAL_ONLY_PORT

    def create_client(self, connection_id: ConnectionID) -> ConsumerConnection:
        """Raises: LocalTransportError, always."""
        text = f"one TaskManager has no network to connect to {connection_id}"
        raise errors.LocalTransportError(text)


def advertised_port(network: NetworkConfig, bound_port: int) -> int:
    """The port that other TaskManagers connect to: the bound one, unless `taskmanager.data.port`
    names another, of a forwarder, next to `taskmanager.data.bind-port`. In Flink each TaskManager
    has its own configuration; here ports count up along a range of bind-ports.
    """
    external = network.data_port.strip()
    if network.bind_port and external.isdecimal() and external != "0":
        ports = listed_ports(network.bind_port)
        return int(external) + (ports.index(bound_port) if bound_port in ports else 0)
    return bound_port


class ConnectingChannel:
    """A connection being opened: the first attempt, and immediate retries if the peer refuses
    (`taskmanager.network.retries`), but not after a fault on this side. Calls `end` once, with the
    socket or the error.
    """

    def __init__(
        self,
        client: ConsumerConnection,
        address: tuple[str, int],
        network: NetworkConfig,
        loop: EventLoop,
        end: Callable[[ConnectingChannel, socket.socket | errors.TransportError], None],
    ) -> None:
        self.client = client
        self._address = address
        self._network = network
        self._loop = loop
        self._end = end
        self._attempts = 0
        self._sock: socket.socket | None = None
        self.deadline_ns = 0

    def begin(self) -> None:
        self._attempts += 1
        self.deadline_ns = monotonic_ns() + self._network.connect_timeout_ns
        try:
            self._sock = connect(self._address, self._network)
        except errors.TransportError as error:
            self._handle_failure(error)
        else:
            self._loop.add_writer(self._sock, self._handle_writable)

    def handle_timeout(self) -> None:
        seconds = self._network.connect_timeout_ns / 1e9
        self._give_up_socket().close()
        self._handle_failure(errors.RemoteTransportError(f"no answer within {seconds:g} s"))

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
            self._end(self, sock)

    def _handle_failure(self, error: errors.TransportError) -> None:
        may_retry = self._attempts <= self._network.connect_retries
        if isinstance(error, errors.RemoteTransportError) and may_retry:
            self.begin()
            return
        tries = f" in {self._attempts} attempts" if self._attempts > 1 else ""
        self._end(self, type(error)(f"could not be made{tries}: {error}"))

    def _give_up_socket(self) -> socket.socket:
        sock, self._sock = self._sock, None
        assert sock is not None
        self._loop.remove(sock)
        return sock
