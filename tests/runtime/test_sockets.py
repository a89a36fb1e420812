"""The data port: which one it gets, and what is said when there is none."""

from __future__ import annotations

import socket

import pytest

from flinknet.errors import ConfigError, LocalTransportError
from flinknet.runtime.sockets import bind_data_port, connect_to

HOST = "127.0.0.1"


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


def test_port_0_is_any_free_port_and_can_be_connected_to() -> None:
    with bind_data_port(HOST, "0") as server:
        port = server.getsockname()[1]
        assert port > 0
        with socket.create_connection((HOST, port)):
            server.accept()[0].close()


@pytest.mark.row("S071")
@pytest.mark.parametrize("form", ["{}-{}", "{}, {}"])
def test_the_next_port_of_the_range_is_taken_when_the_first_is_in_use(form: str) -> None:
    first, second = two_free_ports()
    ports = form.format(first, second)
    with bind_data_port(HOST, ports) as one, bind_data_port(HOST, ports) as other:
        assert (one.getsockname()[1], other.getsockname()[1]) == (first, second)
        with pytest.raises(LocalTransportError, match=f"every port of {ports} is in use"):
            bind_data_port(HOST, ports)


@pytest.mark.row("S071")
def test_other_faults_are_told_at_once() -> None:
    with pytest.raises(LocalTransportError, match=r"192\.0\.2\.1:0.*taskmanager\.bind-host"):
        bind_data_port("192.0.2.1", "0,1,2")


@pytest.mark.parametrize("ports", ["", "eighty", "1-x", "5,", "-7", "70000", "1-65536", "9-8"])
def test_text_that_is_no_port_is_a_configuration_error(ports: str) -> None:
    with pytest.raises(ConfigError, match=r"taskmanager\.data\.port"):
        bind_data_port(HOST, ports)


def test_a_client_sends_at_once_and_keeps_the_connection_alive() -> None:
    with bind_data_port(HOST, "0") as server:
        with connect_to(server.getsockname()) as client:
            assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert client.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert not client.getblocking()
        server.accept()[0].close()
