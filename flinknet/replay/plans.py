"""Plans: which settings to predict for which edges, and from which part of the recording: all of it
where that takes seconds, else windows or slices spread over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise, product

import numpy as np

from flinknet.errors import ConfigError
from flinknet.options.what_if import Setting, ascending
from flinknet.predict.exchange import is_max_rate, recorded_setting
from flinknet.predict.grid import Grid
from flinknet.results import Choice, Measured
from flinknet.storage import AnyPath
from flinknet.units import format_duration_ns, human_duration

from .advise.targets import between
from .edges import EdgeTimeouts, is_filled_in, local_edges
from .observe.checkpoints import interval_ns_of
from .observe.measured import ObservedRun
from .observe.traffic import slice_edges
from .read import RecordedRun

Settings = tuple[Setting, ...]
"""A setting for each edge of a job."""

ALONE = -1
"""Number of the job of an exchange by itself."""

MESSAGES_MAX = 60_000_000
"""Messages of a run to simulate over all settings, at most: about a minute of one core."""

BUFFERS_AT_ONCE = 3_000_000
"""Recorded data buffers that one process holds at most, of a run that is not cut into slices."""

RECORDS_MAX = 3_000_000
"""Records of a job, or of a captured exchange, to simulate for each setting: some seconds."""

CORE_RECORDS_MAX = 500_000
"""Most records of a run that the real core simulates, where the compiled model does not cover the
exchange: with timeout 0 each may be a message of its own, and one costs 50 µs."""

CORE_RECORDS_MAX_CAPTURED = 20_000
"""Limit for the real core for taps and captures, which are simulated in several phases."""

CORE_RECORDS_MAX_AT_MAX_RATE = 6_000_000
"""Limit for the real core at the highest rate, where buffers are full at any timeout."""

WINDOWS = 8
BEATS_MIN = 20
"""Fewest beats of the longest buffer timeout in a window: one is left over at the end of it."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a run that is simulated by itself: a window, or a slice by its number."""

    from_ns: int
    to_ns: int
    number: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a run to simulate under each setting. Windows are simulated one by one and added
    up; the first one begins with the run, and the last one ends where the part ends that the
    windows stand for. Slices are windows that executors simulate apart from each other."""

    windows: tuple[Window, ...]
    core_ns: int  # length to simulate, from the start, of what the compiled model does not cover
    is_asked: bool = False  # chosen by the user, so settings with too few beats in it are refused
    latest_ns: int | None = None  # of slices, longest from a buffer's first record to its sending

    @property
    def from_ns(self) -> int:
        return self.windows[0].from_ns

    @property
    def to_ns(self) -> int:
        return self.windows[-1].to_ns

    @property
    def simulated_ns(self) -> int:
        return sum(each.to_ns - each.from_ns for each in self.windows)

    def why_refused(self, setting: Setting) -> str | None:
        """Why the user's part is too short for a setting; None if it holds enough beats."""
        beat_ns, length_ns = setting.network.buffer_timeout_ns, self.to_ns - self.from_ns
        if not self.is_asked or length_ns >= BEATS_MIN * beat_ns:
            return None
        return (
            f"{human_duration(length_ns)} are {length_ns / beat_ns:.3g} beats of a buffer timeout"
            f" of {format_duration_ns(beat_ns)}, and a prediction needs {BEATS_MIN}: give"
            f" {human_duration(BEATS_MIN * beat_ns)} or more of the run"
        )


def first_of(run: RecordedRun, duration_ns: int) -> Part:
    to_ns = min(run.to_ns, run.from_ns + duration_ns)
    return Part((Window(run.from_ns, to_ns),), to_ns - run.from_ns)


def part_of_exchange(
    observed: ObservedRun,
    settings: Sequence[Setting],
    max_records: int | None = None,
    split: int | None = None,
) -> tuple[Part, str | None]:
    """The part of an exchange to simulate, and a line if it is much longer than intended: its first
    `max_records` for each setting; None for the whole run where that takes seconds, else windows or
    `split` slices spread over it."""
    run, measured = observed.run, observed.measured
    core_to_ns = _end_of(run, measured.records, _core_records(measured, run))
    core_to_ns = min(run.to_ns, max(core_to_ns, run.from_ns + _least_ns(settings)))
    is_spread = not is_max_rate(run.manifest)  # else its start is as good as any other part
    to_ns, share = run.to_ns if is_spread else core_to_ns, 1.0
    if max_records is not None:
        to_ns = _end_of(run, measured.records, max_records)
    elif is_spread:
        share = _share_in_seconds(run, measured, settings)
    is_asked = run.is_asked_part or (max_records is not None and to_ns < run.to_ns)
    windows: tuple[Window, ...] = (Window(run.from_ns, to_ns),)
    latest_ns, least = None, f"{BEATS_MIN} beats of the longest buffer timeout are the least"
    edges = slice_edges(run, split)
    is_cut = len(edges) > 2 and (split or to_ns > core_to_ns)
    if is_spread and is_cut and observed.rows.arrivals:
        latest_ns = max(row.latest_ns for row in observed.rows.arrivals)
        least = "a slice is the least"
        slices = [each for each in slices_between(edges) if each.from_ns < to_ns]
        windows = spread_slices(slices, share)
    elif is_spread and max_records is None:
        share = min(share, BUFFERS_AT_ONCE / max(measured.buffers, 1))
        windows = spread_windows(run, share, settings)
    core_ns = min(core_to_ns, windows[-1].to_ns) - run.from_ns
    part = Part(windows, core_ns, is_asked, latest_ns)
    times = part.simulated_ns / (run.duration_ns * share)
    if times < 1.5:
        return part, None
    return part, (
        f"{human_duration(part.simulated_ns)} of {human_duration(run.duration_ns)} are simulated,"
        f" {times:.1f} times what is meant to be: {least}"
    )


def part_of_job(
    observed: Sequence[ObservedRun], settings: Sequence[Setting], max_records: int | None = None
) -> Part:
    """The part of a job to simulate; arguments as of `part_of_exchange`."""
    run, records = observed[0].run, [each.measured.records for each in observed]
    if max_records is not None:
        to_ns = max(_end_of(run, max(records), max_records), run.from_ns + _least_ns(settings))
        windows: tuple[Window, ...] = (Window(run.from_ns, min(to_ns, run.to_ns)),)
    else:
        windows = spread_windows(run, min(1.0, RECORDS_MAX / max(sum(records), 1)), settings)
    return Part(windows, 0, run.is_asked_part)


def spread_windows(
    run: RecordedRun, share: float, settings: Sequence[Setting]
) -> tuple[Window, ...]:
    """A share of a run as windows at equal distances: fewer where the beat is long. A single one is
    the beginning of the run, and may be more than the share."""
    if share >= 1:
        return (Window(run.from_ns, run.to_ns),)
    least_ns = max(_least_ns(settings), 1)
    wanted_ns = int(run.duration_ns * share)
    count = min(max(wanted_ns // least_ns, 1), WINDOWS)
    length_ns = min(max(wanted_ns // count, least_ns), run.duration_ns)
    starts_ns = np.linspace(run.from_ns, run.to_ns - length_ns, count).astype(np.int64)
    return tuple(Window(each, each + length_ns) for each in starts_ns.tolist())


def slices_between(edges: Sequence[int]) -> list[Window]:
    return [Window(*each, number) for number, each in enumerate(pairwise(edges))]


def spread_slices(slices: Sequence[Window], share: float) -> tuple[Window, ...]:
    """A share of the slices of a run, at equal distances, at least the first one."""
    count = min(len(slices), max(int(share * len(slices)), 1))
    places = np.linspace(0, len(slices) - 1, count).round().astype(int).tolist()
    return tuple(slices[place] for place in places)


def _least_ns(settings: Sequence[Setting]) -> int:
    return BEATS_MIN * max((each.network.buffer_timeout_ns for each in settings), default=0)


def _core_records(measured: Measured, run: RecordedRun) -> int:
    """Records that the real core simulates: fewer where a record fills several buffers."""
    records = CORE_RECORDS_MAX_AT_MAX_RATE if is_max_rate(run.manifest) else CORE_RECORDS_MAX
    if measured.latency_ns.count == 0:
        records = CORE_RECORDS_MAX_CAPTURED
    buffers_per_record = measured.buffers / max(measured.records, 1)
    return max(round(records / max(buffers_per_record, 1.0)), 1)


def _end_of(run: RecordedRun, records: int, max_records: int) -> int:
    """End of the part with some `max_records` of the records, if they come evenly."""
    if records <= max_records:
        return run.to_ns
    return run.from_ns + run.duration_ns * max_records // records


def _share_in_seconds(run: RecordedRun, measured: Measured, settings: Sequence[Setting]) -> float:
    """Share of a run that the compiled model simulates under all settings in good time: in phases,
    record by record, where the recording does not show when records came."""
    if run.manifest.is_from_between:
        return min(1.0, RECORDS_MAX / max(measured.records, 1))
    messages = 0
    for timeout_ns in (each.network.buffer_timeout_ns for each in settings):
        beats = run.duration_ns // timeout_ns if timeout_ns > 0 else 0
        most = measured.buffers + beats * len(run.manifest.channels)
        messages += min(measured.records, most) if timeout_ns else measured.records
    return min(1.0, MESSAGES_MAX / max(messages, 1))


@dataclass(frozen=True, slots=True)
class Plan:
    """A job to predict."""

    job: int  # number of the job; ALONE for an exchange by itself
    edges: tuple[RecordedRun, ...]  # in the direction of flow; one for an exchange by itself
    part: Part
    candidates: tuple[Settings, ...]  # by number; further ones are added at the end
    by_edge: tuple[Settings, ...] = ()  # candidates with other timeouts on some edges, listed last
    searched: tuple[Settings, ...] = ()  # further ones of a search; listed if in `by_edge`, too

    @property
    def run(self) -> RecordedRun:
        return self.edges[0]

    @property
    def recorded(self) -> Settings:
        return tuple(recorded_setting(each.manifest) for each in self.edges)

    @property
    def order(self) -> list[int]:
        last = {*self.by_edge, *self.searched}
        own = [number for number, each in enumerate(self.candidates) if each not in last]
        own.sort(key=lambda number: [*map(ascending, self.candidates[number])])
        return own + [self.candidates.index(each) for each in self.by_edge]

    @property
    def tasks(self) -> dict[int, str]:
        """Name of each vertex that sends, in the direction of flow."""
        return {each.ends.source: each.ends.source_name for each in self.edges}

    def edge_timeouts(self, of_tasks: Sequence[int]) -> list[int]:
        timeouts_ns = dict(zip(self.tasks, of_tasks, strict=True))
        return [timeouts_ns[each.ends.source] for each in self.edges]

    def task_timeouts(self, settings: Settings) -> tuple[int, ...] | None:
        """The timeout of each task that sends, in ns; None if edges behind one of them differ."""
        of_edges = [each.network.buffer_timeout_ns for each in settings]
        sources = (each.ends.source for each in self.edges)
        found = tuple(dict(zip(sources, of_edges, strict=True)).values())  # as `tasks`
        return found if self.edge_timeouts(found) == of_edges else None

    def refined(self, choices: Sequence[Choice]) -> Plan:
        """The plan with the timeouts in whole milliseconds between that of each choice, a place in
        `order`, if it is the same on all edges, and the next longer one."""
        more: list[Settings] = []
        for choice in choices:
            if choice.point is not None and choice.next_longer_ns is not None:
                chosen = self.candidates[self.order[choice.point]]
                timeout_ns, *others = {each.network.buffer_timeout_ns for each in chosen}
                steps_ns = [] if others else between(timeout_ns, choice.next_longer_ns)
                more += [with_timeouts(chosen, [each] * len(chosen)) for each in steps_ns]
        return replace(self, candidates=tuple(dict.fromkeys((*self.candidates, *more))))


def check_edge_timeouts(runs: Sequence[RecordedRun], asked: Sequence[EdgeTimeouts]) -> None:
    """Raises: ConfigError for timeouts of edges that do not exist."""
    groups = _of_jobs(runs)
    if asked and not groups:
        raise ConfigError("--edge-timeout is for jobs of several exchanges, and there is none")
    for group, each in product(groups, asked):
        each.on([run.ends for run in group])


def plan_exchanges(
    observed: Sequence[ObservedRun],
    grid: Grid,
    *,
    max_records: int | None = None,
    split: int | None = None,
) -> tuple[list[Plan], list[str]]:
    """A plan for each exchange by itself under a grid and its recorded setting, and lines about
    those that take long; arguments as of `part_of_exchange`."""
    plans, lines = [], []
    grids = grids_for([each.run for each in observed], observed, grid)
    for each, own in zip(observed, grids, strict=True):
        settings = settings_of(each.run, own)
        part, why_long = part_of_exchange(each, settings, max_records, split)
        plans.append(plan_of(each.run, settings, part))
        lines += [] if why_long is None else [why_long]
    return plans, lines


def plan_of(run: RecordedRun, settings: Sequence[Setting], part: Part) -> Plan:
    return Plan(ALONE, (run,), part, tuple((each,) for each in settings))


def plan_jobs(
    observed: Sequence[ObservedRun],
    grid: Grid,
    edge_timeouts: Sequence[EdgeTimeouts] = (),
    *,
    max_records: int | None = None,
) -> list[Plan]:
    """A plan for each job of several exchanges, and each of whose only one not all was recorded."""
    of_run = {each.run.run: each for each in observed}
    plans = []
    for number, runs in enumerate(_of_jobs([each.run for each in observed])):
        own = [of_run[run.run] for run in runs if not run.is_unseen]
        recorded = tuple(recorded_setting(each.manifest) for each in runs)
        asked = [
            sorted(each.asked(setting, is_max_rate=is_max_rate(runs[0].manifest)), key=ascending)
            for setting, each in zip(recorded, grids_for(runs, own, grid), strict=True)
        ]
        rows = {recorded, *zip(*asked, strict=True)}
        candidates = sorted(rows, key=lambda row: [*map(ascending, row)])
        ends = [each.ends for each in runs]
        mixed = dict.fromkeys(with_timeouts(recorded, each.on(ends)) for each in edge_timeouts)
        by_edge = tuple(each for each in mixed if each not in candidates)
        settings = [setting for each in (*candidates, *by_edge) for setting in each]
        part = part_of_job(own, settings, max_records)
        plans.append(Plan(number, tuple(runs), part, (*candidates, *by_edge), by_edge))
    return plans


def grids_for(
    runs: Sequence[RecordedRun], observed: Sequence[ObservedRun], asked: Grid
) -> list[Grid]:
    """The grid for each run, see `Grid.of_run`; exchanges of one trace, of which at least one was
    observed, have the same checkpoints. Raises: ConfigError if there are none to align."""
    intervals_ns: dict[AnyPath, int | None] = {}
    for each in observed:
        found_ns = interval_ns_of(each.rows.barriers)
        intervals_ns[each.run.path] = intervals_ns.get(each.run.path) or found_ns
    return [asked.of_run(recorded_setting(run.manifest), intervals_ns[run.path]) for run in runs]


def settings_of(run: RecordedRun, grid: Grid) -> list[Setting]:
    recorded = recorded_setting(run.manifest)
    return grid.settings(recorded, is_max_rate=is_max_rate(run.manifest))


def _of_jobs(runs: Sequence[RecordedRun]) -> list[list[RecordedRun]]:
    """The edges, in the direction of flow, of each job that has several, or local channels."""
    groups = [list(group) for _, group in groupby(runs, key=lambda each: each.job)]
    whole = [
        sorted([*group, *local_edges(group)], key=lambda each: each.ends.number) for group in groups
    ]
    return [each for each in whole if len(each) > 1 or is_filled_in(each[0])]


def with_timeouts(settings: Settings, timeouts_ns: Sequence[int | None]) -> Settings:
    """Settings with other buffer timeouts; None for that of the setting."""
    found = []
    for each, timeout_ns in zip(settings, timeouts_ns, strict=True):
        own_ns = each.network.buffer_timeout_ns if timeout_ns is None else timeout_ns
        found.append(replace(each, network=replace(each.network, buffer_timeout_ns=own_ns)))
    return tuple(found)
