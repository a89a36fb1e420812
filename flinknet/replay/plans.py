"""Plans: which settings to predict for which edges, and from which part of the recording.

An exchange by itself is planned as a job of one edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from flinknet.errors import ConfigError
from flinknet.options.what_if import Setting, ascending
from flinknet.predict.exchange import is_max_rate, recorded_setting
from flinknet.predict.grid import Grid
from flinknet.results import Choice
from flinknet.storage import AnyPath
from flinknet.trace.job_names import Edge

from .advise.targets import between
from .edges import local_edges, local_share, received_per_s
from .observe.checkpoints import interval_ns_of
from .observe.measured import ObservedRun
from .parts import Part, part_of_exchange, part_of_job
from .read import RecordedRun

Settings = tuple[Setting, ...]
"""A setting for each edge of a job."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A job to predict.

    Attributes:
        job: number of the job; None for an exchange by itself.
        edges: in the direction of flow; one for an exchange by itself.
        candidates: by number; further ones are added at the end.
        by_edge: candidates that differ in the timeouts of some edges, which are listed last.
    """

    job: int | None
    edges: tuple[RecordedRun, ...]
    part: Part
    candidates: tuple[Settings, ...]
    by_edge: tuple[Settings, ...] = ()

    @property
    def run(self) -> RecordedRun:
        """The exchange, or the first one of the job."""
        return self.edges[0]

    @property
    def recorded(self) -> Settings:
        """The candidate that was recorded."""
        return tuple(recorded_setting(each.manifest) for each in self.edges)

    @property
    def order(self) -> list[int]:
        """Numbers of the candidates, with ascending settings."""
        own = [number for number, each in enumerate(self.candidates) if each not in self.by_edge]
        own.sort(key=lambda number: [*map(ascending, self.candidates[number])])
        return own + [self.candidates.index(each) for each in self.by_edge]

    def refined(self, choices: Sequence[Choice]) -> Plan:
        """The plan with the timeouts in whole milliseconds between that of each choice, if it is
        the same on all edges, and the next longer one.

        Args:
            choices: with points as places in `order`.
        """
        more: list[Settings] = []
        for choice in choices:
            if choice.point is None or choice.next_longer_ns is None:
                continue
            chosen = self.candidates[self.order[choice.point]]
            timeout_ns, *others = {each.network.buffer_timeout_ns for each in chosen}
            if not others:
                steps_ns = between(timeout_ns, choice.next_longer_ns)
                more += [_with_timeouts(chosen, [each] * len(chosen)) for each in steps_ns]
        return replace(self, candidates=tuple(dict.fromkeys((*self.candidates, *more))))


@dataclass(frozen=True, slots=True)
class EdgeTimeouts:
    """Buffer timeouts for some edges of a job, by the number of an edge or a part of its name; the
    others keep the recorded ones."""

    of: tuple[tuple[str, int], ...]

    def on(self, edges: Sequence[Edge]) -> list[int | None]:
        """The timeout of each edge; None for the recorded one.

        Raises: ConfigError for an edge that does not exist, or a name of several.
        """
        found: list[int | None] = [None] * len(edges)
        for text, timeout_ns in self.of:
            if text.isdecimal():
                places = [n for n, each in enumerate(edges) if each.number == int(text)]
            else:
                places = [n for n, each in enumerate(edges) if text.lower() in each.name.lower()]
                starts = [n for n in places if edges[n].name.lower().startswith(text.lower())]
                places = starts if len(starts) == 1 else places
            if len(places) != 1:
                what = "several edges match" if places else "there is no edge"
                listed = "; ".join(each.title for each in edges)
                raise ConfigError(f"--edge-timeout: {what} {text!r}; the edges are {listed}")
            found[places[0]] = timeout_ns
        return found


def check_edge_timeouts(runs: Sequence[RecordedRun], asked: Sequence[EdgeTimeouts]) -> None:
    """Raises: ConfigError for timeouts of edges that do not exist."""
    groups = _of_jobs(runs)
    if asked and not groups:
        raise ConfigError("--edge-timeout is for jobs of several exchanges, and there is none")
    for group in groups:
        for each in asked:
            each.on([run.ends for run in group])


def plan_exchanges(
    observed: Sequence[ObservedRun],
    grid: Grid,
    *,
    max_records: int | None = None,
    split: int | None = None,
    may_be_compiled: bool = True,
) -> tuple[list[Plan], list[str]]:
    """A plan for each exchange by itself, and lines about those that take long.

    Args:
        grid: settings to predict; the recorded one is always one more.
        max_records, split, may_be_compiled: as of `parts.part_of_exchange`.
    """
    plans, lines = [], []
    grids = grids_for([each.run for each in observed], observed, grid)
    for each, own in zip(observed, grids, strict=True):
        part, why_long = part_of_exchange(
            each,
            settings_of(each.run, own),
            max_records=max_records,
            split=split,
            may_be_compiled=may_be_compiled,
        )
        plans.append(plan_of(each.run, settings_of(each.run, own), part))
        lines += [] if why_long is None else [why_long]
    return plans, lines


def plan_of(run: RecordedRun, settings: Sequence[Setting], part: Part) -> Plan:
    """The plan of one exchange."""
    return Plan(None, (run,), part, tuple((each,) for each in settings))


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
        mixed = dict.fromkeys(_with_timeouts(recorded, each.on(ends)) for each in edge_timeouts)
        by_edge = tuple(each for each in mixed if each not in candidates)
        settings = [setting for each in (*candidates, *by_edge) for setting in each]
        part = part_of_job(own, settings, max_records)
        plans.append(Plan(number, tuple(runs), part, (*candidates, *by_edge), by_edge))
    return plans


def grids_for(
    runs: Sequence[RecordedRun], observed: Sequence[ObservedRun], asked: Grid
) -> list[Grid]:
    """The grid for each run, see `Grid.of_run`; exchanges of one trace have the same checkpoints.

    Args:
        observed: at least one exchange of each trace.

    Raises: ConfigError if it asks how checkpoints align and there are none.
    """
    intervals_ns: dict[AnyPath, int | None] = {}
    for each in observed:
        found_ns = interval_ns_of(each.rows.barriers)
        intervals_ns[each.run.path] = intervals_ns.get(each.run.path) or found_ns
    return [asked.of_run(recorded_setting(run.manifest), intervals_ns[run.path]) for run in runs]


def settings_of(run: RecordedRun, grid: Grid) -> list[Setting]:
    """The settings of a grid for a run, the recorded one among them."""
    recorded = recorded_setting(run.manifest)
    return grid.settings(recorded, is_max_rate=is_max_rate(run.manifest))


def _of_jobs(runs: Sequence[RecordedRun]) -> list[list[RecordedRun]]:
    """The edges, in the direction of flow, of each job that has several, or local channels."""
    groups = [list(group) for _, group in groupby(runs, key=lambda each: each.job)]
    whole = [
        sorted([*group, *local_edges(group)], key=lambda each: each.ends.number) for group in groups
    ]
    return [each for each in whole if len(each) > 1 or _is_filled_in(each[0])]


def _is_filled_in(run: RecordedRun) -> bool:
    """Whether some channels of an edge were not recorded, and Flink's counters stand in."""
    index = run.ends.index
    return local_share(run, index) > 0 and received_per_s(run, index) is not None


def _with_timeouts(settings: Settings, timeouts_ns: Sequence[int | None]) -> Settings:
    return tuple(
        each
        if timeout_ns is None
        else replace(each, network=replace(each.network, buffer_timeout_ns=timeout_ns))
        for each, timeout_ns in zip(settings, timeouts_ns, strict=True)
    )
