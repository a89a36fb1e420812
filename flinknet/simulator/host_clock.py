# mypyc
"""HostClock: a host's clock that deviates from virtual time."""

from __future__ import annotations

from dataclasses import dataclass

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A change of a clock at an instant of virtual time: a jump by `ahead_ns` and a new rate.

    CLOCK_MONOTONIC is never set back: with a negative `ahead_ns` it stands for that much virtual
    time. `rate_ppm` is positive; 1 000 000 is the rate of virtual time.
    """

    at_ns: int
    ahead_ns: int = 0
    rate_ppm: int = MILLION


class HostClock:
    """A clock that drifts, jumps and stands.

    Invariant: `host_ns` never falls, and `virtual_ns` is the first instant at which the clock shows
    at least the given time.

    Args:
        task_manager: index of the clock's TaskManager.
        changes: ascending, and further apart than the clock stands; before the first one it shows
            virtual time.
    """

    def __init__(self, task_manager: int, changes: tuple[ClockChange, ...]) -> None:
        self.task_manager = task_manager
        self.changes = changes
        self._corners = [(0, 0, MILLION)]  # virtual time, clock's time then, rate from then on
        for each in changes:
            from_ns, shown_ns, rate_ppm = self._corners[-1]
            shown_ns += (each.at_ns - from_ns) * rate_ppm // MILLION
            if each.ahead_ns < 0:
                self._corners.append((each.at_ns, shown_ns, 0))
                self._corners.append((each.at_ns - each.ahead_ns, shown_ns, each.rate_ppm))
            else:
                self._corners.append((each.at_ns, shown_ns + each.ahead_ns, each.rate_ppm))

    def host_ns(self, at_ns: int) -> int:
        """The time that the clock shows at an instant of virtual time."""
        corner = self._corners[0]
        for each in self._corners:
            if each[0] > at_ns:
                break
            corner = each
        from_ns, shown_ns, rate_ppm = corner
        return shown_ns + (at_ns - from_ns) * rate_ppm // MILLION

    def next_host_ns(self, at_ns: int) -> int:
        """The first time that the clock shows once an instant of virtual time is reached."""
        shown_ns = self.host_ns(at_ns)
        return shown_ns if self.virtual_ns(shown_ns) >= at_ns else shown_ns + 1

    def virtual_ns(self, shown_ns: int) -> int:
        """The first instant of virtual time at which the clock shows at least `shown_ns`."""
        for index, (from_ns, corner_ns, rate_ppm) in enumerate(self._corners):
            if corner_ns >= shown_ns:
                return from_ns
            following = self._corners[index + 1 : index + 2]
            if rate_ppm:
                found_ns = from_ns - (corner_ns - shown_ns) * MILLION // rate_ppm
                if not following or found_ns < following[0][0]:
                    return found_ns
        raise AssertionError("a clock does not stand for ever")
