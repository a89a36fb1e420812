"""`flinknet bench config` and `bench channels`: every key with its effective value, and the
channels of a load, without a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from flinknet import options as flink
from flinknet.config import CREDIT
from flinknet.units import human_bytes

from .commands import SectionedCommand
from .files import STDOUT, json_option, put_json, target_of
from .options import collect, load_options

if TYPE_CHECKING:
    from flinknet.core.buffers.pool_sizes import TaskManagerBuffers
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


@click.command(cls=SectionedCommand)
@load_options(is_sweep=True)
@json_option
def config(**values: Any) -> None:
    """Print the effective value of every key and where it comes from.

    \b
    flinknet bench config --flink-conf conf/config.yaml
    flinknet bench config -D taskmanager.memory.network.max=64mb --json -

    Nothing runs. The options are those of `bench run`.
    """
    from flinknet.job.load.plan import load_plan_of
    from flinknet.report.bench_modes import EffectiveConfig, config_document, print_configs
    from flinknet.report.console import console_for

    from . import sweep

    settings = collect(values)
    plans = sweep.plan_sweep(settings)
    json_target = target_of(values["json"])
    named, origins = {}, dict(settings.origins)
    if "flow-control" in settings.workload:
        named[flink.CREDIT_MODEL] = str(settings.workload["flow-control"] == CREDIT).lower()
        origins[flink.CREDIT_MODEL] = "--flow-control"
    configs = [
        EffectiveConfig(
            plan.name,
            flink.effective_keys({**network, **named}, origins),
            [_memory_need(each) for each in load_plan_of(plan.scenario).buffers()],
            plan.warnings,
        )
        for plan, network in zip(plans, flink.expand(settings.network), strict=True)
    ]
    if json_target is not None:
        put_json(json_target, config_document(configs))
    if json_target == STDOUT:
        return
    print_configs(console_for(sys.stdout), configs)
    for plan in plans:
        where = f"{plan.name}: " if plan.name else ""
        click.echo(f"{where}{_buffers_line(plan)}")


def _memory_need(buffers: TaskManagerBuffers) -> dict[str, int]:
    return {
        "task_manager": buffers.task_manager,
        "total_buffers": buffers.total_buffers,
        "exclusive_buffers": buffers.exclusive_buffers,
        "required_buffers": buffers.required_buffers,
        "spare_buffers": buffers.spare_buffers,
    }


def _buffers_line(plan: Plan) -> str:
    """One sentence about the buffers of the TaskManager that needs most."""
    from flinknet.job.load.plan import load_plan_of

    needs, size = load_plan_of(plan.scenario).buffers(), plan.scenario.network.segment_size_bytes
    least = max(need.needed_buffers for need in needs)
    most = max(need.most_buffers for need in needs)
    return (
        f"a TaskManager needs at least {least} buffers ({human_bytes(least * size)}),"
        f" {most} at most with overdraft; {needs[0].total_buffers} are configured"
    )
