"""Recorded arrivals under other settings: one simulation for each run and candidate, inside the
executors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flinknet.config import NetworkConfig
from flinknet.errors import SimulationError
from flinknet.workload.recorded import CostModel, RecordedExchange, SimulatedOutcome

from .exchange import load_exchange
from .units import RecordedRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Simulate = Callable[[RecordedExchange, NetworkConfig], SimulatedOutcome]

DEFAULT_MAX_RECORDS = 50_000
"""Records of a run that are simulated for each candidate at most, unless told otherwise: with
timeout 0 each may be a message of its own, and a message costs the simulator 50 µs."""

DEFAULT_MAX_RECORDS_AT_MAX_RATE = 1_000_000
"""The same at the highest rate, where buffers are full at any timeout."""

_UNIT_SCHEMA = pa.schema(
    [
        ("run", pa.int64()),
        ("candidate", pa.int64()),
        ("path", pa.string()),
        ("network", pa.string()),
        ("from_ns", pa.int64()),
        ("to_ns", pa.int64()),
    ]
)
_OUTCOME_SCHEMA = (
    "run bigint, candidate bigint, buffer_timeout_ns bigint, records bigint, duration_ns bigint,"
    " throughput_records_per_s double, buffers_per_s double,"
    " backlog_buffers_mean double, backlog_buffers_max bigint,"
    " count bigint, min bigint, mean double, p50 double, p75 double, p90 double, p95 double,"
    " p99 double, p99_9 double, max bigint, notes array<string>, error string"
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A setting to predict for a run, and the part of its measured window whose arrivals are
    used."""

    run: RecordedRun
    number: int
    network: NetworkConfig
    to_ns: int


def predict(
    spark: SparkSession, candidates: Sequence[Candidate], simulate: Simulate | None = None
) -> DataFrame:
    """Simulate every candidate; a work unit each.

    Args:
        simulate: the simulation; None for the one of `simulator.what_if`.

    Returns: run, candidate (its number), buffer_timeout_ns, records, duration_ns,
    throughput_records_per_s,
        buffers_per_s, backlog_buffers_mean and _max, the fields of `results.LatencySummary`, notes,
        and error: what the simulator said if it failed, with nulls in place of numbers.
    """
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType, _parse_datatype_string

    parsed = _parse_datatype_string(_OUTCOME_SCHEMA)
    assert isinstance(parsed, StructType)
    outcome_schema = to_arrow_schema(parsed)

    def run_units(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [_simulate_unit(unit, simulate) for unit in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, schema=outcome_schema)

    units = [
        {
            "run": each.run.run,
            "candidate": each.number,
            "path": str(each.run.path.absolute()),
            "network": json.dumps(asdict(each.network)),
            "from_ns": each.run.from_ns,
            "to_ns": each.to_ns,
        }
        for each in candidates
    ]
    frame = spark.createDataFrame(pa.Table.from_pylist(units, schema=_UNIT_SCHEMA))
    return frame.mapInArrow(run_units, _OUTCOME_SCHEMA)


def _simulate_unit(unit: dict[str, Any], simulate: Simulate | None) -> dict[str, Any]:
    simulate = simulate or _own_simulation()
    network = NetworkConfig(**json.loads(unit["network"]))
    row: dict[str, Any] = {
        "run": unit["run"],
        "candidate": unit["candidate"],
        "buffer_timeout_ns": network.buffer_timeout_ns,
    }
    exchange, fit = load_exchange(Path(unit["path"]), unit["from_ns"], unit["to_ns"])
    row["notes"] = list(fit.notes)
    if exchange.records == 0:
        return row | {"error": "the trace holds no record instants to drive a simulation with"}
    try:
        if exchange.is_max_rate:
            exchange, note = in_step(exchange, simulate)
            row["notes"].append(note)
        outcome = simulate(exchange, network)
    except SimulationError as error:
        return row | {"error": str(error)}
    return row | {
        "records": outcome.records,
        "duration_ns": outcome.duration_ns,
        "throughput_records_per_s": outcome.throughput_records_per_s,
        "buffers_per_s": outcome.buffers_per_s,
        "backlog_buffers_mean": outcome.backlog_buffers.mean,
        "backlog_buffers_max": outcome.backlog_buffers.max,
        **asdict(fit.delays.over(outcome.latency)),
    }


def in_step(exchange: RecordedExchange, simulate: Simulate) -> tuple[RecordedExchange, str]:
    """Stretch all costs of an exchange at the highest rate alike until the recorded throughput is
    met.

    Medians are those of a machine that has time. One that is busy with itself and others takes
    longer over everything, and at the highest rate time is nothing but the sum of these costs: so
    one simulation of the recorded setting tells by how much.

    Returns: the exchange with its costs stretched, and a sentence that says so.
    """
    outcome = simulate(exchange, exchange.network)
    recorded_per_s = exchange.records * 1e9 / exchange.duration_ns
    factor = (outcome.throughput_records_per_s or recorded_per_s) / recorded_per_s
    costs = exchange.costs
    stretched = CostModel(
        send_ns_per_message=costs.send_ns_per_message * factor,
        send_ns_per_byte=costs.send_ns_per_byte * factor,
        transit_ns=costs.transit_ns * factor,
        receive_ns_per_message=costs.receive_ns_per_message * factor,
        emit_ns_per_record=costs.emit_ns_per_record * factor,
        consume_ns_per_record=tuple(each * factor for each in costs.consume_ns_per_record),
    )
    note = (
        f"highest rate: all costs times {factor:.2f}, to meet the recorded throughput; a small"
        " error of it says nothing about the model"
    )
    return replace(exchange, costs=stretched), note


def _own_simulation() -> Simulate:
    from flinknet.simulator.what_if import simulate

    return simulate
