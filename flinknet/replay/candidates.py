"""Candidates: which settings to predict for each observed run, and from how much of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flinknet.predict.exchange import is_blocking, is_max_rate, recorded_setting
from flinknet.predict.grid import Grid, ascending
from flinknet.results import Advice, Measured

from .advise.targets import refined_settings
from .observe.arrivals import Slicing, slice_edges, slicing_of
from .observe.observed import ObservedRun
from .outcome import Candidate
from .read import RecordedRun

DEFAULT_MAX_RECORDS = 500_000
"""Records of a run that are simulated for each candidate at most by default: with
timeout 0 each may be a message of its own, and what the kernel does not cover costs 50 µs a
message."""

DEFAULT_MAX_RECORDS_CAPTURED = 150_000
"""The same where the instants of records were not recorded."""

DEFAULT_MAX_RECORDS_AT_MAX_RATE = 6_000_000
"""The same at the highest rate, where buffers are full at any timeout."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What to predict.

    Attributes:
        all: of each run in the order of their timeouts, the recorded setting among them.
        slicings: by number of a run, how it is cut to be simulated.
    """

    all: Sequence[Candidate]
    slicings: dict[int, Slicing]

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
    grid: Grid,
    *,
    max_records: int | None,
    split: int | None,
    may_slice: bool,
) -> Candidates:
    """The candidates of some runs.

    Args:
        max_records: of each run, to simulate for each candidate; None for as many as take seconds.
        split: slices of each run; None for as many as suit its size.
        may_slice: whether the simulation can be that of slices.
    """
    candidates: list[Candidate] = []
    slicings: dict[int, Slicing] = {}
    for each in observed:
        run = each.run
        most = default_max_records(each.measured, is_max_rate=is_max_rate(run.manifest))
        capped_to_ns = window_for(run, each.measured.records, most)
        to_ns = window_for(run, each.measured.records, max_records or most)
        edges = slice_edges(run, split)
        is_cut = len(edges) > 2 and (split or to_ns > capped_to_ns)
        if may_slice and is_cut and each.rows.arrivals and not is_blocking(run.manifest):
            slicings[run.run] = slicing_of(each.rows.arrivals, edges)
            to_ns = next(edge for edge in edges[1:] if edge >= to_ns)
        candidates += [
            replace(candidate, capped_to_ns=min(capped_to_ns, to_ns))
            for candidate in candidates_of(run, grid, to_ns)
        ]
    return Candidates(candidates, slicings)


def candidates_of(run: RecordedRun, grid: Grid, to_ns: int) -> list[Candidate]:
    """One candidate for each setting of a grid, the recorded one among them."""
    recorded = recorded_setting(run.manifest)
    settings = grid.settings(recorded, is_max_rate=is_max_rate(run.manifest))
    return [Candidate(run, number, each, to_ns) for number, each in enumerate(settings)]


def default_max_records(measured: Measured, *, is_max_rate: bool) -> int:
    """How many records of a run to simulate: fewer where a record fills several buffers."""
    records = DEFAULT_MAX_RECORDS_AT_MAX_RATE if is_max_rate else DEFAULT_MAX_RECORDS
    if measured.latency_ns.count == 0:  # captured: the simulator alone covers those
        records = DEFAULT_MAX_RECORDS_CAPTURED
    buffers_per_record = measured.buffers / max(measured.records, 1)
    return max(round(records / max(buffers_per_record, 1.0)), 1)


def window_for(run: RecordedRun, records: int, max_records: int) -> int:
    """End of the part of the measured window that holds some `max_records` records, if they come
    evenly."""
    if records <= max_records:
        return run.to_ns
    return run.from_ns + run.duration_ns * max_records // records
