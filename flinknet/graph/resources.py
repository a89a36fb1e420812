"""Resource demands of an operator (Flink: ResourceSpec)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from flinknet.units import format_size_bytes


@dataclass(frozen=True, slots=True)
class ResourceSpec:
    """CPU cores and heap of an operator; None: unknown."""

    cpu_cores: float | None = None
    heap_bytes: int | None = None

    def merge(self, other: ResourceSpec) -> ResourceSpec:
        """The sum of both, for operators of one chain; unknown where either is unknown."""
        return ResourceSpec(
            _sum(self.cpu_cores, other.cpu_cores), _sum(self.heap_bytes, other.heap_bytes)
        )

    def is_at_most(self, other: ResourceSpec) -> bool:
        """Whether no demand exceeds that of the other."""
        pairs = ((self.cpu_cores, other.cpu_cores), (self.heap_bytes, other.heap_bytes))
        return all(mine is None or theirs is None or mine <= theirs for mine, theirs in pairs)

    def __str__(self) -> str:
        cpu = "" if self.cpu_cores is None else f"{self.cpu_cores:g} CPU cores"
        heap = "" if self.heap_bytes is None else f"{format_size_bytes(self.heap_bytes)} heap"
        return ", ".join(filter(None, (cpu, heap)))


UNKNOWN = ResourceSpec()

_T = TypeVar("_T", int, float)


def least_of(tasks: Iterable[ResourceSpec]) -> ResourceSpec:
    """The least that tasks running at the same time need: the sum of known demands."""
    known = list(tasks)
    cpu_cores = [each.cpu_cores for each in known if each.cpu_cores is not None]
    heap_bytes = [each.heap_bytes for each in known if each.heap_bytes is not None]
    return ResourceSpec(sum(cpu_cores) if cpu_cores else None, sum(heap_bytes) or None)


def _sum(mine: _T | None, theirs: _T | None) -> _T | None:
    return None if mine is None or theirs is None else mine + theirs
