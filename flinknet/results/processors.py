"""Who had the processors while a run went on."""

from __future__ import annotations

from dataclasses import dataclass, field

DISTURBED, P99_DISTURBED = "disturbed", "p99-disturbed"
"""Codes of the warnings that others had the processors."""

CORES_SHARED = "cores-shared"
"""Code of the warning that the TaskManagers of a run had too few cores."""


@dataclass(frozen=True, slots=True)
class ProcessorUse:
    """Shares of the time from the start of a run to its end, its warm-up too.

    `busy_share` is the time in which the event loop of a TaskManager did not wait, `lacked_share`
    that in which it was awake and had no core. A sleeper that is woken and does not get one at once
    counts as asleep. `host_share` is what the host took of that core of the run of which it took
    most (steal time, in steps of 10 ms), also while a TaskManager was to be woken; None where the
    system does not tell. `others_share` holds the processes outside of the run that ran longest and
    still run, with their share of one core, longest first; `beside_share` is that of all that runs
    beside the TaskManagers, the launcher too, and `beside_slice_ns` the typical length of the
    pieces in which it ran. `cores` are those that the run could use.

    `taken_share` is the most that any TaskManager lost: what the host takes from one that is awake
    is in its `lacked_share`, too, so they are not added.
    """

    busy_share: dict[str, float]
    lacked_share: dict[str, float]
    host_share: float | None = None
    others_share: dict[str, float] = field(default_factory=dict)
    beside_share: float | None = None
    beside_slice_ns: float | None = None
    cores: int | None = None
    taken_share: float = field(init=False)

    def __post_init__(self) -> None:
        taken = max([*self.lacked_share.values(), self.host_share or 0.0])
        object.__setattr__(self, "taken_share", taken)
