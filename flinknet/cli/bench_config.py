"""`flinknet bench config`: shows the effective value of every key, without a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from flinknet import options as flink
from flinknet.config import CREDIT
from flinknet.units import human_bytes

from .commands import SectionedCommand
from .json_files import STDOUT, json_option, put_json, target_of
from .options import collect, load_options

if TYPE_CHECKING:
    from flinknet.graph.network_memory import TaskManagerBuffers

    from .sweep import Plan


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
