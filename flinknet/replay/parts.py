"""Parts of runs to simulate: the whole run where that takes seconds, else windows or slices spread
over it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from flinknet.options.what_if import Setting
from flinknet.predict.exchange import is_blocking, is_max_rate
from flinknet.results import Measured
from flinknet.units import format_duration_ns, human_duration

from .observe.measured import ObservedRun
from .observe.traffic import Slicing, slice_edges, slicing_of
from .read import RecordedRun

MESSAGES_MAX = 60_000_000
"""Messages of a run to simulate over all settings, at most: about a minute of one core."""

BUFFERS_AT_ONCE = 3_000_000
"""Recorded data buffers that one process holds at most, of a run that is not cut into slices."""

RECORDS_MAX = 3_000_000
"""Records of a job, over its edges, to simulate for each setting: some seconds of work."""

CORE_RECORDS_MAX = 500_000
"""Records of a run that the real core simulates at most by default, where the compiled model does
not cover the exchange: with timeout 0 each may be a message of its own, and one costs 50 µs."""

CORE_RECORDS_MAX_CAPTURED = 150_000
"""Limit for the real core for taps and captures, where arrival times are unknown."""

CORE_RECORDS_MAX_AT_MAX_RATE = 6_000_000
"""Limit for the real core at the highest rate, where buffers are full at any timeout."""

WINDOWS = 8
"""Windows of a run that is not simulated whole, at most; there may be more slices."""

LONG_FROM = 1.5
"""Ratio of the simulated time to the intended one from which the user is told."""

BEATS_MIN = 20
"""Beats of the longest buffer timeout that a window holds at least: when a record comes within a
beat is chance, and one beat is left over at the end of the window."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a run that is simulated by itself."""

    from_ns: int
    to_ns: int


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a run to simulate under each setting.

    Attributes:
        windows: simulated one by one and added up; the first one begins with the run, and the last
            one ends where the part ends that the windows stand for.
        core_ns: length to simulate, from the start, of settings that the compiled model does not
            cover.
        is_asked: the user chose the part, so settings with too few beats in it are refused.
        slicing: slices of the only window, which executors simulate one by one; None for none.
    """

    windows: tuple[Window, ...]
    core_ns: int
    is_asked: bool = False
    slicing: Slicing | None = None

    @property
    def from_ns(self) -> int:
        """Start of the part."""
        return self.windows[0].from_ns

    @property
    def to_ns(self) -> int:
        """End of the part."""
        return self.windows[-1].to_ns

    @property
    def simulated_ns(self) -> int:
        """Length of the windows together."""
        return sum(each.to_ns - each.from_ns for each in self.windows)

    def why_refused(self, setting: Setting) -> str | None:
        """Why the user's part is too short for a setting; None if it holds enough beats."""
        beat_ns, length_ns = longest_beat_ns([setting]), self.to_ns - self.from_ns
        if not self.is_asked or length_ns >= BEATS_MIN * beat_ns:
            return None
        return (
            f"{human_duration(length_ns)} are {length_ns / beat_ns:.3g} beats of a buffer timeout"
            f" of {format_duration_ns(beat_ns)}, and a prediction needs {BEATS_MIN}: give"
            f" {human_duration(BEATS_MIN * beat_ns)} or more of the run"
        )


BEATS_ARE_LEAST = f"{BEATS_MIN} beats of the longest buffer timeout are the least"
SLICE_IS_LEAST = "a slice is the least"


def first_of(run: RecordedRun, duration_ns: int) -> Part:
    """The beginning of a run, not longer than the run."""
    to_ns = min(run.to_ns, run.from_ns + duration_ns)
    return Part((Window(run.from_ns, to_ns),), to_ns - run.from_ns)


def part_of_exchange(
    observed: ObservedRun,
    settings: Sequence[Setting],
    *,
    max_records: int | None = None,
    split: int | None = None,
    may_be_compiled: bool = True,
) -> tuple[Part, str | None]:
    """The part of an exchange to simulate, and a line if it is much longer than intended.

    Args:
        max_records: records to simulate for each setting, from the start; None for the whole run
            where that takes seconds, else windows or slices spread over it.
        split: slices of the run; None for as many as suit its size.
        may_be_compiled: the compiled model is used where it covers the exchange.
    """
    run, measured = observed.run, observed.measured
    core_to_ns = _end_of(run, measured.records, _core_records(measured, run))
    core_to_ns = min(run.to_ns, max(core_to_ns, run.from_ns + _least_ns(settings)))
    is_compiled = (
        may_be_compiled and not is_max_rate(run.manifest) and not is_blocking(run.manifest)
    )
    to_ns, share, why_long = (run.to_ns if is_compiled else core_to_ns), 1.0, None
    if max_records is not None:
        to_ns = _end_of(run, measured.records, max_records)
    elif is_compiled:
        share = _share_in_seconds(run, measured, settings)
    is_asked = run.is_asked_part or (max_records is not None and to_ns < run.to_ns)
    edges = slice_edges(run, split)
    windows: tuple[Window, ...] = (Window(run.from_ns, to_ns),)
    slicing = None
    is_cut = len(edges) > 2 and (split or to_ns > core_to_ns)
    if is_compiled and is_cut and observed.rows.arrivals:
        slicing = slicing_of(observed.rows.arrivals, edges)
        to_ns = next(edge for edge in edges[1:] if edge >= to_ns)
        if share < 1:
            slicing = spread_slices(slicing, share)
            to_ns = slicing.slices[-1].to_ns
            simulated_ns = sum(each.to_ns - each.from_ns for each in slicing.slices)
            why_long = _why_long(run, simulated_ns, share, SLICE_IS_LEAST)
        windows = (Window(run.from_ns, to_ns),)
    elif is_compiled and max_records is None:
        share = min(share, BUFFERS_AT_ONCE / max(measured.buffers, 1))
        windows = spread_windows(run, share, settings)
        simulated_ns = sum(each.to_ns - each.from_ns for each in windows)
        why_long = _why_long(run, simulated_ns, share, BEATS_ARE_LEAST)
    core_ns = min(core_to_ns, windows[-1].to_ns) - run.from_ns
    return Part(windows, core_ns, is_asked, slicing), why_long


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
    the beginning of the run, and may be more than the share.
    """
    if share >= 1:
        return (Window(run.from_ns, run.to_ns),)
    least_ns = max(_least_ns(settings), 1)
    wanted_ns = int(run.duration_ns * share)
    count = min(max(wanted_ns // least_ns, 1), WINDOWS)
    length_ns = min(max(wanted_ns // count, least_ns), run.duration_ns)
    starts_ns = np.linspace(run.from_ns, run.to_ns - length_ns, count).astype(np.int64)
    return tuple(Window(each, each + length_ns) for each in starts_ns.tolist())


def spread_slices(slicing: Slicing, share: float) -> Slicing:
    """A share of the slices of a run, at equal distances. A single one is the first: a shorter run
    is simulated then, and it may be more than the share.
    """
    slices = slicing.slices
    count = min(len(slices), max(int(share * len(slices)), 1))
    if count == len(slices):
        return slicing
    if count == 1:
        return replace(slicing, slices=slices[:1])
    places = np.linspace(0, len(slices) - 1, count).round().astype(int).tolist()
    chosen = tuple(slices[place] for place in places)
    simulated_ns = sum(each.to_ns - each.from_ns for each in chosen)
    return replace(slicing, slices=chosen, simulated_ns=simulated_ns)


def longest_beat_ns(settings: Sequence[Setting]) -> int:
    """The longest buffer timeout of some settings; 0 if none has one."""
    return max((each.network.buffer_timeout_ns for each in settings), default=0)


def _least_ns(settings: Sequence[Setting]) -> int:
    return BEATS_MIN * longest_beat_ns(settings)


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
    """Share of a run that the compiled model simulates under all settings in good time."""
    messages = sum(_messages_of(run, measured, each) for each in settings)
    return min(1.0, MESSAGES_MAX / max(messages, 1))


def _messages_of(run: RecordedRun, measured: Measured, setting: Setting) -> int:
    """Buffers of a run under a setting, roughly and at most."""
    timeout_ns = setting.network.buffer_timeout_ns
    if timeout_ns == 0:
        return measured.records
    beats = 0 if timeout_ns < 0 else run.duration_ns // timeout_ns * len(run.manifest.channels)
    return min(measured.records, measured.buffers + beats)


def _why_long(run: RecordedRun, simulated_ns: int, share: float, why: str) -> str | None:
    """A line if much more of a run is simulated than its share."""
    times = simulated_ns / (run.duration_ns * share)
    if times < LONG_FROM:
        return None
    return (
        f"{human_duration(simulated_ns)} of {human_duration(run.duration_ns)} are simulated,"
        f" {times:.1f} times what is meant to be: {why}"
    )
