"""Runs of a bench on real processes: their scenarios, and the run itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flinknet.config import NetworkConfig, Scenario, WorkloadConfig
from flinknet.results import Progress, RunResult
from flinknet.runtime.cluster.launcher import run_scenario

MS = 1_000_000


def scenario_of(
    producers: int = 2,
    consumers: int = 2,
    *,
    network: NetworkConfig = NetworkConfig(),  # noqa: B008 - frozen
    timeout_ns: int = 5 * MS,
    **workload: object,
) -> Scenario:
    """Tasks of two TaskManagers, with a short warm-up and buffer timeout."""
    plain = WorkloadConfig(producers=producers, consumers=consumers, warmup_ns=20 * MS)
    return Scenario(
        network=replace(network, buffer_timeout_ns=timeout_ns),
        workload=replace(plain, **workload),  # type: ignore[arg-type]
    )


def run(scenario: Scenario, watch: Callable[[Progress], None] | None = None) -> RunResult:
    """Run a scenario without a trace."""
    return run_scenario(scenario, out_dir=None, trace=False, on_progress=watch)
