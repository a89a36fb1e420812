"""Predictions as rows: one for each exchange and setting, and for each job and setting one for the
job and one for each of its edges; and the units in which executors compute them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from flinknet.options.what_if import Setting
from flinknet.predict.outcome import is_pressure
from flinknet.results import BacklogSummary, LatencySummary, TradeOffPoint
from flinknet.trace.recordings import Recording

from .plans import ALONE, Part, Plan, Settings
from .read import RecordedRun
from .spark.units import UNITS_MIN

WHOLE_JOB = NO_RUN = -1
"""Numbers of the edge and of the run, in the row of a job as a whole."""

UNKNOWN_LATENCY = LatencySummary(count=0)
UNKNOWN_BACKLOG = BacklogSummary(None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSetting:
    """The settings that can be asked, as columns; None where one does not act. `aligned_timeout_ns`
    is the time after which checkpoints become unaligned: 0 at once, -1 never."""

    buffer_timeout_ns: int
    exclusive_buffers: int
    floating_buffers: int
    segment_size_bytes: int
    flow_control: str
    round_trip_ns: int
    consumer_speed: float
    rate_factor: float
    debloating_target_ns: int | None
    checkpoint_interval_ns: int | None
    aligned_timeout_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A prediction for an exchange or a job under a setting; None for figures that are unknown."""

    run: int  # number of the run that is the exchange; NO_RUN for a job as a whole
    job: int = ALONE  # number of the job; ALONE for an exchange by itself
    edge: int = 0  # place of the exchange in the job; WHOLE_JOB for a job as a whole
    candidate: int  # number of the setting in its plan
    setting: AskedSetting  # of the exchange; for a job, of its first edge
    point: TradeOffPoint
    records: int | None = None  # simulated ones, over all windows
    duration_ns: int | None = None  # length of time that the figures count over
    window_to_ns: int  # end of the part that the prediction stands for
    windows: int = 1  # spread over this part; 1: the part was simulated whole
    simulated_ns: int | None = None  # of all windows; None if the part was simulated whole
    assumed: list[str] = field(default_factory=list)  # what the trace leaves open, and was assumed


def without_latency(point: TradeOffPoint, why: str) -> TradeOffPoint:
    """A point whose latency and backlog are known to be wrong."""
    return replace(
        point,
        latency_ns=UNKNOWN_LATENCY,
        latency_low_ns=None,
        latency_high_ns=None,
        since_source_ns=None,
        backlog_buffers=UNKNOWN_BACKLOG,
        why_no_latency=why,
        notes=(*point.notes, f"latency unknown: {why}"),
    )


def within_clocks(row: Prediction, error_ns: int) -> Prediction:
    """A row whose trace has the clocks of two hosts, which agree within `error_ns`: shorter
    latencies are unknown, and the intervals of the others reach further by it."""
    if not error_ns:
        return row
    point, since_ns = row.point, row.point.since_source_ns
    known, low_ns, high_ns = point.latency_ns.known_within(error_ns), None, None
    if known.max is not None:
        low_ns = (point.latency_low_ns or known).moved(-error_ns, known)
        high_ns = (point.latency_high_ns or known).moved(error_ns, known)
    point = replace(
        point,
        latency_ns=known,
        latency_low_ns=low_ns,
        latency_high_ns=high_ns,
        since_source_ns=since_ns and since_ns.known_within(error_ns),
    )
    return replace(row, point=point)


@dataclass(frozen=True, slots=True)
class PredictionUnit:
    """A plan with a share of its candidates, as it travels to an executor: edges by number of the
    run, and by number in the manifest, None for the only one."""

    job: int
    place: tuple[Recording, ...]
    runs: list[int]
    edges: tuple[int | None, ...]
    recorded: Settings
    candidates: list[int]
    settings: list[Settings]
    part: Part


def units_of(plan: Plan, first: int = 0, shares: int = UNITS_MIN) -> list[PredictionUnit]:
    """A plan with its candidates, from the first that is wanted on, dealt out to some units."""
    unit = PredictionUnit(
        plan.job,
        plan.run.place,
        [each.run for each in plan.edges],
        tuple(each.edge if plan.job == ALONE else each.ends.index for each in plan.edges),
        plan.recorded,
        [],
        [],
        plan.part,
    )
    shares = min(shares, len(plan.candidates) - first)
    dealt = [range(first + share, len(plan.candidates), shares) for share in range(shares)]
    return [
        replace(unit, candidates=[*own], settings=[plan.candidates[each] for each in own])
        for own in dealt
    ]


@dataclass(frozen=True)
class Predictions:
    plans: Sequence[Plan]
    rows: Sequence[Prediction]

    @cached_property
    def _by_key(self) -> Mapping[tuple[int, int, int], Prediction]:
        """By job and edge, or ALONE and run, and by candidate."""
        return {
            (each.job, each.run if each.job == ALONE else each.edge, each.candidate): each
            for each in self.rows
        }

    @property
    def jobs(self) -> list[Plan]:
        return [each for each in self.plans if each.job != ALONE]

    def plan_of(self, run: RecordedRun) -> Plan:
        return next(each for each in self.plans if each.job == ALONE and each.run.run == run.run)

    @cached_property
    def _contradicted(self) -> Mapping[int, str]:
        """Reason why no latency of a job can be predicted, by the recorded backlog of an edge."""
        found: dict[int, str] = {}
        for job in self.jobs:
            for each in (each for each in job.edges if not each.is_unseen):
                plan = self.plan_of(each)
                why = self.of(plan, plan.candidates.index(plan.recorded)).point.why_no_latency
                if why is not None:
                    found.setdefault(job.job, f"{each.ends.name}: {why}")
        return found

    def of(self, plan: Plan, number: int, edge: int = 0) -> Prediction:
        """The row of a candidate; of an edge of a job, or of WHOLE_JOB."""
        if plan.job == ALONE:
            return self._by_key[ALONE, plan.run.run, number]
        row, why = self._by_key[plan.job, edge, number], self._contradicted.get(plan.job)
        if why is None or row.point.why_unknown is not None:
            return row
        point = without_latency(row.point, why)
        if edge == WHOLE_JOB:
            point = replace(point, notes=row.point.notes)
        return replace(row, point=point)

    def of_run(self, run: RecordedRun) -> list[tuple[Setting, Prediction]]:
        """The outcomes of an exchange with ascending settings: in its job, if it has one, under the
        same setting on all edges; alone where the model of the job does not cover a setting."""
        plan = self.plan_of(run)
        alone = {plan.candidates[n][0]: self.of(plan, n) for n in plan.order}
        places = ((job, place) for job in self.jobs for place in range(len(job.edges)))
        own = next((each for each in places if each[0].edges[each[1]].run == run.run), None)
        return list(alone.items() if own is None else self._in_job(*own, alone))

    def _in_job(
        self, job: Plan, place: int, alone: Mapping[Setting, Prediction]
    ) -> Iterator[tuple[Setting, Prediction]]:
        recorded = job.recorded
        for number in job.order:
            settings = job.candidates[number]
            setting = settings[place]
            is_again = setting == recorded[place] and settings != recorded
            if settings in job.by_edge or is_again:
                continue
            row, single = self.of(job, number, place), alone.get(setting)
            if single is None:
                yield setting, row
                continue
            whys = [self.of(job, number, n).point.why_unknown for n in range(len(job.edges))]
            is_pressed = any(why is not None and is_pressure(why) for why in whys)
            if row.point.why_unknown is not None and not is_pressed and single.records is not None:
                yield setting, single
                continue
            point = replace(
                row.point,
                checkpoints=single.point.checkpoints,
                mean_latency_at_least_ns=single.point.mean_latency_at_least_ns,
                notes=(*single.assumed, *row.point.notes),
            )
            yield setting, replace(row, point=point)

    def is_taken_alone(self, run: RecordedRun) -> bool:
        """Whether an edge behind another one of its job is predicted without it under a setting."""
        own = [(job, each) for job in self.jobs for each in job.edges if each.run == run.run]
        targets = {other.ends.target for job, _ in own for other in job.edges}
        is_behind = any(each.ends.source in targets for _, each in own)
        return is_behind and any(row.job == ALONE for _, row in self.of_run(run))
