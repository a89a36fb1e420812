"""A sweep: its runs, their order and their directories; each run is saved when it ends."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from flinknet import options as flink
from flinknet.config import Scenario
from flinknet.errors import ConfigError
from flinknet.options.link import parse_links, show_link
from flinknet.report.export import write_json
from flinknet.report.live import RunsView, run_title
from flinknet.report.warning_lines import with_doubts
from flinknet.results import RunResult, RunWarning, Validity, is_disturbed
from flinknet.results.comparison import Configuration, CountedRun, interleaved_orders
from flinknet.trace.manifest import RESULT_NAME
from flinknet.trace.run_directory import RunDirectory, seal_result

from .files import Outputs, say_warnings
from .option_tables import NETWORK_OPTIONS
from .options import Settings, scenario_of
from .worker import workers_of

_GENERIC_ENDS = frozenset(("size", "min", "max", "fraction", "enabled"))
"""Last parts of keys that are too general as names."""


@dataclass(frozen=True, slots=True)
class Executor:
    """The functions of the runtime that commands use; tests pass others, which spawn nothing.

    `run` takes a scenario and, by name, out_dir, trace and on_progress (runtime.cluster.launcher).
    """

    run: Callable[..., RunResult]
    environment: Callable[[], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Plan:
    """One configuration of a sweep, of a comparison, or of `bench again`, where one is recorded."""

    name: str
    scenario: Scenario
    warnings: tuple[RunWarning, ...]
    is_recorded: bool = False


Finished = tuple[int, CountedRun]
"""The index of a plan, and a run of it that ended well."""


def default_executor(values: Mapping[str, Any], scenarios: Sequence[Scenario]) -> Executor:
    """The executor with real sockets and processes, on the workers of a command's options.

    Raises: ConfigError for options that the workers cannot follow; TransportError if one cannot be
        used.
    """
    from flinknet.runtime.cluster.launcher import run_scenario
    from flinknet.runtime.host import environment

    network = max((x.network for x in scenarios), key=lambda network: network.ssl_internal_enabled)
    if values["workers"] is not None and any(each.link is not None for each in scenarios):
        raise ConfigError("--link emulates a wire on this machine; leave it out, or --workers")
    workers = workers_of(values, network)
    return Executor(partial(run_scenario, workers=workers), environment)


def begin(
    plans: Sequence[Plan], executor: Executor | None, values: Mapping[str, Any], outputs: Outputs
) -> tuple[Executor, Path | None, dict[str, Any]]:
    """Print warnings about the settings of some plans. Returns: what runs them, their directory,
    and the environment. Raises: ConfigError; TransportError if a worker cannot be used."""
    executor = executor or default_executor(values, [each.scenario for each in plans])
    out = out_directory(values["out"], trace=values["trace"])
    warned = [(each.name, each.warnings) for each in plans]
    if outputs.has_details:
        warned = [(name, tuple(replace(x, brief=x.text) for x in own)) for name, own in warned]
    say_first(warned, is_stdout_taken=outputs.takes_stdout)
    return executor, out, executor.environment()


def plan_sweep(settings: Settings, seed: int = 1) -> list[Plan]:
    """Plans of all combinations of links and of the comma lists in the settings. The seed does
    not change the places of tasks and channels.
    """
    swept = flink.swept_keys(settings.network)
    links = parse_links(settings.workload["link"]) if "link" in settings.workload else ()
    plans = []
    for link, network in itertools.product(links or (None,), flink.expand(settings.network)):
        names = [f"{short_name(key)}={network[key]}" for key in swept]
        workload = settings.workload
        if links:
            workload = {**workload, "link": show_link(link)}
            names[:0] = [show_link(link, links)] if len(links) > 1 else []
        try:
            own = replace(settings, network=network, workload=workload)
            scenario, warnings = scenario_of(own, seed)
        except ConfigError:
            say_warnings(settings.warnings)  # no result will have them
            raise
        plans.append(Plan(" ".join(names), scenario, warnings))
    return plans


def short_name(key: str) -> str:
    """The name of the option for one of Flink's keys, or the end of the key."""
    named = {flink_key: option for option, flink_key in NETWORK_OPTIONS.items()}
    *stem, end = key.split(".")
    return named.get(key) or (f"{stem[-1]}.{end}" if end in _GENERIC_ENDS else end)


def run_all(
    plans: Sequence[Plan],
    executor: Executor,
    *,
    rounds: int,
    seed: int,
    trace: bool,
    out: Path | None,
    watcher: RunsView,
    repeats: int = 0,
) -> Iterator[Finished]:
    """Run every plan once per round, and yield each run when it is saved.

    The runs of a round share one seed, so that they get equal arrivals; each round has another. A
    run that is invalid, or was disturbed by other processes, is repeated at most `repeats` times,
    and the least disturbed valid try counts. After one such run per plan in a row, none is repeated
    until one is good: on a machine that is always busy, repeating only takes longer. An empty `out`
    is removed at the end.
    """
    total, number = rounds * len(plans), 0
    doubtful_in_a_row = 0
    try:
        for round_index, order in enumerate(interleaved_orders(len(plans), rounds, seed)):
            for plan_index in order if rounds > 1 else range(len(plans)):
                number += 1
                plan = plans[plan_index]
                scenario = replace(plan.scenario, seed=seed + round_index)
                tries: list[RunResult] = []
                tries_max = 1 if doubtful_in_a_row >= len(plans) else 1 + repeats
                while len(tries) < tries_max and not any(map(_is_sound, tries)):
                    name = f"{plan.name}, try {len(tries) + 1}" if tries else plan.name
                    directory = directory_of(out, number, name)
                    watcher.start_run(number, total, name)
                    result = run_saved(
                        scenario, executor, directory, watcher, trace=trace, warnings=plan.warnings
                    )
                    watcher.finish_run(result)
                    tries.append(result)
                best = min(tries, key=_doubt)
                if len(tries) > 1:
                    chosen = next(at for at, each in enumerate(tries, start=1) if each is best)
                    title = run_title(number, total, plan.name)
                    watcher.print(f"{title}: try {chosen} of {len(tries)} (counted)")
                doubtful_in_a_row = 0 if _is_sound(best) else doubtful_in_a_row + 1
                discarded = tuple(each for each in tries if each is not best)
                yield plan_index, CountedRun(best, number, len(tries), discarded)
    finally:
        if out is not None:
            with suppress(OSError):  # usually it is not empty
                out.rmdir()


def _is_sound(result: RunResult) -> bool:
    """Whether a try need not be repeated."""
    return result.validity is not Validity.INVALID and not is_disturbed(result.warnings)


def _doubt(result: RunResult) -> tuple[bool, bool, float]:
    """Sort key of tries, best first: valid before invalid, undisturbed before disturbed, then by
    the share of CPU time lost to other processes, unknown shares last.
    """
    taken = None if result.processors is None else result.processors.taken_share
    return (
        result.validity is Validity.INVALID,
        is_disturbed(result.warnings),
        float("inf") if taken is None else taken,
    )


def run_saved(
    scenario: Scenario,
    executor: Executor,
    directory: Path | None,
    watcher: RunsView,
    *,
    trace: bool,
    warnings: Sequence[RunWarning] = (),
) -> RunResult:
    """Run a scenario, and save its result if there is a directory."""
    measured = executor.run(
        scenario,
        out_dir=directory,
        trace=trace and directory is not None,
        on_progress=watcher.update,
    )
    result = with_doubts(scenario, measured, tuple(warnings))
    if directory is not None:
        save_result(directory, result)
    return result


def save_result(directory: Path, result: RunResult) -> None:
    """Write the result of a run into its directory."""
    write_json(directory / RESULT_NAME, result.to_dict())
    seal_result(directory)


def say_first(
    settings: Sequence[tuple[str, Sequence[RunWarning]]], *, is_stdout_taken: bool = False
) -> None:
    """Print warnings about settings before the runs, on stdout or, if that is only for data, on
    stderr.

    Args:
        settings: names of settings, with their warnings.
    """
    from flinknet.report.console import console_for
    from flinknet.report.warning_lines import print_setting_notes

    print_setting_notes(console_for(sys.stderr if is_stdout_taken else sys.stdout), settings)


def by_plan(plans: Sequence[Plan], finished: Sequence[Finished]) -> list[Configuration]:
    """The runs of each plan in the order of the rounds, without plans that have no runs."""
    grouped = (
        Configuration(plan.name, tuple(run for index, run in finished if index == own))
        for own, plan in enumerate(plans)
    )
    return [each for each in grouped if each.runs]


def out_directory(out: str | None, *, trace: bool) -> Path | None:
    """The directory of a new sweep; without `out`, a new one if there are traces to keep. It is
    locked until the command ends.

    Raises: ConfigError if it has a run already, or another command is writing to it.
    """
    if out is None and not trace:
        return None
    directory = RunDirectory(_timestamped_directory() if out is None else Path(out))
    click.get_current_context().call_on_close(directory.release)
    return directory.path


def _timestamped_directory() -> Path:
    """A new directory named after this instant: 20261129-160000, then 20261129-160000-2."""
    from flinknet.runtime.clock import wall_clock_iso

    stamp = re.sub(r"\D", "", wall_clock_iso())[:14]
    name = f"{stamp[:8]}-{stamp[8:]}"
    for end in itertools.chain([""], (f"-{number}" for number in itertools.count(2))):
        path = Path("flinknet-runs", name + end)
        with suppress(FileExistsError):
            path.mkdir(parents=True)
            return path
    raise AssertionError("unreachable")


def setting_name(text: str) -> str:
    """A setting as directories of runs have it: buffer-timeout-5ms."""
    return re.sub(r"[^\w.-]+", "-", text.replace("=", "-")).strip("-")


def directory_of(out: Path | None, number: int, name: str) -> Path | None:
    """The directory of a run within the sweep's; None if nothing is kept."""
    setting = setting_name(name)
    own = f"run-{number:04d}" + (f"-{setting[:60]}" if setting else "")
    return None if out is None else out / own
