"""What a reader of a comparison has to know of the settings in which two configurations differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flinknet import options as flink
from flinknet.config import WorkloadConfig
from flinknet.results.comparison import SettingChange

from .configs import is_of_buffers, setting_changes
from .sweep import Plan

Described = tuple[Mapping[str, Any], Mapping[str, Any]]
"""Flink's keys, and what is sent and how (`RunResult.config`, `workload`)."""


def described(plan: Plan) -> Described:
    """The settings of a plan, as the result of a run has them."""
    from flinknet.runtime.cluster.run_result import describe_workload

    return flink.effective_flink_keys(plan.scenario.network), describe_workload(plan.scenario)


def notes_on(plan: Plan, base: Described) -> tuple[str, ...]:
    """What this load hardly shows of the differences between a configuration and the base."""
    changes = setting_changes(base, described(plan))
    return tuple(_hardly_shown(plan.name, plan.scenario.workload, changes))


def _hardly_shown(
    name: str, workload: WorkloadConfig, changes: Sequence[SettingChange]
) -> Iterator[str]:
    if not workload.is_steady:
        return
    if numbers := [each.name for each in changes if is_of_buffers(each)]:
        yield (
            f"{name} differs in {', '.join(numbers)}: a shortage of buffers hardly shows at a"
            " fixed rate that consumers keep up with; compare with --rate max or --arrivals"
            " on-off:50ms:150ms, too."
        )


def note_on_equals(plans: Sequence[Plan]) -> Iterator[str]:
    """Which configurations are the same as the first one."""
    base, *others = plans
    equal = [each.name for each in others if not setting_changes(described(base), described(each))]
    if not equal:
        return
    is_max_rate = base.scenario.workload.is_max_rate
    rate = " at full speed; add --rate 5k/s or similar for a given load" if is_max_rate else ""
    verb = "is" if len(equal) == 1 else "are"
    yield (
        f"{', '.join(equal)} {verb} the same configuration as {base.name}: the differences will"
        f" show how far equal runs vary{rate}."
    )
