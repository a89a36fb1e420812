"""The use of the processors during a run."""

from __future__ import annotations

from dataclasses import dataclass, field

DISTURBED, P99_DISTURBED = "disturbed", "p99-disturbed"
"""Codes of the warnings that others had the processors."""

STOOD_STILL = "stood-still"
"""Code of the warning that TaskManagers were stopped for a while."""

CORES_SHARED = "cores-shared"
"""Code of the warning that the TaskManagers of a run had too few cores."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken of the processors from the start of a run to its end, its warm-up too; None
    where the system does not report it.

    Attributes:
        host_share: of that core of the run of which the host took most (steal time, in steps of
            10 ms), also while a TaskManager was to be woken.
        others_share: of one core, by the processes outside of the run that ran longest and still
            run, longest first.
        outside_share: of one core, by all other processes than the TaskManagers, the launcher too.
        outside_slice_ns: typical length of the pieces in which that ran: the mean of each thread,
            weighed by its time.
        cores: that the run could use.
    """

    host_share: float | None = None
    others_share: dict[str, float] = field(default_factory=dict)
    outside_share: float | None = None
    outside_slice_ns: float | None = None
    cores: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorUse(Taken):
    """What was taken of the processors, and what each TaskManager had of them, as shares of the
    time.

    Attributes:
        busy_share: in which the event loop of a TaskManager did not wait.
        lacked_share: in which it was awake and had no core. A sleeper that is woken and does not
            get one at once counts as asleep.
        stood_still_ns: time in which it neither ran nor waited for a core; those that did so only.
        cpu_cores: that the TaskManagers used in the measured part for work, together. A loop that
            polls for the next message before it sleeps uses more; that is left out.
        taken_share: the most that any TaskManager lost. What the host takes from one that is awake
            is in its `lacked_share`, too, so they are not added.
    """

    busy_share: dict[str, float]
    lacked_share: dict[str, float]
    stood_still_ns: dict[str, int] = field(default_factory=dict)
    cpu_cores: float | None = None
    taken_share: float = field(init=False)

    def __post_init__(self) -> None:
        taken = max([*self.lacked_share.values(), self.host_share or 0.0])
        object.__setattr__(self, "taken_share", taken)
