"""What units found, kept in a directory: a replay that ended early goes on from there.

A unit is known by what it was handed and by what its files were when they were planned, so what is
kept is never of other bytes, settings or another flinknet. A file is whole or not there.
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
        stamp: of the files that are read, and of all else that is not in a unit.
    """

    directory: str
    stamp: str

    @classmethod
    def of(cls, directory: Path, files: Sequence[TraceFile]) -> Checkpoint:
        """For a replay of some files. What a killed executor left there a day ago is removed."""
        remove_unfinished(directory, f"*{SUFFIX}")
        stamps = zip(files, stamps_of(files), strict=True)
        read = sorted([file.absolute().path, *stamp] for file, stamp in stamps)
        return cls(str(directory.absolute()), digest([__version__, read]))

    @property
    def kept(self) -> int:
        """How many units are there, of this or other replays."""
        return sum(1 for _ in Path(self.directory).glob(f"*{SUFFIX}"))

    def rows(
        self, unit: DataclassInstance, more: str, kind: type[Row], make: Callable[[], list[Row]]
    ) -> list[Row]:
        """What a unit found: what was kept of it, or else what is made and kept now.

        Args:
            more: what else the rows depend on.
            kind: dataclass of the rows.

        Raises: OSError if it cannot be kept.
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
    """A name for plain data."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
