"""`flinknet bench demo NAME`: runs that are set up to show one thing.

head-of-line: one slow channel of a shared connection, without credit and with it.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from flinknet import options as flink
from flinknet.config import CREDIT, TCP, Scenario, SlowConsumer
from flinknet.errors import ConfigError
from flinknet.options.keys import RUNTIME_MODE

from .commands import SectionedCommand
from .options import (
    Settings,
    check_single_values,
    collect,
    load_options,
    output_options,
    scenario_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from flinknet.report.demo_console import HeadOfLine, RateSample
    from flinknet.report.live import LineView
    from flinknet.results import Progress, RunResult

    from .sweep import Executor

DEFAULTS = {"rate": "10k/s", "record-size": "1kb", "duration": "3s"}
"""So much data that every place fills early in the pause, and so little that no core is busy."""

SAMPLES = 60
"""In a run; what a plot shows."""


@click.command(cls=SectionedCommand)
@click.argument("name", type=click.Choice(["head-of-line"]))
@load_options(
    ("rate", "record-size", "arrivals", "duration", "warmup"),
    defaults=DEFAULTS,
)
@output_options
@click.pass_obj
def demo(executor: Executor | None, /, **values: Any) -> None:
    """Show one effect, such as what one paused consumer does to others.

    \b
    flinknet bench demo head-of-line
        what a paused consumer does to its neighbour on the same connection,
        without credit and with it

    Records no trace, unless --out is given.
    """
    from flinknet.report.console import console_for
    from flinknet.report.demo_console import print_head_of_line
    from flinknet.report.export import dump, write_json
    from flinknet.report.live import view

    from . import sweep

    scenario = _scenario(values)
    json_file = sweep.json_file(values["json"])
    out = sweep.out_directory(values["out"], trace=False)
    executor = executor or sweep.default_executor()
    modes = []
    with view(console_for(sys.stderr)) as watcher:
        for flow_control in (TCP, CREDIT):
            modes.append(
                _run_mode(replace(scenario, flow_control=flow_control), executor, out, watcher)
            )
    document = _document(modes)
    if json_file is not None:
        write_json(json_file, document)
    if values["json"] == "-":
        click.echo(dump(document), nl=False)
        return
    workload = scenario.workload
    print_head_of_line(
        console_for(sys.stdout),
        modes,
        pause_from_ns=workload.warmup_ns,
        pause_ns=workload.duration_ns or 0,
    )


def _scenario(values: Mapping[str, Any]) -> Scenario:
    """Two pairs of tasks over one connection; the pause is not set yet."""
    settings = collect(values)
    for key in (flink.CREDIT_MODEL, RUNTIME_MODE):
        if key in settings.network:
            raise ConfigError(f"the demo {values['name']} sets {key} itself; leave it out")
    check_single_values(settings)
    pairs = {"producers": "2", "consumers": "2", "partitioner": "forward"}
    scenario, _ = scenario_of(
        Settings(settings.network, {**DEFAULTS, **settings.workload, **pairs}), values["seed"]
    )
    return scenario


def _run_mode(
    scenario: Scenario, executor: Executor, out: Path | None, watcher: LineView
) -> HeadOfLine:
    """The neighbour alone, then with a consumer that pauses."""
    from flinknet.report.demo_console import NEIGHBOUR, PAUSED, HeadOfLine, RateSample

    workload = scenario.workload
    assert workload.duration_ns is not None
    alone = replace(workload, producers=1, consumers=1)
    pause = SlowConsumer(PAUSED, -1, slow_ns=workload.duration_ns)
    rates: list[RateSample] = []

    def watch(progress: Progress) -> None:
        if len(progress.channels) > PAUSED:
            rates.append(
                RateSample(
                    progress.elapsed_ns,
                    progress.channels[NEIGHBOUR].throughput_records_per_s,
                    progress.channels[PAUSED].throughput_records_per_s,
                )
            )
        watcher.update(progress)

    interval_ns = (workload.warmup_ns + workload.duration_ns) // SAMPLES
    results: list[RunResult] = []
    number = 1 if scenario.flow_control == TCP else 3
    for name, flows, on_progress in (
        ("neighbour alone", alone, watcher.update),
        ("neighbour with a paused consumer", replace(workload, slow_consumers=(pause,)), watch),
    ):
        title = f"{scenario.flow_control}, {name}"
        watcher.start_run(number, 4, title)
        directory = out / f"run-{number:04d}-{scenario.flow_control}" if out is not None else None
        results.append(
            _run(executor, replace(scenario, workload=flows), directory, on_progress, interval_ns)
        )
        watcher.finish_run(results[-1])
        number += 1
    solo, shared = results
    return HeadOfLine(scenario.flow_control, solo, shared, tuple(_thinned(rates, interval_ns)))


def _run(
    executor: Executor,
    scenario: Scenario,
    directory: Path | None,
    on_progress: Callable[[Progress], None],
    interval_ns: int,
) -> RunResult:
    from .sweep import save_result

    result = executor.run(
        scenario,
        out_dir=directory,
        trace=directory is not None,
        on_progress=on_progress,
        sample_interval_ns=interval_ns,
    )
    if directory is not None:
        save_result(directory, result)
    return result


def _thinned(rates: list[RateSample], interval_ns: int) -> list[RateSample]:
    """One for each interval, the last: both TaskManagers make progress known."""
    by_interval = {each.at_ns // interval_ns: each for each in rates}
    return list(by_interval.values())


def _document(modes: list[HeadOfLine]) -> dict[str, Any]:
    return {
        "demo": "head-of-line",
        "modes": {
            mode.flow_control: {
                "neighbour_rate_ratio": mode.neighbour_rate_ratio,
                "neighbour_p99_ns": mode.neighbour_p99_ns,
                "neighbour_records_per_s": mode.neighbour_records_per_s,
                "solo_records_per_s": mode.solo_records_per_s,
                "solo_p99_ns": mode.solo_p99_ns,
                "rates": [asdict(each) for each in mode.rates],
                "buffering": (
                    asdict(mode.shared.buffering) if mode.shared.buffering is not None else None
                ),
            }
            for mode in modes
        },
    }
