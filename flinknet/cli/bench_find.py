"""`--find LIMIT` of `bench` and `compare-configs`: searches the highest rate that keeps a limit."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flinknet.config import RATE_MAX
from flinknet.errors import ConfigError, RunFailedError
from flinknet.results import RunResult, is_disturbed
from flinknet.results.comparison import interleaved_orders
from flinknet.results.validity import GIVEN_UP, RATE_NOT_REACHED
from flinknet.units import NS_PER_S, human_rate

from .files import Outputs
from .value_parsers import percent

if TYPE_CHECKING:
    from flinknet.config import WorkloadConfig
    from flinknet.replay.advise.targets import Target
    from flinknet.results.breaking_point import FoundRate

    from .sweep import Executor, Plan

QUICK_NS = NS_PER_S
"""Longest measured part of the run at full speed from which the search starts."""

REPEATS_MAX = 30
"""Most runs that do not count: others disturbed them, and they break the limit without overload."""

_SPARE_RECORDS = 1.2
"""Records that a run should have, as a multiple of those that its limited figure needs."""

_NOT_WITH = (
    *("runs", "metrics_port", "report", "plot", "fail_if"),
    *("baseline", "markdown", "junit", "out", "repeat_disturbed", "fail_on_disturbed"),
    "trace",
)
"""Options that have no meaning in a search."""


def is_search(values: Mapping[str, Any]) -> bool:
    """Whether a call is a search. Raises: ConfigError for a precision without one, and for options
    that do not go with one.
    """
    context = click.get_current_context()
    for name in ("find_within",) if values["find"] is None else _NOT_WITH:
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if is_given and values[name]:
            why = "not with --find; leave it out"
            if name == "find_within":
                why = "the precision of --find LIMIT, which is missing"
            raise ConfigError(f"--{name.replace('_', '-')}: {why}")
    return values["find"] is not None


def find_rates(
    plans: Sequence[Plan],
    executor: Executor | None,
    values: Mapping[str, Any],
    confidence: float = 0.95,
) -> int:
    """Search the breaking point of each plan, in turns, and put out the answer.

    Whatever ends it, the answer of the runs so far is put out.

    Returns: the exit code: 0 if every search is decided, 1 if a configuration surely keeps the
    limit at no rate that was tried, 3 if a search is undecided.
    """
    from flinknet.replay.advise.targets import Target
    from flinknet.report.bench_find import find_document, find_rows, find_view
    from flinknet.report.export import csv_text
    from flinknet.results.breaking_point import FoundRate, Search

    from .sweep import default_executor

    if any(not plan.scenario.workload.is_max_rate for plan in plans):
        raise ConfigError("--find searches the rate; leave --rate out")
    target = Target.parse(values["find"], "--find")
    if target.metric == "throughput":
        raise ConfigError("--find: it limits a latency or the backlog, such as p99<=20ms")
    text, seed = values["find_within"], values["seed"]
    within = percent(text, "--find-within", "3%")
    if not 0.001 <= within <= 0.5:
        raise ConfigError(f"--find-within: {text} is out of range: use 0.1% to 50%, such as 3%")
    outputs = Outputs.of(values, "csv")
    floors_per_s = [_floor_per_s(each.scenario.workload, target) for each in plans]
    executor = executor or default_executor(values, [each.scenario for each in plans])
    environment = executor.environment()
    orders = interleaved_orders(len(plans), len(plans), seed)
    found: dict[int, FoundRate] = {}
    try:
        for place in orders[0]:
            max_per_s = _full_speed(plans[place], executor, target, seed, floors_per_s[place])
            search = Search(max_per_s, within, confidence, floors_per_s[place])
            producers = plans[place].scenario.workload.producers
            found[place] = FoundRate(plans[place].name, target.text, max_per_s, search, producers)
        for order in cycle([*orders[1:], orders[0]]):
            going_on = [place for place in order if not found[place].search.is_over]
            for place in going_on:
                _take_run(plans[place], found[place], executor, target, seed)
            if not going_on:
                break
    finally:
        _show_progress("")
        known = [found[place] for place in sorted(found) if found[place].search.runs]
        if known and known[0] is found.get(0):  # with which the others are compared
            duration_ns = plans[0].scenario.workload.duration_ns
            outputs.write(
                find_view(known, duration_ns, target.metric),
                find_document(environment, known),
                csv=lambda: csv_text(find_rows(known)),
            )
    if any(each.search.is_hopeless or each.search.is_unseen for each in known):
        return 1
    return 0 if all(each.search.is_decided for each in known) else 3


def _full_speed(
    plan: Plan, executor: Executor, target: Target, seed: int, floor_per_s: float
) -> float:
    """Records per second of each producer in a run at full speed.

    Raises: RunFailedError if a run of `floor_per_s` would be faster.
    """
    workload = plan.scenario.workload
    quick_ns = workload.duration_ns and min(workload.duration_ns, QUICK_NS)
    load = replace(workload, rate_per_s=RATE_MAX, duration_ns=quick_ns, arrivals="constant")
    scenario = replace(plan.scenario, workload=load, seed=seed)
    measured = executor.run(scenario, out_dir=None, trace=False, on_progress=_ignore).measured
    taken_per_s = measured.throughput_records_per_s or 0.0
    max_per_s = taken_per_s / workload.producers / workload.copies
    if not max_per_s:
        raise RunFailedError("no record was measured at full speed; run for longer (--duration)")
    if max_per_s < floor_per_s:
        raise RunFailedError(
            f"--find: even at full speed ({human_rate(max_per_s)}) a run has too few records for"
            f" {target.metric}; run for longer (--duration)"
        )
    return max_per_s


def _take_run(
    plan: Plan, candidate: FoundRate, executor: Executor, target: Target, seed: int
) -> None:
    from flinknet.report.warning_lines import with_doubts

    search, workload = candidate.search, plan.scenario.workload
    rate = search.next_per_s
    scenario = replace(
        plan.scenario, workload=replace(workload, rate_per_s=rate), seed=seed + len(search.runs) + 1
    )
    measured_run = executor.run(scenario, out_dir=None, trace=False, on_progress=_ignore)
    result = with_doubts(scenario, measured_run, plan.warnings)
    is_kept, figure = _outcome(result, target)
    if is_disturbed(result.warnings):
        candidate.disturbed += 1
        # overload breaks the limit by a queue, which delays most records, others by a short pause
        p50 = result.measured.latency_ns.p50
        is_queue = target.metric == "backlog" or p50 is None or p50 > target.limit
        is_overload = is_queue or figure is None
        if not is_kept and candidate.repeats < REPEATS_MAX and not is_overload:
            candidate.repeats += 1
            return
    search.add(rate, is_kept=is_kept, figure=figure)
    low, high = search.interval_per_s
    name = f"{plan.name}: " if plan.name else ""
    outcome = f"{'keeps' if is_kept else 'breaks'} {target.text}"
    outcome = "is not reached" if figure is None else outcome
    _show_progress(
        f"{name}run {len(search.runs)}: {human_rate(rate)} {outcome}; between {human_rate(low)}"
        f" and {human_rate(high)}"
    )


def _floor_per_s(workload: WorkloadConfig, target: Target) -> float:
    """The rate of a producer below which a run has too few records for the limited figure.

    Raises: ConfigError if the given number of records is too small at any rate.
    """
    each = target.records_min * _SPARE_RECORDS / workload.producers / workload.copies
    if workload.records is not None and workload.records < each:
        raise ConfigError(
            f"--find: {workload.records:,} records are too few for {target.metric}; give --records"
            f" {math.ceil(each)} or more"
        )
    return each * NS_PER_S / workload.duration_ns if workload.duration_ns else 0.0


def _outcome(result: RunResult, target: Target) -> tuple[bool, float | None]:
    """Whether a run kept its rate and the limit, and the limited figure; None if not the rate."""
    measured = result.measured
    if any(each.code in (GIVEN_UP, RATE_NOT_REACHED) for each in result.warnings):
        return False, None
    figure = target.figure(measured.latency_ns, measured.backlog_buffers)
    if figure is None:
        raise RunFailedError(
            f"--find: {measured.records:,} records are too few for {target.metric}; run for longer"
            " (--duration)"
        )
    return figure <= target.limit, figure


def _ignore(_: object) -> None:
    """Take the progress of a run, of which only the outcome is shown."""


def _show_progress(line: str) -> None:
    """Show a line on stderr, which overwrites itself on a terminal."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{line}", nl=False, err=True)
    elif line:
        click.echo(line, err=True)
