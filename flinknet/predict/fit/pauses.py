"""Times in which a TaskManager stood still, as its buffers show it.

A host that has no core to give, a full garbage collection, a stopped process: for as long as that
takes, nobody flushes, and all records that come meanwhile leave when it ends. So a pause is a gap
between the buffers of all producers of a process, with far more records behind it than a beat of
the flusher usually has. A gap in the load has none, a task that is slow holds up its own buffers
only, and where a channel had used up its credit, or was blocked by a barrier, that is the reason.
What is shorter than GAP_BEATS does not show: it counts as the lateness of a beat, or
as a delay of the messages that met it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from flinknet.trace.event_block import EventColumns
from flinknet.units import human_duration

from ..intervals import NOTHING, Intervals, from_switches, merged
from . import SAMPLES_MIN
from .window_rows import of_channels, places_by_channel

GAP_BEATS = 1.5
"""Shortest pause, in beats of the flusher."""

USUAL_BEAT = 0.95
"""Quantile of the records of a beat above which a beat is full."""

TIMES_USUAL = 3.0
"""Least records of the beat after a pause, as a multiple of those of a full beat."""

PAUSED = (
    "TaskManagers stood still {} times, for {} at most: the ranges reach from none of these pauses"
    " to all of them, predictions have half"
)
SHORT_PAUSES = "pauses of TaskManagers that are shorter than {} do not show in the recording"
PAUSES_UNKNOWN = (
    "whether TaskManagers stood still at times does not show in the recording, as its buffers have"
    " no beat"
)


def fit_pauses(
    sent: EventColumns,
    resumed: EventColumns,
    process_of: Mapping[int, str],
    beat_ns: int | None,
) -> dict[str, Intervals]:
    """The pauses of each process that had any.

    Args:
        sent: data buffers of all edges.
        resumed: ResumeConsumptions of all edges.
        process_of: channel to the process of its producer; other channels do not count.
        beat_ns: period of the flusher; None if unknown.
    """
    if not beat_ns:
        return {}
    channels: dict[str, list[int]] = {}
    for channel, name in process_of.items():
        channels.setdefault(name, []).append(channel)
    found = {}
    for name, own in channels.items():
        pauses = _pauses(of_channels(sent, own), of_channels(resumed, own), beat_ns)
        if len(pauses.starts_ns):
            found[name] = pauses
    return found


def _pauses(sent: EventColumns, resumed: EventColumns, beat_ns: int) -> Intervals:
    at_ns = sent["at_ns"].astype(np.int64)
    if len(at_ns) < SAMPLES_MIN:
        return NOTHING
    reached = np.r_[0, np.cumsum(np.maximum(sent["records"], 0))]
    beats_ns = np.arange(at_ns[0], at_ns[-1], beat_ns)
    in_beats = np.diff(reached[np.searchsorted(at_ns, beats_ns)])
    if not len(in_beats):
        return NOTHING
    begun_ns, ended_ns = at_ns[:-1], at_ns[1:]
    behind = reached[np.searchsorted(at_ns, ended_ns + beat_ns)] - reached[1:-1]
    is_pause = ended_ns - begun_ns > GAP_BEATS * beat_ns
    is_pause &= behind > TIMES_USUAL * max(float(np.quantile(in_beats, USUAL_BEAT)), 1.0)
    is_pause &= ~_starved(sent, int(at_ns[-1])).hold(begun_ns)
    resumed_ns = np.sort(resumed["at_ns"])
    is_pause &= np.searchsorted(resumed_ns, begun_ns) == np.searchsorted(
        resumed_ns, ended_ns, side="right"
    )
    return Intervals(begun_ns[is_pause], ended_ns[is_pause])


def _starved(sent: EventColumns, end_ns: int) -> Intervals:
    """When data waited for credit on a channel, until its next buffer left."""
    parts = []
    for own in places_by_channel(sent).values():
        waits = (sent["credit_after"][own] == 0) & (sent["backlog_buffers"][own] > 0)
        parts.append(from_switches(sent["at_ns"][own].astype(np.int64), waits, end_ns))
    return merged(parts)


def pauses_in_words(pauses: Iterable[Intervals], buffer_timeout_ns: int) -> str:
    """A sentence on the pauses that were found, or on why there may be others."""
    if buffer_timeout_ns <= 0:
        return PAUSES_UNKNOWN
    found = merged(pauses)
    if not len(found.starts_ns):
        return SHORT_PAUSES.format(human_duration(GAP_BEATS * buffer_timeout_ns))
    longest_ns = int((found.ends_ns - found.starts_ns).max())
    return PAUSED.format(len(found.starts_ns), human_duration(longest_ns))
