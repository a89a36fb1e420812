"""Types of numpy arrays, and the records of a source as arrays in files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
"""Instants in ns, counts, indices."""

FloatArray = NDArray[np.float64]
"""Measured values, rates and shares."""

EventColumns = dict[str, NDArray[Any]]
"""Events as columns by name, all of equal length."""


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

    def save(self, directory: Path, producer: int) -> None:
        """Write the records of a producer."""
        columns = self.instants_ns, self.value_bytes, self.subpartitions
        for name, column in zip(_COLUMNS, columns, strict=True):
            if column is not None:
                np.save(directory / f"{name}-{producer}.npy", column)

    @classmethod
    def load(cls, law: str, producer: int, *, start_ns: int, measured_from_ns: int) -> RecordedLoad:
        """Load the records in the directory of `law` from `start_ns` on, by this run's clock."""
        directory = Path(law.partition(":")[2])
        paths = [directory / f"{name}-{producer}.npy" for name in _COLUMNS]
        instants_ns, *others = (np.load(path) if path.exists() else None for path in paths)
        if instants_ns is None:
            raise FileNotFoundError(paths[0])
        instants_ns += measured_from_ns
        first = int(np.searchsorted(instants_ns, start_ns))
        return cls(
            instants_ns[first:], *(None if each is None else each[first:] for each in others)
        )


_COLUMNS = ("arrivals", "sizes", "subpartitions")
"""File name of each column."""
