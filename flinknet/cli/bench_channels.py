"""`flinknet bench channels`: shows the places of tasks and channels, without a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from .commands import SectionedCommand
from .json_files import STDOUT, json_option, put_json, target_of
from .options import collect, load_options

if TYPE_CHECKING:
    from flinknet.report.bench_modes import PlacedChannels

    from .sweep import Plan


@click.command(cls=SectionedCommand)
@load_options(is_sweep=True)
@json_option
def channels(**values: Any) -> None:
    """Print where tasks run and which channels share a connection.

    \b
    flinknet bench channels --placement spread --producers 4 --consumers 4

    Nothing runs. The options are those of `bench run`.
    """
    from flinknet.report.bench_modes import channels_document, placed_parts
    from flinknet.report.console import console_for, print_parts

    from . import sweep

    plans = sweep.plan_sweep(collect(values))
    json_target = target_of(values["json"])
    # Settings of a sweep differ only in network keys, so their channels are equal.
    placed = [_placed(plans[0])]
    if json_target is not None:
        put_json(json_target, channels_document(placed))
    if json_target != STDOUT:
        print_parts(console_for(sys.stdout), placed_parts(placed))


def _placed(plan: Plan) -> PlacedChannels:
    from flinknet.job.load.plan import load_plan_of, task_name
    from flinknet.report.bench_modes import ChannelPlace, PlacedChannels
    from flinknet.results import Wiring

    load = load_plan_of(plan.scenario)
    names = {each.key: task_name(each) for each in load.tasks}
    channels = [
        ChannelPlace(
            channel=each.index,
            edge=each.edge,
            producer=names[each.edge, each.producer],
            producer_task_manager=each.producer_task_manager,
            consumer=names[each.edge + 1, each.consumer],
            consumer_task_manager=each.consumer_task_manager,
            subpartition=each.subpartition,
            connection=None if each.is_local else each.connection,
        )
        for each in load.channels
    ]
    local = sum(each.connection is None for each in channels)
    wiring = Wiring(local, len(channels) - local, load.connections(), 0, 0)
    return PlacedChannels("", channels, wiring)
