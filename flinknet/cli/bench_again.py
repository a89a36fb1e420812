"""`flinknet bench again RUN`: sends the records of a recorded run again over real sockets, under
other settings, and shows each measurement next to the model's prediction from the trace.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flinknet import options as flink
from flinknet.config import Link, NetworkConfig, Scenario
from flinknet.errors import ConfigError
from flinknet.options.link import link_of, parse_links, show_link
from flinknet.results import Measured, RunWarning, TradeOffPoint
from flinknet.results.comparison import Configuration, CountedRun
from flinknet.storage import AnyPath
from flinknet.units import human_duration
from flinknet.whole_files import work_directory

from . import value_parsers
from .commands import SectionedCommand
from .files import Outputs, existing_path, one_run
from .job import call_again, is_job, measured_of, name_of, predicted_again, run_again
from .option_tables import KEYS, NETWORK, WORKERS, options
from .options import collect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flinknet.replay.read import RecordedRun

    from .sweep import Executor, Plan

_METRICS = ("throughput", "p50", "p99")


@click.command(cls=SectionedCommand)
@click.argument("run_dir", metavar="RUN", type=existing_path)
@options(
    f"""
    --duration [default: as recorded]
    --edge --control {WORKERS}
    --link --flow-control {NETWORK} [default: as recorded]
    {KEYS} --out --trace --json --report --plot --details
    --edge-timeout
    """,
    is_sweep=True,
)
@click.pass_obj
def again(executor: Executor | None, /, **values: Any) -> None:
    """Send the records of a recorded run again, under other settings.

    \b
    flinknet bench again runs/run-0001 --buffer-timeout 0,5ms,50ms

    The records of RUN are sent at the same instants over real sockets, and each measurement is
    shown next to what the model predicted from the trace. The recorded setting runs first, as a
    control: it is compared with the recording, and the other settings are compared with it. With
    --duration, only the records of the first TIME are sent; if RUN was at the highest rate, new
    records are sent for that long. Keys that are not given are as recorded.

    RUN may also be a recording of a real Flink by `trace tap` or `trace import`. Then each channel
    gets as many records as were recorded, all of the same size, at instants that agree with the
    recorded buffers. What the recording lacks is printed.
    """
    from flinknet.replay.rerun import (
        measured_then,
        notes_of,
        open_to_repeat,
        save_records,
        scenario_of,
    )
    from flinknet.report.bench import bench_page
    from flinknet.report.console import console_for
    from flinknet.report.from_trace import again_view
    from flinknet.report.live import RunsView
    from flinknet.report.page_parts import Page

    from . import sweep

    run = open_to_repeat(one_run(values["run_dir"]), values["edge"])
    if is_job(run):
        if values["link"]:
            raise ConfigError("--link is for recorded exchanges; a job again has plain sockets")
        _again_job(run, values)
        return
    if values["edge_timeout"]:
        raise ConfigError("--edge-timeout is for jobs of several exchanges, by `job run`")
    recorded = scenario_of(run)
    attempts = _attempts(recorded, values)
    sent = replace(run, to_ns=run.from_ns + (attempts[0].scenario.workload.duration_ns or 0))
    outputs = Outputs.of(values)
    executor, out, environment = sweep.begin(attempts, executor, values, outputs)
    talk = console_for(sys.stderr)
    files = outputs.json_files(out and out / "prediction.json")
    settings: list[Configuration] = []
    notes = [*notes_of(run, recorded)]
    if values["control"] and recorded.network.is_tls:
        notes.append(
            "with TLS, and its passwords are not in the trace: the recorded setting is not run as a"
            " control, and nothing shows how fast this machine is"
        )
    is_longer = sent.duration_ns < run.duration_ns
    document = _document(run, len(attempts), measured_then(run), notes, is_longer=is_longer)

    def page() -> Page:
        several = bench_page(settings, environment).views
        return Page("bench again", [again_view(document), *several])

    try:
        with work_directory("arrivals") as temporary, RunsView(talk) as watch:
            arrivals = save_records(sent, attempts[0].scenario, temporary)
            predictions = _predictions(run, attempts, sent.duration_ns, environment)
            for number, (attempt, predicted) in enumerate(
                zip(attempts, predictions, strict=True), start=1
            ):
                directory = out / f"run-{number:04d}" if out is not None else None
                watch.start_run(number, len(attempts), attempt.name)
                workload = replace(attempt.scenario.workload, arrivals=arrivals)
                result = sweep.run_saved(
                    replace(attempt.scenario, workload=workload),
                    executor,
                    directory,
                    watch,
                    trace=values["trace"],
                    warnings=attempt.warnings,
                )
                watch.finish_run(result)
                settings.append(Configuration(attempt.name, (CountedRun(result, number),)))
                row = _row(
                    attempt.name,
                    replace(predicted, is_recorded=attempt.is_recorded),
                    _figures(result.measured),
                    config=dict(flink.effective_flink_keys(attempt.scenario.network)),
                    warnings=[asdict(each) for each in result.warnings],
                    processors=None if result.processors is None else asdict(result.processors),
                )
                _add_row(document, row, files)
    finally:
        if settings:  # finished runs are written and printed even if a later run failed
            _say_where(out)
            outputs.write(again_view(document), document, page)


def _again_job(run: RecordedRun, values: Mapping[str, Any]) -> None:
    from flinknet.replay.read import result_of
    from flinknet.report.from_trace import again_view

    from . import sweep

    predicted, before = predicted_again(run, values), result_of(run)
    call = call_again(run, before, values)
    outputs = Outputs.of(values)
    out = sweep.out_directory(values["out"], trace=True)
    assert out is not None
    is_longer = values["duration"] is not None
    document = _document(run, len(predicted), measured_of(before), is_longer=is_longer)
    for number, each in enumerate(predicted, start=1):
        name = name_of(each)
        click.echo(f"run {number} of {len(predicted)}: {name}", err=True)
        result = run_again(call, out / f"run-{number:04d}", each.timeouts_ns)
        found, warnings = measured_of(result), result["warnings"]
        row = _row(name, each.point, found, config=result["config"], warnings=warnings)
        _add_row(document, row, [out / "prediction.json"])
    _say_where(out)
    outputs.write(again_view(document), document)


def _document(
    run: RecordedRun,
    asked: int,
    measured: Mapping[str, Any] | None,
    notes: Sequence[str] = (),
    *,
    is_longer: bool,
) -> dict[str, Any]:
    from flinknet.replay.advise.caveats import warnings_of

    return {
        "schema_version": 1,
        "is_complete": False,
        "settings_asked": asked,
        "trace": str(run.path),
        "recording": {
            "notes": [*run.notes, *notes],
            "warnings": warnings_of(run),
            "measured": measured,
            "is_longer": is_longer,
        },
        "runs": [],
    }


def _add_row(document: dict[str, Any], row: dict[str, Any], files: Sequence[AnyPath]) -> None:
    from flinknet.report.export import write_json

    document["runs"].append(row)
    if row["is_recorded"]:
        document["recording"] |= _against(document["recording"]["measured"], row)
    document["is_complete"] = len(document["runs"]) == document["settings_asked"]
    for path in files:
        write_json(path, document)


def _say_where(out: Path | None) -> None:
    if out is not None:
        where = f"{out}/prediction.json, and result.json in each run directory"
        click.echo(f"results: {where}", err=True)


def _attempts(recorded: Scenario, values: Mapping[str, Any]) -> list[Plan]:
    """The settings to run, the recorded one first.

    Raises: ConfigError with TLS, as traces do not contain its passwords.
    """
    from . import sweep

    settings = collect(values)
    if "duration" in settings.workload:
        recorded = _shortened(recorded, settings.workload["duration"])
    interval_ns, timeout_ns = flink.heartbeats_of(settings.network)
    recorded = replace(recorded, heartbeat_interval_ns=interval_ns, heartbeat_timeout_ns=timeout_ns)
    shown = flink.swept_keys(settings.network) or list(settings.network)
    base = dict(flink.canonical(flink.effective_flink_keys(recorded.network)))
    if flink.BUFFER_TIMEOUT in settings.network:
        base.pop(flink.BUFFER_TIMEOUT_ENABLED, None)
    flow_control = settings.workload.get("flow-control", recorded.flow_control)
    release = settings.release or recorded.flink_release
    kept, known = flink.network_config(base, release)
    then = kept, recorded.flow_control, recorded.link
    links: Sequence[Link | None] = (recorded.link,)
    if "link" in settings.workload:
        links = parse_links(settings.workload["link"])

    def attempt(
        now: tuple[NetworkConfig, str, Link | None],
        texts: Mapping[str, str],
        warnings: tuple[RunWarning, ...],
    ) -> Plan:
        network, control, link = now
        if recorded.network.is_tls and network.is_tls:
            raise ConfigError(
                "the trace is of a run with TLS and does not hold its passwords; add -D"
                " security.ssl.internal.enabled=false"
            )
        named = {key: str(texts[key]) for key in shown}
        if "link" in settings.workload:
            named["link"] = show_link(link)
        if flow_control != recorded.flow_control:
            named["flow-control"] = control
        scenario = replace(recorded, network=network, flow_control=control, link=link)
        is_recorded = now == then
        name = _name(named, is_recorded=is_recorded)
        return sweep.Plan(name, scenario, warnings, is_recorded=is_recorded)

    attempts = []
    for link, texts in product(links, flink.expand(settings.network)):
        network, warnings = flink.network_config(flink.merge(base, texts), release)
        now = network, flow_control, link
        attempts.append(attempt(now, texts, (*settings.warnings, *warnings)))
    has_control = values["control"] and not kept.is_tls
    if has_control and not any(each.is_recorded for each in attempts):
        attempts.append(attempt(then, flink.effective_flink_keys(recorded.network), known))
    return sorted(attempts, key=lambda each: not each.is_recorded)


def _name(named: Mapping[str, str], *, is_recorded: bool) -> str:
    """A name such as "buffer-timeout=10ms (as recorded)", or "as recorded" without a key."""
    from .sweep import short_name

    values = [f"{short_name(key)}={value.replace(' ', '')}" for key, value in named.items()]
    if not is_recorded:
        return " ".join(values)
    return f"{' '.join(values)} (as recorded)" if values else "as recorded"


def _shortened(recorded: Scenario, duration: str) -> Scenario:
    """The recorded scenario, shortened to its first `duration`. Raises: ConfigError."""
    duration_ns = value_parsers.measured_part(duration, "--duration")
    recorded_ns = recorded.workload.duration_ns or 0
    if duration_ns > recorded_ns:
        raise ConfigError(
            f"--duration {duration}: the trace holds {human_duration(recorded_ns)} of records; give"
            " less, or leave it out for all of them"
        )
    return replace(recorded, workload=replace(recorded.workload, duration_ns=duration_ns))


def _predictions(
    run: RecordedRun, attempts: list[Plan], duration_ns: int, here: Mapping[str, Any]
) -> list[TradeOffPoint]:
    from flinknet.options.what_if import Setting
    from flinknet.replay.simulations import predict_here
    from flinknet.runtime.host import differences_from

    recorded_ns = _round_trip_ns(link_of(run.manifest.scenario.get("link")))
    settings = [
        Setting(
            each.scenario.network,
            each.scenario.flow_control,
            round_trip_ns=_round_trip_ns(each.scenario.link) - recorded_ns,
        )
        for each in attempts
    ]
    predictions = []
    for attempt, each in zip(attempts, predict_here(run, settings, duration_ns), strict=True):
        link, point = attempt.scenario.link, each.point
        if link is not None and (link.bandwidth_bytes_per_s or link.jitter_ns):
            left_out = "without its bandwidth and jitter"
            note = f"predicted with the round trip of the link alone, {left_out}"
            point = replace(point, notes=(note, *point.notes))
        predictions.append(point)
    differences = differences_from(run.manifest.host, here)
    if not differences:
        return predictions
    note = (
        f"recorded under other conditions ({'; '.join(differences)}): what a record costs is"
        " predicted for there"
    )
    return [replace(each, notes=(note, *each.notes)) for each in predictions]


def _round_trip_ns(link: Link | None) -> int:
    return 0 if link is None else link.rtt_ns


def _row(
    name: str,
    predicted: TradeOffPoint,
    measured: Mapping[str, Any],
    *,
    config: Mapping[str, Any],
    warnings: Sequence[Any],
    processors: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    expected = _figures(predicted)
    return {
        "name": name,
        "is_recorded": predicted.is_recorded,
        "config": config,
        "predicted": expected,
        "measured": measured,
        "error": {
            name: _relative(_value(expected, name), _value(measured, name)) for name in _METRICS
        },
        "method": predicted.method,
        "notes": list(predicted.notes),
        "warnings": warnings,
        "processors": processors,
    }


def _figures(of: TradeOffPoint | Measured) -> dict[str, Any]:
    return {
        "throughput_records_per_s": of.throughput_records_per_s,
        "buffers_per_s": of.buffers_per_s,
        "latency_ns": asdict(of.latency_ns),
    }


def _against(then: Mapping[str, Any] | None, control: Mapping[str, Any]) -> dict[str, Any]:
    """Relative differences from the recording: `change` of the control's measurement, which shows
    this machine's effect, and `model_error` of its prediction, None where that was fitted.
    """
    from flinknet.predict.fit.costs import RATE_IS_FITTED

    if then is None:
        return {}
    now, predicted = control["measured"], control["predicted"]
    if RATE_IS_FITTED in control["notes"]:
        predicted = predicted | {"throughput_records_per_s": None}
    return {
        name: {each: _relative(_value(figures, each), _value(then, each)) for each in _METRICS}
        for name, figures in (("change", now), ("model_error", predicted))
    }


def _value(figures: Mapping[str, Any], metric: str) -> float | None:
    found: float | None = figures["latency_ns"].get(metric, figures["throughput_records_per_s"])
    return found


def _relative(value: float | None, to: float | None) -> float | None:
    return None if value is None or not to else (value - to) / to
