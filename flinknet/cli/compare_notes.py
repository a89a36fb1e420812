"""Notes for the reader of a comparison on the settings in which two configurations differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flinknet import options as flink
from flinknet.config import WorkloadConfig
from flinknet.results.comparison import Limit, SettingChange
from flinknet.units import parse_size_bytes

from .configs import NETWORK_MEMORY, is_of_buffers, setting_changes
from .sweep import Plan

Described = tuple[Mapping[str, Any], Mapping[str, Any]]
"""Flink's keys and the workload of a run (`RunResult.config`, `workload`)."""


def described(plan: Plan) -> Described:
    """The settings of a plan, in the form of a run's result."""
    from flinknet.runtime.cluster.run_result import describe_workload

    return flink.effective_flink_keys(plan.scenario.network), describe_workload(plan.scenario)


def notes_on(plan: Plan, base: Described, limits: Sequence[Limit]) -> tuple[str, ...]:
    """Notes on differences from the base that this load hardly shows, and on limits that it hardly
    tests.
    """
    changes = setting_changes(base, described(plan))
    workload = plan.scenario.workload
    few = [
        each.name
        for each in changes
        if is_of_buffers(each) and not _is_fixed(each) and not _is_plenty(each, plan, base)
    ]
    return (
        *_hardly_shown(plan.name, workload, changes, few),
        *_hardly_tested(workload, limits),
    )


def _is_fixed(change: SettingChange) -> bool:
    """Whether Flink 2.x ignores the key, so that no other load would show its effect."""
    is_key = change.name != NETWORK_MEMORY
    return is_key and flink.find_option(change.name).fixed_in_2_x is not None


def _is_plenty(change: SettingChange, plan: Plan, base: Described) -> bool:
    """Whether network memory changes, and both sizes suffice for all pools at their maximum."""
    from flinknet.job.load.plan import load_plan_of

    if change.name != NETWORK_MEMORY:
        return False
    network = plan.scenario.network
    most = max(each.most_buffers for each in load_plan_of(plan.scenario).buffers())
    before_bytes = parse_size_bytes(base[0].get(flink.NETWORK_MIN, "0"), flink.NETWORK_MIN)
    return min(network.network_memory_bytes, before_bytes) >= most * network.segment_size_bytes


def _hardly_shown(
    name: str, workload: WorkloadConfig, changes: Sequence[SettingChange], few: Sequence[str]
) -> Iterator[str]:
    if not workload.is_steady:
        return
    advice = "compare with --rate max and --fail-if 'throughput<-5%', too."
    if few:
        yield (
            f"{name} differs in {', '.join(few)}: a shortage of buffers hardly shows at a"
            f" fixed rate that consumers keep up with; {advice}"
        )
    if any(each.name == flink.SEGMENT_SIZE for each in changes):
        yield (
            f"{name} differs in {flink.SEGMENT_SIZE}: a fixed rate shows the latency of a size"
            f" (smaller segments are full sooner), not what it costs in throughput; {advice}"
        )


def _hardly_tested(workload: WorkloadConfig, limits: Sequence[Limit]) -> Iterator[str]:
    named = [each.text for each in limits if each.metric.startswith("throughput")]
    if named and not workload.is_max_rate:
        yield (
            f"--fail-if {', '.join(named)}: at a given rate, throughput is that rate unless a"
            " configuration cannot keep it; --rate max shows how much it can take."
        )


def neutral_metrics(changes: Sequence[SettingChange]) -> frozenset[str]:
    """Metrics whose change is neither better nor worse: with fewer or smaller buffers, a smaller
    backlog says nothing about the records.
    """
    is_of_room = any(is_of_buffers(each) or each.name == flink.SEGMENT_SIZE for each in changes)
    return frozenset(("backlog",) if is_of_room else ())


def note_on_equals(plans: Sequence[Plan]) -> Iterator[str]:
    """A note on configurations that are equal to the first one."""
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
