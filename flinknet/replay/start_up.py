"""The length of the start-up of a job that was recorded between processes.

A recorded run leaves out its own warm-up. Between processes the start of a job is unknown, but
visible: channels open one after another, and the rate rises or a backlog is reduced. So the
start-up lasts until every channel has carried data and the bytes of a window are near those of most
windows.

A JVM and all its tasks are slow while it loads and compiles classes: in jobs of ten seconds and
more, credit came back late two to six times as often in the first two or three seconds as later.
Such delays must not be taken for those of the machine at any time. So where the trace shows the
begin of the job, the start-up lasts until credit comes back about as soon as later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from flinknet.arrays import IntArray
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.histogram import BUCKETS, bucket_index
from flinknet.trace import TraceFile, TraceReader, file_index
from flinknet.trace.event_block import EventColumns, is_data

SEARCH_NS = 120_000_000_000
"""The start-up is looked for in the first two minutes of a trace."""

SEARCH_MIN_NS = 2_000_000_000
"""In a shorter trace the start-up cannot be distinguished from the rest."""

WINDOWS = 40
MOST = WINDOWS // 4
"""Number of windows of the searched part, and most of them that are start-up."""

NEAR = 1.5
"""Largest factor between the bytes of a steady window and the median, and between its share of slow
buffers and the later one."""

SLOW = 0.1
"""Share of the buffers in the later half that count as slow: those whose credit takes longest."""

TOGETHER = 4
"""Windows that are taken together for the share of slow buffers: one alone has few buffers."""

BUFFERS_MIN = 20
"""Fewest buffers in these windows; fewer show nothing."""

FIRST_NUMBER = 3
"""Up to this number a buffer is among the first of its channel: an event or two come before it."""

_COLUMNS = (
    *("at_ns", "channel", "point", "kind", "data_type", "payload_bytes"),
    "sequence_number",
)


@dataclass(slots=True, eq=False)
class _Windows:
    """Traffic in the windows of the searched part.

    Attributes:
        passed_bytes: bytes of each window.
        credited: buffers of each window by the time until their credit came back, in the buckets of
            a histogram; only buffers with the credit in the same block.
        first_ns: instant of the first data of each channel.
        is_begun: a channel began in this part.
    """

    width_ns: int
    passed_bytes: IntArray = field(default_factory=lambda: np.zeros(WINDOWS, np.int64))
    credited: IntArray = field(default_factory=lambda: np.zeros((WINDOWS, BUCKETS), np.int64))
    first_ns: dict[int, int] = field(default_factory=dict)
    is_begun: bool = False

    def add(self, block: EventColumns, from_ns: int) -> None:
        """Count the rows of a block."""
        is_known = block["channel"] >= 0
        is_inside = (block["at_ns"] >= from_ns) & (
            block["at_ns"] < from_ns + WINDOWS * self.width_ns
        )
        data = is_data(block, TracePoint.SENT) & is_known & is_inside
        at_ns = block["at_ns"][data].astype(np.int64) - from_ns
        channels = block["channel"][data]
        np.add.at(self.passed_bytes, at_ns // self.width_ns, block["payload_bytes"][data])
        for channel in np.unique(channels).tolist():
            found_ns = int(at_ns[channels == channel].min())
            self.first_ns[channel] = min(self.first_ns.get(channel, found_ns), found_ns)
        self.is_begun |= bool((block["sequence_number"][data] <= FIRST_NUMBER).any())
        credit = (block["kind"] == MessageKind.ADD_CREDIT) & is_known
        back_ns = block["at_ns"][credit].astype(np.int64) - from_ns
        self._add_credited(at_ns, channels, back_ns, block["channel"][credit])

    def _add_credited(
        self, at_ns: IntArray, channels: IntArray, back_ns: IntArray, back_of: IntArray
    ) -> None:
        order = np.lexsort((back_ns, back_of))
        back_ns, back_of = back_ns[order], back_of[order]
        for channel in np.unique(channels).tolist():
            own_ns = at_ns[channels == channel]
            first, last = np.searchsorted(back_of, [channel, channel + 1])
            place = first + np.searchsorted(back_ns[first:last], own_ns)
            is_back = place < last
            took_ns = back_ns[place[is_back]] - own_ns[is_back]
            np.add.at(self.credited, (own_ns[is_back] // self.width_ns, bucket_index(took_ns)), 1)

    @property
    def opened(self) -> int:
        """The window in which the last of the early channels opened."""
        early_ns = [each for each in self.first_ns.values() if each < MOST * self.width_ns]
        return max(early_ns, default=0) // self.width_ns


def start_up_ns(files: Iterable[TraceFile], from_ns: int, to_ns: int) -> int:
    """How long the job was starting.

    Args:
        from_ns, to_ns: the part that was recorded.
    """
    searched_ns = min(to_ns - from_ns, SEARCH_NS)
    if searched_ns < SEARCH_MIN_NS:
        return 0
    windows = _Windows(searched_ns // WINDOWS)
    to_ns = from_ns + WINDOWS * windows.width_ns
    for file in files:
        with TraceReader(file, file_index(file).within(from_ns, to_ns)) as reader:
            for block in reader.events(_COLUMNS, None, from_ns, to_ns):
                windows.add(block, from_ns)
    first = _first_steady(windows.passed_bytes, windows.opened)
    if windows.is_begun:
        first = _first_quick(windows.credited, first)
    return first * windows.width_ns


def _first_steady(passed_bytes: IntArray, opened: int) -> int:
    """The first window that is like most, from the one on in which the last channel opened; that
    one if there is none, for then the load itself is not steady."""
    middle = float(np.median(passed_bytes))
    for window in range(opened, MOST + 1):
        if middle / NEAR <= passed_bytes[window] <= middle * NEAR:
            return window
    return opened


def _first_quick(credited: IntArray, steady: int) -> int:
    """The first window, from a steady one on, from which credit comes back about as soon as later.
    If there is none, the one with the fewest slow buffers, where these are clearly fewer than at
    first; else credit is late now and then at any time.
    """
    later = np.cumsum(credited[WINDOWS // 2 :].sum(axis=0))
    if later[-1] < BUFFERS_MIN:
        return steady
    slow_from = int(np.searchsorted(later, (1 - SLOW) * later[-1])) + 1
    passed, slow = credited.sum(axis=1), credited[:, slow_from:].sum(axis=1)
    shares = []
    for window in range(steady, MOST + 1):
        together = slice(window, window + TOGETHER)
        of = int(passed[together].sum())
        shares.append(float(slow[together].sum()) / of if of >= BUFFERS_MIN else 0.0)
        if shares[-1] <= NEAR * SLOW:
            return window
    return steady + int(np.argmin(shares)) if NEAR * min(shares) <= shares[0] else steady
