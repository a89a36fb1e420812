"""Repeating a recorded run: its scenario, and the instants at which its records came."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from flinknet.config import RecordSize, Scenario, SlowConsumer, WorkloadConfig
from flinknet.errors import ConfigError
from flinknet.job.load.arrivals import RECORDED, RecordedArrivals
from flinknet.predict.exchange import is_blocking, is_max_rate, load_exchange, recorded_setting

from .read import RecordedRun


def scenario_of(run: RecordedRun) -> Scenario:
    """The scenario that was given, with the measured part as long as it was.

    Raises: ConfigError if the manifest does not say it, or if it was a blocking exchange.
    """
    manifest = run.manifest
    stated = manifest.scenario.get("workload")
    if not isinstance(stated, dict) or not stated:
        raise ConfigError(f"{run.path}: its manifest does not say what flowed, so it cannot again")
    if is_blocking(manifest):
        raise ConfigError(
            f"{run.path}: the exchange was blocking, so records did not come at instants of their"
            " own; run it again with bench and --partition-type blocking"
        )
    known = {each.name for each in fields(WorkloadConfig)}
    given: dict[str, Any] = {name: value for name, value in stated.items() if name in known}
    given["record_size"] = RecordSize(**given.get("record_size", {}))
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
    )


def save_arrivals(run: RecordedRun, warmup_ns: int, directory: Path) -> str:
    """Write when the records of each producer came, the warm-up's too.

    Returns: the law of arrivals that a workload names them by; "constant" at the highest rate,
        where records come as they can.
    """
    if is_max_rate(run.manifest):
        return "constant"
    exchange, _ = load_exchange(run.path, run.from_ns - warmup_ns, run.to_ns)
    if not exchange.records:
        raise ConfigError(f"{run.path}: the trace holds no record instants to replay")
    directory.mkdir(parents=True, exist_ok=True)
    for producer in range(exchange.producers):
        own = [each.arrivals_ns for each in exchange.channels if each.producer == producer]
        instants_ns = np.sort(np.concatenate(own or [np.zeros(0, np.int64)]))
        RecordedArrivals.save(directory, producer, instants_ns - run.from_ns)
    return f"{RECORDED}{directory.absolute()}"
