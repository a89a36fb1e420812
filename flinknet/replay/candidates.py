"""Candidates: which settings to predict for each observed run, and from how much of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flinknet.options.what_if import Setting, ascending
from flinknet.predict.exchange import is_blocking, is_max_rate, recorded_setting
from flinknet.predict.grid import Grid
from flinknet.results import Advice, Measured
from flinknet.storage import AnyPath

from .advise.targets import refined_settings
from .observe.arrivals import Slice, Slicing, slice_edges, slicing_of
from .observe.checkpoints import interval_ns_of
from .observe.observed_run import ObservedRun
from .outcome import Candidate, Window
from .read import RecordedRun
from .windows import (
    BEATS_ARE_LEAST,
    BUFFERS_AT_ONCE,
    SLICE_IS_LEAST,
    at_least,
    share_in_seconds,
    spread_slices,
    spread_windows,
    why_long,
)

MAX_RECORDS = 500_000
"""Records of a run that the simulator takes at most by default, where the compiled model does not
know the exchange: with timeout 0 each may be a message of its own, and one costs 50 µs and more."""

MAX_RECORDS_CAPTURED = 150_000
"""The same where it is not known when records came."""

MAX_RECORDS_AT_MAX_RATE = 6_000_000
"""The same at the highest rate, where buffers are full at any timeout."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What to predict.

    Attributes:
        all: of each run in the order of their timeouts, the recorded setting among them.
        slicings: by number of a run, how it is cut to be simulated.
        why_long: a line for each run of which more is simulated than takes about a minute.
    """

    all: Sequence[Candidate]
    slicings: dict[int, Slicing]
    why_long: tuple[str, ...] = ()

    def of(self, run: RecordedRun) -> list[Candidate]:
        """Those of one run."""
        return [each for each in self.all if each.run is run]

    def refined(self, advice: Sequence[Advice]) -> list[Candidate]:
        """Further candidates around those that the advice on each run chose."""
        found = []
        runs = {each.run.run: each.run for each in self.all}.values()
        for run, each in zip(runs, advice, strict=True):
            own = self.of(run)
            settings = refined_settings(each.situations, [candidate.setting for candidate in own])
            found += [
                replace(own[0], number=number, setting=setting)
                for number, setting in enumerate(settings, len(own))
            ]
        return found

    def with_more(self, more: Sequence[Candidate]) -> Candidates:
        """These and others of the same runs."""
        found = sorted([*self.all, *more], key=lambda each: (each.run.run, ascending(each.setting)))
        return replace(self, all=found)


def plan_candidates(
    observed: Sequence[ObservedRun],
    asked: Grid,
    *,
    max_records: int | None,
    split: int | None,
    may_slice: bool,
) -> Candidates:
    """The candidates of some runs.

    Args:
        asked: the settings to predict; the recorded one is always one more.
        max_records: of each run, to simulate for each candidate, from its start; None for all of it
            where that takes seconds, else windows spread over it.
        split: slices of each run; None for as many as suit its size.
        may_slice: whether the simulation is the one of `predict.what_if`, which knows slices and
            windows.
    """
    candidates: list[Candidate] = []
    slicings: dict[int, Slicing] = {}
    long: list[str] = []
    grids = grids_for([each.run for each in observed], observed, asked)
    for each, grid in zip(observed, grids, strict=True):
        run, measured = each.run, each.measured
        settings = settings_of(run, grid)
        most = simulated_records(measured, is_max_rate=is_max_rate(run.manifest))
        capped_to_ns = at_least(run, window_for(run, measured.records, most), settings)
        has_model = may_slice and not is_max_rate(run.manifest) and not is_blocking(run.manifest)
        to_ns = run.to_ns if has_model else capped_to_ns
        if max_records is not None:
            to_ns = window_for(run, measured.records, max_records)
        is_asked = run.is_asked_part or (max_records is not None and to_ns < run.to_ns)
        edges = slice_edges(run, split)
        share = share_in_seconds(run, measured, settings) if max_records is None else 1.0
        windows: tuple[Window, ...] = ()
        is_cut = len(edges) > 2 and (split or to_ns > capped_to_ns)
        if has_model and is_cut and each.rows.arrivals:
            slicing = slicing_of(each.rows.arrivals, edges)
            to_ns = next(edge for edge in edges[1:] if edge >= to_ns)
            if share < 1:
                slicing = spread_slices(slicing, share)
                to_ns = slicing.slices[-1].to_ns
                long += _why_long(run, slicing.slices, share, SLICE_IS_LEAST)
            slicings[run.run] = slicing
        elif has_model and max_records is None:
            share = min(share, BUFFERS_AT_ONCE / max(measured.buffers, 1))
            if share < 1:
                windows = spread_windows(run, share, settings)
                long += _why_long(run, windows, share, BEATS_ARE_LEAST)
            if len(windows) == 1:
                to_ns, windows = windows[0].to_ns, ()
        candidates += [
            replace(
                candidate,
                capped_to_ns=min(capped_to_ns, to_ns),
                windows=windows,
                is_asked=is_asked,
            )
            for candidate in candidates_of(run, grid, to_ns)
        ]
    return Candidates(candidates, slicings, tuple(long))


def _why_long(
    run: RecordedRun, parts: Sequence[Window | Slice], share: float, why: str
) -> list[str]:
    reason = why_long(run, sum(each.to_ns - each.from_ns for each in parts), share, why)
    return [] if reason is None else [reason]


def grids_for(
    runs: Sequence[RecordedRun], observed: Sequence[ObservedRun], asked: Grid
) -> list[Grid]:
    """The grid for each run, see `Grid.of_run`; exchanges of one trace have the same checkpoints.

    Args:
        observed: at least one exchange of each trace.

    Raises: ConfigError where it asks how checkpoints align, and there are none.
    """
    intervals_ns: dict[AnyPath, int | None] = {}
    for each in observed:
        found_ns = interval_ns_of(each.rows.barriers)
        intervals_ns[each.run.path] = intervals_ns.get(each.run.path) or found_ns
    return [asked.of_run(recorded_setting(run.manifest), intervals_ns[run.path]) for run in runs]


def candidates_of(run: RecordedRun, grid: Grid, to_ns: int) -> list[Candidate]:
    """One candidate for each setting of a grid, the recorded one among them."""
    settings = settings_of(run, grid)
    return [Candidate(run, number, each, to_ns) for number, each in enumerate(settings)]


def settings_of(run: RecordedRun, grid: Grid) -> list[Setting]:
    """The settings of a grid for a run, the recorded one among them."""
    recorded = recorded_setting(run.manifest)
    return grid.settings(recorded, is_max_rate=is_max_rate(run.manifest))


def simulated_records(measured: Measured, *, is_max_rate: bool) -> int:
    """How many records of a run the simulator takes: fewer where a record fills several buffers."""
    records = MAX_RECORDS_AT_MAX_RATE if is_max_rate else MAX_RECORDS
    if measured.latency_ns.count == 0:
        records = MAX_RECORDS_CAPTURED
    buffers_per_record = measured.buffers / max(measured.records, 1)
    return max(round(records / max(buffers_per_record, 1.0)), 1)


def window_for(run: RecordedRun, records: int, max_records: int) -> int:
    """End of the part of the measured window that holds some `max_records` records, if they come
    evenly."""
    if records <= max_records:
        return run.to_ns
    return run.from_ns + run.duration_ns * max_records // records
