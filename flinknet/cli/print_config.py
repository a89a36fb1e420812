"""`flinknet bench --print-config`: what holds for every key, and no run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from flinknet import options as flink
from flinknet.config import CREDIT
from flinknet.units import human_bytes

from . import sweep
from .options import Settings

if TYPE_CHECKING:
    from .sweep import Plan


def print_config(settings: Settings, plans: Sequence[Plan], json: str | None) -> None:
    """Tell the effective configuration of each plan.

    Args:
        plans: of these settings, one for each combination of their comma lists.
        json: as --json has it; a file gets the document beside the table on stdout.
    """
    from flinknet.report.config_console import EffectiveConfig, config_document, print_configs
    from flinknet.report.console import console_for
    from flinknet.report.export import dump, write_json
    from flinknet.tasks.deployment import deploy
    from flinknet.tasks.memory import memory_needs

    json_file = sweep.json_file(json)
    named, origins = {}, dict(settings.origins)
    if "flow-control" in settings.workload:
        named[flink.CREDIT_MODEL] = str(settings.workload["flow-control"] == CREDIT).lower()
        origins[flink.CREDIT_MODEL] = "--flow-control"
    configs = [
        EffectiveConfig(
            plan.name,
            flink.effective_keys({**network, **named}, origins),
            [
                {**asdict(need), "spare_buffers": need.spare_buffers}
                for need in memory_needs(deploy(plan.scenario))
            ],
            plan.warnings,
        )
        for plan, network in zip(plans, flink.expand(settings.network), strict=True)
    ]
    if json == "-":
        click.echo(dump(config_document(configs)), nl=False)
        return
    print_configs(console_for(sys.stdout), configs)
    for plan in plans:
        where = f"{plan.name}: " if plan.name else ""
        click.echo(f"{where}{_buffers_told(plan)}")
    if json_file is not None:
        write_json(json_file, config_document(configs))


def _buffers_told(plan: Plan) -> str:
    """One sentence on how many buffers a TaskManager needs: the one that needs most."""
    from flinknet.tasks.deployment import deploy
    from flinknet.tasks.memory import memory_needs, most_buffers

    deployment, size = deploy(plan.scenario), plan.scenario.network.segment_size_bytes
    needs = memory_needs(deployment)
    least = max(need.exclusive_buffers + need.required_buffers for need in needs)
    most = max(most_buffers(deployment, need.task_manager) for need in needs)
    return (
        f"a TaskManager needs at least {least} buffers ({human_bytes(least * size)}),"
        f" {most} at most with overdraft; {needs[0].total_buffers} are configured"
    )
