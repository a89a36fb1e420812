"""Predictions as rows: one for each exchange and setting, and for each job and setting one for the
job and one for each of its edges; and the units in which executors compute them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from flinknet.options import effective_flink_keys
from flinknet.options.what_if import Setting, situation_of
from flinknet.predict.outcome import is_pressure
from flinknet.results import BacklogSummary, LatencySummary, TradeOffPoint
from flinknet.trace.recordings import Recording

from .plans import ALONE, Part, Plan
from .read import RecordedRun
from .spark.units import UNITS_MIN

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

WHOLE_JOB = -1
"""Number of the edge, in the row of a job as a whole."""

NO_RUN = -1
"""Number of the run of a job as a whole."""


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
    """A prediction for an exchange or a job under a setting; None for figures that are unknown.

    Attributes:
        run: number of the run that is the exchange; NO_RUN for a job as a whole.
        job: number of the job; ALONE for an exchange by itself.
        edge: place of the exchange in the job; WHOLE_JOB for a job as a whole.
        candidate: number of the setting in its plan.
        setting: of the exchange; for a job, of its first edge.
        records: simulated ones, over all windows.
        duration_ns: length of time that the figures count over.
        window_to_ns: end of the part that the prediction stands for.
        windows: spread over this part; 1: the part was simulated whole.
        simulated_ns: length of the windows together; None if the part was simulated whole.
        assumed: what the trace leaves open, and was assumed.
    """

    run: int
    job: int = ALONE
    edge: int = 0
    candidate: int
    setting: AskedSetting
    point: TradeOffPoint
    records: int | None = None
    duration_ns: int | None = None
    window_to_ns: int
    windows: int = 1
    simulated_ns: int | None = None
    assumed: list[str] = field(default_factory=list)


def point_of(setting: Setting, *, is_recorded: bool) -> TradeOffPoint:
    return TradeOffPoint(
        config=effective_flink_keys(setting.network),
        throughput_records_per_s=None,
        latency_ns=UNKNOWN_LATENCY,
        backlog_buffers=UNKNOWN_BACKLOG,
        buffers_per_s=None,
        is_recorded=is_recorded,
        **situation_of(setting),
    )


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
    run, and by number in the manifest, None for the only one; settings of one candidate after the
    other."""

    job: int
    place: list[Recording]
    runs: list[int]
    edges: list[int | None]
    recorded: list[Setting]
    candidates: list[int]
    settings: list[Setting]
    part: Part

    def settings_of(self, place: int) -> list[Setting]:
        count = len(self.edges)
        return self.settings[place * count : (place + 1) * count]


def units_of(plan: Plan, first: int = 0, shares: int = UNITS_MIN) -> list[PredictionUnit]:
    """A plan with its candidates, from the first that is wanted on, dealt out to some units."""
    units = []
    shares = min(shares, len(plan.candidates) - first)
    for share in range(shares):
        numbers = list(range(first + share, len(plan.candidates), shares))
        units.append(
            PredictionUnit(
                plan.job,
                list(plan.run.place),
                [each.run for each in plan.edges],
                [plan.run.edge] if plan.job == ALONE else [each.ends.index for each in plan.edges],
                list(plan.recorded),
                numbers,
                [each for number in numbers for each in plan.candidates[number]],
                plan.part,
            )
        )
    return units


@dataclass(frozen=True)
class Predictions:
    """All plans, and the rows that were computed for them."""

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
        """The plans of jobs of several exchanges."""
        return [each for each in self.plans if each.job != ALONE]

    def plan_of(self, run: RecordedRun) -> Plan:
        return next(each for each in self.plans if each.job == ALONE and each.run.run == run.run)

    @cached_property
    def _contradicted(self) -> Mapping[int, str | None]:
        """Reason why no latency of a job can be predicted, by the recorded backlog of an edge."""
        found: dict[int, str | None] = {}
        for number, plan in enumerate(self.jobs):
            recorded = [each for each in plan.edges if not each.is_unseen]
            whys = [(each, self.recorded_of(each).point.why_no_latency) for each in recorded]
            found[number] = next(
                (f"{each.ends.name}: {why}" for each, why in whys if why is not None), None
            )
        return found

    def of(self, plan: Plan, number: int, edge: int = 0) -> Prediction:
        """The row of a candidate; of an edge of a job, or of WHOLE_JOB."""
        if plan.job == ALONE:
            return self._by_key[ALONE, plan.run.run, number]
        row, why = self._by_key[plan.job, edge, number], self._contradicted[plan.job]
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
        for job in self.jobs:
            for place, each in enumerate(job.edges):
                if each.run == run.run:
                    return list(self._in_job(job, place, alone))
        return list(alone.items())

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

    def recorded_of(self, run: RecordedRun) -> Prediction:
        """The row of an exchange by itself under the recorded setting."""
        plan = self.plan_of(run)
        return self.of(plan, plan.candidates.index(plan.recorded))

    def rows_of_jobs(self) -> list[Prediction]:
        """The rows of all jobs and of their edges."""
        return [
            self.of(job, number, edge)
            for job in self.jobs
            for number in range(len(job.candidates))
            for edge in range(WHOLE_JOB, len(job.edges))
        ]
