"""ConnectionManager: all connections of one TaskManager: server, client, the memory they read into,
the factory of shared clients, and the protocol.

Flink: NettyConnectionManager, NettyServer, NettyClient. Where we differ: server and client are one
event loop on one thread, whose name in the process table shows the port, as Flink's thread groups
do ("Flink Netty Server (PORT) …").
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flinknet.config import NetworkConfig
from flinknet.core.consumer import ConsumerConnection
from flinknet.core.producer import ProducerConnection
from flinknet.errors import (
    LocalProtocolError,
    LocalTransportError,
    RemoteTransportError,
    TransportError,
    failed_channels,
)
from flinknet.results import Strangers

from .event_loop import EventLoop
from .protocol import ConnectionID, DataProtocol, PartitionRequestClientFactory
from .sockets import listed_ports, listen
from .transport import TcpTransport
from .visitors import VisitedPort

LOCAL_ONLY_PORT = -1
"""Port of a TaskManager that has no data port (as in Flink)."""

_THREAD_NAME = Path("/proc/thread-self/comm")
"""The file of a thread's name on Linux, at most 15 characters."""


@dataclass(frozen=True, slots=True)
class AcceptedConnection:
    """A connection that a consumer opened to us, and its address."""

    peer: str
    connection: ProducerConnection

    def loss_error(self, reader_names: Mapping[int, str]) -> TransportError:
        """The error for a consumer that disconnected while its channels were open.

        Args:
            reader_names: name of the reader of each channel, as far as known.
        """
        loss, channels = self.connection.loss, self.connection.lost_channels
        assert loss is not None
        names = {reader_names[index] for index in channels if index in reader_names}
        peer = f"{' and '.join(sorted(names)) or 'a consumer'} at {self.peer}"
        text = f"the connection from {peer} {loss}"
        if isinstance(loss, RemoteTransportError):
            text += "; that task manager may be lost"
        return type(loss)(f"{text}. {failed_channels(channels)}", peer, channels)


class DataServer:
    """Listens, and adds accepted connections to the event loop (Flink: NettyServer).

    Attributes:
        accepted: open connections, and closed ones that had opened channels.
    """

    def __init__(self, network: NetworkConfig, loop: EventLoop, protocol: DataProtocol) -> None:
        self._network = network
        self._loop = loop
        self._protocol = protocol
        self.port: VisitedPort[ProducerConnection] | None = None
        self.accepted: list[AcceptedConnection] = []
        self._closed: list[AcceptedConnection] = []
        self._gone = Strangers()

    def start(self) -> int:
        """Listen. Returns: the port. Raises: as `sockets.listen`."""
        sock = listen(self._network)
        port: int = sock.getsockname()[1]
        self.port = VisitedPort(
            self._loop,
            sock,
            self._add,
            is_known=lambda connection: connection.is_of_run,
            is_waiting=lambda connection: bool(connection.waiting_requests),
        )
        return port

    def forget_closed(self) -> None:
        """Forget closed connections, whatever channels they had."""
        for accepted in self._closed:
            self.accepted.remove(accepted)
        self._closed.clear()

    def check_accepting(self) -> None:
        """Raises: LocalTransportError while no connection can be accepted."""
        if self.port is not None and self.port.refusal is not None:
            raise LocalTransportError(f"the data port {self.port.refusal}")

    def strangers(self) -> Strangers:
        """Counts of connections that did not belong to the run, gone and still there."""
        visitors = [] if self.port is None else self.port.visitors()
        return sum((_strangeness(*each) for each in visitors), self._gone)

    def close(self) -> None:
        if self.port is not None:
            self.port.close()

    def _add(self, sock: socket.socket, peer: str) -> tuple[TcpTransport, ProducerConnection]:
        connection = self._protocol.server_connection()
        accepted = AcceptedConnection(peer, connection)
        self.accepted.append(accepted)

        def closed(transport: TcpTransport) -> None:
            self._gone += _strangeness(transport, connection)
            if connection.opened_readers:
                self._closed.append(accepted)
            else:
                self.accepted.remove(accepted)

        transport = self._loop.add_transport(
            sock, self._protocol.outermost(connection, is_server=True), closed
        )
        return transport, connection


def _strangeness(transport: TcpTransport, connection: ProducerConnection) -> Strangers:
    if connection.is_of_run:
        return Strangers(requests=connection.strange_requests)
    return Strangers(1, connection.strange_requests, transport.received_bytes)


class ConnectionManager:
    """The five parts, started in Flink's order: client, then server."""

    def __init__(self, network: NetworkConfig, loop: EventLoop, protocol: DataProtocol) -> None:
        self._network = network
        self._is_started = self._is_shut_down = False
        self.protocol = protocol
        self.client_factory = PartitionRequestClientFactory(network, loop, protocol)
        self.server = DataServer(network, loop, protocol)

    def start(self) -> int:
        """Prepare to connect, then listen. No connection is opened yet.

        Returns: the port to advertise: the server's, unless `taskmanager.data.port` names another
            one next to `taskmanager.data.bind-port` (for a forwarder in between).

        Raises: ConfigError for unusable TLS settings; as `sockets.listen`; LocalProtocolError when
            it has been started or shut down before (Flink: "already been initialized").
        """
        if self._is_started or self._is_shut_down:
            what = "shut down" if self._is_shut_down else "initialized"
            raise LocalProtocolError(f"the network client has already been {what}")
        self._is_started = True
        if self._network.is_tls:
            from .tls import create_tls

            self.protocol.tls = create_tls(self._network)
        port = self.server.start()
        name_thread(f"flinknet:{port}")
        return advertised_port(self._network, port)

    def create_client(self, connection_id: ConnectionID) -> ConsumerConnection:
        """Return a client with one more reference (see PartitionRequestClientFactory).

        Raises: LocalProtocolError after `close`.
        """
        if self._is_shut_down:
            raise LocalProtocolError("the network client has already been shut down")
        return self.client_factory.create_client(connection_id)

    def forget_closed(self) -> None:
        self.client_factory.forget_closed()
        self.server.forget_closed()

    def close(self) -> None:
        """Stop connecting and listening; open connections stay open."""
        self._is_shut_down = True
        self.client_factory.close()
        self.server.close()


class LocalConnectionManager(ConnectionManager):
    """The connections of a cluster of one TaskManager: every channel is local, there is no port
    (Flink: LocalConnectionManager).
    """

    def start(self) -> int:
        return LOCAL_ONLY_PORT

    def create_client(self, connection_id: ConnectionID) -> ConsumerConnection:
        """Raises: LocalTransportError, always."""
        raise LocalTransportError(
            f"a channel asks for a connection to {connection_id}, but there is one task manager"
            " only, and no network; all channels must be local"
        )


def advertised_port(network: NetworkConfig, bound_port: int) -> int:
    """The port that other TaskManagers connect to.

    In Flink each TaskManager has its own configuration. Here all have the same one: if the
    bind-port is a range, the advertised ports count up along it, so that a forwarder can stand
    before each TaskManager.
    """
    external = network.data_port.strip()
    if network.bind_port and external.isdecimal() and external != "0":
        ports = listed_ports(network.bind_port, "taskmanager.data.bind-port")
        return int(external) + (ports.index(bound_port) if bound_port in ports else 0)
    return bound_port


def name_thread(name: str) -> None:
    """Name the calling thread, where the system allows it; `ps` and `top` show the name.

    Flink: "Flink Netty Server (PORTS) Thread N" and "Flink Netty Client (PORTS) Thread N". Here one
    event loop is both groups and has one name, with the port that was bound. Linux keeps 15
    characters.
    """
    with suppress(OSError):
        _THREAD_NAME.write_text(name)
