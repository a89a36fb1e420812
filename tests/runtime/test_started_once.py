"""The parts of the network are started once, and not used after they were shut down."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from flinknet.config import CREDIT, NetworkConfig
from flinknet.errors import LocalProtocolError
from flinknet.runtime.protocol import ConnectionID
from flinknet.runtime.shuffle_environment import ShuffleEnvironment
from tests.node import HOST, Node

pytestmark = [pytest.mark.socket, pytest.mark.row("S160")]


@pytest.fixture
def environment() -> Iterator[ShuffleEnvironment]:
    found = ShuffleEnvironment(
        NetworkConfig(), CREDIT, "tm-0", task_managers=2, channel_of={}, may_spin=False
    )
    yield found
    with suppress(Exception):
        found.close()


def test_an_environment_that_was_shut_down_does_not_start(environment: ShuffleEnvironment) -> None:
    assert environment.start() > 0
    environment.close()
    with pytest.raises(LocalProtocolError, match="environment has already been shut down"):
        environment.start()


def test_a_client_is_initialized_once(environment: ShuffleEnvironment) -> None:
    environment.start()
    with pytest.raises(LocalProtocolError, match="client has already been initialized"):
        environment.start()


def test_a_client_that_was_shut_down_opens_no_connection(environment: ShuffleEnvironment) -> None:
    environment.connections.close()
    for use in (
        environment.connections.start,
        lambda: environment.connections.create_client(ConnectionID(1, (HOST, 1))),
    ):
        with pytest.raises(LocalProtocolError, match="client has already been shut down"):
            use()


def test_a_channel_without_a_connection_answers_nothing(node: Callable[..., Node]) -> None:
    one, other = node(), node()
    channel = other.channel_to(one, 0)
    for use in (channel.resume_consumption, channel.acknowledge_all_records_processed):
        with pytest.raises(LocalProtocolError, match=r"has not been requested: .* no connection"):
            use()
    client = other.factory.create_client(other.address_of(one))
    client.request_subpartition(channel, now_ns=time.monotonic_ns())
    channel.resume_consumption()
