"""The channels of a deployment as a table and as plain data, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from flinknet.results import Wiring
from flinknet.units import counted

from .bench_words import wiring_line
from .page_parts import Lines, Part, Row, Table, heads


@dataclass(frozen=True, slots=True)
class ChannelPlace:
    """One channel: the tasks at its ends with their TaskManagers, and the TCP connection it shares
    (None: it is local).
    """

    channel: int
    edge: int
    producer: str
    producer_task_manager: int
    consumer: str
    consumer_task_manager: int
    subpartition: int
    connection: str | None


@dataclass(frozen=True, slots=True)
class PlacedChannels:
    """All channels of one configuration."""

    name: str
    channels: Sequence[ChannelPlace]
    wiring: Wiring


def channels_document(placed: Sequence[PlacedChannels]) -> dict[str, Any]:
    """The channels as JSON-ready plain data."""
    return {
        "deployments": [
            {
                "setting": each.name,
                "local_channels": each.wiring.local_channels,
                "remote_channels": each.wiring.remote_channels,
                "connections": each.wiring.connections,
                "channels": [asdict(channel) for channel in each.channels],
            }
            for each in placed
        ]
    }


def placed_parts(placed: Sequence[PlacedChannels]) -> list[Part]:
    """A table for each configuration: one row a channel."""
    names = ("channel", "edge", "producer", "on", "consumer", "on", "subpartition", "over")
    columns = heads(*names, texts=names)
    found: list[Part] = []
    for each in placed:
        rows = [
            Row(
                [
                    str(channel.channel),
                    str(channel.edge + 1),
                    channel.producer,
                    f"tm-{channel.producer_task_manager}",
                    channel.consumer,
                    f"tm-{channel.consumer_task_manager}",
                    str(channel.subpartition),
                    channel.connection or "local",
                ]
            )
            for channel in each.channels
        ]
        lines = [wiring_line(each.wiring)]
        for connection, count in each.wiring.connections.items():
            lines.append(f"  {connection}: {counted(count, 'channel')}")
        found += [Table(columns, rows, each.name), Lines(lines)]
    return found
