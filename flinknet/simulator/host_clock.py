# mypyc
"""HostClock: the clock of a host that does not show virtual time."""

from __future__ import annotations

from dataclasses import dataclass

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class ClockChange:
    """From an instant of virtual time on, a clock is ahead by so much more and runs at a rate.

    CLOCK_MONOTONIC is never set back: with a negative `ahead_ns` it stands until virtual time has
    passed by as much. `rate_ppm` is positive, 1 000 000 that of virtual time.
    """

    at_ns: int
    ahead_ns: int = 0
    rate_ppm: int = MILLION


class HostClock:
    """A clock that drifts, jumps and stands.

    Invariant: `host_ns` never falls, and `virtual_ns` is the first instant at which the clock shows
    what is asked for, or more.

    Args:
        task_manager: whose clock it is.
        changes: ascending, and further apart than it stands; before the first of them it shows
            virtual time.
    """

    def __init__(self, task_manager: int, changes: tuple[ClockChange, ...]) -> None:
        self.task_manager = task_manager
        self.changes = changes
        self._corners = [(0, 0, MILLION)]  # from virtual time, shown then, rate
        for each in changes:
            from_ns, shown_ns, rate_ppm = self._corners[-1]
            shown_ns += (each.at_ns - from_ns) * rate_ppm // MILLION
            if each.ahead_ns < 0:
                self._corners.append((each.at_ns, shown_ns, 0))
                self._corners.append((each.at_ns - each.ahead_ns, shown_ns, each.rate_ppm))
            else:
                self._corners.append((each.at_ns, shown_ns + each.ahead_ns, each.rate_ppm))

    def host_ns(self, at_ns: int) -> int:
        """What the clock shows at an instant of virtual time."""
        corner = self._corners[0]
        for each in self._corners:
            if each[0] > at_ns:
                break
            corner = each
        from_ns, shown_ns, rate_ppm = corner
        return shown_ns + (at_ns - from_ns) * rate_ppm // MILLION

    def next_host_ns(self, at_ns: int) -> int:
        """What the clock shows first when an instant of virtual time has passed."""
        shown_ns = self.host_ns(at_ns)
        return shown_ns if self.virtual_ns(shown_ns) >= at_ns else shown_ns + 1

    def virtual_ns(self, shown_ns: int) -> int:
        """The first instant of virtual time at which the clock shows so much, or more."""
        for index, (from_ns, corner_ns, rate_ppm) in enumerate(self._corners):
            if corner_ns >= shown_ns:
                return from_ns
            following = self._corners[index + 1 : index + 2]
            if rate_ppm:
                found_ns = from_ns - (corner_ns - shown_ns) * MILLION // rate_ppm
                if not following or found_ns < following[0][0]:
                    return found_ns
        raise AssertionError("a clock does not stand for ever")
