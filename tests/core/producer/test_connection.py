"""ProducerConnection: what each message does, who sends next, and what credit allows."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable

import pytest

from flinknet.core import producer
from flinknet.core.buffers import DataType
from flinknet.core.connection import SEND_BATCH_BYTES
from flinknet.core.probe import MessageKind, NullProbe, TracePoint
from flinknet.core.producer.peer_trust import (
    FIRST_FRAME_BYTES_MAX,
    STRANGE_REQUESTS_MAX,
    UNSENT_ERRORS_BYTES_MAX,
)
from flinknet.core.producer.server_handler import ENDED_READERS_KEPT
from flinknet.core.producer.view_reader import (
    CreditBasedSequenceNumberingViewReader,
    PartitionRequestQueue,
)
from flinknet.core.wire import events
from flinknet.core.wire.checkpoint_barrier import AlignmentType, CheckpointBarrier
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.ids import InputChannelID, ResultPartitionID, ResultSubpartitionIndexSet
from flinknet.core.wire.layout import Direction
from flinknet.core.wire.messages import (
    AckAllUserRecordsProcessed,
    AddCredit,
    BacklogAnnouncement,
    BufferResponse,
    CancelPartitionRequest,
    CloseRequest,
    ErrorResponse,
    Message,
    NewBufferSize,
    PartitionRequest,
    ResumeConsumption,
    TaskEventRequest,
)
from flinknet.errors import CreditExceededError, RemoteProtocolError
from tests.invariants import check_invariants
from tests.pair import (
    OTHER_RECEIVER,
    RECEIVER,
    REQUEST_TIMEOUT_NS,
    partition_id,
    partition_of,
    producer_of,
    receiver_ids,
    records_of,
    sent_bytes,
)
from tests.probes import ListProbe

EVENT = events.CancelCheckpointMarker(1)
DATA, EVENT_TYPE = DataType.DATA_BUFFER, DataType.EVENT_BUFFER


def receive(connection: producer.ProducerConnection, *messages: Message, now_ns: int = 0) -> None:
    data = b"".join(message.encode() for message in messages)
    connection.receive_data(memoryview(data), now_ns=now_ns)


def sent(connection: producer.ProducerConnection, now_ns: int = 0) -> list[Message]:
    return FrameDecoder(Direction.PRODUCER_TO_CONSUMER).feed(sent_bytes(connection, now_ns))


def sent_buffers(connection: producer.ProducerConnection) -> list[BufferResponse]:
    return [each for each in sent(connection) if isinstance(each, BufferResponse)]


def refusal(connection: producer.ProducerConnection) -> ErrorResponse:
    (error,) = sent(connection)
    assert isinstance(error, ErrorResponse)
    return error


def served(
    subpartitions: int = 1, **options: int
) -> tuple[producer.PipelinedResultPartition, producer.ProducerConnection]:
    """A partition and a connection that serves it."""
    partition, _ = partition_of(subpartitions, **options)  # type: ignore[arg-type]
    return partition, producer_of(partition)[0]


def request(
    receiver_id: InputChannelID = RECEIVER,
    credit: int = 2,
    *,
    subpartition: int = 0,
    of: ResultPartitionID | None = None,
) -> PartitionRequest:
    return PartitionRequest(
        of or partition_id(),
        ResultSubpartitionIndexSet(subpartition, subpartition),
        receiver_id,
        credit,
    )


def types(messages: list[Message]) -> str:
    """d for data, e for an event, B for a BacklogAnnouncement, E for an error."""
    letters = {BacklogAnnouncement: "B", ErrorResponse: "E"}
    return "".join(
        ("d" if message.data_type.is_buffer else "e")
        if isinstance(message, BufferResponse)
        else letters[type(message)]
        for message in messages
    )


def fill(partition: producer.PipelinedResultPartition, kinds: str, channel: int = 0) -> None:
    """Queue full data buffers (d) and events (e)."""
    for kind in kinds:
        if kind == "d":
            partition.emit(channel, records_of([100]))
        else:
            partition.broadcast_event(EVENT)
    partition.flush_all()


@pytest.mark.row("S086")
@pytest.mark.parametrize(
    ("credit", "head"), list(itertools.product([0, 1], ["", "d", "e", "open"])), ids=str
)
def test_a_reader_is_available_with_credit_and_data_or_with_an_event_next(
    credit: int, head: str
) -> None:
    partition, _ = partition_of()
    reader = CreditBasedSequenceNumberingViewReader(RECEIVER, 0, credit, lambda _: None)
    assert not reader.is_available
    reader.attach(partition, 0, 0)
    if head == "open":
        partition.emit(0, records_of([10]))
    else:
        fill(partition, head)
    assert reader.is_available == (head == "e" or (head == "d" and credit == 1))


@pytest.mark.row("S087")
def test_credit_of_two_lets_two_buffers_pass_and_events_are_free() -> None:
    partition, connection = served()
    fill(partition, "dedd")
    receive(connection, request(credit=2))
    assert types(sent(connection)) == "ded"
    reader = connection.queue.readers[RECEIVER]
    assert reader.credits_available == 0
    with pytest.raises(CreditExceededError):
        reader.poll()


@pytest.mark.row("S091")
def test_data_that_leaves_without_credit_fails_the_connection_and_loses_no_buffer() -> None:
    partition, memory = partition_of(2)
    connection, _ = producer_of(partition)
    fill(partition, "dd", 0)
    fill(partition, "dd", 1)
    receive(connection, request(OTHER_RECEIVER, 2, subpartition=1), request(RECEIVER, 2))
    reader = connection.queue.readers[RECEIVER]
    assert connection.queue.enqueue(reader)
    reader.credits_available = 0
    error = refusal(connection)
    assert error.receiver_id is None
    assert "data without credit" in (error.cause.message or "")
    assert connection.lost_channels == [-1, 0]
    assert connection.is_closing
    connection.receive_eof(now_ns=0)
    partition.close()
    assert memory.available_buffers == memory.total_buffers


@pytest.mark.row("S099")
def test_credit_that_arrives_lets_just_so_many_buffers_pass() -> None:
    partition, connection = served()
    receive(connection, request(credit=0))
    partition.subpartitions[0].exclusive_buffers = 2
    connection.queue.readers[RECEIVER].initial_credit = 2
    fill(partition, "ddddd")
    assert sent(connection) == []
    receive(connection, AddCredit(2, RECEIVER))
    assert types(sent(connection)) == "dd"
    assert connection.queue.readers[RECEIVER].credits_available == 0
    assert sent(connection) == []


@pytest.mark.row("S082")
def test_the_numbers_of_a_channel_count_from_0_over_buffers_and_events() -> None:
    partition, connection = served(2)
    fill(partition, "ded", 0)
    fill(partition, "d", 1)
    receive(connection, request(RECEIVER, 2), request(OTHER_RECEIVER, 9, subpartition=1))
    frames = sent_buffers(connection)
    fill(partition, "dd", 0)
    receive(connection, AddCredit(9, RECEIVER))
    frames += sent_buffers(connection)
    numbers: dict[bytes, list[int]] = {}
    for frame in frames:
        numbers.setdefault(frame.receiver_id, []).append(frame.sequence_number)
    assert numbers == {RECEIVER: [0, 1, 2, 3, 4], OTHER_RECEIVER: [0, 1]}


@pytest.mark.row("S085")
def test_readers_take_turns_of_one_buffer() -> None:
    partition, connection = served(2)
    fill(partition, "ddd", 0)
    fill(partition, "ddd", 1)
    receive(connection, request(RECEIVER, 9), request(OTHER_RECEIVER, 9, subpartition=1))
    frames = sent_buffers(connection)
    assert [m.subpartition_id for m in frames] == [0, 1, 0, 1, 0, 1]
    assert [m.sequence_number for m in frames] == [0, 0, 1, 1, 2, 2]
    assert [m.backlog for m in frames] == [2, 2, 1, 1, 0, 0]


def test_a_reader_without_credit_holds_up_nobody() -> None:
    partition, connection = served(2)
    fill(partition, "dddd", 0)
    fill(partition, "dddd", 1)
    receive(connection, request(RECEIVER, 1), request(OTHER_RECEIVER, 9, subpartition=1))
    frames = sent_buffers(connection)
    assert [m.subpartition_id for m in frames] == [0, 1, 1, 1, 1]


def test_what_is_handed_over_at_once_is_bounded_and_the_rest_follows() -> None:
    partition, connection = served(segment_size_bytes=SEND_BATCH_BYTES // 4)
    batch = records_of([SEND_BATCH_BYTES // 4] * 6)
    partition.emit(0, batch)
    partition.flush_all()
    receive(connection, request(credit=9))
    first = b"".join(connection.data_to_send(now_ns=0))
    second = b"".join(connection.data_to_send(now_ns=0))
    assert [len(first), len(second)] == [4 * (SEND_BATCH_BYTES // 4 + 47), len(first) // 2]
    frames = FrameDecoder(Direction.PRODUCER_TO_CONSUMER).feed(first + second)
    assert b"".join(m.buffer for m in frames if isinstance(m, BufferResponse)) == batch.data


def test_a_reader_that_never_found_its_partition_has_nothing_to_release() -> None:
    reader = CreditBasedSequenceNumberingViewReader(RECEIVER, 0, 0, lambda _: None)
    assert reader.needs_backlog_announcement() == 0
    reader.release()
    assert not reader.is_available


@pytest.mark.row("S083")
def test_a_reader_stands_in_the_queue_once_and_leaves_it_when_removed() -> None:
    partition, connection = served(3)
    ids = receiver_ids(3)
    receive(connection, *(request(each, 1, subpartition=i) for i, each in enumerate(ids)))
    fill(partition, "d", 0)
    fill(partition, "d", 2)
    queue = connection.queue
    for reader in (*queue.readers.values(), *queue.readers.values()):
        queue.enqueue(reader)
    assert (len(queue.readers), len(queue.available)) == (3, 2)
    receive(connection, CancelPartitionRequest(ids[0]))
    assert (len(queue.readers), len(queue.available)) == (2, 1)
    assert queue.remove(ids[0]) is None
    assert [m.receiver_id for m in sent(connection)] == [ids[2]]  # type: ignore[union-attr]


def test_a_reader_that_has_nothing_after_all_loses_its_turn() -> None:
    partition, _ = partition_of()
    reader = CreditBasedSequenceNumberingViewReader(RECEIVER, 0, 1, lambda _: None)
    reader.attach(partition, 0, 0)
    fill(partition, "d")
    queue = PartitionRequestQueue()
    queue.add(reader)
    assert queue.enqueue(reader)
    taken = partition.subpartitions[0].poll()
    assert taken is not None
    assert queue.poll() is None
    assert not reader.is_enqueued


@pytest.mark.row("S088")
def test_only_receivers_without_exclusive_buffers_are_told_the_backlog() -> None:
    for exclusive_buffers, expected in ((0, "Bddd"), (2, "ddd")):
        partition, connection = served(exclusive_buffers=exclusive_buffers)
        fill(partition, "ddd")
        receive(connection, request(credit=exclusive_buffers))
        first = sent(connection)
        assert exclusive_buffers or first == [BacklogAnnouncement(3, RECEIVER)]
        receive(connection, AddCredit(3, RECEIVER))
        assert types(first + sent(connection)) == expected


def test_resuming_without_exclusive_buffers_starts_again_at_credit_0() -> None:
    partition, connection = served(exclusive_buffers=0)
    partition.broadcast_event(events.EndOfOutputChannelStateEvent())
    receive(connection, request(credit=0), AddCredit(3, RECEIVER))
    assert types(sent(connection)) == "e"
    receive(connection, ResumeConsumption(RECEIVER))
    assert connection.queue.readers[RECEIVER].credits_available == 0


def test_a_second_priority_event_waits_until_a_blocked_channel_may_go_on() -> None:
    partition, connection = served(exclusive_buffers=0)
    partition.broadcast_event(events.EndOfOutputChannelStateEvent())
    receive(connection, request(credit=0))
    assert types(sent(connection)) == "e"
    for checkpoint_id in (1, 2):
        barrier = CheckpointBarrier(checkpoint_id, 0, alignment=AlignmentType.UNALIGNED)
        partition.broadcast_event(barrier, is_priority=True)
        check_invariants(connection)
    for expected in ("e", ""):
        assert types(sent(connection)) == expected
        check_invariants(connection)
    receive(connection, ResumeConsumption(RECEIVER))
    assert types(sent(connection)) == "e"
    check_invariants(connection)


@pytest.mark.row("S081")
def test_every_message_has_its_effect() -> None:
    partition, connection = served()
    receive(connection, request())
    subpartition = partition.subpartitions[0]
    receive(connection, NewBufferSize(40, RECEIVER))
    assert subpartition.buffer_size_bytes == 40
    receive(connection, AckAllUserRecordsProcessed(RECEIVER))
    assert partition.is_all_acknowledged
    partition.broadcast_event(events.EndOfOutputChannelStateEvent())
    assert types(sent(connection)) == "e"
    assert subpartition.is_blocked
    receive(connection, ResumeConsumption(RECEIVER))
    assert not subpartition.is_blocked
    receive(connection, TaskEventRequest(events.EndOfPartitionEvent(), partition_id(), RECEIVER))
    error = refusal(connection)
    assert error.receiver_id == RECEIVER
    receive(connection, CancelPartitionRequest(RECEIVER))
    assert subpartition.is_released
    assert connection.queue.readers == {}


@pytest.mark.row("S081")
def test_a_task_event_reaches_who_listens_to_its_class_at_its_partition() -> None:
    partition, _ = partition_of()
    connection, manager = producer_of(partition)
    event = events.OtherEvent("org.example.Terminate", b"body")
    heard: list[events.OtherEvent] = []
    partition.task_events.subscribe(event.class_name, heard.append)
    partition.task_events.register()
    receive(connection, request(), TaskEventRequest(event, partition_id(), RECEIVER))
    unheard = events.OtherEvent("org.example.Other")
    receive(connection, TaskEventRequest(unheard, partition_id(), RECEIVER))
    assert heard == [event]
    assert sent(connection) == []
    receive(connection, TaskEventRequest(event, partition_id(1), RECEIVER))
    error = refusal(connection)
    assert (error.receiver_id, error.cause.message) == (
        RECEIVER,
        "Task event receiver not found.",
    )
    manager.release(partition)
    assert not manager.publish_task_event(partition_id(), event)
    assert heard == [event]


@pytest.mark.row("S092")
def test_a_cancelled_receiver_gets_nothing_more_and_others_go_on() -> None:
    partition, memory = partition_of(2)
    connection, manager = producer_of(partition)
    fill(partition, "ddd", 0)
    fill(partition, "ddd", 1)
    receive(connection, request(RECEIVER, 1), request(OTHER_RECEIVER, 1, subpartition=1))
    assert types(sent(connection)) == "dd"
    receive(connection, CancelPartitionRequest(RECEIVER), AddCredit(2, OTHER_RECEIVER))
    frames = sent(connection)
    assert [m.receiver_id for m in frames] == [OTHER_RECEIVER] * 2  # type: ignore[union-attr]
    receive(connection, AddCredit(1, RECEIVER))
    assert types(sent(connection)) == "E"
    receive(connection, CancelPartitionRequest(OTHER_RECEIVER))
    assert not partition.is_released
    partition.close()
    assert partition.is_released
    assert manager.find(partition.partition_id) is None
    assert memory.available_buffers == memory.total_buffers


def test_a_reader_that_is_cancelled_before_its_notification_counts_has_no_turn() -> None:
    partition, connection = served(2)
    receive(connection, request(RECEIVER, 1), request(OTHER_RECEIVER, 1, subpartition=1))
    assert types(sent(connection)) == ""
    fill(partition, "dd", 0)
    receive(connection, CancelPartitionRequest(RECEIVER))
    assert types(sent(connection)) == ""
    check_invariants(connection)
    assert [reader.empty_turns for reader in connection.opened_readers] == [0, 0]


@pytest.mark.row("S091")
def test_who_reads_a_failed_producer_is_told_the_cause_and_others_live() -> None:
    failing, failing_memory = partition_of(2, identity=partition_id(0))
    living, _ = partition_of(identity=partition_id(1))
    connection, manager = producer_of(failing, living)
    neighbour = InputChannelID(bytes(range(20, 36)))
    receive(
        connection,
        request(RECEIVER, 0, of=partition_id(0)),
        request(OTHER_RECEIVER, 2, subpartition=1, of=partition_id(0)),
        request(neighbour, 2, of=partition_id(1)),
    )
    fill(failing, "ddd", 0)
    fill(failing, "d", 1)
    fill(living, "d")
    failing.fail("NullPointerException in map")
    failing.fail("a second cause")
    messages = sent(connection)
    errors = [each for each in messages if isinstance(each, ErrorResponse)]
    assert {each.receiver_id for each in errors} == {RECEIVER, OTHER_RECEIVER}
    assert {(each.cause.class_name.rsplit(".")[-1], each.cause.message) for each in errors} == {
        ("ProducerFailedException", "NullPointerException in map")
    }
    assert [m.receiver_id for m in messages if isinstance(m, BufferResponse)] == [neighbour]
    assert set(connection.queue.readers) == {neighbour}
    assert manager.find(failing.partition_id) is None
    assert failing_memory.available_buffers == failing_memory.total_buffers
    fill(living, "d")
    assert types(sent(connection)) == "d"


def range_request(first: int, last: int, credit: int) -> PartitionRequest:
    indices = ResultSubpartitionIndexSet(first, last)
    return PartitionRequest(partition_id(), indices, RECEIVER, credit)


@pytest.mark.row("S075")
def test_a_range_of_subpartitions_is_one_channel_that_changes_over_at_events() -> None:
    partition, connection = served(3)
    receive(connection, range_request(1, 2, 3))
    fill(partition, "d", 0)
    fill(partition, "dd", 1)
    fill(partition, "dd", 2)
    messages = sent(connection)
    assert types(messages) == "dd"  # the record in the second buffer may go on
    partition.broadcast_event(EVENT)
    messages += sent(connection)
    assert types(messages) == "dded"  # and the credit is used up
    receive(connection, AddCredit(1, RECEIVER))
    messages += sent(connection)
    buffers = [each for each in messages if isinstance(each, BufferResponse)]
    assert [each.subpartition_id for each in buffers] == [1, 1, 1, 2, 2, 2]
    assert [each.sequence_number for each in buffers] == list(range(6))
    assert [each.backlog for each in buffers] == [3, 2, 2, 1, 0, 0]
    assert types(messages) == "ddedde"
    receive(connection, NewBufferSize(40, RECEIVER), AckAllUserRecordsProcessed(RECEIVER))
    assert [each.buffer_size_bytes == 40 for each in partition.subpartitions] == [False, True, True]
    assert [each.is_acknowledged for each in partition.subpartitions] == [False, True, True]
    receive(connection, CancelPartitionRequest(RECEIVER))
    assert [each.is_released for each in partition.subpartitions] == [False, True, True]


@pytest.mark.row("S075")
def test_a_range_goes_on_after_each_blocking_event_of_its_subpartitions() -> None:
    partition, connection = served(2)
    receive(connection, range_request(0, 1, 9))
    partition.broadcast_event(events.EndOfOutputChannelStateEvent())
    fill(partition, "d", 0)
    assert types(sent(connection)) == "ee"
    receive(connection, ResumeConsumption(RECEIVER))
    assert types(sent(connection)) == "d"
    receive(connection, ResumeConsumption(RECEIVER))
    assert types(sent(connection)) == "E"


@pytest.mark.row("S075")
@pytest.mark.parametrize(("first", "last"), [(0, 2), (2, 3)])
def test_a_range_beyond_the_partition_or_with_one_that_is_read_is_refused(
    first: int, last: int
) -> None:
    _, connection = served(2)
    receive(connection, range_request(first, last, 2))
    error = refusal(connection)
    assert "has no subpartition 2" in (error.cause.message or "")
    receive(connection, request(OTHER_RECEIVER, subpartition=1), range_request(0, 1, 2))
    assert types(sent(connection)) == "E"
    assert set(connection.queue.readers) == {OTHER_RECEIVER}


def test_a_close_request_releases_every_reader() -> None:
    partition, memory = partition_of(2)
    connection, _ = producer_of(partition)
    fill(partition, "dd", 0)
    receive(connection, request(RECEIVER, 2), request(OTHER_RECEIVER, 2, subpartition=1))
    receive(connection, CloseRequest())
    assert connection.is_closing
    partition.close()
    assert partition.is_released
    assert memory.available_buffers == memory.total_buffers


def test_a_lost_connection_releases_readers_buffers_on_their_way_and_requests() -> None:
    partition, memory = partition_of()
    connection, manager = producer_of(partition)
    fill(partition, "dd")
    unknown = partition_id(7)
    receive(connection, request(), request(OTHER_RECEIVER, of=unknown))
    assert connection.data_to_send(now_ns=0)
    assert memory.available_buffers < memory.total_buffers
    connection.receive_eof(now_ns=0)
    partition.close()
    assert memory.available_buffers == memory.total_buffers
    assert connection.next_deadline_ns() is None
    late, _ = partition_of(identity=unknown)
    manager.register(late)
    assert not late.subpartitions[0].has_view


def test_buffers_are_recycled_when_the_driver_asks_again() -> None:
    partition, memory = partition_of(buffers=3)
    connection, _ = producer_of(partition)
    fill(partition, "ddd")
    receive(connection, request(credit=9))
    out = connection.data_to_send(now_ns=0)
    assert sum(len(piece) == 100 for piece in out) == 3
    assert partition.pool.used_buffers == 3
    assert connection.data_to_send(now_ns=0) == []
    assert partition.pool.used_buffers == 0
    assert memory.available_buffers + partition.pool.requested_buffers == 3


@pytest.mark.row("S037")
def test_a_request_for_an_unknown_partition_is_refused_after_the_timeout() -> None:
    partition, _ = partition_of()
    connection, manager = producer_of(partition)
    fill(partition, "d")
    unknown = partition_id(7)
    receive(connection, request(), request(OTHER_RECEIVER, of=unknown), now_ns=5)
    due_ns = 5 + REQUEST_TIMEOUT_NS
    assert connection.next_deadline_ns() == due_ns
    assert types(sent(connection)) == "d"
    connection.handle_deadline(now_ns=due_ns - 1)
    assert sent(connection) == []
    connection.handle_deadline(now_ns=due_ns)
    error = refusal(connection)
    assert error.receiver_id == OTHER_RECEIVER
    assert error.cause.class_name.endswith(".PartitionNotFoundException")
    assert connection.next_deadline_ns() is None
    late, _ = partition_of(identity=unknown)
    manager.register(late)
    assert not late.subpartitions[0].has_view
    receive(connection, AddCredit(1, RECEIVER))
    assert sent(connection) == []


@pytest.mark.row("S038")
@pytest.mark.parametrize("registered_after_s", [1, 9, None])
def test_an_early_request_is_served_by_the_registration_or_refused_after_the_timeout(
    registered_after_s: int | None,
) -> None:
    connection, manager = producer_of()
    requested_ns = 5
    receive(connection, request(credit=2), now_ns=requested_ns)
    partition, _ = partition_of()
    fill(partition, "dd")
    refused_ns = None
    for second in range(1, 31):
        now_ns = requested_ns + second * 1_000_000_000
        if second == registered_after_s:
            manager.register(partition)
        due_ns = connection.next_deadline_ns()
        if due_ns is not None and now_ns >= due_ns:
            connection.handle_deadline(now_ns=now_ns)
        said = types(sent(connection, now_ns))
        if said == "E":
            refused_ns = now_ns - requested_ns
        else:
            assert said == ("dd" if second == registered_after_s else "")
    if registered_after_s is None:
        assert refused_ns is not None
        assert REQUEST_TIMEOUT_NS <= refused_ns <= 2 * REQUEST_TIMEOUT_NS
    else:
        assert refused_ns is None


@pytest.mark.parametrize("state", ["open", "waiting", "failed"])
def test_a_channel_is_cancelled_once_in_the_trace(state: str) -> None:
    """What a consumer cancels again has no channel there, as at the consumer."""
    partition, _ = partition_of()
    probe = ListProbe()
    connection, _ = producer_of(*() if state == "waiting" else (partition,), probe=probe)
    receive(connection, request())
    if state == "failed":
        partition.fail("a cause")
        refusal(connection)
    receive(connection, *[CancelPartitionRequest(RECEIVER)] * 3)
    cancelled = [row[1] for row in probe.events if row[3] == MessageKind.CANCEL_PARTITION_REQUEST]
    assert cancelled == [0, -1, -1]


def test_an_early_request_that_was_cancelled_is_forgotten() -> None:
    connection, manager = producer_of()
    receive(connection, request(), request(OTHER_RECEIVER))
    receive(connection, CancelPartitionRequest(RECEIVER))
    partition, _ = partition_of()
    manager.register(partition)
    assert list(connection.queue.readers) == [OTHER_RECEIVER]


@pytest.mark.row("S035")
def test_a_late_reader_is_told_once_and_reads_everything() -> None:
    partition, _ = partition_of()
    records = records_of([70] * 5)
    partition.emit(0, records)
    partition.flush_all()
    told: list[CreditBasedSequenceNumberingViewReader] = []
    reader = CreditBasedSequenceNumberingViewReader(RECEIVER, 0, 10, told.append)
    reader.attach(partition, 0, 0)
    assert told == [reader]
    data = bytearray()
    while run := reader.subpartition.poll_run(1, 1):
        (piece,) = run
        data += piece.view
        piece.recycle()
    assert data == records.data
    assert told == [reader]


@pytest.mark.row("S021")
def test_ten_subpartitions_have_ten_readers_each_of_its_own() -> None:
    partition, connection = served(10)
    ids = receiver_ids(10)
    receive(connection, *(request(each, subpartition=i) for i, each in enumerate(ids)))
    readers = connection.queue.readers
    assert [readers[each].subpartition for each in ids] == list(partition.subpartitions)
    receive(connection, request(OTHER_RECEIVER, subpartition=3))
    assert types(sent(connection)) == "E"
    assert len(readers) == 10


def test_messages_in_front_of_garbage_have_their_effect() -> None:
    partition, connection = served()
    acknowledgement = AckAllUserRecordsProcessed(RECEIVER)
    data = request().encode() + acknowledgement.encode() + b"garbage garbage"
    with pytest.raises(RemoteProtocolError):
        connection.receive_data(memoryview(data), now_ns=0)
    assert partition.is_all_acknowledged


@pytest.mark.parametrize("cut", range(1, 29))
def test_credit_counts_wherever_its_frame_is_cut(cut: int) -> None:
    _, connection = served()
    receive(connection, request(credit=1))
    data = AddCredit(3, RECEIVER).encode() * 2
    connection.receive_data(memoryview(data[:cut]), now_ns=0)
    connection.receive_data(memoryview(data[cut:]), now_ns=0)
    assert connection.queue.readers[RECEIVER].credits_available == 7


@pytest.mark.row("S115")
def test_time_with_data_but_no_credit_is_counted() -> None:
    partition, connection = served()
    receive(connection, request(credit=1))
    reader = connection.queue.readers[RECEIVER]
    fill(partition, "ddd")
    sent(connection, now_ns=100)
    assert reader.starved_since_ns == 100
    receive(connection, AddCredit(2, RECEIVER), now_ns=350)
    assert (reader.starved_ns, reader.starved_since_ns) == (250, -1)
    sent(connection, now_ns=400)
    assert reader.starved_since_ns == -1
    fill(partition, "d")
    sent(connection, now_ns=500)
    assert reader.starved_until(540) == 290
    receive(connection, AddCredit(1, RECEIVER), now_ns=560)
    assert reader.starved_ns == reader.starved_until(900) == 310


def test_the_probe_sees_every_message_with_credit_and_backlog() -> None:
    probe = ListProbe()
    partition, _ = partition_of()
    connection, _ = producer_of(partition, probe=probe)
    receive(connection, request(credit=1), now_ns=10)
    partition.emit(0, records_of([60, 90], 1000))
    partition.broadcast_event(events.EndOfData())
    sent(connection, now_ns=20)
    receive(connection, AddCredit(4, RECEIVER), now_ns=30)
    sent(connection, now_ns=40)
    head = [event[:14] for event in probe.events]
    kinds = [(event[2], event[3]) for event in probe.events]
    sent_point, received = int(TracePoint.SENT), int(TracePoint.RECEIVED)
    assert kinds == [
        (received, 2),
        (sent_point, 0),
        (received, 6),
        (sent_point, 0),
        (sent_point, 0),
    ]
    # at, channel, point, kind, type, reason, sequence, bytes, records, first, last, backlog, credit
    assert head[0] == (10, 0, 1, 2, 0, 0, -1, 0, 0, -1, -1, -1, 0, 1)
    assert head[1] == (20, 0, 0, 0, 1, 1, 0, 100, 1, 1000, 1000, 1, 1, 0)
    assert head[2] == (30, 0, 1, 6, 0, 0, -1, 0, 0, -1, -1, -1, 0, 4)
    assert head[3] == (40, 0, 0, 0, 1, 4, 1, 50, 1, 1001, 1001, 0, 4, 3)
    assert head[4] == (40, 0, 0, 0, 9, 3, 2, 5, 0, -1, -1, 0, 3, 3)
    assert [event[16] for event in probe.events] == [1, -1, 4, -1, -1]


# Peers that do not belong to the run, or do not behave


def frame_header(length: int, message_id: int = 3) -> memoryview:
    return memoryview(struct.pack(">i5s", length, bytes.fromhex("badc0ffe") + bytes([message_id])))


def strangers(count: int) -> list[InputChannelID]:
    return [InputChannelID(struct.pack(">16s", b"%d" % index)) for index in range(count)]


def test_a_frame_is_short_until_something_of_the_run_was_requested() -> None:
    partition, connection = served()
    with pytest.raises(RemoteProtocolError, match="a frame of 67108864 bytes, not 9 to 4096"):
        connection.receive_data(frame_header(64 << 20), now_ns=0)
    connection, _ = producer_of(partition)
    receive(connection, request(OTHER_RECEIVER, of=partition_id(7)))  # of no partition here
    with pytest.raises(RemoteProtocolError, match="a frame of"):
        connection.receive_data(frame_header(FIRST_FRAME_BYTES_MAX + 1), now_ns=0)
    connection, _ = producer_of(partition)
    receive(connection, request())
    connection.receive_data(frame_header(64 << 20), now_ns=0)
    assert connection.trust.is_of_run


@pytest.mark.parametrize(
    "message",
    [
        lambda receiver: request(receiver, of=partition_id(7)),
        lambda receiver: AddCredit(1, receiver),
        lambda receiver: TaskEventRequest(EVENT, partition_id(), receiver),
        CancelPartitionRequest,
    ],
    ids=["PartitionRequest", "AddCredit", "TaskEventRequest", "CancelPartitionRequest"],
)
def test_who_asks_too_often_for_what_is_not_of_the_run_is_sent_away(
    message: Callable[[InputChannelID], Message],
) -> None:
    connection, manager = producer_of()
    *first, last = strangers(STRANGE_REQUESTS_MAX + 1)
    for receiver in first:
        receive(connection, message(receiver))
    assert connection.trust.strange_requests == STRANGE_REQUESTS_MAX
    assert not connection.is_closing
    with pytest.raises(RemoteProtocolError, match="not of this run"):
        receive(connection, message(last))
    assert connection.is_closing
    assert connection.waiting_requests <= STRANGE_REQUESTS_MAX
    connection.receive_eof(now_ns=0)
    partition, _ = partition_of(identity=partition_id(7))
    manager.register(partition)  # nobody waits for it any more
    assert not partition.subpartitions[0].has_view


def test_receivers_of_the_run_may_ask_as_often_as_they_like() -> None:
    connection, _ = producer_of()
    for _ in range(2 * STRANGE_REQUESTS_MAX):
        receive(connection, AddCredit(1, RECEIVER), CancelPartitionRequest(RECEIVER))
        assert types(sent(connection)) == "E"
    assert connection.trust.strange_requests == 0


def test_requests_that_wait_are_refused_in_the_order_of_their_deadlines() -> None:
    connection, _ = producer_of()
    receivers = strangers(3)
    for at_ns, receiver in enumerate(receivers):
        receive(connection, request(receiver), now_ns=at_ns)
    receive(connection, CancelPartitionRequest(receivers[0]), now_ns=3)
    refused = []
    while (due_ns := connection.next_deadline_ns()) is not None:
        connection.handle_deadline(now_ns=due_ns)
        refused += [(due_ns - REQUEST_TIMEOUT_NS, each.receiver_id) for each in sent(connection)]  # type: ignore[union-attr]
    assert refused == [(1, receivers[1]), (2, receivers[2])]


def test_a_peer_that_does_not_read_its_answers_is_not_read_until_it_does() -> None:
    connection, _ = producer_of()
    while connection.wants_data:
        receive(connection, AddCredit(1, RECEIVER))
    assert connection.next_deadline_ns() is None
    connection.handle_deadline(now_ns=0)  # it may be called early
    assert not connection.wants_data
    unread = sent_bytes(connection)
    assert UNSENT_ERRORS_BYTES_MAX < len(unread) < UNSENT_ERRORS_BYTES_MAX + 1000
    assert connection.next_deadline_ns() == 0
    connection.handle_deadline(now_ns=0)
    assert connection.wants_data
    assert connection.next_deadline_ns() is None


def test_answers_that_wait_for_the_socket_count_until_the_peer_has_read_them() -> None:
    connection, _ = producer_of()
    handed_over_bytes, messages = 0, 0
    while connection.wants_data and messages < 10_000:
        receive(connection, AddCredit(1, RECEIVER))
        out = connection.data_to_send(now_ns=0, unsent_bytes=handed_over_bytes, room_bytes=0)
        handed_over_bytes += sum(map(len, out))
        messages += 1
    assert handed_over_bytes < UNSENT_ERRORS_BYTES_MAX + 2000
    assert connection.next_deadline_ns() is None
    assert not connection.data_to_send(now_ns=0)  # all has left
    connection.handle_deadline(now_ns=0)
    assert connection.wants_data


def test_a_request_that_is_refused_is_noted_without_credit() -> None:
    probe = ListProbe()
    partition, _ = partition_of(2)
    connection, _ = producer_of(partition, probe=probe)
    receive(
        connection,
        request(RECEIVER, -(2**31)),
        request(RECEIVER, 2**31 - 1, subpartition=999),
        request(RECEIVER, 2),
        request(RECEIVER, 2**31 - 1, subpartition=1),
    )
    assert types(sent(connection)) == "EEE"
    received = [each for each in probe.events if each[2] == TracePoint.RECEIVED]
    assert [(each[12], each[13]) for each in received] == [(-1, -1), (-1, -1), (0, 2), (-1, -1)]


@pytest.mark.row("S014")
def test_a_connection_that_outlives_many_channels_forgets_the_oldest() -> None:
    ids = [InputChannelID(number.to_bytes(16, "big")) for number in range(3 * ENDED_READERS_KEPT)]
    manager = producer.ResultPartitionManager()
    connection = producer.ProducerConnection(
        manager, NullProbe(), dict.fromkeys(ids, 0), partition_request_timeout_ns=1
    )
    for number, receiver_id in enumerate(ids):
        partition, _ = partition_of(buffers=4, identity=partition_id(number))
        manager.register(partition)
        receive(connection, request(receiver_id, of=partition_id(number)))
        if number:  # the first one stays open
            receive(connection, CancelPartitionRequest(receiver_id))
    kept = [each.receiver_id for each in connection.opened_readers]
    assert kept == [*ids[-ENDED_READERS_KEPT:], ids[0]]
