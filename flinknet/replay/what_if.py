"""Recorded arrivals under other settings: one simulation for each run and candidate, inside the
executors. A work unit is a run with a share of its candidates, so that the run is read once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigError, SimulationError
from flinknet.trace import open_run
from flinknet.workload.recorded import RecordedExchange, Setting, SimulatedOutcome

from .costs import CostFit
from .exchange import is_max_rate, load_exchange
from .passing import load_in_passing
from .units import RecordedRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Simulate = Callable[[RecordedExchange, NetworkConfig], SimulatedOutcome]

DEFAULT_MAX_RECORDS = 500_000
"""Records of a run that are simulated for each candidate at most, unless told otherwise: with
timeout 0 each may be a message of its own, and what the kernel does not cover costs 50 µs a
message."""

DEFAULT_MAX_RECORDS_AT_MAX_RATE = 6_000_000
"""The same at the highest rate, where buffers are full at any timeout."""

MAX_RATE_WINDOW_NS = 1_000_000_000
"""How much of a run at the highest rate is looked at without Spark."""

_UNIT_SCHEMA = pa.schema(
    [
        ("run", pa.int64()),
        ("path", pa.string()),
        ("candidates", pa.list_(pa.int64())),
        ("settings", pa.list_(pa.string())),
        ("from_ns", pa.int64()),
        ("to_ns", pa.int64()),
    ]
)
_NETWORK_COLUMNS = (
    "buffer_timeout_ns",
    "exclusive_buffers",
    "floating_buffers",
    "segment_size_bytes",
)
_OUTCOME_SCHEMA = (
    "run bigint, candidate bigint, buffer_timeout_ns bigint, exclusive_buffers bigint,"
    " floating_buffers bigint, segment_size_bytes bigint, flow_control string,"
    " round_trip_ns bigint, consumer_speed double, rate_factor double,"
    " records bigint, duration_ns bigint,"
    " throughput_records_per_s double, buffers_per_s double, credits_per_s double,"
    " memory_bytes bigint, method string,"
    " backlog_buffers_mean double, backlog_buffers_max bigint,"
    " count bigint, min bigint, mean double, p50 double, p75 double, p90 double, p95 double,"
    " p99 double, p99_9 double, max bigint, bounds string, notes array<string>, error string"
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A setting to predict for a run, and the part of its measured window whose arrivals are
    used."""

    run: RecordedRun
    number: int
    setting: Setting
    to_ns: int


def predict(
    spark: SparkSession, candidates: Sequence[Candidate], simulate: Simulate | None = None
) -> DataFrame:
    """Simulate every candidate.

    Args:
        simulate: the simulation; None for the one of `simulator.what_if`.

    Returns: run, candidate (its number), the values of its setting, records, duration_ns,
    throughput_records_per_s, buffers_per_s, credits_per_s, memory_bytes, method (what computed it),
        backlog_buffers_mean and _max, the fields of `results.LatencySummary`, bounds (such fields as
        JSON: of the least latency and of the greatest, where arrivals were assumed), notes, and
        error: what the simulator said if it failed, with nulls in place of numbers.
    """
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType, _parse_datatype_string

    parsed = _parse_datatype_string(_OUTCOME_SCHEMA)
    assert isinstance(parsed, StructType)
    outcome_schema = to_arrow_schema(parsed)

    def run_units(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for unit in batch.to_pylist():
                rows = list(_simulate_unit(unit, simulate))
                yield pa.RecordBatch.from_pylist(rows, schema=outcome_schema)

    units = _units(candidates, spark.sparkContext.defaultParallelism)
    frame = spark.createDataFrame(pa.Table.from_pylist(units, schema=_UNIT_SCHEMA))
    return frame.repartition(len(units)).mapInArrow(run_units, _OUTCOME_SCHEMA)


def predict_here(run: RecordedRun, settings: Sequence[Setting]) -> list[dict[str, Any]]:
    """Predict some settings in this process, without Spark.

    Returns: a row for each, with the columns of `predict`.
    """
    to_ns = run.to_ns
    if is_max_rate(run.manifest):
        to_ns = min(to_ns, run.from_ns + MAX_RATE_WINDOW_NS)
    candidates = [Candidate(run, number, each, to_ns) for number, each in enumerate(settings)]
    (unit,) = _units(candidates, cores=1)
    return list(_simulate_unit(unit, None))


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
                }
            )
    return units


def _simulate_unit(unit: dict[str, Any], simulate: Simulate | None) -> Iterator[dict[str, Any]]:
    simulate = simulate or _own_simulation()
    exchange, fit = _load(Path(unit["path"]), unit["from_ns"], unit["to_ns"])
    notes, error = list(fit.notes), None
    if exchange.records == 0:
        error = "the trace holds no records to drive a simulation with"
    for candidate, text in zip(unit["candidates"], unit["settings"], strict=True):
        plain = json.loads(text)
        setting = Setting(**plain | {"network": NetworkConfig(**plain["network"])})
        row = {"run": unit["run"], "candidate": candidate, "notes": notes, "error": error}
        row |= {name: plain["network"][name] for name in _NETWORK_COLUMNS}
        row |= {name: value for name, value in plain.items() if name != "network"}
        if error is None:
            try:
                row |= _simulate_setting(exchange, fit, setting, simulate)
            except (SimulationError, ConfigError) as failure:
                row["error"] = str(failure)
        yield row


def _load(path: Path, from_ns: int, to_ns: int) -> tuple[RecordedExchange, CostFit]:
    manifest = open_run(path).manifest
    is_from_between = manifest is not None and manifest.is_from_between
    return (load_in_passing if is_from_between else load_exchange)(path, from_ns, to_ns)


def _simulate_setting(
    exchange: RecordedExchange, fit: CostFit, setting: Setting, simulate: Simulate
) -> dict[str, Any]:
    outcome = simulate(exchange.under(setting), setting.network)
    seconds = outcome.duration_ns / 1e9
    return {
        "records": outcome.records,
        "duration_ns": outcome.duration_ns,
        "throughput_records_per_s": outcome.throughput_records_per_s,
        "buffers_per_s": outcome.buffers_per_s,
        "credits_per_s": outcome.credits / seconds if seconds > 0 else None,
        "memory_bytes": outcome.memory_bytes,
        "method": outcome.method,
        "backlog_buffers_mean": outcome.backlog_buffers.mean,
        "backlog_buffers_max": outcome.backlog_buffers.max,
        **asdict(fit.delays.over(outcome.latency)),
        "bounds": None
        if outcome.latency_bounds is None
        else json.dumps([asdict(fit.delays.over(each)) for each in outcome.latency_bounds]),
    }


def _own_simulation() -> Simulate:
    from flinknet.simulator.what_if import simulate

    return simulate
