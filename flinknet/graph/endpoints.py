"""Sources and sinks of a program, as values.

Nothing is opened here; that is up to the tasks. Only a JobManager calls `initialize_on_master`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from flinknet.config import RATE_MAX


@dataclass(frozen=True, slots=True)
class GeneratedSource:
    """Generated records (key, payload), like Flink's DataGeneratorSource; for the fields see
    `StreamExecutionEnvironment.generate`.
    """

    NAME: ClassVar[str] = "Generator Source"
    records: int | None = None
    rate_per_s: float = RATE_MAX
    arrivals: str = "constant"
    record_size_bytes: int = 100
    keys: int = 1000
    key_skew: float = 0.0

    @property
    def is_bounded(self) -> bool:
        return self.records is not None


@dataclass(frozen=True, slots=True)
class SequenceSource:
    """The numbers from `first` to `last`, inclusive (Flink: NumberSequenceSource)."""

    NAME: ClassVar[str] = "Sequence Source"
    first: int
    last: int
    is_bounded: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class CollectionSource:
    """Given values (Flink: fromCollection)."""

    NAME: ClassVar[str] = "Collection Source"
    values: tuple[Any, ...]
    is_bounded: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class FileSource:
    """The lines of a text file (Flink: FileSource with TextLineInputFormat)."""

    NAME: ClassVar[str] = "File Source"
    path: str
    is_bounded: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class SocketTextSource:
    """The lines received over a TCP connection (Flink: SocketTextStreamFunction)."""

    NAME: ClassVar[str] = "Socket Stream"
    host: str
    port: int
    delimiter: str = "\n"
    is_bounded: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class SplitSource:
    """Splits that the master creates, given the parallelism, as JSON values, and that subtasks
    request, one after another (Flink: InputFormat).
    """

    NAME: ClassVar[str] = "Split Source"
    create_splits: Callable[[int], Iterable[Any]]
    is_bounded: ClassVar[bool] = True


Source = (
    GeneratedSource
    | SequenceSource
    | CollectionSource
    | FileSource
    | SocketTextSource
    | SplitSource
)


@dataclass(frozen=True, slots=True)
class PrintSink:
    """Prints records, with subtask numbers if there are several (Flink: PrintSinkFunction)."""

    NAME: ClassVar[str] = "Print to Std. Out"


@dataclass(frozen=True, slots=True)
class DiscardSink:
    """Drops records (Flink: DiscardingSink)."""

    NAME: ClassVar[str] = "Discard"


@dataclass(frozen=True, slots=True)
class FileSink:
    """Writes records as lines, to one file per subtask."""

    NAME: ClassVar[str] = "File"
    path: str

    def initialize_on_master(self, parallelism: int) -> None:
        """Create the directory for the files (Flink: FileOutputFormat).

        Raises: OSError if it cannot be created, or if the path of a single file is a directory.
        """
        path = Path(self.path)
        (path if parallelism > 1 else path.parent).mkdir(parents=True, exist_ok=True)
        if parallelism == 1 and path.is_dir():
            raise IsADirectoryError(f"{path} is a directory; give the name of a file")


@dataclass(frozen=True, slots=True)
class LatencySink:
    """Drops records, and measures the age of each. Not in Flink, whose latency markers measure the
    path and not the records.
    """

    NAME: ClassVar[str] = "Latency"


@dataclass(frozen=True, slots=True)
class FunctionSink:
    """Calls a function of the program with each record (Flink: SinkFunction)."""

    NAME: ClassVar[str] = "Unnamed"
    function: Callable[[Any], Any]


Sink = PrintSink | DiscardSink | FileSink | LatencySink | FunctionSink
