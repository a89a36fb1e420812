"""Jobs of several exchanges as a whole: one prediction for each job and setting, inside the
executors; see `predict.job_run`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from flinknet.errors import ConfigError
from flinknet.options.what_if import Setting
from flinknet.predict.captured_job import JobEdges, load_captured_job
from flinknet.predict.exchange import load_exchange, recorded_setting
from flinknet.predict.job_outcome import JobOutcome, joined_jobs
from flinknet.predict.job_run import BARRIERS_LEFT_OUT, leaves_barriers_out, simulate_job
from flinknet.predict.recorded_job import JobEdge, RecordedJob
from flinknet.results import LatencySummary
from flinknet.trace.index import Stamp
from flinknet.trace.recordings import Recording, open_recordings

from .outcome import Window
from .read import RecordedRun
from .slices import stamps_at
from .spark.frames import Columns, columns_of, map_units
from .spark.units import UNITS_MIN
from .windows import why_too_short

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WHOLE_JOB = -1
"""Stands in the column `edge` for the job."""


@dataclass(frozen=True, slots=True)
class JobCandidate:
    """A setting for each edge of a job."""

    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A job to predict.

    Attributes:
        edges: in the direction of flow.
        whys: of each edge, why it cannot be joined to the others; None if it can.
        windows: of the trace, that are simulated.
        order: numbers of the candidates as the answer lists them; empty: as they are.
    """

    number: int
    edges: tuple[RecordedRun, ...]
    whys: tuple[str | None, ...]
    candidates: tuple[JobCandidate, ...]
    windows: tuple[Window, ...]
    is_whole: bool
    is_asked: bool
    order: tuple[int, ...] = ()

    @property
    def recorded(self) -> int:
        """The number of the candidate that was recorded."""
        settings = tuple(recorded_setting(each.manifest) for each in self.edges)
        return next(n for n, each in enumerate(self.candidates) if each.settings == settings)


@dataclass(frozen=True, slots=True)
class JobUnit:
    """A job with a share of its candidates; `settings` are theirs, one after the other."""

    job: int
    place: list[Recording]
    edges: list[int]
    sources: list[int]
    targets: list[int]
    whys: list[str]
    candidates: list[int]
    settings: list[Setting]
    windows: list[Window]
    is_asked: bool

    def without_candidates(self) -> LoadedPart:
        """What is loaded for it."""
        return LoadedPart(
            tuple(self.place),
            tuple(self.edges),
            tuple(self.sources),
            tuple(self.targets),
            tuple(self.whys),
            tuple(self.windows),
        )


@dataclass(frozen=True, slots=True)
class LoadedPart:
    """The windows of a job that are simulated, whatever the settings; fields as of JobUnit."""

    place: tuple[Recording, ...]
    edges: tuple[int, ...]
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    whys: tuple[str, ...]
    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """What is predicted for a job, or for one of its edges; None where that is unknown.

    Attributes:
        edge: place of the edge; WHOLE_JOB for the job.
        buffer_timeout_ns: of the edge; of the first one for the job.
        records: simulated, over all phases and windows.
        count: of the latencies; this and what follows are fields of `results.LatencySummary`: from
            when a record came to the edge, for the job to its source.
        since_source: such fields as JSON, from when a record came to the job.
        bounds: such fields as JSON, of the ends of the 90% interval; so are the ends for buffers.
    """

    job: int
    candidate: int
    edge: int
    buffer_timeout_ns: int
    records: int | None = None
    throughput_records_per_s: float | None = None
    buffers_per_s: float | None = None
    buffers_low_per_s: float | None = None
    buffers_high_per_s: float | None = None
    memory_bytes: int | None = None
    count: int | None = None
    min: int | None = None
    mean: float | None = None
    p50: float | None = None
    p75: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    p99_9: float | None = None
    p99_99: float | None = None
    max: int | None = None
    since_source: str | None = None
    bounds: str | None = None
    notes: list[str] = field(default_factory=list)
    why_unknown: str | None = None

    @property
    def latency_ns(self) -> LatencySummary:
        """The latency; of no records where it is unknown."""
        if self.count is None:
            return LatencySummary(count=0)
        names = (each.name for each in fields(LatencySummary))
        return LatencySummary(**{name: getattr(self, name) for name in names})


def predict_jobs(
    spark: SparkSession, plans: Sequence[JobPlan], known: Mapping[int, int] = MappingProxyType({})
) -> DataFrame:
    """Predict every candidate of every job. Returns: rows of JobRow.

    Args:
        known: candidates, by the number of a job, that come first and were predicted before.
    """
    units = _units(plans, UNITS_MIN, known)
    return map_units(spark, units, _row_columns, JobRow)


def _row_columns(unit: JobUnit) -> Iterable[Columns]:
    return [columns_of(JobRow, list(rows_of_unit(unit)))]


def _units(plans: Sequence[JobPlan], shares: int, known: Mapping[int, int]) -> list[JobUnit]:
    units = []
    for plan in plans:
        first = known.get(plan.number, 0)
        parts = min(shares, len(plan.candidates) - first)
        for part in range(parts):
            numbers = list(range(first + part, len(plan.candidates), parts))
            units.append(
                JobUnit(
                    plan.number,
                    list(plan.edges[0].place),
                    [each.ends.index for each in plan.edges],
                    [each.ends.source for each in plan.edges],
                    [each.ends.target for each in plan.edges],
                    [each or "" for each in plan.whys],
                    numbers,
                    [each for n in numbers for each in plan.candidates[n].settings],
                    list(plan.windows),
                    plan.is_asked,
                )
            )
    return units


def rows_of_unit(unit: JobUnit) -> Iterator[JobRow]:
    """The rows of a unit: of each candidate the job and its edges."""
    loaded = _loaded(unit.without_candidates(), stamps_at(tuple(unit.place)))
    jobs = [job for job, _ in loaded]
    notes = list(dict.fromkeys(note for _, own in loaded for note in own))
    count = len(unit.edges)
    for place, candidate in enumerate(unit.candidates):
        settings = unit.settings[place * count : (place + 1) * count]
        why = None
        if unit.is_asked:
            window_ns = unit.windows[-1].to_ns - unit.windows[0].from_ns
            whys = (why_too_short(window_ns, each) for each in settings)
            why = next((each for each in whys if each is not None), None)
        is_without = any(leaves_barriers_out(each) for each in settings)
        assumed = [*notes, BARRIERS_LEFT_OUT] if is_without else notes
        try:
            outcome = None
            if why is None:
                outcome = joined_jobs([simulate_job(job, settings) for job in jobs])
        except ConfigError as failure:
            why = str(failure)
        if outcome is None:
            for edge in range(WHOLE_JOB, count):
                yield JobRow(
                    job=unit.job,
                    candidate=candidate,
                    edge=edge,
                    buffer_timeout_ns=settings[max(edge, 0)].network.buffer_timeout_ns,
                    why_unknown=why,
                )
        else:
            yield from _rows(unit.job, candidate, settings, outcome, assumed)


def _rows(
    job: int,
    candidate: int,
    settings: Sequence[Setting],
    outcome: JobOutcome,
    notes: list[str],
) -> Iterator[JobRow]:
    is_known, likely = outcome.why_unknown is None, outcome.likely
    yield JobRow(
        job=job,
        candidate=candidate,
        edge=WHOLE_JOB,
        buffer_timeout_ns=settings[0].network.buffer_timeout_ns,
        records=sum(each.records for each in outcome.hops) if is_known else None,
        throughput_records_per_s=outcome.throughput_records_per_s,
        buffers_per_s=outcome.buffers_per_s,
        memory_bytes=sum(each.memory_bytes or 0 for each in outcome.hops) if is_known else None,
        buffers_low_per_s=None if likely is None else likely.low.buffers_per_s,
        buffers_high_per_s=None if likely is None else likely.high.buffers_per_s,
        bounds=None
        if likely is None
        else json.dumps([asdict(each.latency_ns) for each in (likely.low, likely.high)]),
        notes=notes,
        why_unknown=outcome.why_unknown,
        **(asdict(outcome.latency.summary()) if is_known else {}),
    )
    for edge, (hop, setting) in enumerate(zip(outcome.hops, settings, strict=True)):
        is_known = hop.why_unknown is None
        yield JobRow(
            job=job,
            candidate=candidate,
            edge=edge,
            buffer_timeout_ns=setting.network.buffer_timeout_ns,
            records=hop.records if is_known else None,
            throughput_records_per_s=hop.throughput_records_per_s,
            buffers_per_s=hop.buffers_per_s,
            memory_bytes=hop.memory_bytes,
            since_source=json.dumps(asdict(hop.since_source.summary())) if is_known else None,
            why_unknown=hop.why_unknown,
            **(asdict(hop.latency.summary()) if is_known else {}),
        )


@lru_cache(maxsize=1)
def _loaded(part: LoadedPart, _stamps: tuple[Stamp, ...]) -> list[tuple[RecordedJob, list[str]]]:
    """What all shares of the settings of a job need, loaded once in each process."""
    return [_load(part, window) for window in part.windows]


def _load(unit: LoadedPart, window: Window) -> tuple[RecordedJob, list[str]]:
    """The job of a window, and what was assumed."""
    manifest = open_recordings(unit.place).manifest
    assert manifest is not None, "runs without a manifest are refused by open_recorded_run"
    if manifest.is_from_between:
        ends = JobEdges(unit.edges, unit.sources, unit.targets, unit.whys)
        return load_captured_job(unit.place, window.from_ns, window.to_ns, ends)
    found = [
        load_exchange(unit.place, window.from_ns, window.to_ns, edge=edge) for edge in unit.edges
    ]
    edges = []
    for n, (exchange, fit) in enumerate(found):
        is_fed = unit.sources[n] in unit.targets
        edges.append(
            JobEdge(
                unit.sources[n],
                unit.targets[n],
                exchange,
                found[0][1].delays if is_fed else fit.delays,
                has_own_instants=not is_fed,
                why_unknown=unit.whys[n] or None,
            )
        )
    notes = list(dict.fromkeys(note for _, fit in found for note in fit.notes))
    return RecordedJob(edges), notes


def with_timeouts(settings: Sequence[Setting], timeouts_ns: Sequence[int | None]) -> JobCandidate:
    """The settings with other buffer timeouts on some edges."""
    return JobCandidate(
        tuple(
            each
            if timeout_ns is None
            else replace(each, network=replace(each.network, buffer_timeout_ns=timeout_ns))
            for each, timeout_ns in zip(settings, timeouts_ns, strict=True)
        )
    )
