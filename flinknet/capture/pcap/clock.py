"""CaptureClock: corrects the instants of a capture whose clock was set back or forward, or stood.

The order of packets shows steps back, the timestamps of TCP's senders steps forward. A step is
removed from all later instants.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from flinknet.units import counted, human_duration

from .segments import Endpoint, TcpSegment

BACK_NS: Final = 20_000_000
"""Age difference, in ns, above which an older packet shows that the clock was set back, if it
continues its direction and is older than the last PACKETS_BEFORE packets by this much. Any other
older packet was captured out of order."""

PACKETS_BEFORE: Final = 3

SILENCE_NS: Final = 1_000_000_000
"""Shortest silence that may come from a clock set forward, in ns."""

STANDS_PACKETS, STANDS_TURNS = 100, 25
"""Packets with one instant, and changes of direction among them, that show a clock that stands."""

COARSE_INSTANTS: Final = 100
"""Instants in whole milliseconds, without any other, after which the clock is assumed to count
only milliseconds; then many packets may share an instant."""

DIRECTIONS_MAX: Final = 20_000
"""Most directions of connections that are remembered at a time; the oldest is forgotten first."""

MS: Final = 1_000_000


class CaptureClock:
    """Follows the packets of a capture."""

    def __init__(self) -> None:
        self.steps: list[str] = []  # irregularities of the clock, in words
        self._offset_ns = 0
        self._from_ns: int | None = None
        self._latest_ns = 0
        self._before: deque[int] = deque(maxlen=PACKETS_BEFORE)
        self._reached: dict[tuple[Endpoint, Endpoint], tuple[int, int]] = {}
        # Sender's timestamp in ms and instant of its capture, by direction: zeros differ.
        self._sent: dict[tuple[Endpoint, Endpoint], tuple[int, int]] = {}
        self._coarse = 0  # instants so far if all were in whole ms, else far below 0
        self._instant = (0, 0, 0)  # instant, packets with it, changes of direction among them
        self._source: Endpoint | None = None
        self._stands: list[tuple[int, int]] = []  # instants between which the clock stood

    def follow(self, segment: TcpSegment) -> TcpSegment:
        """The segment with its instant corrected for steps."""
        at_ns = segment.at_ns + self._offset_ns
        if self._from_ns is None:
            self._from_ns = self._latest_ns = at_ns
        elapsed_ns = self._elapsed_ns(segment)
        is_newer = self._is_newer(segment)
        is_older = bool(self._before) and at_ns < min(self._before) - BACK_NS
        if is_newer and is_older:
            self._step(at_ns - self._latest_ns, elapsed_ns)
        elif elapsed_ns is not None:
            gap_ns = at_ns - self._latest_ns
            if gap_ns > SILENCE_NS and gap_ns - elapsed_ns > SILENCE_NS // 2:
                self._step(gap_ns, elapsed_ns)
        at_ns = segment.at_ns + self._offset_ns
        self._stand(segment, at_ns)
        self._latest_ns = max(self._latest_ns, at_ns)
        if is_newer or not is_older:
            self._before.append(at_ns)
            if segment.sent_ms is not None:
                self._sent[segment.source, segment.target] = segment.sent_ms, at_ns
        for known in (self._reached, self._sent):
            if len(known) > DIRECTIONS_MAX:
                del known[next(iter(known))]
        return segment if not self._offset_ns else segment._replace(at_ns=at_ns)

    def finish(self) -> tuple[int, int] | None:
        """End the capture. Returns: the longest part in which the clock ran, empty if it never ran;
        None if it ran all the time."""
        self._end_stand(self._latest_ns)
        if not self._stands:
            return None
        starts = [self._from_ns or 0, *(after_ns for _, after_ns in self._stands)]
        stops = [*(before_ns for before_ns, _ in self._stands), self._latest_ns + 1]
        return max(zip(starts, stops, strict=True), key=lambda part: part[1] - part[0])

    def _is_newer(self, segment: TcpSegment) -> bool:
        """Whether a segment has later data or a later acknowledgement than all before it in its
        direction."""
        key = segment.source, segment.target
        if segment.acknowledged is None:
            self._reached.pop(key, None)  # the first segment of a connection, or a reset
            return False
        reached = segment.sequence_number + len(segment.data), segment.acknowledged
        known = self._reached.get(key)
        if known is None or segment.is_syn:
            self._reached[key] = reached
            return False
        ahead = [
            (now - before + (1 << 31)) % (1 << 32) - (1 << 31)
            for now, before in zip(reached, known, strict=True)
        ]
        if min(ahead) < 0 or not any(ahead):
            return False
        self._reached[key] = reached
        return True

    def _elapsed_ns(self, segment: TcpSegment) -> int | None:
        """Time since the last packet by the sender's timestamps in ms; None if unknown."""
        before = self._sent.get((segment.source, segment.target))
        if before is None or segment.sent_ms is None:
            return None
        sent_ns = (segment.sent_ms - before[0]) % (1 << 32) * MS
        return max(sent_ns - (self._latest_ns - before[1]), 0)

    def _step(self, by_ns: int, elapsed_ns: int | None) -> None:
        """Correct a step of the clock, less the time that really passed if a sender shows it."""
        by_ns -= elapsed_ns or 0
        self._offset_ns -= by_ns
        where = human_duration(self._latest_ns - (self._from_ns or 0))
        least = "at least " if elapsed_ns is None else ""
        self.steps.append(
            f"the clock of the capture was set {'forward' if by_ns > 0 else 'back'} by"
            f" {least}{human_duration(abs(by_ns))} after {where}: later instants are moved by as"
            " much, so rates are those of a clock that was not set"
        )

    def _stand(self, segment: TcpSegment, at_ns: int) -> None:
        instant_ns, packets, turns = self._instant
        if at_ns == instant_ns:
            turns += segment.source != self._source
            self._instant = instant_ns, packets + 1, turns
        elif packets:
            self._end_stand(at_ns)
        if not packets or at_ns != instant_ns:
            self._instant = at_ns, 1, 0
            self._coarse += 1 if segment.at_ns % MS == 0 else -(1 << 40)
        self._source = segment.source

    def _end_stand(self, to_ns: int) -> None:
        instant_ns, packets, turns = self._instant
        if packets < STANDS_PACKETS or turns < STANDS_TURNS or self._coarse >= COARSE_INSTANTS:
            return
        self._stands.append((instant_ns, max(to_ns, instant_ns + 1)))
        where = human_duration(instant_ns - (self._from_ns or 0))
        self.steps.append(
            f"the clock of the capture stood at {where} for {counted(packets, 'packet')}: how long"
            " they took is unknown, and figures are of the longest part in which it went"
        )
