"""The clock of another host: its line lies within the stated error of the truth."""

from __future__ import annotations

import random

import pytest

from flinknet.results.measures import LatencySummary
from flinknet.runtime.cluster.host_clock import ClockOfHost, HostClock, error_between_ns

MS = 1_000_000
S = 1_000 * MS


class Host:
    """A host whose clock is wrong by an offset and a drift, behind a network with delays that
    differ between the two directions."""

    def __init__(self, seed: int, *, offset_ns: int, drift: float) -> None:
        self._random = random.Random(seed)
        self.offset_ns, self.drift = offset_ns, drift
        self.clock = HostClock()

    def ahead_ns(self, now_ns: int) -> float:
        return self.offset_ns + now_ns * self.drift

    def probe(self, now_ns: int) -> None:
        out_ns, back_ns = (20_000 + round(self._random.expovariate(1 / 200_000)) for _ in "ab")
        at_ns = now_ns + out_ns
        self.clock.add(now_ns, at_ns + round(self.ahead_ns(at_ns)), at_ns + back_ns)

    def run(self, length_ns: int) -> None:
        """Measure before, during and after a run, and correct the clock once a second."""
        for number in range(40):
            self.probe(number * MS)
        for now_ns in range(40 * MS, length_ns, 100 * MS):
            if now_ns % S == 40 * MS:
                self.clock.correction()
            self.probe(now_ns)
        for number in range(40):
            self.probe(length_ns + number * MS)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("drift", [0.0, 50e-6, -20e-6])
def test_offset_and_drift_are_found_within_the_stated_error(seed: int, drift: float) -> None:
    host = Host(seed, offset_ns=-3 * S, drift=drift)
    host.run(10 * S)
    line = host.clock.line()
    for now_ns in (0, 3 * S, 10 * S):
        ahead_ns = host.ahead_ns(now_ns)
        assert abs(line.offset_at(now_ns + round(ahead_ns)) - ahead_ns) <= line.error_ns
    assert line.drift == pytest.approx(drift, abs=2 * line.error_ns / (5 * S))
    assert line.error_ns < MS // 2


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("drift", [50e-6, 500e-6])
def test_corrected_readings_are_within_their_error(seed: int, drift: float) -> None:
    """The next correction may come a second late."""
    host = Host(seed, offset_ns=S, drift=drift)
    host.run(10 * S)
    error_ns = host.clock.error_ns(0, 9 * S)
    for correction in host.clock._corrections[:-2]:
        now_ns = correction.at_ns - S
        for later_ns in (now_ns, now_ns + S, now_ns + 2 * S - 10 * MS):
            ahead_ns = host.ahead_ns(later_ns)
            read_ns = correction.offset_at(later_ns + round(ahead_ns))
            assert abs(read_ns - ahead_ns) <= error_ns + 2


def test_a_clock_that_jumps_makes_the_error_larger() -> None:
    host = Host(1, offset_ns=0, drift=0.0)
    for now_ns in range(0, 10 * S, 100 * MS):
        host.offset_ns = 5 * MS * (4 * S < now_ns < 6 * S)
        host.probe(now_ns)
    assert host.clock.line().error_ns > 4 * MS


def test_the_error_between_two_hosts_is_the_sum_of_the_two_largest() -> None:
    clocks = [ClockOfHost("w", "h", 0, 0.0, each) for each in (5, 0, 7)]
    assert error_between_ns(clocks) == 12
    assert error_between_ns(clocks[:1]) == 5
    assert error_between_ns([]) == 0


def test_figures_below_the_error_of_the_clocks_are_unknown_a_zero_as_well() -> None:
    summary = LatencySummary(count=9, min=0, mean=5.0, p50=None, max=7)
    known = summary.known_within(6)
    assert (known.count, known.min, known.mean, known.p50, known.max) == (9, None, None, None, 7)
    assert summary.known_within(0) == summary
