"""The stream reader of the data source `flinknet`: events of traces that are still being written.

    events = spark.readStream.format("flinknet").load("recordings/")

Files are followed block by block; new ones (of runs that begin, of a tap that rotates) are found.
The offset of a stream is how many bytes of each file it has read. A file that a ring has dropped
before it was read has no rows; any other file that goes away ends the query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from flinknet.errors import ConfigError, TraceError, TraceFormatError
from flinknet.trace import Extent, RunManifest, TraceReader
from flinknet.trace.format import BlockType
from flinknet.trace.growing import process_of, trace_files, whole_blocks

from .event_rows import EventRows
from .worker import ignore_abandoned_pipes

BLOCKS_PER_PARTITION = 16

EARLIEST, LATEST = "earliest", "latest"

Offset = dict[str, int]
"""Bytes read of each file, by its path below the one that is streamed."""


@dataclass(frozen=True)
class NewBlocks(InputPartition):
    """Some blocks of a file."""

    file: str
    blocks: tuple[Extent, ...]
    process: str


class TraceStreamReader(DataSourceStreamReader):
    """Follows the traces at a path.

    Args:
        starting: earliest or latest: whether what is there when a query begins is read, too.
        max_bytes: of a micro-batch, as far as whole blocks allow; None for all there is. Needs
            Spark 4.2.
    """

    def __init__(
        self, path: Path, rows: EventRows, starting: str = EARLIEST, max_bytes: int | None = None
    ) -> None:
        if starting not in (EARLIEST, LATEST):
            raise ConfigError(f"starting: {starting!r} is neither {EARLIEST} nor {LATEST}")
        if max_bytes is not None and not hasattr(DataSourceStreamReader, "getDefaultReadLimit"):
            raise ConfigError("max_bytes: it needs Spark 4.2 or later")
        if not path.exists():
            raise TraceFormatError(f"{path}: there is no such file or directory")
        self._path = path
        self._rows = rows
        self._starting = starting
        self._max_bytes = max_bytes
        self._seen: Offset = {}

    def initialOffset(self) -> Offset:
        """Where a new query begins."""
        return self._reached({}, None) if self._starting == LATEST else {}

    def getDefaultReadLimit(self) -> Any:
        """How much a micro-batch takes (Spark 4.2 and later ask)."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

        return ReadAllAvailable() if self._max_bytes is None else ReadMaxBytes(self._max_bytes)

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:
        """How far the files go by now; Spark before 4.2 says neither start nor limit."""
        known = self._seen if start is None else start
        self._seen = self._reached(known, getattr(limit, "max_bytes", None))
        return self._seen

    def partitions(self, start: Offset, end: Offset) -> list[NewBlocks]:
        """What was written between two offsets, some blocks each."""
        found = []
        for name, to_byte in end.items():
            file, from_byte = self._file(name), start.get(name, 0)
            if from_byte >= to_byte or _is_dropped(file):
                continue
            blocks = [
                block.extent
                for block in whole_blocks(file, from_byte, to_byte)
                if block.type is BlockType.EVENTS
                and self._rows.wanted.may_lie_within(block.first_ns, block.last_ns)
            ]
            process = process_of(file).name
            for first in range(0, len(blocks), BLOCKS_PER_PARTITION):
                part = tuple(blocks[first : first + BLOCKS_PER_PARTITION])
                found.append(NewBlocks(str(file), part, process))
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some blocks. Raises: TraceDamagedError if one is damaged."""
        assert isinstance(partition, NewBlocks)
        file = Path(partition.file)
        if _is_dropped(file):
            return
        ignore_abandoned_pipes()
        with TraceReader(file, partition.blocks) as reader:
            run = _run_of(file, self._path)
            name = None if run is None else run.name
            yield from self._rows.batches(reader, partition.process, run, name)

    def _reached(self, start: Offset, max_bytes: int | None) -> Offset:
        """How far each file goes, but not more than so many bytes further than at the start, file
        by file."""
        reached, left = {}, max_bytes
        for file in trace_files(self._path):
            name = self._name(file)
            from_byte = to_byte = start.get(name, 0)
            try:
                for block in whole_blocks(file, from_byte):
                    if left is not None and left <= 0:
                        break
                    if left is not None:
                        left -= block.to_byte - block.from_byte
                    to_byte = block.to_byte
            except FileNotFoundError:  # dropped meanwhile
                continue
            reached[name] = to_byte
        return reached

    def _name(self, file: Path) -> str:
        return file.name if file == self._path else file.relative_to(self._path).as_posix()

    def _file(self, name: str) -> Path:
        return self._path if self._path.is_file() else self._path / name


def _run_of(file: Path, path: Path) -> Path | None:
    return None if file == path else file.parent


def _is_dropped(file: Path) -> bool:
    """Whether a ring has dropped a file: it is gone, and its run does not name it any more.

    Raises: TraceError if it is gone and should be there.
    """
    if file.exists():
        return False
    try:
        manifest, _ = RunManifest.load_with_fault(file.parent)
    except TraceFormatError:
        raise TraceError(f"{file}: it was removed while it was read") from None
    if file.name in {each.file for each in manifest.processes}:
        raise TraceError(f"{file}: it was removed while it was read; its run still names it")
    return True
