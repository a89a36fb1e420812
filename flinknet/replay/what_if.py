"""Recorded arrivals under other settings: one simulation for each run and candidate, inside the
executors. A work unit is a run with a share of its candidates, so that the run is read once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigError, SimulationError
from flinknet.predict.captured import load_captured
from flinknet.predict.exchange import BLOCKING_IS_NO_MODEL, is_blocking, is_max_rate, load_exchange
from flinknet.predict.fit.costs import CostFit
from flinknet.predict.fit.queued import contradiction
from flinknet.predict.recorded import RecordedExchange, Setting, SimulatedOutcome
from flinknet.results import BacklogSummary, LatencySummary
from flinknet.trace import open_run
from flinknet.units import human_bytes

from . import slices
from .advise.edges import NOT_FROM_SOURCES, is_from_sources
from .observe.slicing import Slicing
from .slices import SliceUnit
from .spark.units import RecordedRun, arrow_schema, in_order
from .spark.worker import freeze_what_is_loaded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Simulate = Callable[[RecordedExchange, NetworkConfig], SimulatedOutcome]

DEFAULT_MAX_RECORDS = 500_000
"""Records of a run that are simulated for each candidate at most, unless told otherwise: with
timeout 0 each may be a message of its own, and what the kernel does not cover costs 50 µs a
message."""

DEFAULT_MAX_RECORDS_IN_PASSING = 150_000
"""The same where the instants of records were not recorded."""

DEFAULT_MAX_RECORDS_AT_MAX_RATE = 6_000_000
"""The same at the highest rate, where buffers are full at any timeout."""

MAX_RATE_WINDOW_NS = 2_000_000_000
"""How much of a run at the highest rate is looked at without Spark."""

POLLS = (
    "TaskManagers would poll that slept in the recorded run: what the machine does to a process"
    " that never sleeps, such as to let a thread of the kernel have its core, is not in the trace,"
    " and p99 may be higher"
)

SLEEPS = (
    "consumers would sleep between messages that polled in the recorded run: what it takes to wake"
    " them, 0.1 ms and more, is not in the trace"
)

GROWS = (
    "debloating begins with buffers of {}, as a task does, and the prediction holds the time until"
    " they are as large as they come to be: for what it is worth afterwards record a run with it"
)

_SLOW = "it is simulated message by message"

_UNIT_SCHEMA = pa.schema(
    [
        ("run", pa.int64()),
        ("path", pa.string()),
        ("candidates", pa.list_(pa.int64())),
        ("settings", pa.list_(pa.string())),
        ("from_ns", pa.int64()),
        ("to_ns", pa.int64()),
        ("edge", pa.int64()),
    ]
)
_NETWORK_COLUMNS = (
    "buffer_timeout_ns",
    "exclusive_buffers",
    "floating_buffers",
    "segment_size_bytes",
)
_LATENCY_COLUMNS = tuple(each.name for each in fields(LatencySummary))
_BACKLOG_COLUMNS = ("backlog_buffers_mean", "backlog_buffers_max")
_OUTCOME_SCHEMA = (
    "run bigint, candidate bigint, buffer_timeout_ns bigint, exclusive_buffers bigint,"
    " floating_buffers bigint, segment_size_bytes bigint, flow_control string,"
    " round_trip_ns bigint, consumer_speed double, rate_factor double,"
    " records bigint, duration_ns bigint,"
    " throughput_records_per_s double, buffers_per_s double, credits_per_s double,"
    " memory_bytes bigint, method string, window_to_ns bigint,"
    " backlog_buffers_mean double, backlog_buffers_max bigint,"
    " count bigint, min bigint, mean double, p50 double, p75 double, p90 double, p95 double,"
    " p99 double, p99_9 double, max bigint, bounds string, notes array<string>, error string,"
    " why_no_latency string"
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A setting to predict for a run, and the part of its measured window whose arrivals are
    used."""

    run: RecordedRun
    number: int
    setting: Setting
    to_ns: int
    capped_to_ns: int | None = None
    """Of the part that is used instead where slices cannot be simulated; None for `to_ns`."""


def predict(
    spark: SparkSession,
    candidates: Sequence[Candidate],
    simulate: Simulate | None = None,
    slicings: Mapping[int, Slicing] | None = None,
) -> DataFrame:
    """Simulate every candidate.

    Args:
        simulate: the simulation; None for the one of `predict.what_if`.
        slicings: how long runs are cut, by their number; each slice is simulated for itself, by
            `predict.what_if`.

    Returns: run, candidate (its number), the values of its setting, records, duration_ns,
    throughput_records_per_s, buffers_per_s, credits_per_s, memory_bytes, method (what computed it),
        window_to_ns (end of the part whose arrivals were used), backlog_buffers_mean and _max, the
        fields of `results.LatencySummary`, bounds (such fields as JSON: of the least latency and of
        the greatest, where arrivals were assumed), notes, error: what the simulator said if it
        failed, with nulls in place of numbers; and why_no_latency: what contradicts the predicted
        latency and backlog, with nulls in place of those.
    """
    if slicings:
        sliced = [each for each in candidates if each.run.run in slicings]
        table = _predict_slices(spark, sliced, slicings)
        rest = [each for each in candidates if each.run.run not in slicings]
        return table.union(predict(spark, rest, simulate)) if rest else table
    outcome_schema = arrow_schema(_OUTCOME_SCHEMA)

    def run_units(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for unit in batch.to_pylist():
                rows = list(_simulate_unit(unit, simulate))
                yield pa.RecordBatch.from_pylist(rows, schema=outcome_schema)
        freeze_what_is_loaded()

    units = _units(candidates, spark.sparkContext.defaultParallelism)
    frame = spark.createDataFrame(pa.Table.from_pylist(units, schema=_UNIT_SCHEMA))
    return frame.mapInArrow(run_units, _OUTCOME_SCHEMA)


def _predict_slices(
    spark: SparkSession, candidates: Sequence[Candidate], slicings: Mapping[int, Slicing]
) -> DataFrame:
    part_schema = arrow_schema(slices.PART_SCHEMA)

    def run_units(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for unit in batch.to_pylist():
                rows = list(slices.simulate_slice(SliceUnit(**unit)))
                yield pa.RecordBatch.from_pylist(rows, schema=part_schema)
        freeze_what_is_loaded()

    units = [asdict(unit) for unit in _slice_units(candidates, slicings)]
    frame = spark.createDataFrame(pa.Table.from_pylist(units, schema=slices.UNIT_SCHEMA))
    parts = frame.mapInArrow(run_units, slices.PART_SCHEMA)
    outcome_schema = arrow_schema(_OUTCOME_SCHEMA)

    def merge(own_parts: pa.Table) -> pa.Table:
        rows = sorted(own_parts.to_pylist(), key=lambda row: int(row["slice_from_ns"]))
        return pa.Table.from_pylist([_outcome_of_slices(rows)], schema=outcome_schema)

    merged = parts.groupBy("run", "candidate").applyInArrow(merge, _OUTCOME_SCHEMA)
    return in_order(merged, "run", "candidate")


def _slice_units(
    candidates: Sequence[Candidate], slicings: Mapping[int, Slicing]
) -> Iterator[SliceUnit]:
    """A unit for each slice, with all candidates of its run: so it is read once."""
    for number in sorted({each.run.run for each in candidates}):
        own = [each for each in candidates if each.run.run == number]
        run, to_ns, slicing = own[0].run, own[0].to_ns, slicings[number]
        channels = sorted(slicing.record_wire_bytes)
        used = [each for each in slicing.slices if each.to_ns <= to_ns]
        for each in used:
            yield SliceUnit(
                run=number,
                path=str(run.path.absolute()),
                candidates=[candidate.number for candidate in own],
                settings=[slices.setting_text(candidate.setting) for candidate in own],
                from_ns=run.from_ns,
                to_ns=to_ns,
                capped_to_ns=own[0].capped_to_ns or to_ns,
                slice_from_ns=each.from_ns,
                slice_to_ns=each.to_ns,
                is_last=each is used[-1],
                channels=channels,
                records=[each.records[channel] for channel in channels],
                records_before=[each.records_before[channel] for channel in channels],
                record_wire_bytes=[slicing.record_wire_bytes[channel] for channel in channels],
                latest_ns=slicing.latest_ns,
            )


def _outcome_of_slices(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The row of a candidate from those of its slices, in their order."""
    from flinknet.predict.what_if import duration_ns

    first = parts[0]
    if not all(part["is_covered"] for part in parts):
        unit = {name: first[name] for name in ("run", "path", "from_ns")}
        unit |= {"candidates": [first["candidate"]], "settings": [first["setting"]]}
        (row,) = _simulate_unit(unit | {"to_ns": first["capped_to_ns"]}, None)
        if first["capped_to_ns"] < first["to_ns"]:
            seconds = (first["capped_to_ns"] - first["from_ns"]) / 1e9
            row["notes"] = [*row["notes"], f"of the first {seconds:.3g} s only: {_SLOW}"]
        return row
    setting = slices.setting_of(first["setting"])
    exchange, fit = slices.fitted(Path(first["path"]), first["from_ns"], first["to_ns"])
    error = next((part["error"] for part in parts if part["error"]), None)
    row = _setting_row(first["run"], first["candidate"], first["setting"], fit, first["to_ns"])
    row["error"] = error
    if error is not None:
        return row
    whole = slices.added_up(parts)
    outcome = SimulatedOutcome(
        latency=whole.latency,
        records=whole.records,
        messages=whole.messages,
        duration_ns=duration_ns(
            whole.last_ns,
            whole.records,
            whole.messages,
            exchange.under(setting),
            setting.network,
        ),
        backlog_buffers=BacklogSummary(
            whole.backlog_total / whole.messages if whole.messages else None, whole.backlog_max
        ),
        memory_bytes=whole.memory_bytes,
        credits=whole.credits,
        method="kernel",
    )
    return row | _numbers(outcome, exchange, fit, setting)


def predict_here(
    run: RecordedRun, settings: Sequence[Setting], duration_ns: int
) -> list[dict[str, Any]]:
    """Predict some settings in this process, without Spark.

    Args:
        duration_ns: how long records come, from the start of the measured part, until producers
            end. What things cost is found in more of the trace, if there is more.

    Returns: a row for each, with the columns of `predict`.
    """
    is_capped = is_max_rate(run.manifest)
    to_ns = run.from_ns + (min(duration_ns, MAX_RATE_WINDOW_NS) if is_capped else duration_ns)
    candidates = [Candidate(run, number, each, to_ns) for number, each in enumerate(settings)]
    (unit,) = _units(candidates, cores=1)
    return list(_simulate_unit(unit, None, ends_its_data=not is_capped))


def _units(candidates: Sequence[Candidate], cores: int) -> list[dict[str, Any]]:
    """Each run with its candidates in turns on as many units as there are cores."""
    units = []
    runs = {each.run.run: each for each in candidates}
    for run, first in runs.items():
        own = [each for each in candidates if each.run.run == run]
        parts = min(cores, len(own))
        for part in range(parts):
            share = own[part::parts]
            units.append(
                {
                    "run": run,
                    "path": str(first.run.path.absolute()),
                    "candidates": [each.number for each in share],
                    "settings": [json.dumps(asdict(each.setting)) for each in share],
                    "from_ns": first.run.from_ns,
                    "to_ns": first.to_ns,
                    "edge": first.run.edge,
                }
            )
    return units


def _simulate_unit(
    unit: dict[str, Any], simulate: Simulate | None, *, ends_its_data: bool = False
) -> Iterator[dict[str, Any]]:
    """The rows of a unit; `ends_its_data`: of producers that end with the window, whether or not
    the recorded ones did."""
    simulate = simulate or _own_simulation()
    path, edge = Path(unit["path"]), unit.get("edge")
    manifest = open_run(path).manifest
    assert manifest is not None, "runs without a manifest are refused by open_recorded_run"
    load = load_captured if manifest.is_from_between else load_exchange
    exchange, fit = load(path, unit["from_ns"], unit["to_ns"], edge=edge)
    if ends_its_data:
        exchange = replace(exchange, ends_its_data=True)
    error = None
    if not is_from_sources(manifest, edge):
        error = NOT_FROM_SOURCES
    elif is_blocking(manifest):
        error = BLOCKING_IS_NO_MODEL
    elif exchange.records == 0:
        error = "the trace holds no records to drive a simulation with"
    why_no_latency = None if error else _contradiction(exchange, fit, simulate)
    for candidate, text in zip(unit["candidates"], unit["settings"], strict=True):
        setting = slices.setting_of(text)
        row = _setting_row(unit["run"], candidate, text, fit, unit["to_ns"]) | {"error": error}
        if error is None:
            try:
                row |= _simulate_setting(exchange, fit, setting, simulate)
                row |= _without_latency(row, why_no_latency) if why_no_latency else {}
            except (SimulationError, ConfigError) as failure:
                row["error"] = str(failure)
        yield row


def _simulate_setting(
    exchange: RecordedExchange, fit: CostFit, setting: Setting, simulate: Simulate
) -> dict[str, Any]:
    outcome = simulate(exchange.under(setting), setting.network)
    return _numbers(outcome, exchange, fit, setting)


def _contradiction(exchange: RecordedExchange, fit: CostFit, simulate: Simulate) -> str | None:
    """Why no latency can be predicted of an exchange, by what its backlog says about the recorded
    setting; None if it can."""
    if not fit.queued.is_worth_a_look:
        return None
    recorded = Setting(exchange.network, exchange.flow_control)
    try:
        row = _simulate_setting(exchange, fit, recorded, simulate)
    except (SimulationError, ConfigError):
        return None
    return contradiction(fit.queued, row, *json.loads(row["bounds"])) if row["bounds"] else None


def _without_latency(row: Mapping[str, Any], why: str) -> dict[str, Any]:
    """What a row says where its latency and backlog are known to be wrong."""
    unknown = dict.fromkeys((*_LATENCY_COLUMNS, *_BACKLOG_COLUMNS, "bounds"))
    return {**unknown, "why_no_latency": why, "notes": [*row["notes"], f"latency unknown: {why}"]}


def _setting_row(run: int, candidate: int, text: str, fit: CostFit, to_ns: int) -> dict[str, Any]:
    """What a row says of its setting."""
    plain = json.loads(text)
    row = {"run": run, "candidate": candidate, "notes": list(fit.notes), "window_to_ns": to_ns}
    row["why_no_latency"] = None
    row |= {name: plain["network"][name] for name in _NETWORK_COLUMNS}
    return row | {name: value for name, value in plain.items() if name != "network"}


def _numbers(
    outcome: SimulatedOutcome, exchange: RecordedExchange, fit: CostFit, setting: Setting
) -> dict[str, Any]:
    """What a row says of its outcome."""
    delays = fit.delays.awake(exchange.waking_share(setting))
    seconds = outcome.duration_ns / 1e9
    notes = list(fit.notes)
    if setting.network.debloating_enabled and exchange.buffer_size_bytes is None:
        notes.append(GROWS.format(human_bytes(setting.network.starting_segment_size_bytes)))
    if exchange.starts_sleeping(setting):
        notes.append(SLEEPS)
    if exchange.stops_sleeping(setting):
        notes.append(POLLS)
    return {
        "records": outcome.records,
        "duration_ns": outcome.duration_ns,
        "throughput_records_per_s": outcome.throughput_records_per_s,
        "buffers_per_s": outcome.buffers_per_s,
        "credits_per_s": outcome.credits / seconds if seconds > 0 else None,
        "memory_bytes": outcome.memory_bytes,
        "method": outcome.method,
        "notes": notes,
        "backlog_buffers_mean": outcome.backlog_buffers.mean,
        "backlog_buffers_max": outcome.backlog_buffers.max,
        **asdict(delays.over(outcome.latency)),
        "bounds": None
        if outcome.latency_bounds is None
        else json.dumps([asdict(delays.over(each)) for each in outcome.latency_bounds]),
    }


def _own_simulation() -> Simulate:
    from flinknet.predict.what_if import simulate

    return simulate
