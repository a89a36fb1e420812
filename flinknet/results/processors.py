"""Who had the processors while a run went on."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ProcessorUse:
    """Shares of the time from the start of a run to its end.

    `busy_share` is the time in which the event loop of a TaskManager did not wait, `lacked_share`
    that in which it wanted a core which others had. `host_share` is what the host took of the core
    that it took most of (steal time); None where the system does not tell. `others_share` holds the
    processes outside of the run that ran longest, with their share of one core, longest first.
    """

    busy_share: dict[str, float]
    lacked_share: dict[str, float]
    host_share: float | None = None
    others_share: dict[str, float] = field(default_factory=dict)

    @property
    def taken_share(self) -> float:
        """How much of the time at most was taken from a TaskManager that wanted to run."""
        return max(self.lacked_share.values(), default=0.0) + (self.host_share or 0.0)
