"""HostClock: how far the clock of another host is ahead of this one's, from round trips.

A round trip bounds the offset: the other clock was read between two instants of ours, so that the
offset is within half of the round trip of the middle. The shortest round trips of the first and of
the last part give a line, whose slope is the drift. Two clocks that run at constant speeds differ
from it by at most half a round trip between these two points; a sample in between that contradicts
it makes the error larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from flinknet.results import RunResult, clock_warnings

WINDOW_NS = 250_000_000
"""The shortest round trip of each window of this length is kept."""

WINDOWS_MAX = 4096

SPAN_MIN_NS = 1_000_000_000
"""Over a shorter time the drift cannot be told from the error."""

DRIFT_ERROR_MAX = 50e-6
"""A drift that is less certain is not used while a run goes on."""

DRIFT_UNKNOWN = 100e-6
"""The most that clocks are assumed to drift, where that was not measured."""


@dataclass(frozen=True, slots=True)
class ClockLine:
    """The offset of a host's clock: an instant `at_ns` of it is `offset_ns` earlier than it shows,
    and the offset grows by `drift` with each ns of it. As a message of the JobManager: how to read
    the clock from now on, so that it agrees with the JobManager's.

    Attributes:
        error_ns: the most that the offset differs from it, over the time of the samples.
    """

    at_ns: int
    offset_ns: int
    drift: float
    error_ns: int

    def offset_at(self, at_ns: int) -> float:
        """The offset at an instant of that clock, in ns."""
        return self.offset_ns + (at_ns - self.at_ns) * self.drift


class _Sample(NamedTuple):
    """The offset of the clock by a round trip; the shortest is the smallest."""

    round_trip_ns: int
    at_ns: int
    offset_ns: int

    @property
    def error_ns(self) -> int:
        return (self.round_trip_ns + 1) // 2


class HostClock:
    """The samples of one host's clock, and the corrections that its processes were given."""

    def __init__(self) -> None:
        self._best: dict[int, _Sample] = {}
        self._corrections: list[ClockLine] = []

    def add(self, sent_ns: int, at_ns: int, received_ns: int) -> None:
        """Add a round trip: sent and received by this clock, answered at `at_ns` by the other."""
        sample = _Sample(received_ns - sent_ns, at_ns, at_ns - (sent_ns + received_ns) // 2)
        window = sent_ns // WINDOW_NS
        self._best[window] = min(sample, self._best.get(window, sample))
        if len(self._best) > WINDOWS_MAX:
            for each in list(self._best)[1:-1:2]:
                del self._best[each]

    @property
    def round_trip_ns(self) -> int:
        return min(self._best.values()).round_trip_ns

    def line(self) -> ClockLine:
        """The line through the shortest round trips of the first and of the last quarter."""
        samples = list(self._best.values())
        begin_ns, end_ns = samples[0].at_ns, samples[-1].at_ns
        span_ns = end_ns - begin_ns
        if span_ns < SPAN_MIN_NS:
            best = min(samples)
            error_ns = best.error_ns + round(span_ns * DRIFT_UNKNOWN)
            return ClockLine(best.at_ns, best.offset_ns, 0.0, error_ns)
        first = min(x for x in samples if x.at_ns <= begin_ns + span_ns // 4)
        last = min(x for x in samples if x.at_ns >= end_ns - span_ns // 4)
        apart_ns = last.at_ns - first.at_ns
        drift = (last.offset_ns - first.offset_ns) / apart_ns
        line = ClockLine(first.at_ns, first.offset_ns, drift, 0)
        spread = (first.error_ns + last.error_ns) / apart_ns
        at_ends_ns = max(
            first.error_ns + spread * (first.at_ns - begin_ns),
            last.error_ns + spread * (end_ns - last.at_ns),
        )
        beyond_ns = max(abs(line.offset_at(x.at_ns) - x.offset_ns) - x.error_ns for x in samples)
        return replace(line, error_ns=round(max(at_ends_ns, beyond_ns)))

    def correction(self) -> ClockLine:
        """The line to read the clock by from now on; it is kept for `error_ns`."""
        line = self.line()
        samples = list(self._best.values())
        span_ns = samples[-1].at_ns - samples[0].at_ns
        if not line.drift or 2 * line.error_ns > DRIFT_ERROR_MAX * span_ns:
            best = min(x for x in samples if x.at_ns >= samples[-1].at_ns - SPAN_MIN_NS)
            line = ClockLine(best.at_ns, best.offset_ns, 0.0, best.error_ns)
        at_ns = samples[-1].at_ns
        self._corrections.append(ClockLine(at_ns, round(line.offset_at(at_ns)), line.drift, 0))
        return self._corrections[-1]

    def error_ns(self, from_ns: int, to_ns: int) -> int:
        """The most that a corrected reading was wrong within [from_ns, to_ns] of this clock. Busy
        TaskManagers take corrections late: each counts until the one after the next was sent."""
        line = self.line()
        from_ns, to_ns = from_ns + line.offset_ns, to_ns + line.offset_ns
        ends = [*(each.at_ns for each in self._corrections[2:]), to_ns, to_ns]
        worst = 0.0
        for correction, end_ns in zip(self._corrections, ends, strict=False):
            for at_ns in (max(from_ns, correction.at_ns), min(to_ns, end_ns)):
                if end_ns >= from_ns and correction.at_ns <= to_ns:
                    worst = max(worst, abs(correction.offset_at(at_ns) - line.offset_at(at_ns)))
        return line.error_ns + round(worst)


@dataclass(frozen=True, slots=True)
class ClockOfHost:
    """The clock of a worker's host, as the manifest of a run has it.

    Attributes:
        offset_ns: how far it was ahead of the JobManager's at the end.
        drift_ppm: by how much the offset grew.
        error_ns: the most that instants of its events are wrong.
    """

    worker: str
    host_id: str
    offset_ns: int
    drift_ppm: float
    error_ns: int


def known_within(result: RunResult, error_ns: int) -> RunResult:
    """The result of a run with the error of its clocks, and without latencies below it."""
    if not error_ns:
        return result
    measured, distribution = result.measured, result.latency_distribution
    return replace(
        result,
        latency_distribution=distribution and distribution.known_within(error_ns),
        measured=replace(
            measured,
            latency_ns=measured.latency_ns.known_within(error_ns),
            latency_uncorrected_ns=measured.latency_uncorrected_ns.known_within(error_ns),
        ),
        channels=tuple(
            replace(each, latency_ns=each.latency_ns.known_within(error_ns))
            for each in result.channels
        ),
        warnings=(*clock_warnings(error_ns), *result.warnings),
    )


def error_between_ns(clocks: Sequence[ClockOfHost]) -> int:
    """The most by which instants of two hosts can be wrong to each other, in ns."""
    return sum(sorted(each.error_ns for each in clocks)[-2:])
