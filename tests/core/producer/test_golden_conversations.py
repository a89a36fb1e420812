"""Our producer in the place of a real one: same steps, same bytes (see golden/README.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flinknet.core.buffers import BufferConsumer, DataType
from flinknet.core.buffers.data_type import IS_BLOCKING_UPSTREAM
from flinknet.core.producer import PipelinedResultPartition
from flinknet.core.wire import messages
from flinknet.core.wire.checkpoint_barrier import AlignmentType, CheckpointBarrier, SnapshotType
from flinknet.core.wire.events import (
    CancelCheckpointMarker,
    EndOfData,
    EndOfOutputChannelStateEvent,
    EndOfPartitionEvent,
    Event,
    data_type_of,
    decode_event,
    encode_pipelined,
)
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.ids import InputChannelID, ResultPartitionID, ResultSubpartitionIndexSet
from flinknet.core.wire.layout import Direction
from flinknet.core.wire.records import (
    Record,
    decode_element,
    encode_record,
)
from flinknet.errors import RemoteProtocolError
from tests.golden_vectors import Vector, golden, vectors
from tests.pair import partition_of, producer_of, records_of, sent_bytes
from tests.record_stream import RecordStreamDecoder

NEVER_MS = 2**63 - 1


def records(first: int, count: int, step: int = 1) -> list[bytes]:
    """Serialised records of the longs first, first + step, …"""
    numbers = range(first, first + count * step, step)
    return [encode_record(Record(each.to_bytes(8, "big", signed=True))) for each in numbers]


def write(partition: PipelinedResultPartition, encoded: list[bytes], channel: int = 0) -> None:
    batch = records_of([len(each) for each in encoded], data=b"".join(encoded))
    assert partition.emit(channel, batch) == len(batch.data)


def barrier(checkpoint_id: int, alignment: str = "ALIGNED", ms: int = 0) -> CheckpointBarrier:
    return CheckpointBarrier(
        checkpoint_id,
        1_700_000_000_000 + ms,
        SnapshotType.CHECKPOINT,
        AlignmentType[alignment],
        NEVER_MS,
        None,
        None,
    )


Action = Callable[[PipelinedResultPartition], None]


def longs(first: int, count: int, *, flush: bool = True, channels: int = 1) -> Action:
    """Write longs, dealt out to the channels in turns."""

    def act(partition: PipelinedResultPartition) -> None:
        for channel in range(channels):
            write(partition, records(first + channel, count, channels), channel)
        if flush:
            partition.flush_all()

    return act


def event(what: Event) -> Action:
    return lambda partition: partition.broadcast_event(what)


def priority(what: Event) -> Action:
    return lambda partition: [  # type: ignore[return-value]
        each.add(BufferConsumer.of_event(encode_pipelined(what), DataType.PRIORITIZED_EVENT_BUFFER))
        for each in partition.subpartitions
    ]


def both(first: Action, second: Action) -> Action:
    def act(partition: PipelinedResultPartition) -> None:
        first(partition)
        second(partition)

    return act


def nothing(partition: PipelinedResultPartition) -> None:
    """The step says what is; nothing is done."""


INSIDE: dict[str, list[Action]] = {
    "no-exclusive-buffers": [
        longs(0, 12, flush=False),
        PipelinedResultPartition.flush_all,
        event(barrier(1)),
        longs(12, 6),
        event(EndOfData()),
        PipelinedResultPartition.finish,
    ],
    "two-exclusive-buffers": [longs(0, 30), event(barrier(2)), longs(30, 8)],
    "two-receivers-one-connection": [
        longs(0, 3, channels=2),
        event(barrier(3)),
        longs(6, 3, channels=2),
        lambda partition: write(partition, records(12, 1), 1),
    ],
    "unaligned-barrier-overtakes": [longs(0, 12), priority(barrier(4, "UNALIGNED"))],
    "unaligned-barrier-while-blocked": [
        event(barrier(5)),
        priority(barrier(6, "UNALIGNED", 1)),
    ],
    "recovery-completion-first": [longs(1, 1)],
    "event-behind-an-empty-rest": [
        longs(1, 1),
        event(CancelCheckpointMarker(3)),
        longs(1, 1),
    ],
    "event-without-credit": [
        event(CancelCheckpointMarker(3)),
        event(CancelCheckpointMarker(4)),
    ],
    "subpartition-requested-twice": [],
    "subpartition-out-of-range": [],
    "resume-when-not-blocked": [],
    "negative-initial-credit": [],
    "range-upside-down": [],
    "unknown-message-id": [],
    "wrong-magic": [],
    "unknown-receiver-add-credit": [],
    "unknown-receiver-ignored": [],
    "unknown-partition-waits": [],
    "task-event-without-listener": [],
}
EXCLUSIVE_BUFFERS = {"no-exclusive-buffers": 0, "event-without-credit": 0}
BEFORE: dict[str, Action] = {"recovery-completion-first": event(EndOfOutputChannelStateEvent())}
BY_RELEASE: dict[tuple[str, str], list[Action]] = {
    # 2.3 lets a priority event pass a blocked channel that has no credit
    ("2.3.0", "unaligned-barrier-while-blocked-without-credit"): [
        both(longs(1, 1), event(barrier(7))),
        priority(barrier(8, "UNALIGNED", 1)),
    ]
}


def steps_of(release: str, name: str) -> list[Vector]:
    for vector in vectors(release):
        if vector["name"] == f"conversation/{name}":
            steps: list[Vector] = vector["fields"]["steps"]
            return steps
    raise LookupError(name)


def requested_partition() -> ResultPartitionID:
    """The partition that the conversations ask for (but for the one about an unknown one)."""
    for step in steps_of("2.3.0", "two-exclusive-buffers"):
        if step["direction"] == "consumer->producer":
            decoder = FrameDecoder(Direction.CONSUMER_TO_PRODUCER)
            request = decoder.feed(bytes.fromhex(step["hex"]))[0]
            assert isinstance(request, messages.PartitionRequest)
            return request.partition_id
    raise LookupError("no request")


def describe_errors(frame: bytes) -> Any:
    """The frame, or of an error what does not depend on the program that made it."""
    message = FrameDecoder(Direction.PRODUCER_TO_CONSUMER).feed(frame)[0]
    if isinstance(message, messages.ErrorResponse):
        return ("error", message.receiver_id)
    return frame


def frames_of(data: bytes) -> list[bytes]:
    """Cut a stream of the producer into frames."""
    found = []
    while data:
        length = int.from_bytes(data[:4], "big")
        found.append(data[:length])
        data = data[length:]
    return found


def converse(steps: list[Vector], name: str, inside: list[Action]) -> None:
    partition, memory = partition_of(
        2 if name.startswith("two-receivers") else 1,
        segment_size_bytes=64,
        exclusive_buffers=EXCLUSIVE_BUFFERS.get(name, 2),
        identity=requested_partition(),
    )
    connection, _ = producer_of(partition)
    BEFORE.get(name, nothing)(partition)
    actions = iter(inside)
    sent: list[bytes] = []
    for step in steps:
        if step["direction"] == "producer->consumer":
            assert sent, f"nothing was sent for: {step['what']}"
            frame = sent.pop(0)
            assert describe_errors(frame) == describe_errors(bytes.fromhex(step["hex"])), step
            continue
        assert not sent, f"too much was sent before: {step['what']}"
        if step["direction"] == "inside producer":
            next(actions)(partition)
        else:
            try:
                connection.receive_data(memoryview(bytes.fromhex(step["hex"])), now_ns=0)
            except RemoteProtocolError:
                assert connection.is_closing
        sent = frames_of(sent_bytes(connection))
    assert not sent
    assert next(actions, None) is None
    connection.receive_eof(now_ns=0)
    partition.release()
    assert memory.available_buffers == memory.total_buffers


@pytest.mark.parametrize("name", INSIDE)
@pytest.mark.parametrize("release", ["2.3.0", "2.0.2"])
def test_a_conversation_runs_as_with_a_real_producer(release: str, name: str) -> None:
    converse(steps_of(release, name), name, INSIDE[name])


@pytest.mark.parametrize(("release", "name"), BY_RELEASE)
def test_a_conversation_runs_as_with_a_real_producer_of_2_3(release: str, name: str) -> None:
    converse(steps_of(release, name), name, BY_RELEASE[release, name])


@golden("records", layout="2.x")
def test_records_lie_in_buffers_as_a_real_writer_laid_them(release: str, vector: Vector) -> None:
    fields, name = vector["fields"], vector["name"].split("/")[1]
    partition, _ = partition_of(segment_size_bytes=fields["segment_size"])
    connection, _ = producer_of(partition)
    receiver_id = InputChannelID(bytes.fromhex(fields["receiver_id"]))
    has_little_credit = name.startswith("22-")

    def receive(message: messages.Message) -> bytes:
        connection.receive_data(memoryview(message.encode()), now_ns=0)
        return sent_bytes(connection)

    sent = receive(
        messages.PartitionRequest(
            partition.partition_id,
            ResultSubpartitionIndexSet(0, 0),
            receiver_id,
            1 if has_little_credit else 100,
        )
    )
    stream = FrameDecoder(Direction.PRODUCER_TO_CONSUMER).feed(bytes.fromhex(vector["hex"]))
    payloads = [each.buffer for each in stream if isinstance(each, messages.BufferResponse)]
    data = b"".join(
        payload
        for payload, each in zip(payloads, stream, strict=True)
        if isinstance(each, messages.BufferResponse) and each.data_type.is_buffer
    )
    encoded = iter(RecordStreamDecoder().feed(data))
    events = iter(
        decode_event(each.buffer)
        for each in stream
        if isinstance(each, messages.BufferResponse) and not each.data_type.is_buffer
    )
    for element in fields["elements"]:
        if element["element"] == "event":
            event = next(events)
            partition.broadcast_event(event, is_last=isinstance(event, EndOfPartitionEvent))
            sent += sent_bytes(connection)
            if data_type_of(event) in IS_BLOCKING_UPSTREAM:
                sent += receive(messages.ResumeConsumption(receiver_id))
            continue
        write(partition, [encode_record(decode_element(next(encoded)))])
        if name.startswith("15-"):
            partition.flush_all()
        sent += sent_bytes(connection)
    partition.flush_all()
    sent += sent_bytes(connection)
    if has_little_credit:
        sent += receive(messages.AddCredit(1, receiver_id))
        sent += receive(messages.AddCredit(5, receiver_id))
    assert sent == bytes.fromhex(vector["hex"])
