"""The runs of a call of compare-configs, their comparison, and notes on settings that differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flinknet import options as flink
from flinknet.config import WorkloadConfig
from flinknet.errors import ConfigError
from flinknet.results import RunWarning
from flinknet.results.comparison import (
    Baseline,
    Candidate,
    Comparison,
    Configuration,
    EarlierResult,
    Limit,
    SettingChange,
    baseline_in,
    compare,
    earlier_result,
    elsewhere,
    parse_limit,
    smaller_changes,
)
from flinknet.storage import AnyPath, path_of
from flinknet.units import parse_size_bytes

from .configs import (
    NETWORK_MEMORY,
    is_of_buffers,
    names_of_settings,
    plan_configs,
    setting_changes,
    unlike_options,
)
from .options import collect
from .sweep import Finished, Plan, by_plan
from .value_parsers import percent

Described = tuple[Mapping[str, Any], Mapping[str, Any]]
"""Flink's keys and the workload of a run (`RunResult.config`, `workload`)."""


def described(plan: Plan) -> Described:
    """The settings of a plan, in the form of a run's result."""
    from flinknet.runtime.cluster.run_result import describe_workload

    return flink.effective_flink_keys(plan.scenario.network), describe_workload(plan.scenario)


def notes_on(plan: Plan, base: Described, limits: Sequence[Limit]) -> tuple[str, ...]:
    """Notes on differences from the base, and on limits, that this load hardly tests."""
    changes = setting_changes(base, described(plan))
    workload, release = plan.scenario.workload, plan.scenario.flink_release or flink.FLINK_2
    few = []
    for each in changes:
        if each.name == NETWORK_MEMORY:
            few += [] if _is_plenty(plan, base) else [each.name]
        elif is_of_buffers(each) and flink.find_option(each.name).is_read_in(release):
            few.append(each.name)  # no load shows an effect of a key that Flink 2.x ignores
    notes = [*_hardly_shown(plan.name, workload, changes, few)]
    named = [each.text for each in limits if each.metric.startswith("throughput")]
    if named and not workload.is_max_rate:
        notes.append(
            f"--fail-if {', '.join(named)}: at a given rate, throughput is that rate unless a"
            " configuration cannot keep it; --rate max shows how much it can take."
        )
    return tuple(notes)


def _is_plenty(plan: Plan, base: Described) -> bool:
    """Whether both sizes of network memory suffice for all pools at their maximum."""
    from flinknet.job.load.plan import load_plan_of

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


def notes_on_all(plans: Sequence[Plan]) -> Iterator[str]:
    """Notes on rules of several releases, and on configurations that are equal to the first one."""
    base, *others = plans
    read = [f"{each.name} (Flink {each.scenario.flink_release or flink.FLINK_2})" for each in plans]
    if len({each.scenario.flink_release or flink.FLINK_2 for each in plans}) > 1:
        yield f"rules and defaults are those of different releases: {', '.join(read)}."
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


BASELINE_NAME = "baseline"


@dataclass(frozen=True, slots=True)
class Task:
    """The runs to make, and their base.

    Attributes:
        plans: the configurations to run; the first is the base unless there is a baseline.
        baseline: an earlier result, and the configuration in it that is the base.
        notes: notes on each configuration except the base, by name.
        of_all: sentences about all configurations.
    """

    plans: tuple[Plan, ...]
    limits: tuple[Limit, ...]
    confidence: float
    baseline: tuple[EarlierResult, Configuration] | None
    notes: Mapping[str, tuple[str, ...]]
    of_all: tuple[str, ...] = ()

    @classmethod
    def of(cls, configs: Sequence[str], values: Mapping[str, Any]) -> Task:
        """Read the arguments and options of a call.

        Raises: ConfigError for configurations that cannot be compared.
        """
        from flinknet.runtime.cluster.run_result import describe_workload

        limits = tuple(parse_limit(text) for text in values["fail_if"])
        text = values["confidence"]
        confidence = percent(text, "--confidence", "95%")
        if not 0.5 <= confidence < 1:
            raise ConfigError(
                f"--confidence: {text} is out of range: use 50% to 99.9%, such as 95%"
            )
        earlier = values["baseline"]
        plans = plan_configs(
            configs, collect(values), values["seed"], has_baseline=earlier is not None
        )
        baseline = None
        if earlier is not None:
            if any(plan.name == BASELINE_NAME for plan in plans):
                raise ConfigError(
                    f"--baseline: the earlier result is called {BASELINE_NAME}; give the"
                    " configuration another name"
                )
            result = _read_earlier(path_of(earlier))
            baseline = result, baseline_in(result, [plan.name for plan in plans])
        if baseline is None:
            name, base, others = plans[0].name, described(plans[0]), plans[1:]
        else:
            first = baseline[1].results[0]
            name, base, others = BASELINE_NAME, (first.config, first.workload), plans
        notes = {plan.name: notes_on(plan, base, limits) for plan in others}
        for at, plan in enumerate(plans):
            unlike = ", ".join(unlike_options(base[1], describe_workload(plan.scenario)))
            if limits and unlike:
                raise ConfigError(
                    f"--fail-if: {plan.name} and {name} differ in their workload ({unlike}), so a"
                    " limit between them would mean nothing; give both the same, or leave --fail-if"
                    " out"
                )
            if unlike:
                text = (
                    f"{plan.name} has another workload than {name} ({unlike}), so the differences"
                    " may come from the workload; give every configuration the same one."
                )
                warning = RunWarning("unlike-workload", text)
                plans[at] = replace(plan, warnings=(*plan.warnings, warning))
        of_all = () if baseline else tuple(notes_on_all(plans))
        return cls(tuple(plans), limits, confidence, baseline, notes, of_all)

    def comparison(
        self,
        finished: Sequence[Finished],
        environment: Mapping[str, Any],
        values: Mapping[str, Any],
    ) -> Comparison:
        """Compare every configuration that was run with the base."""
        measured = by_plan(self.plans, finished)
        baseline = None
        if self.baseline is None:
            base, *others = measured
        else:
            earlier, configuration = self.baseline
            base, others = replace(configuration, name=BASELINE_NAME), measured
            baseline = Baseline(
                path=earlier.source,
                config=configuration.name,
                measured_at=earlier.measured_at,
                environment=earlier.environment,
                elsewhere=elsewhere(earlier.environment, environment),
                notes=smaller_changes(earlier.environment, environment),
            )
        return Comparison(
            base=base,
            candidates=tuple(self._candidate(base, each, baseline) for each in others),
            confidence=self.confidence,
            seed=values["seed"],
            environment=environment,
            baseline=baseline,
            fails_on_disturbed=values["fail_on_disturbed"],
        )

    def _candidate(
        self, base: Configuration, candidate: Configuration, baseline: Baseline | None
    ) -> Candidate:
        first, own = base.results[0], candidate.results[0]
        changes = setting_changes((first.config, first.workload), (own.config, own.workload))
        # with fewer or smaller buffers, a smaller backlog says nothing about the records
        is_of_room = any(is_of_buffers(x) or x.name == flink.SEGMENT_SIZE for x in changes)
        return compare(
            base,
            candidate,
            limits=self.limits,
            confidence=self.confidence,
            unlike=unlike_options(first.workload, own.workload),
            changes=changes,
            baseline=baseline,
            notes=self.notes[candidate.name],
            neutral=frozenset(("backlog",) if is_of_room else ()),
        )


def _read_earlier(path: AnyPath) -> EarlierResult:
    """The result in the file of --baseline. Raises: ConfigError if it has none."""
    try:
        document = json.loads(path.read_text())
    except (FileNotFoundError, IsADirectoryError):
        raise ConfigError(f"--baseline: {path}: there is no such file") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"--baseline: {path} is not JSON; it is written by --json") from None
    return earlier_result(document, str(path), names_of_settings)
