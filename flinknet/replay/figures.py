"""Figures of an Outcome, from what a simulation came to."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from typing import Any

from flinknet.options.what_if import Setting, columns_of
from flinknet.predict.fit.costs import CostFit
from flinknet.predict.flushes import flushes_factor
from flinknet.predict.recorded import RecordedExchange
from flinknet.predict.simulated import SimulatedOutcome
from flinknet.results import LatencySummary
from flinknet.units import human_bytes, human_duration

from .outcome import Outcome

POLLS = (
    "TaskManagers would poll that slept in the recorded run: what the machine does to a process"
    " that never sleeps, such as to let a thread of the kernel have its core, is not in the trace,"
    " and p99 may be higher"
)

SLEEPS = (
    "consumers that polled in the recorded run would sleep between messages: the trace does not"
    " show how long they take to wake, 0.1 ms and more"
)

GROWS = (
    "debloating begins with buffers of {}, as in a task, and the prediction includes the time until"
    " they have their final size: to see what it is worth after that, record a run with it"
)

NO_CHECKPOINT = (
    "the part that is simulated, {}, is over before the first checkpoint begins: give a shorter"
    " interval, or more of the trace with --max-records"
)

SLOW = "it is simulated message by message"

_LATENCY_COLUMNS = tuple(each.name for each in fields(LatencySummary))
_BACKLOG_COLUMNS = ("backlog_buffers_mean", "backlog_buffers_max")


def of_the_first(outcome: Outcome, from_ns: int, to_ns: int) -> Outcome:
    """An outcome of the first part of a run only, which its notes say first."""
    note = f"of the first {(to_ns - from_ns) / 1e9:.3g} s only: {SLOW}"
    return replace(outcome, window_to_ns=to_ns, notes=[note, *outcome.notes])


def without_latency(outcome: Outcome, why: str) -> Outcome:
    """An outcome whose latency and backlog are known to be wrong."""
    unknown: dict[str, Any] = dict.fromkeys((*_LATENCY_COLUMNS, *_BACKLOG_COLUMNS, "bounds"))
    notes = [*outcome.notes, f"latency unknown: {why}"]
    return replace(outcome, **unknown, why_no_latency=why, notes=notes)


def unpredicted(run: int, candidate: int, setting: Setting, fit: CostFit, to_ns: int) -> Outcome:
    """The outcome of a setting without its figures."""
    return Outcome(
        run=run,
        candidate=candidate,
        **columns_of(setting),
        window_to_ns=to_ns,
        latency_at_least_ns=fit.queued.mean_ns or None,
        notes=list(fit.notes),
    )


def with_figures(
    unpredicted: Outcome,
    simulated: SimulatedOutcome,
    exchange: RecordedExchange,
    fit: CostFit,
    setting: Setting,
) -> Outcome:
    """The outcome with what was simulated, and with the delays of the machine."""
    delays = fit.delays.awake(exchange.waking_share(setting), flushes_factor([exchange], [setting]))
    delays = delays.and_waits(exchange.late_waits_ns(setting))
    seconds = simulated.duration_ns / 1e9
    notes = list(fit.notes)
    if setting.network.debloating_enabled and exchange.buffer_size_bytes is None:
        notes.append(GROWS.format(human_bytes(setting.network.starting_segment_size_bytes)))
    if simulated.checkpoints is not None and not simulated.checkpoints.triggered:
        notes.append(NO_CHECKPOINT.format(human_duration(simulated.duration_ns)))
    if exchange.starts_sleeping(setting):
        notes.append(SLEEPS)
    if exchange.stops_sleeping(setting):
        notes.append(POLLS)
    return replace(
        unpredicted,
        records=simulated.records,
        duration_ns=simulated.duration_ns,
        throughput_records_per_s=simulated.throughput_records_per_s,
        buffers_per_s=simulated.buffers_per_s,
        credits_per_s=simulated.credits / seconds if seconds > 0 else None,
        memory_bytes=simulated.memory_bytes,
        method=simulated.method,
        notes=notes,
        backlog_buffers_mean=simulated.backlog_buffers.mean,
        backlog_buffers_max=simulated.backlog_buffers.max,
        checkpoints=json.dumps(asdict(simulated.checkpoints)) if simulated.checkpoints else None,
        **asdict(delays.over(simulated.latency)),
    )
