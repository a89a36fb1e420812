"""A directory of the rows of units: a replay that ended early continues from there.

A unit is identified by its fields and by the state of its files when they were planned, so kept
rows never belong to other bytes, settings or another flinknet. Files are written atomically.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from flinknet import __version__
from flinknet.trace import TraceFile
from flinknet.trace.index import stamps_of
from flinknet.whole_files import remove_unfinished, whole_file

from .frames import rows_of, table_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Row = TypeVar("Row", bound="DataclassInstance")

SUFFIX = ".arrow"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A directory that executors and driver see under the same path.

    Attributes:
        stamp: digest of the files that are read, and of everything else that is not in a unit.
    """

    directory: str
    stamp: str

    @classmethod
    def of(cls, directory: Path, files: Sequence[TraceFile]) -> Checkpoint:
        """A checkpoint for a replay of some files. Unfinished files of a killed executor are
        removed after a day."""
        remove_unfinished(directory, f"*{SUFFIX}")
        stamps = zip(files, stamps_of(files), strict=True)
        read = sorted([file.absolute().path, *stamp] for file, stamp in stamps)
        return cls(str(directory.absolute()), digest([__version__, read]))

    @property
    def kept(self) -> int:
        """Number of kept units, of this or other replays."""
        return sum(1 for _ in Path(self.directory).glob(f"*{SUFFIX}"))

    def rows(
        self, unit: DataclassInstance, more: str, kind: type[Row], make: Callable[[], list[Row]]
    ) -> list[Row]:
        """The rows of a unit: the kept ones, or else those that `make` gives, which are kept.

        Args:
            more: further data on which the rows depend.
            kind: dataclass of the rows.

        Raises: OSError if they cannot be kept.
        """
        key = digest([self.stamp, kind.__name__, more, asdict(unit)])
        path = Path(self.directory) / f"{key}{SUFFIX}"
        if path.exists():
            with pa.ipc.open_stream(path.read_bytes()) as stream:
                return rows_of(kind, stream.read_all())
        rows = make()
        table = table_of(kind, rows)
        with (  # a task may run twice at the same time: speculation, a lost executor
            whole_file(path) as file,
            pa.ipc.new_stream(file, table.schema) as stream,
        ):
            stream.write_table(table)
        return rows


def digest(value: object) -> str:
    """Digest of plain data."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
