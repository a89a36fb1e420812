"""Nodes that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from flinknet.config import NetworkConfig
from tests.node import Node


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
