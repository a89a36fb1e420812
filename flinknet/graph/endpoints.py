"""Sources and sinks: where records come from and go to, as values.

Nothing is opened here; whoever runs the job does that. Only a JobManager calls
`initialize_on_master`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from flinknet.config import RATE_MAX


@dataclass(frozen=True, slots=True)
class GeneratedSource:
    """Made-up records (key, payload), as Flink's DataGeneratorSource.

    Attributes:
        records: of all subtasks together; None: without end.
        rate_per_s: of each subtask; 0: as fast as it goes.
        arrivals: how records of a given rate are spread: constant, poisson, bursts, on-off:ON:OFF.
        record_size_bytes: of the payload.
        keys: number of different keys.
        key_skew: exponent of the Zipf distribution of keys; 0: all alike.
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
        """Whether it ends."""
        return self.records is not None


@dataclass(frozen=True, slots=True)
class SequenceSource:
    """The numbers from `first` to `last`, both included (Flink: NumberSequenceSource)."""

    NAME: ClassVar[str] = "Sequence Source"
    first: int
    last: int
    is_bounded: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class CollectionSource:
    """Values that are given (Flink: fromCollection)."""

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
    """The lines that come over a TCP connection (Flink: SocketTextStreamFunction)."""

    NAME: ClassVar[str] = "Socket Stream"
    host: str
    port: int
    delimiter: str = "\n"
    is_bounded: ClassVar[bool] = False


Source = GeneratedSource | SequenceSource | CollectionSource | FileSource | SocketTextSource


@dataclass(frozen=True, slots=True)
class PrintSink:
    """To standard output, with the number of the subtask in front where there are several (Flink:
    PrintSinkFunction).
    """

    NAME: ClassVar[str] = "Print to Std. Out"


@dataclass(frozen=True, slots=True)
class DiscardSink:
    """Nowhere (Flink: DiscardingSink)."""

    NAME: ClassVar[str] = "Discard"


@dataclass(frozen=True, slots=True)
class FileSink:
    """A file of lines for each subtask."""

    NAME: ClassVar[str] = "File"
    path: str

    def initialize_on_master(self, parallelism: int) -> None:
        """Make the directory that the files will be in (Flink: FileOutputFormat).

        Raises: OSError when it cannot be made, or when the path of a single file is a directory.
        """
        path = Path(self.path)
        (path if parallelism > 1 else path.parent).mkdir(parents=True, exist_ok=True)
        if parallelism == 1 and path.is_dir():
            raise IsADirectoryError(f"{path} is a directory; give the name of a file")


@dataclass(frozen=True, slots=True)
class LatencySink:
    """Nowhere, and how old each record was is measured. Not in Flink, whose latency markers measure
    the way and not the records.
    """

    NAME: ClassVar[str] = "Latency"


@dataclass(frozen=True, slots=True)
class FunctionSink:
    """A function of the user, called with each record (Flink: SinkFunction)."""

    NAME: ClassVar[str] = "Unnamed"
    function: Callable[[Any], Any]


Sink = PrintSink | DiscardSink | FileSink | LatencySink | FunctionSink
