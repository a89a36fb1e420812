"""What an observer makes of the bytes of a connection: golden conversations, and what may go
wrong."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.capture import ChannelTable
from flinknet.capture.channels import Ends
from flinknet.config import NetworkConfig
from flinknet.core.buffers.data_type import IS_BLOCKING_UPSTREAM, IS_BUFFER, DataType
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.core.wire.checkpoint_barrier import AlignmentType, CheckpointBarrier
from flinknet.core.wire.events import (
    CancelCheckpointMarker,
    EndOfData,
    EndOfOutputChannelStateEvent,
    EndOfPartitionEvent,
    Event,
    StopMode,
    SubtaskConnectionDescriptor,
    encode_pipelined,
)
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.ids import ExecutionGraphID
from flinknet.core.wire.layout import Direction
from flinknet.core.wire.messages import (
    AddCredit,
    BacklogAnnouncement,
    BufferResponse,
    CancelPartitionRequest,
    Message,
    ResumeConsumption,
)
from flinknet.errors import RemoteProtocolError
from tests.capture.conversations import (
    CLIENT,
    SERVER,
    Observed,
    buffer,
    cut,
    elements,
    request,
    steps_of,
    stream,
)
from tests.comparisons import compares, compares_in
from tests.golden_vectors import LAYOUT_OF_RELEASE, Vector, golden
from tests.pair import OTHER_RECEIVER, RECEIVER, Pair, partition_id, records_of
from tests.strategies import chunkings, consumer_messages, producer_messages

MS = 1_000_000
EVENT_COLUMNS = ("channel", "point", "kind", "data_type", "sequence_number", "payload_bytes")

BARRIER = encode_pipelined(CheckpointBarrier(42, 0))
"""As a pipelined partition sends it."""


def decoded(vector: Vector, release: str) -> Counter[str]:
    """Kinds of the messages that a peer would decode, as many as it would before it gave up."""
    kinds: Counter[str] = Counter()
    decoders = {each.value: FrameDecoder(each, LAYOUT_OF_RELEASE[release]) for each in Direction}
    for direction, data in steps_of(vector):
        try:
            for message in decoders[direction].messages(data):
                kinds[MessageKind(message.ID).name] += 1
        except RemoteProtocolError:
            del decoders[direction]
            break
    return kinds


@golden("conversation")
@pytest.mark.parametrize("size", [1, 3, 50, 1 << 20])
def test_golden_conversations_however_they_are_cut(release: str, vector: Vector, size: int) -> None:
    whole = Observed().show(steps_of(vector))
    pieces = Observed().show(cut(steps_of(vector), size))
    assert pieces.rows.all == whole.rows.all
    assert pieces.table.infos() == whole.table.infos()
    assert pieces.observer.summary() == whole.observer.summary()
    summary = whole.observer.summary()
    assert Counter(summary["messages"]) >= decoded(vector, release)
    assert summary["layout"] in (None, LAYOUT_OF_RELEASE[release])
    assert (
        summary["sequence_gaps"]
        == summary["unpaid_buffers"]
        == summary["losses"] - (1 if vector["name"] == "conversation/wrong-magic" else 0)
    )


@golden("conversation")
def test_credit_is_what_was_given_less_what_was_used(release: str, vector: Vector) -> None:
    observed = Observed()
    decoders = {each.value: FrameDecoder(each, LAYOUT_OF_RELEASE[release]) for each in Direction}
    credit: dict[bytes, int] = {}
    initial: dict[bytes, int] = {}
    for step in steps_of(vector):
        observed.show([step])
        try:
            messages = decoders[step[0]].feed(step[1])
        except RemoteProtocolError:
            return
        for message in messages:
            receiver = getattr(message, "receiver_id", None)
            if message.ID == MessageKind.PARTITION_REQUEST:
                credit[receiver] = initial[receiver] = max(0, message.credit)
            elif receiver not in credit:
                continue
            elif isinstance(message, AddCredit):
                credit[receiver] += message.credit
            elif isinstance(message, ResumeConsumption) and not initial[receiver]:
                credit[receiver] = 0
            elif isinstance(message, BufferResponse) and message.data_type.is_buffer:
                credit[receiver] -= 1
        channels = {each.receiver_id: each for each in observed.table.channels}
        for receiver, left in credit.items():
            assert channels[receiver].credits_available == left


@golden("records")
@pytest.mark.parametrize("size", [3, 1 << 20])
def test_records_and_other_elements_of_golden_streams(
    release: str, vector: Vector, size: int
) -> None:
    observed = Observed().show([(CLIENT, request().encode())])
    steps = [(SERVER, bytes.fromhex(vector["hex"]))]
    if vector["kind"] == "conversation":  # those with answers of the consumer
        steps = steps_of(vector)
    observed.show(cut(steps, size))
    kinds = Counter(each["element"] for each in vector["fields"]["elements"] if "element" in each)
    (channel,) = observed.table.channels
    assert channel.records == kinds.pop("record", 0)
    assert channel.other_elements == sum(
        count for kind, count in kinds.items() if "event" not in kind and "barrier" not in kind
    )
    assert channel.uncounted_buffers == 0


@golden("partial")
def test_every_partial_buffer_is_a_row_and_the_message_is_paid_once(
    release: str, vector: Vector
) -> None:
    observed = Observed().show(
        [(CLIENT, request(bytes.fromhex(vector["fields"]["receiver_id"])).encode())]
    )
    observed.show(cut([(SERVER, bytes.fromhex(vector["hex"]))], 5))
    fields = vector["fields"]
    rows = observed.rows.all[1:]
    assert [row["payload_bytes"] for row in rows] == fields["partial_buffer_sizes"]
    first = fields["sequence_number"]
    assert [row["sequence_number"] for row in rows] == list(range(first, first + len(rows)))
    assert [row["backlog_buffers"] for row in rows][:-1] == [-1] * (len(rows) - 1)
    assert rows[-1]["backlog_buffers"] == fields["backlog"]
    paid = [row for row in rows if row["credit_before"] - row["credit_after"] == 1]
    assert len(paid) == (fields["data_type"] in IS_BUFFER)


@golden("compressed", "data", "event-buffer", "event-pipelined")
def test_buffers_and_events_one_by_one(release: str, vector: Vector) -> None:
    fields = vector["fields"]
    observed = Observed(LAYOUT_OF_RELEASE[release])
    observed.show([(SERVER, bytes.fromhex(vector["hex"]))])
    (row,) = observed.rows.all
    names = ("sequence_number", "backlog", "data_type", "buffer_size")
    columns = ("sequence_number", "backlog_buffers", "data_type", "payload_bytes")
    assert [row[name] for name in columns] == [fields[name] for name in names]
    if fields["is_compressed"]:
        assert (row["records"], row["reason"]) == (-1, FlushReason.NONE)
        assert observed.table.channels[0].uncounted_buffers == 1


@golden("odd", "error", "task-event-request")
def test_nothing_that_is_odd_hides_the_next_message(release: str, vector: Vector) -> None:
    direction = vector["direction"]
    follow: list[Message] = (
        [buffer(0, b"x" * 20), buffer(1, b"x" * 20), BacklogAnnouncement(3, RECEIVER)]
        if direction == SERVER
        else [AddCredit(3, RECEIVER), AddCredit(4, RECEIVER), AddCredit(5, RECEIVER)]
    )
    observed = Observed(LAYOUT_OF_RELEASE[release]).show(
        [(direction, bytes.fromhex(vector["hex"]) + stream(*follow, release=release))]
    )
    kinds = [row["kind"] for row in observed.rows.all]
    assert kinds[-2:] == [message.ID for message in follow[-2:]]


@compares_in(0.1)
@given(
    st.lists(producer_messages(), max_size=8),
    st.lists(consumer_messages(), max_size=8),
    st.sampled_from(["2.3.0", "1.20.5"]),
    st.data(),
)
def test_any_cut_gives_the_same_rows(
    from_server: list[Message], from_client: list[Message], release: str, data: st.DataObject
) -> None:
    directions = {CLIENT: stream(*from_client), SERVER: stream(*from_server, release=release)}
    whole = Observed().show(directions.items())
    pieces = Observed()
    for direction, found in directions.items():
        pieces.show((direction, piece) for piece in data.draw(chunkings(found)))
    assert pieces.rows.all == whole.rows.all
    assert pieces.observer.summary() == whole.observer.summary()
    summary = whole.observer.summary()
    sent = Counter(MessageKind(each.ID).name for each in (*from_server, *from_client))
    if compares(not summary["undecodable"] and not summary["losses"]):
        assert summary["messages"] == sent


def test_rows_are_those_that_the_producer_writes_itself() -> None:
    own = Observed().rows
    network = NetworkConfig(segment_size_bytes=100, exclusive_buffers=2, floating_buffers=4)
    pair = Pair(network, probe=own)
    observed = Observed().show([(CLIENT, sent_bytes_of_consumer(pair))])
    for number in range(60):
        pair.partition.emit(0, records_of([30, 70, 15], number))
        if number % 3 == 0:
            pair.partition.flush_all()
        if number == 40:
            pair.partition.broadcast_event(EndOfData(StopMode.DRAIN))
        while pair.send():
            observed.show([(CLIENT, bytes(pair.to_producer)), (SERVER, bytes(pair.to_consumer))])
            pair.deliver()
            pair.input.consume()
    assert sum(row["kind"] == MessageKind.ADD_CREDIT for row in observed.rows.all) > 10
    names = (
        *("point", "kind", "data_type", "sequence_number", "payload_bytes", "backlog_buffers"),
        *("credit_before", "credit_after", "value"),
    )
    assert of_producer(own.all, names) == of_producer(observed.rows.all, names)


def test_events_barriers_and_blocking() -> None:
    events = (
        (EndOfOutputChannelStateEvent(), DataType.RECOVERY_COMPLETION),
        (CheckpointBarrier(42, 0), DataType.ALIGNED_CHECKPOINT_BARRIER),
        (EndOfData(StopMode.DRAIN), DataType.END_OF_DATA),
        (EndOfPartitionEvent(), DataType.END_OF_PARTITION),
    )
    observed = Observed().show([(CLIENT, request().encode())], 1_000)
    (channel,) = observed.table.channels
    for number, (event, data_type) in enumerate(events):
        at_ns = 2_000 * (number + 1)
        frame = buffer(number, encode_pipelined(event), data_type).encode()
        observed.show([(SERVER, frame)], at_ns)
        assert channel.is_blocked == (data_type in IS_BLOCKING_UPSTREAM)
        if channel.is_blocked:
            observed.show([(CLIENT, ResumeConsumption(RECEIVER).encode())], at_ns + 500)
    assert channel.events_by_kind == {type(event).__name__: 1 for event, _ in events}
    assert channel.blocked.until(99_000) == 1_000
    assert channel.is_ended
    assert [row["value"] for row in observed.rows.all if row["sequence_number"] == 1] == [42]


def test_a_wait_behind_a_barrier_whose_end_was_missed_lasts_to_the_next_message_at_most() -> None:
    barriers = [
        buffer(number, BARRIER, DataType.ALIGNED_CHECKPOINT_BARRIER).encode()
        for number in (0, 2, 3)
    ]
    data = buffer(1, b"", backlog=1).encode()
    observed = Observed().show([(CLIENT, request().encode()), (SERVER, barriers[0])], 1_000)
    (channel,) = observed.table.channels
    observed.show([(SERVER, data)], 1_300)
    assert (channel.is_blocked, channel.blocked.until(99_000)) == (False, 300)
    observed.show([(SERVER, barriers[1])], 2_000).show([(SERVER, barriers[2])], 2_020)
    assert (channel.is_blocked, channel.blocked.until(2_025)) == (True, 325)
    observed.observer.missing_from_client(None, 5_000)
    observed.observer.close(9_000)
    assert (channel.is_blocked, channel.blocked.until(99_000)) == (False, 320)


def test_a_channel_starves_while_data_waits_without_credit() -> None:
    observed = Observed().show([(CLIENT, request(credit=1).encode())], 100)
    (channel,) = observed.table.channels
    observed.show([(SERVER, buffer(0, b"x" * 20, backlog=3).encode())], 1_000)
    assert channel.starved.since_ns >= 0
    assert channel.starved.until(1_500) == 500
    observed.show([(CLIENT, AddCredit(2, RECEIVER).encode())], 2_000)
    assert channel.starved.since_ns < 0
    observed.show([(SERVER, buffer(1, b"x" * 20, backlog=0).encode())], 2_100)
    observed.show([(SERVER, buffer(2, b"x" * 20, backlog=0).encode())], 2_200)
    assert channel.starved.until(9_000) == 1_000
    assert channel.credits_available == 0


def test_a_channel_without_credit_is_noticed_also_where_nobody_says_that_data_waits() -> None:
    observed = Observed().show([(CLIENT, request(credit=2).encode())], 100)
    (channel,) = observed.table.channels
    observed.show([(SERVER, buffer(0, b"x" * 20).encode())], 1_000)
    assert channel.exhausted.until(5_000) == 0
    observed.show([(SERVER, buffer(1, b"x" * 20).encode())], 2_000)
    assert (channel.exhausted.until(5_000), channel.starved.until(5_000)) == (3_000, 0)
    observed.show([(CLIENT, AddCredit(1, RECEIVER).encode())], 6_000)
    assert channel.exhausted.until(9_000) == 4_000


def test_data_without_credit_is_reported_and_the_credit_unknown_from_there() -> None:
    observed = Observed().show([(CLIENT, request(credit=0).encode())])
    observed.show([(SERVER, stream(buffer(0, b"x" * 20), buffer(1, b"x" * 20)))])
    assert observed.observer.summary()["unpaid_buffers"] == 1
    assert observed.table.channels[0].credits_available is None
    assert observed.rows.values("credit_before")[1:] == [(0,), (-1,)]


def test_credit_beyond_an_int_is_cut() -> None:
    observed = Observed().show([(CLIENT, request(credit=5).encode())])
    observed.show([(CLIENT, AddCredit(0x7FFF_FFFF, RECEIVER).encode() * 2)])
    assert observed.rows.all[-1]["credit_after"] == 0x7FFF_FFFF


def test_a_gap_in_sequence_numbers_is_reported() -> None:
    observed = Observed().show([(CLIENT, request().encode())])
    observed.show([(SERVER, stream(buffer(0, b"x" * 20), buffer(2, b"x" * 20)))])
    summary = observed.observer.summary()
    assert summary["sequence_gaps"] == 1
    assert "sequence number 2 where 1 was to come" in summary["notes"]


def test_a_receiver_that_asks_again_is_the_same_channel_until_data_has_come() -> None:
    observed = Observed().show(
        [(CLIENT, request(credit=2).encode()), (CLIENT, request(credit=3).encode())]
    )
    assert len(observed.table) == 1
    observed.show([(SERVER, buffer(0, b"x" * 20).encode()), (CLIENT, request(credit=4).encode())])
    assert [each.initial_credit for each in observed.table.channels] == [3, 4]
    assert observed.table.channels[0].is_ended


RECORD, TWO = elements([60]), elements([50, 50])
CLEAR = DataType.DATA_BUFFER_WITH_CLEAR_END
UNALIGNED = CheckpointBarrier(1, 0, alignment=AlignmentType.UNALIGNED)


def event(number: int, event: Event, data_type: DataType = DataType.EVENT_BUFFER) -> BufferResponse:
    return buffer(number, encode_pipelined(event), data_type)


@pytest.mark.parametrize(
    ("messages", "records"),
    [
        pytest.param(
            [
                *(buffer(0, TWO[:70]), buffer(1, RECORD[:30], subpartition=1)),
                *(buffer(2, TWO[70:]), buffer(3, RECORD[30:], subpartition=1)),
            ],
            [1, 0, 1, 1],
            id="each subpartition has records of its own",
        ),
        pytest.param(
            [
                *(event(0, SubtaskConnectionDescriptor(0, 0)), buffer(1, RECORD[:20])),
                *(event(2, SubtaskConnectionDescriptor(1, 0)), buffer(3, RECORD[:33])),
                *(event(4, SubtaskConnectionDescriptor(0, 0)), buffer(5, RECORD[20:])),
                *(event(6, SubtaskConnectionDescriptor(1, 0)), buffer(7, RECORD[33:])),
                event(8, EndOfOutputChannelStateEvent(), DataType.RECOVERY_COMPLETION),
                buffer(9, elements([10])),
            ],
            [0, 0, 1, 1, 1],
            id="recovered data of each pair",
        ),
        pytest.param(
            [
                *(event(0, SubtaskConnectionDescriptor(0, 0)), buffer(1, RECORD[:20])),
                *(event(2, CancelCheckpointMarker(3)), buffer(3, RECORD[20:])),
            ],
            [0, 1],
            id="another event among recovered data",
        ),
        pytest.param(
            [
                *(buffer(0, RECORD[:20]), buffer(2, RECORD[20:])),
                event(1, UNALIGNED, DataType.PRIORITIZED_EVENT_BUFFER),
            ],
            [0, 1],
            id="a priority event within a record",
        ),
    ],
)
def test_records_are_followed_over_buffers_and_events(
    messages: list[BufferResponse], records: list[int]
) -> None:
    messages.sort(key=lambda each: each.sequence_number)
    observed = Observed().show([(CLIENT, request(last=1).encode())])
    observed.show([(SERVER, stream(*messages))])
    rows = observed.rows.all[1:]
    assert [row["records"] for row in rows if row["data_type"] in IS_BUFFER] == records


def test_behind_a_buffer_with_a_clear_end_records_are_certain_again() -> None:
    messages = [buffer(0, b"?" * 20), buffer(1, b"?" * 20, CLEAR), buffer(2, elements([9, 9]))]
    observed = Observed(is_from_start=False).show([(SERVER, stream(*messages, messages[-1]))])
    assert [row["records"] for row in observed.rows.all][:3] == [-1, -1, 2]


def test_a_channel_of_two_subpartitions_ends_with_the_second() -> None:
    observed = Observed().show([(CLIENT, request(last=1).encode())])
    end = encode_pipelined(EndOfPartitionEvent())
    for number in range(2):
        assert not observed.table.channels[0].is_ended
        frame = buffer(number, end, DataType.END_OF_PARTITION, subpartition=number)
        observed.show([(SERVER, frame.encode())])
    assert observed.table.channels[0].is_ended


def test_a_late_start_is_certain_of_all_but_credit_and_of_records_after_the_next_event() -> None:
    payloads = [elements([40] * 3)[:100], elements([40] * 3)[100:] + elements([40] * 2)]
    messages = [
        buffer(0, payloads[0]),
        buffer(1, payloads[1], backlog=5),
        buffer(2, BARRIER, DataType.ALIGNED_CHECKPOINT_BARRIER),
        buffer(3, elements([40, 40])),
        buffer(4, BARRIER, DataType.ALIGNED_CHECKPOINT_BARRIER),
    ]
    whole = stream(*messages)
    first = len(messages[0].encode())
    for offset in (1, 20, first - 1):
        observed = Observed(is_from_start=False).show([(SERVER, whole[offset:])], 500)
        rows = [row for row in observed.rows.all if row["kind"] == MessageKind.BUFFER_RESPONSE]
        assert [row["sequence_number"] for row in rows] == [1, 2, 3, 4]
        assert [row["records"] for row in rows] == [-1, 0, 2, 0]
        assert {row["credit_before"] for row in rows} == {-1}
        summary = observed.observer.summary()
        assert (summary["skipped_bytes"], summary["sequence_gaps"]) == (first - offset, 0)
        assert summary["credit_unknown_channels"] == 1
        assert observed.table.channels[0].backlog_buffers == 0
    observed.show([(CLIENT, AddCredit(2, RECEIVER).encode() * 2 + request(credit=3).encode() * 2)])
    assert observed.table.channels[-1].credits_available == 3
    assert observed.observer.summary()["certain_from_ns"] is not None


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
@pytest.mark.parametrize(
    "junk",
    [
        b"\x00" * 300,
        bytes(range(256)) * 3,
        b"\x00\x00\x00\x1d\xba\xdc\x0f\xfe",  # a magic number and nothing behind it
        b"\x7f\xff\xff\xff\xba\xdc\x0f\xfe\x00" + b"\x00" * 40,  # 2 GiB
        b"\xff\xff\xff\xff\xba\xdc\x0f\xfe\x09" + b"\x00" * 40,  # a negative length
        b"\x00\x00\x00\x33\xba\xdc\x0f\xfe\x00" + b"\x11" * 20,
    ],
)
def test_garbage_is_skipped_and_reported(junk: bytes, size: int) -> None:
    observed = Observed().show([(CLIENT, request().encode())])
    good = stream(*(buffer(number, elements([40])) for number in range(4)))
    observed.show(cut([(SERVER, good + junk + good + good)], size))
    numbers = [row["sequence_number"] for row in observed.rows.all[1:]]
    assert numbers[:4] == [0, 1, 2, 3]
    assert numbers[-6:] == [2, 3, 0, 1, 2, 3]
    summary = observed.observer.summary()
    assert summary["losses"] + summary["undecodable"] >= 1
    assert summary["notes"]
    assert observed.table.channels[0].credits_available is None or not summary["losses"]


def test_a_frame_that_nothing_follows_is_not_believed() -> None:
    lone = AddCredit(9, RECEIVER).encode()
    observed = Observed(is_from_start=False).show([(CLIENT, b"junk" + lone + b"junk" * 20)])
    assert not observed.rows.all
    observed.show([(CLIENT, request(credit=1).encode() + AddCredit(2, RECEIVER).encode())])
    assert [row["value"] for row in observed.rows.all] == [1, 2]


def test_partial_buffers_that_do_not_add_up_are_passed_over() -> None:
    observed = Observed().show([(CLIENT, request().encode())])
    wrong = bytearray(buffer(0, elements([40]), sizes=(20, 24)).encode())
    wrong[50] += 1
    observed.show([(SERVER, bytes(wrong) + buffer(2, elements([40])).encode())])
    assert [row["sequence_number"] for row in observed.rows.all[1:]] == [2]
    assert observed.observer.summary()["undecodable"] == 1


def test_a_claimed_length_is_never_allocated() -> None:
    huge = b"\x7f\xff\xff\xff\xba\xdc\x0f\xfe"
    claims = [
        huge + b"\x01" + bytes(30),
        huge + b"\x02" + bytes(100),
        huge + b"\x00" + RECEIVER + bytes(12) + b"\x00\x00\x00\x00\x01\x00\x7f\xff\xff\xd0",
        huge + b"\x00" + RECEIVER + bytes(4) + b"\x0f\xff\xff\xff" + bytes(8)
        + b"\x01\x00" + bytes(4),
        b"\x03\xff\xff\xff\xba\xdc\x0f\xfe\x01" + bytes(30),
        b"\x00\x00\x00\x2f\xba\xdc\x0f\xfe\x00" + RECEIVER + bytes(4) + b"\x00\xff\xff\xff"
        + bytes(8) + b"\x01\x00\x03\xff\xff\xff",
    ]  # fmt: skip
    tracemalloc.start()
    for claim in claims:
        for direction in (SERVER, CLIENT):
            observed = Observed().show([(direction, claim)])
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            for _ in range(100):
                observed.show([(direction, bytes(1 << 16))])
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before < 2 << 20, claim
    tracemalloc.stop()


def test_memory_is_bounded_whatever_comes() -> None:
    observed = Observed(is_from_start=False)
    header = b"\x03\xff\xff\xff\xba\xdc\x0f\xfe\x01"
    tracemalloc.start()
    for _ in range(200):
        observed.show([(SERVER, header + bytes(1 << 15)), (CLIENT, header + bytes(1 << 15))])
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2 << 20


def test_receivers_beyond_the_limit_are_not_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flinknet.capture.channels.CHANNELS_MAX", 2)
    observed = Observed()
    for index in range(5):
        receiver = bytes([index]) * 16
        observed.show([(CLIENT, request(receiver).encode())])
        observed.show([(SERVER, buffer(0, b"x" * 20, receiver=receiver).encode())])
        observed.show([(CLIENT, AddCredit(1, receiver).encode())])
    assert len(observed.table) == 2
    assert observed.table.refused_channels == 9
    assert [row for (row,) in observed.rows.values("channel")][-3:] == [-1, -1, -1]


def test_bytes_missing_from_a_payload_cost_its_records_only() -> None:
    observed = Observed().show([(CLIENT, request(credit=9).encode())])
    frames = [buffer(number, elements([40] * 4)).encode() for number in range(2)]
    observed.show([(SERVER, frames[0][:100])])
    observed.observer.missing_from_server(len(frames[0]) - 110, 8)
    observed.show([(SERVER, frames[0][-10:] + frames[1])])
    rows = observed.rows.all[1:]
    assert [row["sequence_number"] for row in rows] == [0, 1]
    assert [row["records"] for row in rows] == [-1, -1]
    assert [row["credit_after"] for row in rows] == [8, 7]
    assert observed.observer.summary()["losses"] == 0


@pytest.mark.parametrize("lost_bytes", [1, 40, 48, 211, 300, 600])
@pytest.mark.parametrize("is_from_start", [True, False])
def test_only_buffers_whose_headers_are_missing_are_lost_and_they_are_counted(
    lost_bytes: int, is_from_start: bool
) -> None:
    frames = [buffer(number, elements([40] * 4)).encode() for number in range(9)]
    whole, size = b"".join(frames), len(frames[0])
    for start in range(size, 3 * size, 7):
        observed = Observed(is_from_start=is_from_start).show([(SERVER, whole[:start])])
        observed.observer.missing_from_server(lost_bytes, 8)
        observed.show([(SERVER, whole[start + lost_bytes :])])
        lost = {
            number
            for number in range(9)
            if number * size < start + lost_bytes and start < number * size + 47
        }
        if not is_from_start and start < size + 47:
            lost.add(0)  # nothing that follows confirms it
        seen = [row["sequence_number"] for row in observed.rows.all]
        assert seen == [number for number in range(9) if number not in lost], start
        summary = observed.observer.summary()
        assert summary["missed_buffers"] == len(lost - set(range(seen[0])))
        assert (summary["sequence_gaps"], summary["unpaid_buffers"]) == (0, 0)


@pytest.mark.parametrize("kept_bytes", [60, 128])
def test_frames_cut_by_a_snap_length_are_found_in_the_middle_of_a_connection(
    kept_bytes: int,
) -> None:
    observed = Observed(is_from_start=False)
    for number in range(5):
        frame = buffer(number, elements([40] * 4), backlog=number).encode()
        observed.show([(SERVER, frame[:kept_bytes])])
        observed.observer.missing_from_server(len(frame) - kept_bytes, 8)
    observed.show([(SERVER, buffer(5, elements([40])).encode())])
    assert observed.rows.values("sequence_number") == [(number,) for number in range(6)]
    assert observed.observer.summary()["missed_buffers"] == 0


def test_waits_with_a_backlog_show_the_credit_of_a_channel_that_was_open_before() -> None:
    observed = Observed(is_from_start=False)
    numbers = iter(range(100))

    def send(at_ns: int, *, backlog: int) -> None:
        frame = buffer(next(numbers), elements([40]), backlog=backlog).encode()
        observed.show([(SERVER, frame)], at_ns)

    def grant(at_ns: int) -> None:
        observed.show([(CLIENT, AddCredit(2, RECEIVER).encode())], at_ns)

    for turn in range(5):
        for each in range(2):
            send(turn * 50 * MS + each, backlog=3)
        grant(turn * 50 * MS + 20 * MS)
    (channel,) = observed.table.channels
    assert channel.credits_available == 2
    known = [row["credit_after"] for row in observed.rows.all if row["credit_after"] >= 0]
    assert known == [1, 0, 2]
    assert channel.starved.ns == 20 * MS - 1
    for _ in range(3):  # more than there can be: it was not 0
        send(300 * MS, backlog=0)
    assert channel.credits_available is None
    assert observed.observer.summary()["unpaid_buffers"] == 0


def test_the_manifest_names_who_sends_what() -> None:
    other = request(OTHER_RECEIVER)
    observed = Observed().show([(CLIENT, request().encode()), (CLIENT, other.encode())])
    observed.show([(SERVER, buffer(0, b"x" * 20, receiver=b"?" * 16).encode())])
    first, _, unknown = observed.table.infos()
    assert first.partition == request().partition_id.encode().hex()
    assert (first.producer, first.consumer, first.connection) == (0, 0, "producer->consumer")
    assert (unknown.producer, unknown.partition) == (-1, "")
    assert observed.table.fan_out() == {str(request().partition_id): 2}


def test_a_buffer_that_ends_inside_a_record_was_full() -> None:
    observed = Observed().show([(CLIENT, request().encode())])
    record = elements([60])
    observed.show([(SERVER, stream(buffer(0, record[:50]), buffer(1, record[50:])))])
    assert observed.rows.values("reason")[1:] == [(FlushReason.FULL,), (FlushReason.FLUSH,)]


def test_a_cancelled_channel_may_still_get_what_is_on_its_way() -> None:
    observed = Observed().show([(CLIENT, stream(request(), CancelPartitionRequest(RECEIVER)))])
    observed.show([(SERVER, buffer(0, elements([30])).encode())])
    assert observed.rows.values("channel")[-1] == (0,)
    assert observed.table.channels[0].is_ended


def sent_bytes_of_consumer(pair: Pair) -> bytes:
    """The consumer's request, on its way."""
    pair.send()
    data = bytes(pair.to_producer)
    pair.deliver()
    return data


def of_producer(rows: list[dict[str, int]], names: tuple[str, ...]) -> list[tuple[int, ...]]:
    """Rows of the producer's side."""
    own = {
        (TracePoint.SENT, MessageKind.BUFFER_RESPONSE),
        (TracePoint.RECEIVED, MessageKind.ADD_CREDIT),
        (TracePoint.RECEIVED, MessageKind.PARTITION_REQUEST),
    }
    return [
        tuple(row[name] for name in names) for row in rows if (row["point"], row["kind"]) in own
    ]


def test_each_execution_of_a_job_has_edges_of_its_own() -> None:
    """Submitted again, the same program has the same data sets in another execution graph."""
    table = ChannelTable()
    first = partition_id()
    other = ExecutionGraphID(b"another graph 16")
    again = replace(first, producer_id=replace(first.producer_id, execution_graph_id=other))
    restarted = replace(first, producer_id=replace(first.producer_id, attempt_number=7))
    for number, each in enumerate((first, again, restarted)):
        channel = table.add(bytes([number] * 16), Ends("a", "b"))
        assert channel is not None
        channel.open(replace(request(), partition_id=each))
    assert [each.edge for each in table.infos()] == [0, 1, 0]


def test_behind_a_gap_records_count_again_and_at_once_where_no_buffer_is_missing() -> None:
    observed = Observed().show([(CLIENT, request().encode() + request(OTHER_RECEIVER).encode())])
    records = [elements([50, 60])] * 12
    frames = [
        buffer(number, payload, receiver=receiver).encode()
        for number, payload in enumerate(records)
        for receiver in (RECEIVER, OTHER_RECEIVER)
    ]
    lost = 6  # the fourth buffer of the first receiver, and with it what the next frame is
    observed.show([(SERVER, each) for each in frames[:lost]])
    observed.observer.missing_from_server(len(frames[lost]), 8)
    observed.show([(SERVER, each) for each in frames[lost + 1 :]])
    rows = observed.rows.values("channel", "sequence_number", "records")[2:]
    counted = {number: found for channel, number, found in rows if channel == 0}
    assert [counted.get(number) for number in range(12)] == [2, 2, 2, None, -1, -1, *[2] * 6]
    assert [found for channel, _, found in rows if channel == 1] == [2] * 12
    assert observed.observer.summary()["sequence_gaps"] == 0


def test_bytes_that_are_missing_within_a_record_cost_no_count() -> None:
    observed = Observed().show([(CLIENT, request().encode())])
    frame = buffer(0, elements([50, 500, 60])).encode()
    observed.show([(SERVER, frame[:200])])
    observed.observer.missing_from_server(100, 8)
    observed.show([(SERVER, frame[300:] + buffer(1, elements([70])).encode())])
    assert observed.rows.values("records")[1:] == [(3,), (1,)]


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_compressed_buffer_is_unknown_and_so_is_where_records_go_on(is_compressed: bool) -> None:
    observed = Observed().show([(CLIENT, request().encode())])
    payloads = [elements([50])[:30], elements([50])[30:] + elements([60])[:10], elements([60])[10:]]
    for number, payload in enumerate(payloads):
        is_one = is_compressed and number == 1
        observed.show([(SERVER, buffer(number, payload, is_compressed=is_one).encode())])
    assert observed.rows.values("records")[1:] == (
        [(0,), (-1,), (-1,)] if is_compressed else [(0,), (1,), (1,)]
    )
