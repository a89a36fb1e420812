"""Predictions of a unit, computed in an executor: by the compiled model where it covers a window,
else message by message on the real core, and then of the first part only. Jobs of several edges
have the compiled model alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from flinknet.errors import ConfigError, SimulationError
from flinknet.options import effective_flink_keys
from flinknet.options.what_if import Setting, columns_of, situation_of
from flinknet.predict.exchange import BLOCKING_IS_NO_MODEL, is_blocking, is_max_rate, manifest_of
from flinknet.predict.fit.queued import contradiction
from flinknet.predict.job import RecordedJob
from flinknet.predict.job_run import simulate_job
from flinknet.predict.loading import load_alone, load_job
from flinknet.predict.outcome import RANGES_OF_PHASES, Outcome, has_no_model, joined
from flinknet.predict.recorded import RecordedExchange
from flinknet.predict.what_if import BARRIERS_LEFT_OUT, leaves_barriers_out
from flinknet.results import TradeOffPoint
from flinknet.trace.index import Stamp, stamps_of
from flinknet.trace.recordings import Recording, open_recordings
from flinknet.units import NS_PER_MS, human_bytes, human_duration

from .edges import NOT_FROM_SOURCES, is_from_sources
from .plans import ALONE, Part, Window, first_of, plan_of
from .predictions import (
    NO_RUN,
    UNKNOWN_BACKLOG,
    UNKNOWN_LATENCY,
    WHOLE_JOB,
    AskedSetting,
    Prediction,
    PredictionUnit,
    units_of,
    within_clocks,
    without_latency,
)
from .read import RecordedRun

MAX_RATE_WINDOW_NS = 2_000_000_000
SEVERAL_EXCHANGES = "records passed through several exchanges, and the model knows one at a time"
NO_RECORDS = "the trace holds no records to drive a simulation with"

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

SHORTER = (
    "shorter than recorded: instants between the first and last record of a recorded buffer are"
    " taken as evenly spread"
)

NOT_WHOLE_MS = "not advised: Flink's buffer timeout is in whole milliseconds"

SLOW = "it is simulated message by message"


def predictions_of(unit: PredictionUnit, *, ends_its_data: bool = False) -> Iterator[Prediction]:
    """The rows of a unit, those of each candidate together: for a job a row of its own and one for
    each of its edges. Producers of an exchange may end their data with the part."""
    is_alone = unit.job == ALONE
    jobs = _loaded(unit.place, unit.part.windows, unit.edges, is_alone, stamps_at(unit.place))
    if ends_its_data:
        exchanges = (replace(each.edges[0].exchange, ends_its_data=True) for each in jobs)
        jobs = tuple(map(_with_exchange, jobs, exchanges))
    error = _why_unpredicted(unit, jobs) if is_alone else None
    is_checked = is_alone and error is None
    why_no_latency = _contradiction(jobs, unit.part.core_ns) if is_checked else None
    clock_error_ns = manifest_of(unit.place).clock.error_ns
    for number, settings in enumerate(unit.settings):
        whys = (error, *(unit.part.why_refused(each) for each in settings))
        why = next((each for each in whys if each is not None), None)
        if is_alone:
            rows = [unpredicted(unit, number, _busiest(jobs))]
        else:
            notes = list(dict.fromkeys(note for job in jobs for note in job.notes))
            if any(map(leaves_barriers_out, settings)):
                notes.append(BARRIERS_LEFT_OUT)
            rows = [_row(unit, number, WHOLE_JOB, assumed=notes)]
            rows += [_row(unit, number, each) for each in range(len(unit.edges))]
        if why is None:
            try:
                rows = _simulated(rows, unit.part, settings, jobs)
            except (SimulationError, ConfigError) as failure:
                why = str(failure)
        for row in rows:
            if why is None and why_no_latency is not None:
                row = replace(row, point=without_latency(row.point, why_no_latency))
            row = unknown(within_clocks(row, clock_error_ns), why)
            if row.edge != WHOLE_JOB:
                is_timed = all(each.edges[row.edge].exchange.has_instants for each in jobs)
                row = with_notes(row, unit.recorded[row.edge], is_timed=is_timed)
            yield row


def predict_here(
    run: RecordedRun, settings: Sequence[Setting], duration_ns: int
) -> list[Prediction]:
    """Predict some settings of an exchange in this process, without Spark. Records come for
    `duration_ns` from the start of the measured part, then producers end; costs are fitted to more
    of the trace, if there is more."""
    is_capped = is_max_rate(run.manifest)
    part = first_of(run, min(duration_ns, MAX_RATE_WINDOW_NS) if is_capped else duration_ns)
    (unit,) = units_of(plan_of(run, settings, part), shares=1)
    return list(predictions_of(unit, ends_its_data=not is_capped))


def stamps_at(place: tuple[Recording, ...]) -> tuple[Stamp, ...]:
    """When the files of a run were changed, as part of the key of cached results."""
    return stamps_of(open_recordings(place).files)


@lru_cache(maxsize=2)
def _loaded(
    place: tuple[Recording, ...],
    windows: tuple[Window, ...],
    edges: tuple[int | None, ...],
    is_alone: bool,
    _stamps: tuple[Stamp, ...],
) -> tuple[RecordedJob, ...]:
    """The job in each window, loaded once in each process; an exchange alone is a job of one
    edge."""
    if is_alone:
        return tuple(load_alone(place, each.from_ns, each.to_ns, edges[0]) for each in windows)
    indexes = [each or 0 for each in edges]
    return tuple(load_job(place, each.from_ns, each.to_ns, indexes) for each in windows)


def _with_exchange(job: RecordedJob, exchange: RecordedExchange) -> RecordedJob:
    return RecordedJob([replace(job.edges[0], exchange=exchange)], job.origin, job.notes)


def _busiest(jobs: Sequence[RecordedJob], place: int = 0) -> RecordedExchange:
    """An edge in the window with most of its records, whose fit counts for all."""
    return max((each.edges[place].exchange for each in jobs), key=lambda each: each.records)


def _why_unpredicted(unit: PredictionUnit, jobs: Sequence[RecordedJob]) -> str | None:
    """Why no setting of an exchange by itself is predicted; None if they are."""
    manifest, edge = manifest_of(unit.place), unit.edges[0]
    if not is_from_sources(manifest, edge):
        return NOT_FROM_SOURCES
    if is_blocking(manifest):
        return BLOCKING_IS_NO_MODEL
    if edge is None and len({each.edge for each in manifest.channels}) > 1:
        return SEVERAL_EXCHANGES
    return None if _busiest(jobs).records else NO_RECORDS


def unpredicted(unit: PredictionUnit, place: int, fit: RecordedExchange) -> Prediction:
    row = _row(unit, place, assumed=list(fit.notes))
    least_ns = (fit.queued.mean_ns or None) if row.point.is_recorded else None
    return replace(row, point=replace(row.point, mean_latency_at_least_ns=least_ns))


def _simulated(
    rows: Sequence[Prediction], part: Part, settings: Sequence[Setting], jobs: Sequence[RecordedJob]
) -> list[Prediction]:
    used, outcome = _outcome(jobs, settings, part.core_ns)
    outcomes = outcome.edges if len(rows) == 1 else (outcome, *outcome.edges)
    found = []
    for row, own in zip(rows, outcomes, strict=True):
        exchange = None if row.edge == WHOLE_JOB else _busiest(used, row.edge)
        row = with_outcome(row, own, exchange, settings[row.edge])
        if len(used) > 1:
            simulated_ns = sum(each.to_ns - each.from_ns for each in part.windows[: len(used)])
            row = replace(row, windows=len(used), simulated_ns=simulated_ns)
        if 1 < len(used) < len(jobs):
            row = _noted(row, f"of the first {len(used)} of {len(jobs)} windows only: {SLOW}")
        first = used[0].edges[0].exchange
        if len(used) == 1 and first.measured_to_ns < row.window_to_ns:
            row = of_the_first(row, first.measured_from_ns, first.measured_to_ns)
        found.append(row)
    return found


def _outcome(
    jobs: Sequence[RecordedJob], settings: Sequence[Setting], core_ns: int
) -> tuple[Sequence[RecordedJob], Outcome]:
    """The windows that are simulated, and their outcome: all of them if the compiled model covers
    them, else the first ones, or the first part of the first one. Without a length for the real
    core, what the compiled model does not cover is unknown."""
    lengths_ns = np.cumsum([each.edges[0].exchange.duration_ns for each in jobs])
    if lengths_ns[-1] > core_ns:
        found = []
        for job in jobs:
            found.append(simulate_job(job, settings, in_full=False))
            if core_ns and has_no_model(found[-1].edges[0].why_unknown):
                break
        else:
            return jobs, joined(found)
        first = jobs[0].edges[0].exchange
        cut = first.up_to(first.measured_from_ns + core_ns)
        only = [_with_exchange(jobs[0], cut)]
        jobs = jobs[: int(np.searchsorted(lengths_ns, core_ns, side="right"))] or only
    return jobs, joined([simulate_job(each, settings) for each in jobs])


@lru_cache(maxsize=1)
def _contradiction(jobs: tuple[RecordedJob, ...], core_ns: int) -> str | None:
    """Why the recorded backlog makes all predicted latency wrong; None if it does not."""
    fit = _busiest(jobs)
    if not fit.queued.is_worth_a_look:
        return None
    try:
        (found,) = _outcome(jobs, jobs[0].settings, core_ns)[1].edges
    except (SimulationError, ConfigError):
        return None
    way_ns, likely = fit.costs.transit_ns + fit.costs.receive_ns_per_message, found.likely
    p99_high_ns = None if likely is None else likely[1].latency_ns.p99
    return contradiction(fit.queued, found.latency.summary(), way_ns, p99_high_ns)


def _row(unit: PredictionUnit, place: int, edge: int = 0, **more: Any) -> Prediction:
    """A row without figures, of the candidate at a place in the unit."""
    settings = unit.settings[place]
    setting = settings[max(edge, 0)]
    return Prediction(
        run=NO_RUN if edge == WHOLE_JOB else unit.runs[edge],
        job=unit.job,
        edge=edge,
        candidate=unit.candidates[place],
        setting=AskedSetting(**columns_of(setting)),
        point=TradeOffPoint(
            config=effective_flink_keys(setting.network),
            throughput_records_per_s=None,
            latency_ns=UNKNOWN_LATENCY,
            backlog_buffers=UNKNOWN_BACKLOG,
            buffers_per_s=None,
            is_recorded=settings == unit.recorded,
            **situation_of(setting),
        ),
        window_to_ns=unit.part.to_ns,
        **more,
    )


def with_outcome(
    row: Prediction,
    outcome: Outcome,
    exchange: RecordedExchange | None = None,
    setting: Setting | None = None,
) -> Prediction:
    """The row of an edge, or without an exchange that of a job as a whole, with its outcome."""
    point = replace(
        row.point,
        throughput_records_per_s=outcome.throughput_records_per_s,
        buffers_per_s=outcome.buffers_per_s,
        memory_bytes=outcome.memory_bytes,
    )
    if outcome.why_unknown is not None:
        return unknown(replace(row, point=point), outcome.why_unknown)
    phases, seconds = max(len(outcome.phases), 1), outcome.duration_ns / 1e9
    low, high = outcome.likely or (None, None)
    point = replace(
        point,
        latency_ns=outcome.latency.summary(),
        latency_low_ns=low.latency_ns if low else None,
        latency_high_ns=high.latency_ns if high else None,
        backlog_buffers=outcome.backlog_buffers,
        buffers_low_per_s=low.buffers_per_s if low else None,
        buffers_high_per_s=high.buffers_per_s if high else None,
        credits_per_s=outcome.credits / seconds if seconds > 0 else None,
        method=outcome.method,
        checkpoints=None if outcome.checkpoints is None else outcome.checkpoints.summary(),
    )
    row = replace(row, records=outcome.records // phases)
    if exchange is None or setting is None:
        return replace(row, point=point)
    duration_ns = outcome.duration_ns // phases
    notes = list(row.assumed)
    if setting.network.debloating_enabled and exchange.buffer_size_bytes is None:
        notes.append(GROWS.format(human_bytes(setting.network.starting_segment_size_bytes)))
    if outcome.checkpoints is not None and not outcome.checkpoints.triggered:
        notes.append(NO_CHECKPOINT.format(human_duration(duration_ns)))
    if exchange.starts_sleeping(setting):
        notes.append(SLEEPS)
    if exchange.stops_sleeping(setting):
        notes.append(POLLS)
    if outcome.likely is not None:
        notes.append(RANGES_OF_PHASES)
    since_source_ns = None if row.job == ALONE else outcome.since_source.summary()
    point = replace(point, notes=tuple(notes), since_source_ns=since_source_ns)
    return replace(row, point=point, duration_ns=duration_ns)


def of_the_first(row: Prediction, from_ns: int, to_ns: int) -> Prediction:
    row = _noted(row, f"of the first {(to_ns - from_ns) / 1e9:.3g} s only: {SLOW}")
    return replace(row, window_to_ns=to_ns)


def _noted(row: Prediction, note: str) -> Prediction:
    return replace(row, point=replace(row.point, notes=(note, *row.point.notes)))


def unknown(row: Prediction, why: str | None) -> Prediction:
    return row if why is None else replace(row, point=replace(row.point, why_unknown=why))


def with_notes(row: Prediction, recorded: Setting, *, is_timed: bool) -> Prediction:
    """The row with the notes about its timeout, and why nothing is predicted."""
    point = row.point
    notes = list(point.notes if row.records is not None else row.assumed)
    timeout_ns, recorded_ns = row.setting.buffer_timeout_ns, recorded.network.buffer_timeout_ns
    if timeout_ns >= 0 and (recorded_ns < 0 or recorded_ns > timeout_ns) and is_timed:
        notes.append(SHORTER)
    if timeout_ns > 0 and timeout_ns % NS_PER_MS and not point.is_recorded:
        notes.append(NOT_WHOLE_MS)
    if point.why_unknown is not None:
        notes.append(f"not predicted: {point.why_unknown}")
    return replace(row, point=replace(point, notes=tuple(notes)))
