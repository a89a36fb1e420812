"""What misbehaving consumers say: the table of P cases. Channels of other connections, and of the
same one where it goes on, never feel anything of it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from flinknet.core.wire import messages
from flinknet.core.wire.events import OtherEvent
from flinknet.core.wire.ids import InputChannelID, ResultSubpartitionIndexSet
from tests.pair import RECEIVER, partition_id
from tests.peers.frames import LYING_LENGTHS, OF_NO_PROTOCOL, frame

NEW, READS, WAITS, CANCELED, FAILED, STRANGE, WAITED_FOR = (
    "before any request",
    "while reading",
    "while its request waits for the partition",
    "after it has cancelled",
    "after its producer has failed",
    "on a connection that has requested nothing of this run",
    "while the same receiver waits for it over another connection",
)
IGNORED, TOLD, REFUSED, LATE, FATAL, BROKEN, CLOSED = (
    "ignored",
    "delivered to the task",
    "error for this channel only",
    "error for this channel only, after the timeout",
    "fatal error, connection left open",
    "fatal error, connection closed",
    "connection closed",
)
ENDS = (BROKEN, CLOSED)

ABROAD = InputChannelID(b"\xcc" * 16)
THERE, GONE = partition_id(0), partition_id(7)


@dataclass(frozen=True)
class Case:
    """One line of the table.

    Attributes:
        must: what the producer does about it.
        goes_on: whether the channel that misbehaves still gets its data.
    """

    number: int
    when: str
    said: str
    data: bytes
    must: str
    goes_on: bool = False
    rows: tuple[str, ...] = ()


def request(
    first: int = 0, last: int | None = None, *, of: object = THERE, credit: int = 2
) -> messages.PartitionRequest:
    """A request of the receiver."""
    indices = ResultSubpartitionIndexSet(first, first if last is None else last)
    return messages.PartitionRequest(of, indices, RECEIVER, credit)  # type: ignore[arg-type]


def with_range(first: int, last: int) -> bytes:
    """A request for subpartitions that our own class refuses to ask for."""
    whole = request().encode()
    return whole[:69] + struct.pack(">ii", first, last) + whole[77:]


def credit(number: int) -> bytes:
    """An AddCredit, of any number."""
    return frame(6, struct.pack(">i", number) + RECEIVER)


def credit_and(more: bytes) -> bytes:
    """An AddCredit with more bytes than it has."""
    return frame(6, b"\0\0\0\1" + RECEIVER + more)


def buffer_size(number: int) -> bytes:
    """A NewBufferSize, of any number."""
    return frame(10, struct.pack(">i", number) + RECEIVER)


FOR_TASK = OtherEvent("org.apache.flink.runtime.iterative.event.TerminationEvent", b"")
EVENT = messages.TaskEventRequest(FOR_TASK, GONE, RECEIVER)
TASK_EVENT, ELSEWHERE = (
    messages.TaskEventRequest(FOR_TASK, partition_id(i), RECEIVER) for i in (0, 1)
)
FOR_READERS: Sequence[tuple[str, messages.Message]] = (
    ("AddCredit", messages.AddCredit(1, RECEIVER)),
    ("ResumeConsumption", messages.ResumeConsumption(RECEIVER)),
    ("AckAllUserRecordsProcessed", messages.AckAllUserRecordsProcessed(RECEIVER)),
)
FOR_ANYBODY: Sequence[tuple[str, messages.Message]] = (
    ("NewBufferSize", messages.NewBufferSize(50, RECEIVER)),
    ("CancelPartitionRequest", messages.CancelPartitionRequest(RECEIVER)),
    ("SegmentId", messages.SegmentId(0, 1, RECEIVER)),
)
CUT_BODIES = {
    "a truncated AddCredit": frame(6, b"\0\0\0\1" + RECEIVER[:15]),
    "a truncated PartitionRequest": frame(2, bytes(87)),
    "TaskEventRequest whose event claims to be longer than the frame": frame(
        3, b"\x7f\xff\xff\xff" + bytes(90)
    ),
    "TaskEventRequest whose event has a negative length": frame(3, b"\xff" * 4 + bytes(90)),
    "CancelPartitionRequest without a receiver": frame(4),
}
OTHERS_MESSAGES = {"BufferResponse": 0, "ErrorResponse": 1, "BacklogAnnouncement": 9}


def lines() -> list[tuple[str, str, bytes | messages.Message, str, bool, tuple[str, ...]]]:
    """The table, without numbers."""
    found: list[tuple[str, str, bytes | messages.Message, str, bool, tuple[str, ...]]] = []

    def line(
        when: str,
        said: str,
        data: bytes | messages.Message,
        must: str,
        *rows: str,
        goes_on: bool = False,
    ) -> None:
        found.append((when, said, data, must, goes_on, rows))

    for when in (NEW, WAITS, CANCELED):
        for said, message in FOR_READERS:
            line(when, said, message, FATAL, "S081")
        for said, message in FOR_ANYBODY:
            line(when, said, message, IGNORED)
    for said, message in FOR_READERS:
        line(FAILED, said, message, IGNORED, "S091")
    line(FAILED, "CancelPartitionRequest, then AddCredit", join(4, credit(1)), FATAL, "S091")
    event = "TaskEventRequest for"
    for when in (NEW, READS, WAITS):
        goes_on = when == READS
        line(when, f"{event} an unknown partition", EVENT, REFUSED, "S081", goes_on=goes_on)
    for when in (NEW, WAITS, CANCELED, STRANGE):
        said = f"{event} a task whose output it does not read"
        line(when, said, TASK_EVENT, REFUSED, "S081")
    said = f"{event} the task whose output only its neighbour reads"
    line(READS, said, ELSEWHERE, REFUSED, goes_on=True)
    said = f"{event} the task whose output it reads"
    line(READS, said, TASK_EVENT, TOLD, "S081", goes_on=True)
    line(NEW, "PartitionRequest with credit -1", request(credit=-1), FATAL)
    line(NEW, "PartitionRequest with credit -2^31", request(credit=-(2**31)), FATAL)
    line(NEW, "PartitionRequest for subpartition 999", request(999), FATAL)
    said = "PartitionRequest for a range beyond the last subpartition"
    line(NEW, said, request(0, 5), FATAL, "S075")
    line(NEW, "PartitionRequest for subpartition -5", with_range(-5, -5), BROKEN)
    line(NEW, "PartitionRequest for a range that ends before it begins", with_range(1, 0), BROKEN)
    line(NEW, "PartitionRequest for a subpartition that another peer reads", request(2), FATAL)
    line(NEW, "PartitionRequest for an unknown partition", request(of=GONE), LATE, "S037")
    line(READS, "a second PartitionRequest", request(1), FATAL, goes_on=True)
    line(WAITS, "a second PartitionRequest", request(1), FATAL)
    said, overflow = "AddCredit that raises the credit beyond 2^31 - 1", credit(2**31 - 1)
    line(READS, said, overflow, FATAL, goes_on=True)
    line(READS, "AddCredit of 0", credit(0), BROKEN)
    line(READS, "AddCredit of -1", credit(-1), BROKEN)
    said = "ResumeConsumption for a channel that is not blocked"
    line(READS, said, FOR_READERS[1][1], FATAL, goes_on=True)
    line(READS, "NewBufferSize 0", buffer_size(0), BROKEN)
    line(READS, "NewBufferSize -1", buffer_size(-1), BROKEN)
    line(READS, "NewBufferSize 2^31 - 1", buffer_size(2**31 - 1), IGNORED, goes_on=True)
    line(READS, "CancelPartitionRequest twice", join(4, frame(4, RECEIVER)), IGNORED)
    line(READS, "CloseRequest", messages.CloseRequest(), CLOSED)
    line(READS, "AddCredit, then garbage", credit(1) + OF_NO_PROTOCOL["64 zero bytes"], BROKEN)
    for when in (NEW, READS):
        for said, junk in OF_NO_PROTOCOL.items():
            line(when, said, junk, BROKEN, "S081")
    for said, length in LYING_LENGTHS.items():
        line(READS, said, frame(6, length=length), BROKEN)
    huge = frame(3, length=(64 << 20) + 1)
    line(READS, "a frame whose length field says 64 MiB + 1", huge, BROKEN)
    line(STRANGE, "a frame whose length field says 4097", frame(3, length=4097), BROKEN)
    line(STRANGE, "129 PartitionRequests", abroad(129), BROKEN)
    for said, body in CUT_BODIES.items():
        line(READS, said, body, BROKEN)
    one_more = request().encode()[9:] + b"x"  # of frames that are too long Flink reads the front
    line(NEW, "one byte too many in a PartitionRequest", frame(2, one_more), IGNORED, goes_on=True)
    line(READS, "one byte too many in an AddCredit", credit_and(b"x"), IGNORED, goes_on=True)
    line(READS, "CloseRequest with a body", frame(5, b"x"), CLOSED)
    for said, number in OTHERS_MESSAGES.items():
        line(READS, f"{said}, which only producers send", frame(number, bytes(60)), BROKEN)
    line(READS, "a message with an unknown id", frame(63, bytes(20)), BROKEN, "S081")
    line(WAITED_FOR, "PartitionRequest for an unknown partition", request(of=GONE), FATAL)
    return found


def join(first_id: int, rest: bytes) -> bytes:
    """A message that is only a receiver, and more."""
    return frame(first_id, RECEIVER) + rest


def abroad(count: int) -> bytes:
    """Requests of receivers that are not of the run."""
    one = messages.PartitionRequest(GONE, ResultSubpartitionIndexSet(0, 0), ABROAD, 2).encode()
    ids = (struct.pack(">16s", b"%d" % number) for number in range(count))
    return b"".join(one.replace(ABROAD, each) for each in ids)


CASES = [
    Case(number, when, said, data if isinstance(data, bytes) else data.encode(), must, *rest)
    for number, (when, said, data, must, *rest) in enumerate(lines(), 1)  # type: ignore[misc]
]
