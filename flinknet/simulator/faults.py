"""Faults of a simulated run: none. Tests derive plans of faults from these classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class LinkFaults:
    """The faults of one direction of a link."""

    def cut(self, data: bytes) -> list[bytes]:
        return [data]

    def arrival_ns(self, at_ns: int) -> int:
        """The arrival of a piece that would arrive at `at_ns` without faults."""
        return at_ns


class HostClock:
    """A host's clock. Invariant: `host_ns` never falls, and `virtual_ns` is the first instant at
    which the clock shows at least the given time.
    """

    def host_ns(self, at_ns: int) -> int:
        """The time that the clock shows at an instant of virtual time."""
        return at_ns

    def next_host_ns(self, at_ns: int) -> int:
        """The first time that the clock shows once an instant of virtual time is reached."""
        return at_ns

    def virtual_ns(self, shown_ns: int) -> int:
        """The first instant of virtual time at which the clock shows at least `shown_ns`."""
        return shown_ns


class Faults:
    """All faults of one run; here: none.

    Attributes:
        first_sequence_number: first sequence number of all pipelined channels.
        late_partitions_ns: delay of the registration of partitions; None: requests arrive
            afterwards.
        closes_gates_first: a job that ends early closes its gates while its tasks still read, as
            Flink's canceler does.
        checkpoints_end_ns: instant from which no checkpoint begins; None for no end.
    """

    first_sequence_number: int = 0
    late_partitions_ns: int | None = None
    closes_gates_first: bool = False
    checkpoints_end_ns: int | None = None

    def link_faults(self, link: int, side: int, *, origin_ns: int) -> LinkFaults | None:
        """The faults of a direction of a link; None if there are none."""
        return None

    def clock_of(self, task_manager: int) -> HostClock | None:
        """The clock of a TaskManager; None if it shows virtual time."""
        return None

    def wakeups_of(self, task_manager: int) -> Callable[[int], int] | None:
        """When a TaskManager wakes up that should do so at an instant; None: no wake-up is lost."""
        return None

    def triggers(self) -> Callable[[], bool] | None:
        """Whether the next checkpoint trigger does not reach its source; None: none is lost."""
        return None

    def begin(self, cluster: Any) -> None:
        """Schedule what happens to a Cluster at an instant; called when its tasks start."""


NO_FAULTS = Faults()
