"""Which part of a run is simulated: all of it where the compiled model takes seconds for that, else
windows spread over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from flinknet.options.what_if import Setting
from flinknet.results import Measured
from flinknet.units import format_duration_ns, human_duration

from .observe.arrivals import Slicing
from .outcome import Window
from .read import RecordedRun

MESSAGES_MAX = 60_000_000
"""Messages of a run that are simulated at most, over all settings: about a minute of one core."""

BUFFERS_AT_ONCE = 3_000_000
"""Recorded data buffers that a process holds, of a run that is not cut into slices."""

WINDOWS = 8
"""Of a run of which not all is simulated, at most; more where they are slices."""

LONG_FROM = 1.5
"""Where so many times the share of a run is simulated, that is reported."""

BEATS_MIN = 20
"""Beats of the longest buffer timeout that a window holds at least: when a record comes within a
beat is chance, and what is left over at the end of the window is one beat of it."""


def messages_of(run: RecordedRun, measured: Measured, setting: Setting) -> int:
    """How many buffers a setting would make of a run, roughly and at most."""
    timeout_ns = setting.network.buffer_timeout_ns
    if timeout_ns == 0:
        return measured.records
    beats = 0 if timeout_ns < 0 else run.duration_ns // timeout_ns * len(run.manifest.channels)
    return min(measured.records, measured.buffers + beats)


def share_in_seconds(run: RecordedRun, measured: Measured, settings: Sequence[Setting]) -> float:
    """The share of a run that the compiled model simulates under all settings in good time."""
    messages = sum(messages_of(run, measured, each) for each in settings)
    return min(1.0, MESSAGES_MAX / max(messages, 1))


def longest_beat_ns(settings: Sequence[Setting]) -> int:
    """The longest buffer timeout of some settings; 0 if none has one."""
    return max((each.network.buffer_timeout_ns for each in settings), default=0)


def at_least(run: RecordedRun, to_ns: int, settings: Sequence[Setting]) -> int:
    """The end of a window from the start of a run, moved on until it holds enough beats."""
    return min(run.to_ns, max(to_ns, run.from_ns + BEATS_MIN * longest_beat_ns(settings)))


def why_too_short(window_ns: int, setting: Setting) -> str | None:
    """Why nothing is predicted of a window that was asked for; None if it holds enough beats."""
    beat_ns = longest_beat_ns([setting])
    if window_ns >= BEATS_MIN * beat_ns:
        return None
    return (
        f"{human_duration(window_ns)} are {window_ns / beat_ns:.3g} beats of a buffer timeout of"
        f" {format_duration_ns(beat_ns)}, and a prediction needs {BEATS_MIN}: give"
        f" {human_duration(BEATS_MIN * beat_ns)} or more of the run"
    )


BEATS_ARE_LEAST = f"{BEATS_MIN} beats of the longest buffer timeout are the least"
SLICE_IS_LEAST = "a slice is the least"


def why_long(run: RecordedRun, simulated_ns: int, share: float, why: str) -> str | None:
    """That more of a run is simulated than its share; None where it is not."""
    times = simulated_ns / (run.duration_ns * share)
    if times < LONG_FROM:
        return None
    return (
        f"{human_duration(simulated_ns)} of {human_duration(run.duration_ns)} are simulated,"
        f" {times:.1f} times what is meant to be: {why}"
    )


def spread_windows(
    run: RecordedRun, share: float, settings: Sequence[Setting]
) -> tuple[Window, ...]:
    """A share of a run as windows at equal distances: fewer where the beat is long, and a single
    one is the beginning of the run. It alone may be more than the share."""
    least_ns = max(BEATS_MIN * longest_beat_ns(settings), 1)
    wanted_ns = int(run.duration_ns * share)
    count = min(max(wanted_ns // least_ns, 1), WINDOWS)
    length_ns = min(max(wanted_ns // count, least_ns), run.duration_ns)
    starts_ns = np.linspace(run.from_ns, run.to_ns - length_ns, count).astype(np.int64)
    return tuple(Window(each, each + length_ns) for each in starts_ns.tolist())


def spread_slices(slicing: Slicing, share: float) -> Slicing:
    """A share of the slices of a run, at equal distances. A single one is the first: with it a
    shorter run is simulated, and it may be more than the share."""
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
