"""Nodes and event loops that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from flinknet.config import NetworkConfig
from flinknet.runtime.event_loop import EventLoop
from tests.node import Node


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    """An event loop that is closed at the end."""
    made = EventLoop(may_spin=False)
    yield made
    made.close()


@pytest.fixture
def node() -> Iterator[Callable[..., Node]]:
    """Makes nodes and closes them."""
    made: list[Node] = []

    def create(network: NetworkConfig = NetworkConfig(), **options: int | str) -> Node:  # noqa: B008
        made.append(Node(len(made), network, **options))  # type: ignore[arg-type]
        return made[-1]

    yield create
    for each in made:
        each.close()
