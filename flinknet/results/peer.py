"""An exchange with a TaskManager that is not flinknet's."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .measures import RunWarning


@dataclass(frozen=True, slots=True)
class PeerChannel:
    """What passed on one channel to or from a TaskManager that is not flinknet's, as observed here.

    Attributes:
        partition: as Flink prints it.
        records: read here; of a producer, written.
        value_bytes: of the records; None at a producer.
        other_elements: watermarks and the like; None at a producer.
        buffers: data messages; the pieces of a glued one each count.
        events: by name of the data type.
        credit: initial credit and all that was added, announced here or given to us.
        backlog_max: buffers; None when no message announced any.
        lost, repeated, reordered: records; None where their content is not known.
    """

    index: int
    partition: str
    subpartition: int
    records: int
    value_bytes: int | None
    other_elements: int | None
    buffers: int
    buffer_bytes: int
    events: dict[str, int]
    credit: int
    credit_messages: int
    backlog_max: int | None
    lost: int | None = None
    repeated: int | None = None
    reordered: int | None = None


@dataclass(frozen=True, slots=True)
class PeerResult:
    """An exchange with a TaskManager that is not flinknet's.

    Attributes:
        role: "consumer" or "producer", which flinknet was.
        peer: the other end, HOST:PORT, or where we listened.
        end: "end of partition", "cancelled", or "failed".
        layout: of the messages, "2.x" or "1.20"; None when no buffer came.
        trace: directory of the recorded run.
        warnings: what makes the figures doubtful.
    """

    role: str
    peer: str
    end: str
    elapsed_ns: int
    layout: str | None
    channels: tuple[PeerChannel, ...]
    trace: str | None
    warnings: tuple[RunWarning, ...] = ()

    @property
    def records(self) -> int:
        """Records of all channels."""
        return sum(channel.records for channel in self.channels)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON-ready plain data."""
        return {"schema_version": 1, "records": self.records, **asdict(self)}
