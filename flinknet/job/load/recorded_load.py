"""RecordedLoad: the records a source sent in a recorded run, as files to be sent again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flinknet.arrays import IntArray
from flinknet.core.producer.channel_selector import ChannelSelector, Indices

from .arrivals import RecordedArrivals, TakeSizes

RECORDED = "recorded:"
"""Prefix of arrivals that are read from files; a directory follows."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordedLoad:
    """The records of one source, in order.

    Attributes:
        instants_ns: int64, arrivals in ns from the start of the measured part.
        value_bytes: int64, sizes; None if the workload determines them.
        subpartitions: int32, targets; None if the partitioner determines them.
    """

    instants_ns: IntArray
    value_bytes: IntArray | None = None
    subpartitions: NDArray[np.int32] | None = None

    def arrivals(self) -> RecordedArrivals:
        """Arrivals, from the first on."""
        return RecordedArrivals(self.instants_ns)

    def take_sizes(self) -> TakeSizes | None:
        """The source of the recorded sizes, from the first on; None if there are none."""
        return None if self.value_bytes is None else RecordedSizes(self.value_bytes).take

    def selector(self) -> RecordedSelector | None:
        """The selector of the recorded targets, from the first on; None if there are none."""
        return None if self.subpartitions is None else RecordedSelector(self.subpartitions)

    def save(self, directory: Path, producer: int) -> None:
        """Write the records of a producer."""
        for name, column in zip(_COLUMNS, self._columns(), strict=True):
            if column is not None:
                np.save(directory / f"{name}-{producer}.npy", column)

    @classmethod
    def load(cls, law: str, producer: int, *, start_ns: int, measured_from_ns: int) -> RecordedLoad:
        """Load what `save` wrote, from `start_ns` on, with instants of this run's clock.

        Args:
            law: RECORDED with the directory.
        """
        directory = Path(law.removeprefix(RECORDED))
        paths = [directory / f"{name}-{producer}.npy" for name in _COLUMNS]
        instants_ns, *others = (np.load(path) if path.exists() else None for path in paths)
        if instants_ns is None:
            raise FileNotFoundError(paths[0])
        instants_ns += measured_from_ns
        first = int(np.searchsorted(instants_ns, start_ns))
        return cls(
            instants_ns[first:], *(None if each is None else each[first:] for each in others)
        )

    def _columns(self) -> tuple[NDArray[np.signedinteger] | None, ...]:
        return self.instants_ns, self.value_bytes, self.subpartitions


_COLUMNS = ("arrivals", "sizes", "subpartitions")
"""File name of each column."""


class RecordedSizes:
    """Recorded sizes."""

    def __init__(self, value_bytes: IntArray) -> None:
        self._sizes = value_bytes
        self._position = 0

    def take(self, count: int) -> IntArray:
        """The sizes of the next records, in bytes."""
        start = self._position
        self._position = start + count
        return self._sizes[start : start + count]


class RecordedSelector(ChannelSelector):
    """Routes records to recorded or planned targets.

    Args:
        subpartitions: target of each record; None to send all to `only`.
        only: a subpartition, or BROADCAST.
    """

    def __init__(self, subpartitions: NDArray[np.int32] | None, only: int = 0) -> None:
        self._subpartitions = subpartitions
        self._only = only
        self._position = 0

    def split(self, records: int, keys: NDArray[np.int64] | None) -> list[tuple[int, Indices]]:
        """The indices of the next `records` records, by channel."""
        subpartitions = self._subpartitions
        if subpartitions is None:
            return [(self._only, slice(0, records))]
        start = self._position
        self._position = end = start + records
        if records == 1:
            return [(int(subpartitions[start]), slice(0, 1))]
        picked = subpartitions[start:end]
        return [
            (subpartition, np.flatnonzero(picked == subpartition))
            for subpartition in sorted(set(picked.tolist()))
        ]
