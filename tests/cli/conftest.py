"""An executor that spawns nothing: it answers each scenario with numbers that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flinknet import results
from flinknet.cli import main
from flinknet.cli.sweep import Executor
from flinknet.config import Scenario
from flinknet.options import effective_flink_keys
from flinknet.runtime.cluster.run_result import describe_workload
from tests.made_results import measured, run_result

RATE_PER_S = 1000

Flinknet = Callable[..., Result]
"""Calls the command line."""


@dataclass
class RecordingRun:
    """Notes what it was asked; p99 is the buffer timeout, 7% less or more as the round has it."""

    scenarios: list[Scenario] = field(default_factory=list)
    fail_at: int | None = None
    error: BaseException | None = None
    warnings: tuple[results.RunWarning, ...] = ()
    warnings_of: Sequence[tuple[results.RunWarning, ...]] = ()  # of one run after the other
    warnings_at: dict[int, tuple[results.RunWarning, ...]] = field(
        default_factory=dict
    )  # buffer timeout
    measured_records: Sequence[int] = (3000,)  # of one run after the other
    rates_per_s: Sequence[float] = (RATE_PER_S,)  # of one run after the other
    backlogs: Sequence[float] = (0.5,)  # means, of one run after the other
    flushes: results.FlushCounts = field(default_factory=lambda: results.FlushCounts(1, 28, 1))
    cpu_cores: Sequence[float] = ()  # of one run after the other; none: unknown

    def __call__(
        self,
        scenario: Scenario,
        *,
        out_dir: Path | None,
        trace: bool,
        on_progress: Callable[[results.Progress], None],
    ) -> results.RunResult:
        at = len(self.scenarios)
        self.scenarios.append(scenario)
        if self.error is not None and len(self.scenarios) == self.fail_at:
            raise self.error
        if trace:
            assert out_dir is not None
        on_progress(
            results.Progress("measuring", 6_000_000_000, 0.5, 10, 1000.0, 1e5, 1e6, 2e6, ())
        )
        wobble = 1 + 0.07 * (scenario.seed % 3 - 1)
        latency = results.LatencySummary(
            count=3000, p50=1e6, p99=max(1, scenario.network.buffer_timeout_ns) * wobble
        )
        backlog = results.BacklogSummary(self.backlogs[at % len(self.backlogs)], 2)
        figures = measured(
            records=self.measured_records[at % len(self.measured_records)],
            bytes=300_000,
            buffers=30,
            events=2,
            duration_ns=3_000_000_000,
            throughput_records_per_s=self.rates_per_s[at % len(self.rates_per_s)],
            throughput_bytes_per_s=RATE_PER_S * 100,
            latency_ns=latency,
            latency_uncorrected_ns=latency,
            backlog_buffers=backlog,
            credits=results.CreditSummary(20, 10, None),
            flushes=self.flushes,
        )
        return run_result(
            figures,
            config=dict(effective_flink_keys(scenario.network)),
            workload=describe_workload(scenario),
            channels=(results.ChannelMeasured(0, 0, 0, 3000, RATE_PER_S, latency, backlog),),
            warnings=self.warnings_of[at % len(self.warnings_of)]
            if self.warnings_of
            else self.warnings_at.get(scenario.network.buffer_timeout_ns, self.warnings),
            trace=str(out_dir) if trace else None,
            processors=results.ProcessorUse(
                busy_share={},
                lacked_share={"tm-0": 0.0},
                cpu_cores=self.cpu_cores[at % len(self.cpu_cores)],
            )
            if self.cpu_cores
            else None,
        )


@pytest.fixture
def run() -> RecordingRun:
    """What stands in for the runtime."""
    return RecordingRun()


@pytest.fixture
def flinknet(run: RecordingRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flinknet:
    """Call the command line in an empty directory."""
    monkeypatch.chdir(tmp_path)
    executor = Executor(run, lambda: {"cores": 2})

    def call(*arguments: str, charset: str = "utf-8") -> Result:
        return CliRunner(charset=charset).invoke(main, _strings(arguments), obj=executor)

    return call


@pytest.fixture
def compare(flinknet: Flinknet) -> Flinknet:
    """Call compare-configs with all its output."""
    return partial(flinknet, "compare-configs", "--details")


def _strings(arguments: Sequence[Any]) -> list[str]:
    return [str(argument) for argument in arguments]
