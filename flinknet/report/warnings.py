"""Reasons to doubt a result, and remedies.

The runtime notes what only it can see (a missed schedule, lost trace events). Here stands what the
scenario and the numbers show by themselves. A warning is a value with advice, never a print.
"""

from __future__ import annotations

from dataclasses import replace

from flinknet.config import Scenario
from flinknet.results import RunResult, RunWarning
from flinknet.units import format_duration_ns, human_duration

BEATS_MIN = 10
WARMUP_MIN_NS = 100_000_000


def with_doubts(scenario: Scenario, result: RunResult, known: tuple[RunWarning, ...]) -> RunResult:
    """The result with every warning there is: the runtime's, those of the settings, and ours."""
    codes = {warning.code for warning in result.warnings}
    doubted = (warning for warning in doubts(scenario, result) if warning.code not in codes)
    return replace(result, warnings=(*result.warnings, *known, *doubted))


def doubts(scenario: Scenario, result: RunResult) -> tuple[RunWarning, ...]:
    """Doubts that follow from the numbers of a run."""
    checks = (_beats(scenario, result), _compression(scenario, result), _warmup(scenario))
    return tuple(warning for warning in checks if warning is not None)


def _beats(scenario: Scenario, result: RunResult) -> RunWarning | None:
    timeout_ns = scenario.network.buffer_timeout_ns
    duration_ns = result.measured.duration_ns
    if timeout_ns <= 0 or duration_ns >= BEATS_MIN * timeout_ns:
        return None
    return RunWarning(
        "few-flushes",
        f"run too short: {human_duration(duration_ns)} is less than {BEATS_MIN} flushes of"
        f" {format_duration_ns(timeout_ns)}; use --duration"
        f" {format_duration_ns(BEATS_MIN * timeout_ns)} or more.",
    )


def _compression(scenario: Scenario, result: RunResult) -> RunWarning | None:
    """Warning where records differ so little that any codec looks good."""
    if not any(each.stored_bytes < each.data_bytes for each in result.blocking):
        return None
    return RunWarning(
        "compresses-too-well",
        "the records of bench differ in their first 16 bytes only, so"
        f" {scenario.network.compression_codec} compresses them far better than real records.",
        "real records compress far less than those of bench",
    )


def _warmup(scenario: Scenario) -> RunWarning | None:
    if scenario.workload.warmup_ns >= WARMUP_MIN_NS or scenario.workload.is_blocking:
        return None
    return RunWarning(
        "no-warmup",
        "the measured part includes the start, when caches are cold and the first credits travel;"
        " use --warmup 500ms.",
        "no warm-up: the measured part includes the start",
    )
