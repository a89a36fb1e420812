"""`flinknet bench demo NAME`: scenarios that show one effect each, and their runs."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.resources import files
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from flinknet import units
from flinknet.config import CREDIT
from flinknet.errors import ConfigError, TraceFormatError
from flinknet.options.keys import RUNTIME_MODE
from flinknet.whole_files import work_directory

from .commands import SectionedCommand
from .files import Outputs
from .option_tables import KEYS, NETWORK, WORKERS, options
from .options import Settings, check_single_values, collect, scenario_of

if TYPE_CHECKING:
    from pathlib import Path

    from flinknet.config import Scenario, WorkloadConfig
    from flinknet.report.charts import MessageStep
    from flinknet.report.demos import DemoRun, DemoShown
    from flinknet.report.live import RunsView
    from flinknet.results import Progress

    from .sweep import Executor

DEMOS: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    files("flinknet.report").joinpath("demos", "demos.toml").read_text("utf-8")
)
"""The demos; the file says what each field means."""

MESSAGE_CHANNELS, FIRST_MESSAGES, MEASURED_MESSAGES, RESUME_MESSAGES = 2, 16, 60, 10
"""Channels whose messages a page shows, and messages of each part of the run: at its begin, in the
measured part, and on each side of the end of a pause."""

PAUSED = -1
"""The time for a record of a consumer that takes none."""

MessageRow = tuple[int, ...]
"""A row of a trace with the values of `_COLUMNS`: its instant counts from the start of the run."""

_COLUMNS = (
    *("at_ns", "order", "channel", "point", "kind", "data_type", "sequence_number"),
    *("payload_bytes", "backlog_buffers", "value", "credit_after"),
)

SAMPLES = 60
"""Samples of a run, which are the points of its plots."""

_OPTIONS = f"""
--rate --record-size --arrivals --duration --warmup --link --checkpoint-interval [default: by demo]
{WORKERS} {NETWORK.replace("--checkpoint-interval", "")} {KEYS} --seed
--out DIR
    Directory for the runs and their traces. [default: none is kept]
--json --report --plot
"""


_ARGUMENTS = "demo.arguments"


class _Demo(SectionedCommand):
    """A command that keeps its arguments as they were given, but for passwords."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_ARGUMENTS] = [re.sub(r"(?i)(password[^=]*=).*", r"\1…", each) for each in args]
        return super().parse_args(ctx, args)


@click.command(cls=_Demo)
@click.argument("name", metavar="[NAME]", type=click.Choice(list(DEMOS)), required=False)
@options(_OPTIONS)
@click.pass_obj
def demo(executor: Executor | None, /, **values: Any) -> None:
    """Show one effect in a few seconds; without NAME, list the demos.

    \b
    flinknet bench demo head-of-line
        what a paused consumer does to its neighbour on the same connection,
        without credit and with it
    flinknet bench demo head-of-line --report page.html
        the same as a page, to click through step by step
    flinknet bench demo back-pressure
        how a slow sink reaches the source
    flinknet bench demo timeout --plot timeout.svg
        what a shorter buffer timeout costs
    flinknet bench demo wan
        how much credit a long network needs

    NAME is head-of-line, back-pressure, unaligned, debloating, timeout or wan. A trace is kept
    with --out. A demo sets what it varies, and refuses options for that: head-of-line the credit
    model, unaligned and debloating the key of that name, timeout the buffer timeout, wan the rate,
    the link and the numbers of buffers.
    """
    from flinknet.report.console import console_for
    from flinknet.report.live import RunsView
    from flinknet.report.page_parts import Sentence

    from . import sweep

    if values["name"] is None:
        width = max(map(len, DEMOS))
        for name, known in DEMOS.items():
            click.echo(f"{name:<{width}}  {known['summary']}")
        click.echo("\nRun one with: flinknet bench demo NAME")
        return
    chosen = DEMOS[values["name"]]
    settings = _settings(chosen, values)
    scenario, warnings = scenario_of(settings, values["seed"])
    if scenario.workload.is_max_rate and "rate" in chosen["load"]:
        load = chosen["load"]["rate"]
        raise ConfigError(f"--rate: the demo {values['name']} needs a rate, such as {load}")
    outputs = Outputs.of(values)
    sweep.say_first([("", warnings)], is_stdout_taken=outputs.takes_stdout)
    executor = executor or sweep.default_executor(values, [scenario])
    where = values["out"]
    if where is None and outputs.page is not None:  # the page shows messages of the trace
        where = str(click.get_current_context().with_resource(work_directory("demo")))
    out = sweep.out_directory(where, trace=False)
    runs = _runs(chosen, settings, scenario)
    finished = []
    with RunsView(console_for(sys.stderr)) as watcher:
        for number, (name, each) in enumerate(runs, start=1):
            watcher.start_run(number, len(runs), name)
            directory = sweep.directory_of(out, number, name)
            finished.append(_run(name, each, executor, directory, watcher))
            watcher.finish_run(finished[-1].result, is_overload=not chosen.get("in_step"))
    module = import_module(f"flinknet.report.demos.{chosen['module']}")
    make: Callable[..., DemoShown] = getattr(module, values["name"].replace("-", "_"))
    command = " ".join(map(quote, click.get_current_context().meta[_ARGUMENTS]))
    shown = replace(make(finished, scenario.workload), command=f"flinknet bench demo {command}")
    view = shown.view
    if outputs.page is not None:
        written = Sentence("next", [f"{outputs.page} shows it step by step"])
        view = replace(view, headline=[*view.headline[:-1], written])
    outputs.write(view, shown.document(), lambda: shown.page)


def _settings(chosen: Mapping[str, Any], values: Mapping[str, Any]) -> Settings:
    """The settings that all runs of the demo share."""
    settings = collect(values)
    for key in (*chosen.get("sets", ()), RUNTIME_MODE):
        if key in settings.network:
            raise ConfigError(f"the demo {values['name']} sets {key} itself; leave it out")
    fixed = chosen.get("fixed", {})
    for option in fixed.keys() & settings.workload.keys():
        raise ConfigError(f"the demo {values['name']} sets --{option} itself; leave it out")
    check_single_values(settings)
    return replace(
        settings,
        network={**chosen.get("network", {}), **settings.network},
        workload={**chosen["load"], **settings.workload, **fixed},
    )


def _runs(
    chosen: Mapping[str, Any], settings: Settings, scenario: Scenario
) -> list[tuple[str, Scenario]]:
    """Name and scenario of each run: the common one, with what is its own."""
    common, workload = settings.workload, scenario.workload
    duration = f"{workload.duration_ns}ns"
    if (times := chosen.get("consumer_time")) is not None:
        delay_ns = round(times * 1e9 / (workload.rate_per_s * workload.producers))
        common = {**common, "slow-consumer": f"0:{delay_ns}ns:{duration}"}
    runs = []
    for name, own in chosen["runs"].items():
        keys = {key: text for key, text in own.items() if "." in key}
        load = {option: own[option].format(duration=duration) for option in own.keys() - keys}
        network, options_of_run = {**settings.network, **keys}, {**common, **load}
        of_run = replace(settings, network=network, workload=options_of_run)
        runs.append((name, scenario_of(of_run, scenario.seed)[0]))
    return runs


def _run(
    name: str, scenario: Scenario, executor: Executor, directory: Path | None, watcher: RunsView
) -> DemoRun:
    from flinknet.report.demos import DemoRun

    from .sweep import save_result

    workload = scenario.workload
    measured_to_ns = workload.warmup_ns + (workload.duration_ns or 0)
    interval_ns = measured_to_ns // SAMPLES
    samples: dict[int, Progress] = {}

    def watch(progress: Progress) -> None:
        """Keep the last report of each interval; every TaskManager reports progress."""
        if progress.channels:
            samples[progress.elapsed_ns // interval_ns] = progress
        watcher.update(progress)

    result = executor.run(
        scenario,
        out_dir=directory,
        trace=directory is not None,
        on_progress=watch,
        sample_interval_ns=interval_ns,
    )
    if directory is not None:
        save_result(directory, result)
    return DemoRun(
        name,
        result,
        tuple(samples.values()),
        workload.warmup_ns,
        measured_to_ns,
        scenario.network.segment_size_bytes,
        () if directory is None else _messages(directory, scenario),
    )


def _messages(directory: Path, scenario: Scenario) -> tuple[MessageStep, ...]:
    """Messages on the last edge of a run, as the producers' TaskManager saw them, and what lies
    between them; none if nothing was recorded."""
    from flinknet.core.probe import TracePoint
    from flinknet.trace import TraceReader, open_run

    try:
        run = open_run(directory)
    except TraceFormatError:
        return ()
    if run.manifest is None or (begin_ns := run.manifest.measured_from_ns) is None:
        return ()
    channels = run.manifest.channels
    own = [each for each in channels if each.edge == channels[-1].edge][:MESSAGE_CHANNELS]
    numbers = {each.index: place for place, each in enumerate(own)}
    rows: list[MessageRow] = []
    for file in run.files:
        with TraceReader(file) as reader:
            if reader.process.name == own[0].producer_process:
                for block in reader.events(_COLUMNS, tuple(numbers)):
                    rows += zip(*(block[name].tolist() for name in _COLUMNS), strict=True)
    rows = [row for row in sorted(rows) if row[3] in (TracePoint.SENT, TracePoint.RECEIVED)]
    start_ns = begin_ns - scenario.workload.warmup_ns
    rows = [(row[0] - start_ns, row[1], numbers[row[2]], *row[3:]) for row in rows]
    shown = places_shown(rows, scenario.workload)
    return steps_of(rows, shown, has_credit=scenario.flow_control == CREDIT)


def places_shown(rows: Sequence[MessageRow], workload: WorkloadConfig) -> list[int]:
    """Which messages of a run are shown: the first ones; those around the barrier with the largest
    backlog in the measured part, else the first ones there; and those around the end of a pause, on
    any channel and on that of the paused consumer. Without credit, the last ones before the
    connection stood still are among these."""
    from flinknet.core.buffers.data_type import DataType

    def after(ns: int, channel: int | None = None) -> int:
        later = (at for at, x in enumerate(rows) if x[0] >= ns and channel in (None, x[2]))
        return next(later, len(rows))

    kinds = (
        DataType.PRIORITIZED_EVENT_BUFFER,
        DataType.ALIGNED_CHECKPOINT_BARRIER,
        DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER,
    )
    begin = after(workload.warmup_ns)
    barriers = [at for at in range(begin, len(rows)) if rows[at][5] in kinds]
    most = max(barriers, key=lambda at: rows[at][8], default=begin + MEASURED_MESSAGES // 2)
    measured = max(begin, most - MEASURED_MESSAGES // 2)
    shown = {*range(min(begin, FIRST_MESSAGES)), *range(measured, measured + MEASURED_MESSAGES)}
    for each in workload.slow_consumers:
        if each.delay_ns_per_record == PAUSED and each.slow_ns is not None:
            end_ns = workload.warmup_ns + each.slow_ns
            for place in (after(end_ns), after(end_ns, each.index)):
                shown.update(range(place - RESUME_MESSAGES, place + RESUME_MESSAGES))
    return sorted(shown & {*range(len(rows))})


def steps_of(
    rows: Sequence[MessageRow], shown: Sequence[int], *, has_credit: bool
) -> tuple[MessageStep, ...]:
    """The shown messages, in the words of the dissector, each with the credit of all channels after
    it; one step for those between them that are left out. A message that does not say what credit
    is left leaves it as it is."""
    from flinknet.core.buffers.data_type import DataType
    from flinknet.core.probe import MessageKind, TracePoint
    from flinknet.report.charts import MessageStep
    from flinknet.report.demos import words_of

    credits: list[int | None] = [None] * MESSAGE_CHANNELS
    steps, known, last = [], {*shown}, -1
    for at, row in enumerate(rows):
        if at in known and at > last + 1:
            passed = units.human_duration(row[0] - rows[last][0])
            text = f"{passed} and {units.counted(at - last - 1, 'message')} left out"
            steps.append(MessageStep(row[0], None, True, text, tuple(credits)))
        if has_credit and row[10] >= 0:
            credits[row[2]] = row[10]
        if at in known:
            text = words_of(MessageKind(row[4]).name, DataType(row[5]).name, *row[6:10])
            is_sent = row[3] == TracePoint.SENT
            steps.append(MessageStep(row[0], row[2], is_sent, text, tuple(credits)))
            last = at
    return tuple(steps)
