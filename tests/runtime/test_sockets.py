"""The data port and its sockets: which port it gets, what is said when there is none, and which
options a socket has.
"""

from __future__ import annotations

import errno
import socket
from dataclasses import replace

import pytest

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigError, LocalTransportError, RemoteTransportError
from flinknet.options import network_config
from flinknet.runtime.connection_manager import advertised_port
from flinknet.runtime.sockets import accept, connect, connect_error, listen, loss_of

HOST = "127.0.0.1"
NETWORK = NetworkConfig()


def bound_to(ports: str) -> NetworkConfig:
    return replace(NETWORK, bind_port=ports)


def two_free_ports() -> tuple[int, int]:
    """Two neighbouring ports that are free now."""
    for _ in range(50):
        with socket.create_server((HOST, 0)) as first:
            port = first.getsockname()[1]
            try:
                with socket.create_server((HOST, port + 1)):
                    return port, port + 1
            except OSError:
                continue
    raise AssertionError("no two neighbouring ports are free")


@pytest.mark.row("S071")
@pytest.mark.parametrize("form", ["{}-{}", "{}, {}"])
def test_the_next_port_of_the_range_is_taken_when_the_first_is_in_use(form: str) -> None:
    first, second = two_free_ports()
    ports = form.format(first, second)
    with listen(bound_to(ports)) as one, listen(bound_to(ports)) as other:
        assert (one.getsockname()[1], other.getsockname()[1]) == (first, second)
        with pytest.raises(LocalTransportError, match=f"every port of {ports} is in use"):
            listen(bound_to(ports))


@pytest.mark.row("S071")
def test_other_faults_are_told_at_once() -> None:
    network = replace(bound_to("0,1,2"), bind_host="192.0.2.1")
    with pytest.raises(LocalTransportError, match=r"192\.0\.2\.1:0.*taskmanager\.bind-host"):
        listen(network)


def test_the_data_port_is_bound_when_no_port_to_bind_is_given() -> None:
    first, second = two_free_ports()
    with listen(replace(NETWORK, data_port=f"{first}")) as server:
        assert server.getsockname()[1] == first
    with listen(replace(NETWORK, data_port=f"{first}", bind_port=f"{second}")) as server:
        assert server.getsockname()[1] == second


def test_others_are_told_the_data_port_only_when_another_one_is_bound() -> None:
    assert advertised_port(NETWORK, 4711) == 4711
    assert advertised_port(replace(NETWORK, data_port="50100"), 50100) == 50100
    assert advertised_port(replace(NETWORK, data_port="50100", bind_port="0"), 4711) == 50100
    assert advertised_port(replace(NETWORK, data_port="0", bind_port="4711"), 4711) == 4711


def test_ports_that_are_told_count_up_along_the_range_that_is_bound() -> None:
    network = replace(NETWORK, data_port="7001", bind_port="7101-7103, 7200")
    assert [advertised_port(network, port) for port in (7101, 7103, 7200)] == [7001, 7003, 7004]


@pytest.mark.parametrize("ports", ["", "eighty", "1-x", "5,", "-7", "70000", "1-65536", "9-8"])
def test_text_that_is_no_port_is_a_configuration_error(ports: str) -> None:
    with pytest.raises(ConfigError, match=r"taskmanager\.data\.port"):
        network_config({"taskmanager.data.port": ports})


@pytest.mark.row("S069")
def test_connections_are_accepted_on_the_configured_address_only() -> None:
    with listen(NETWORK) as server:
        port = server.getsockname()[1]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port))


@pytest.mark.row("S069")
def test_a_backlog_bounds_the_connections_that_wait_to_be_accepted() -> None:
    with listen(replace(NETWORK, server_backlog=1)) as server:
        waiting = [connect(server.getsockname(), NETWORK) for _ in range(6)]
        states = [
            sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == 1 for sock in waiting
        ]
        assert states == [True, True, False, False, False, False]  # Linux lets in one more
        for sock in waiting:
            sock.close()


@pytest.mark.row("S069")
@pytest.mark.parametrize("asked", [0, 100_000])
def test_sockets_have_the_buffer_sizes_asked_for_or_those_of_the_system(asked: int) -> None:
    network = replace(NETWORK, send_receive_buffer_bytes=asked)
    with (
        listen(network) as server,
        connect(server.getsockname(), network) as client,
        accept(server)[0] as accepted,
        socket.socket() as plain,
    ):
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            default = plain.getsockopt(socket.SOL_SOCKET, option)
            for sock in (server, accepted, client):
                size = sock.getsockopt(socket.SOL_SOCKET, option)
                # Linux counts what it needs for itself on top
                assert size == 2 * asked if asked else size >= default


@pytest.mark.row("S065")
def test_a_client_sends_at_once_and_keeps_the_connection_alive() -> None:
    with listen(NETWORK) as server:
        with connect(server.getsockname(), NETWORK) as client:
            assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert client.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert not client.getblocking()
        with accept(server)[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert not accepted.getblocking()


KEEP_ALIVE = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)


def keep_alive_of(sock: socket.socket) -> list[int]:
    return [sock.getsockopt(socket.IPPROTO_TCP, option) for option in KEEP_ALIVE]


@pytest.mark.row("S066")
def test_the_three_numbers_of_keep_alive_are_the_systems_unless_they_are_configured() -> None:
    with socket.socket() as plain:
        idle_s, interval_s, count = keep_alive_of(plain)
    all_three = {"keep_alive_idle_s": 77, "keep_alive_interval_s": 11, "keep_alive_count": 5}
    for numbers, expected in (
        ({}, [idle_s, interval_s, count]),
        ({"keep_alive_count": count + 1}, [idle_s, interval_s, count + 1]),
        (all_three, [77, 11, 5]),
    ):
        network = replace(NETWORK, **numbers)  # type: ignore[arg-type]
        with listen(NETWORK) as server, connect(server.getsockname(), network) as client:
            assert keep_alive_of(client) == expected


@pytest.mark.row("S066")
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("keep_alive_idle_s", "keepIdleSec"),
        ("keep_alive_interval_s", "keepIntervalSec"),
        ("keep_alive_count", "keepCount"),
    ],
)
def test_a_number_that_the_system_does_not_take_is_named(name: str, key: str) -> None:
    network = replace(NETWORK, **{name: 1_000_000})
    with pytest.raises(ConfigError, match=rf"tcp\.{key}: this system does not take 1000000"):
        connect((HOST, 1), network)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_too_many_open_files_are_told_as_such(code: int) -> None:
    error = connect_error(code)
    assert isinstance(error, LocalTransportError)
    assert "ulimit -n" in str(error)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ECONNRESET, "reset by it"),
        (errno.EPIPE, "closed by it"),
        (errno.ETIMEDOUT, "keep-alive went unanswered"),
        (errno.EHOSTUNREACH, "host cannot be reached"),
    ],
)
def test_a_connection_that_the_peer_lost_is_told_from_one_that_failed_here(
    code: int, words: str
) -> None:
    assert isinstance(loss_of(OSError(code, "")), RemoteTransportError)
    assert words in str(loss_of(OSError(code, "")))
    here = loss_of(OSError(errno.ENOMEM, ""))
    assert isinstance(here, LocalTransportError)
    assert "Cannot allocate memory" in str(here)
