"""Repeats a recorded run: its scenario, and the records that its sources sent.

Arrival, size and target of records recorded between processes are known from their buffers alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flinknet.arrays import RecordedLoad
from flinknet.config import RECORDED, RecordSize, Scenario, SlowConsumer, WorkloadConfig
from flinknet.errors import ConfigError
from flinknet.options.link import link_of
from flinknet.predict.captured_rows import common_value_bytes, sent_bytes
from flinknet.predict.exchange import is_blocking, is_max_rate, recorded_setting
from flinknet.predict.grid import Grid
from flinknet.predict.loading import load_exchange
from flinknet.results import TradeOffPoint
from flinknet.storage import AnyPath
from flinknet.units import human_duration

from .edges import EdgeTimeouts
from .observe.observed import observe_here
from .plans import check_edge_timeouts, plan_jobs
from .predictions import WHOLE_JOB, units_of
from .read import RecordedRun, open_recorded_run, open_runs, result_of
from .simulations import predictions_of

_CONSUMED_NS_MIN = 1_000.0  # for a record; with less a consumer is as quick as flinknet's own
_BUSY_MAX = 0.9  # share of its time in which a consumer works; with more it would fall behind


def open_to_repeat(path: AnyPath, edge: int | None) -> RecordedRun:
    """Open a run to repeat; recorded between processes, one edge without the start of the job.
    Raises: ConfigError if there are several edges and none was chosen, or no such one."""
    run = open_recorded_run(path, 0)
    if not run.manifest.is_from_between:
        if edge is not None:
            raise ConfigError(
                f"--edge: {path} is a run of flinknet, which is repeated from its sources on"
            )
        return run
    edges = open_runs([run.path])
    chosen = [each for each in edges if each.ends.number == edge]
    if edge is None and len(edges) == 1:
        chosen = edges
    if chosen:
        return chosen[0]
    known = "; ".join(each.ends.title for each in edges)
    why = "the trace has several exchanges" if edge is None else f"there is no edge {edge}"
    raise ConfigError(f"--edge: {why}; choose one of {known}")


def scenario_of(run: RecordedRun) -> Scenario:
    """The given scenario, with the measured part as long as recorded. Raises: ConfigError if the
    manifest does not have it, or if it was a blocking exchange."""
    manifest = run.manifest
    if manifest.is_from_between:
        return _captured_scenario(run)
    stated = manifest.scenario.get("workload")
    if not isinstance(stated, dict) or not stated:
        raise ConfigError(
            f"{run.path}: its manifest does not say which records were sent, so they cannot be sent"
            " again"
        )
    if is_blocking(manifest):
        raise ConfigError(
            f"{run.path}: the exchange was blocking, so records did not come at instants of their"
            " own; run it again with bench and --partition-type blocking"
        )
    known = {each.name for each in fields(WorkloadConfig)}
    given: dict[str, Any] = {name: value for name, value in stated.items() if name in known}
    given["record_size"] = RecordSize(**given.get("record_size", {}))
    for name in ("relay_delay_ns_per_record", "relay_parallelism"):
        given[name] = tuple(given.get(name, ()))
    given["slow_consumers"] = tuple(
        SlowConsumer(**each) for each in given.get("slow_consumers", ())
    )
    setting = recorded_setting(manifest)
    return Scenario(
        network=setting.network,
        workload=WorkloadConfig(**given | {"records": None, "duration_ns": run.duration_ns}),
        task_managers=manifest.scenario.get("task_managers", Scenario().task_managers),
        seed=manifest.seed,
        flow_control=setting.flow_control,
        placement=manifest.scenario.get("placement", Scenario().placement),
        link=link_of(manifest.scenario.get("link")),
        flink_release=manifest.scenario.get("flink_release"),
    )


@dataclass(frozen=True, slots=True)
class PredictedTimeouts:
    """A job with some buffer timeouts of its tasks, as predicted; by name of the task, in ns."""

    timeouts_ns: Mapping[str, int]
    point: TradeOffPoint


def predict_timeouts(
    run: RecordedRun, for_all_ns: Sequence[int], edge_timeouts: Sequence[EdgeTimeouts]
) -> list[PredictedTimeouts]:
    """Predict a job that flinknet ran, in this process without Spark: as recorded, with timeouts
    for all tasks, and with timeouts of some edges. Raises: ConfigError for a job of one exchange,
    and for two timeouts of one task."""
    runs = open_runs([run.path])
    check_edge_timeouts(runs, edge_timeouts)
    grid = Grid(buffer_timeouts_ns=for_all_ns)
    plans = plan_jobs(observe_here(runs), grid, edge_timeouts)
    if len(plans) != 1:
        raise ConfigError(f"{run.path}: a job of one exchange; repeat it with `flinknet job run`")
    (plan,) = plans
    (unit,) = units_of(plan, shares=1)
    points = {row.candidate: row.point for row in predictions_of(unit) if row.edge == WHOLE_JOB}
    found = []
    for number, timeouts_ns in enumerate(map(plan.task_timeouts, plan.candidates)):
        if timeouts_ns is None:
            raise ConfigError(
                "--edge-timeout: edges behind one task have the same timeout; name the task, as in"
                " Enrich=50ms"
            )
        named = dict(zip(plan.tasks.values(), timeouts_ns, strict=True))
        found.append(PredictedTimeouts(named, points[number]))
    return sorted(found, key=lambda each: not each.point.is_recorded)


def measured_then(run: RecordedRun) -> dict[str, Any] | None:
    """Throughput and latencies that the run itself measured; None if unknown."""
    measured = result_of(run).get("measured")
    if run.manifest.is_from_between or not isinstance(measured, dict):
        return None
    names = ("throughput_records_per_s", "latency_ns")
    return {name: measured[name] for name in names} if measured.keys() >= {*names} else None


def _captured_scenario(run: RecordedRun) -> Scenario:
    exchange = load_exchange(run.place, run.from_ns, run.to_ns, edge=run.edge)
    if not exchange.records:
        raise ConfigError(f"{run.path}: no record was counted in it, so none can be sent again")
    setting = recorded_setting(run.manifest)
    channels = [each.index for each in run.manifest.channels]
    sent = sent_bytes(run.place, channels, run.from_ns, run.to_ns)
    if (constant := common_value_bytes(sent)) is not None:
        size = RecordSize(constant, constant)
    else:
        sizes = np.concatenate([each.value_bytes(each.at_ns) for each in sent.values()])
        counts = np.concatenate([each.records for each in sent.values()])
        mean_bytes = float(sizes @ counts / counts.sum())
        size = RecordSize(int(sizes.min()), int(sizes.max()), stated_mean_bytes=mean_bytes)
    slow = []  # consumers that needed time for each record, as far as it was their own
    for consumer, record_ns in enumerate(exchange.costs.consume_ns_per_record):
        records = sum(each.records for each in exchange.channels if each.consumer == consumer)
        if record_ns >= _CONSUMED_NS_MIN and records * record_ns <= _BUSY_MAX * run.duration_ns:
            slow.append(SlowConsumer(consumer, round(record_ns)))
    return Scenario(
        network=setting.network,
        workload=WorkloadConfig(
            producers=exchange.producers,
            consumers=exchange.consumers,
            rate_per_s=exchange.records * 1e9 / run.duration_ns / exchange.producers,
            record_size=size,
            duration_ns=run.duration_ns,
            slow_consumers=tuple(slow),
        ),
        seed=run.manifest.seed,
        flow_control=setting.flow_control,
    )


def notes_of(run: RecordedRun, scenario: Scenario) -> list[str]:
    """Assumptions about the records that are sent again, and what is not repeated."""
    if not run.manifest.is_from_between:
        return []
    size, slow = scenario.workload.record_size, scenario.workload.slow_consumers
    notes = [
        "what is measured is flinknet's stack on this machine, and not your Flink",
        "sent again: each record on its channel, at an instant within the time in which its buffer"
        " must have been filled; keys and contents are not known",
        f"record sizes: {size.low_bytes} bytes, by the length of the buffers"
        if size.is_constant
        else "record sizes: the mean of the records of each buffer; how they differ within one is"
        " not known",
        "channels within a TaskManager are not in the trace, and are not repeated",
    ]
    if slow:
        times = ", ".join(
            f"consumer {each.index} {human_duration(each.delay_ns_per_record)}" for each in slow
        )
        notes.append(f"time for each record, as the credit that came back shows it: {times}")
    return notes


def save_records(run: RecordedRun, scenario: Scenario, directory: Path) -> str:
    """Write what each producer sent, and when, also in the warm-up. Returns: the law of arrivals by
    which a workload names them; "constant" at the highest rate, where records come as they can."""
    if is_max_rate(run.manifest):
        return "constant"
    from_ns = run.from_ns - scenario.workload.warmup_ns
    is_captured = run.manifest.is_from_between
    first_edge = 0 if len({each.edge for each in run.manifest.channels}) > 1 else None
    edge = run.edge if is_captured else first_edge
    exchange = load_exchange(run.place, from_ns, run.to_ns, edge=edge)
    if not exchange.records:
        raise ConfigError(f"{run.path}: the trace holds no record instants to replay")
    sizes = {}
    if is_captured and not scenario.workload.record_size.is_constant:
        channels = [each.index for each in run.manifest.channels]
        sizes = sent_bytes(run.place, channels, from_ns, run.to_ns)
    directory.mkdir(parents=True, exist_ok=True)
    for producer in range(exchange.producers):
        own = [each for each in exchange.channels if each.producer == producer]
        instants_ns = [each.arrivals_ns for each in own]
        values = [
            sizes[channel.channel].value_bytes(at_ns)
            for channel, at_ns in zip(own, instants_ns, strict=True)
            if channel.channel in sizes
        ]
        places = [np.full(each.records, each.consumer) for each in own]
        order = np.argsort(_joined(instants_ns), kind="stable")
        RecordedLoad(
            _joined(instants_ns)[order] - run.from_ns,
            _joined(values)[order] if sizes else None,
            _joined(places)[order].astype(np.int32) if is_captured else None,
        ).save(directory, producer)
    return f"{RECORDED}{directory.absolute()}"


def _joined(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.concatenate([*parts, np.zeros(0, np.int64)])
