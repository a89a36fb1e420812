"""`flinknet bench --print-channels`: where tasks and channels would be, and no run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from . import sweep

if TYPE_CHECKING:
    from flinknet.report.channels_console import PlacedChannels

    from .sweep import Plan


def print_channels(plans: Sequence[Plan], json: str | None) -> None:
    """Tell the channels of each plan; plans of a sweep that differ in network keys alone have the
    same ones, which are told once.

    Args:
        json: as --json has it; a file gets the document beside the table on stdout.
    """
    from flinknet.report.channels_console import channels_document, print_placed_channels
    from flinknet.report.console import console_for
    from flinknet.report.export import dump, write_json

    json_file = sweep.json_file(json)
    placed = [_placed(plans[0])]
    if json == "-":
        click.echo(dump(channels_document(placed)), nl=False)
        return
    print_placed_channels(console_for(sys.stdout), placed)
    if json_file is not None:
        write_json(json_file, channels_document(placed))


def _placed(plan: Plan) -> PlacedChannels:
    from flinknet.report.channels_console import ChannelPlace, PlacedChannels
    from flinknet.results import Wiring
    from flinknet.tasks.deployment import deploy

    deployment = deploy(plan.scenario)
    channels = []
    for each in deployment.channels:
        edge = deployment.edges[each.edge]
        producer, consumer = (
            deployment.producer_task_manager(each),
            deployment.consumer_task_manager(each),
        )
        channels.append(
            ChannelPlace(
                channel=each.index,
                edge=each.edge,
                producer=deployment.task_name(edge.source, each.producer),
                producer_task_manager=producer,
                consumer=deployment.task_name(edge.target, each.consumer),
                consumer_task_manager=consumer,
                subpartition=each.subpartition,
                connection=None if producer == consumer else f"tm-{producer}->tm-{consumer}",
            )
        )
    local = sum(each.connection is None for each in channels)
    wiring = Wiring(local, len(channels) - local, deployment.connections(), 0, 0)
    return PlacedChannels("", channels, wiring)
