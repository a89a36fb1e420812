"""What an operator asks for in addition to its slot (Flink: ResourceSpec)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class ResourceSpec:
    """Processors and heap of an operator; None: nobody said."""

    cpu_cores: float | None = None
    heap_bytes: int | None = None

    def merge(self, other: ResourceSpec) -> ResourceSpec:
        """Both together, for operators of one chain; what one of them does not say is unknown."""
        return ResourceSpec(
            _sum(self.cpu_cores, other.cpu_cores), _sum(self.heap_bytes, other.heap_bytes)
        )

    def is_at_most(self, other: ResourceSpec) -> bool:
        """Whether it asks for no more than the other."""
        pairs = ((self.cpu_cores, other.cpu_cores), (self.heap_bytes, other.heap_bytes))
        return all(mine is None or theirs is None or mine <= theirs for mine, theirs in pairs)


UNKNOWN = ResourceSpec()

_T = TypeVar("_T", int, float)


def _sum(mine: _T | None, theirs: _T | None) -> _T | None:
    return None if mine is None or theirs is None else mine + theirs
