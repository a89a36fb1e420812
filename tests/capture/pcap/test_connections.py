"""Connections of a capture: which are Flink's, who is who, and what TCP itself did."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from flinknet.capture.channels import ChannelTable, Ends
from flinknet.capture.observer import ConnectionObserver
from flinknet.capture.pcap import connections
from flinknet.capture.pcap.connections import (
    REPLACED_NS,
    SILENT_NS,
    UNDECIDED_BYTES_MAX,
    CapturedConnection,
    CapturedConnections,
)
from flinknet.capture.pcap.segments import Endpoint, TcpSegment
from tests.golden_vectors import Vector, golden, vectors
from tests.probes import ListProbe

SERVER, CLIENT = Endpoint("10.0.0.1", 6121), Endpoint("10.0.0.2", 50_000)


@dataclass
class Capture:
    """Connections under test, with the packets of one Flink connection to feed them."""

    probe: ListProbe = field(default_factory=ListProbe)
    begun: list[tuple[Endpoint, Endpoint, bool]] = field(default_factory=list)
    at_ns: int = 0
    next_number: dict[Endpoint, int] = field(
        default_factory=lambda: {SERVER: 2**32 - 40, CLIENT: 77}
    )

    def __post_init__(self) -> None:
        self.table = ChannelTable()
        self.connections = CapturedConnections(self.create)

    def create(
        self, producer: Endpoint, consumer: Endpoint, is_from_start: bool
    ) -> ConnectionObserver:
        self.begun.append((producer, consumer, is_from_start))
        ends = Ends(str(producer), str(consumer))
        return ConnectionObserver(self.probe, self.table, ends=ends, is_from_start=is_from_start)

    def segment(
        self, source: Endpoint, data: bytes = b"", *, syn: bool = False, window: int = 500
    ) -> TcpSegment:
        """The next segment of an end; acknowledges all that the other has sent."""
        self.at_ns += 1000
        target = CLIENT if source == SERVER else SERVER
        number = self.next_number[source]
        self.next_number[source] += len(data) + syn
        return TcpSegment(
            self.at_ns,
            source,
            target,
            number % 2**32,
            None if syn and source == CLIENT else self.next_number[target] % 2**32,
            window,
            syn,
            False,
            False,
            data,
        )

    def open(self) -> None:
        self.connections.add(self.segment(CLIENT, syn=True))
        self.connections.add(self.segment(SERVER, syn=True))


def steps_of(vector: Vector) -> list[tuple[Endpoint, bytes]]:
    return [
        (
            SERVER if step["direction"] == "producer->consumer" else CLIENT,
            bytes.fromhex(step["hex"]),
        )
        for step in vector["fields"]["steps"]
        if step.get("hex") and "direction" in step
    ]


def without_instants(probe: ListProbe) -> list[tuple[int, ...]]:
    return [event[1:] for event in probe.events]


def direct_rows(steps: list[tuple[Endpoint, bytes]]) -> list[tuple[int, ...]]:
    """What an observer makes of the bytes themselves."""
    probe = ListProbe()
    observer = ConnectionObserver(probe, ChannelTable())
    for source, data in steps:
        (observer.from_server if source == SERVER else observer.from_client)(data, 0)
    return without_instants(probe)


@golden("conversation")
def test_a_conversation_is_read_as_from_its_bytes(release: str, vector: Vector) -> None:
    steps = steps_of(vector)
    capture = Capture()
    capture.open()
    choose = random.Random(release + vector["name"])
    for source, data in steps:
        while data:
            length = choose.randrange(1, 400)
            capture.connections.add(capture.segment(source, data[:length]))
            data = data[length:]
    capture.connections.finish()
    assert capture.begun == [(SERVER, CLIENT, True)]
    assert without_instants(capture.probe) == direct_rows(steps)
    (connection,) = capture.connections.of_flink
    assert (connection.producer, connection.consumer) == (SERVER, CLIENT)
    assert [each.gaps for each in connection.streams] == [0, 0]


@golden("conversation", layout="2.x")
def test_shuffled_and_repeated_segments_make_no_difference(release: str, vector: Vector) -> None:
    steps = steps_of(vector)
    capture = Capture()
    capture.open()
    choose = random.Random(release + vector["name"])
    for source, data in steps:
        pieces = []
        while data:
            length = choose.randrange(1, 90)
            pieces.append(capture.segment(source, data[:length]))
            data = data[length:]
        pieces += choose.choices(pieces, k=3)
        choose.shuffle(pieces)
        for piece in pieces:
            capture.connections.add(piece._replace(acknowledged=None))
    capture.connections.finish()
    assert without_instants(capture.probe) == direct_rows(steps)
    (connection,) = capture.connections.of_flink
    assert sum(stream.retransmitted_segments for stream in connection.streams) > 0


def first_conversation() -> list[tuple[Endpoint, bytes]]:
    return next(steps_of(each) for each in vectors("2.3.0") if each["kind"] == "conversation")


def test_a_capture_that_begins_in_the_middle_says_so() -> None:
    capture = Capture()
    for source, data in first_conversation()[1:]:
        capture.connections.add(capture.segment(source, data))
    assert [each[2] for each in capture.begun] == [False]
    assert capture.begun[0][0] == SERVER


def test_other_protocols_are_left_alone() -> None:
    capture = Capture()
    capture.open()
    for _ in range(2 * UNDECIDED_BYTES_MAX // 65_000):
        capture.connections.add(capture.segment(SERVER, bytes(65_000)))
    assert capture.begun == []
    assert capture.connections.of_flink == []


def test_a_connection_without_any_captured_payload_is_soon_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "UNDECIDED_ITEMS_MAX", 3)
    capture = Capture()
    connection = CapturedConnection(capture.segment(SERVER, syn=True), print)  # type: ignore[arg-type]
    for _ in range(4):
        assert not connection.is_foreign
        connection.add(capture.segment(SERVER, bytes(9))._replace(data=b"", cut_bytes=9))
    assert connection.is_foreign


def test_bytes_that_look_like_the_magic_number_are_no_frame() -> None:
    capture = Capture()
    capture.open()
    noise = b"GET /\xba\xdc\x0f\xfe\x00 HTTP/1.1\r\n"
    capture.connections.add(capture.segment(SERVER, noise))
    assert capture.begun == []


def test_a_frame_header_cut_in_two_is_found() -> None:
    capture = Capture()
    capture.open()
    (_, request) = first_conversation()[0]
    for at in range(len(request)):
        capture.connections.add(capture.segment(CLIENT, request[at : at + 1]))
    assert capture.begun == [(SERVER, CLIENT, True)]
    assert len(capture.probe.events) == 1


def test_bytes_that_the_capture_lacks_cost_what_they_carried_and_no_more() -> None:
    steps = first_conversation()
    capture = Capture()
    capture.open()
    for source, data in steps:
        segment = capture.segment(source, data)
        if source == SERVER and len(data) > 80:
            segment = segment._replace(data=data[:60], cut_bytes=len(data) - 60)
        capture.connections.add(segment)
    capture.connections.finish()
    (connection,) = capture.connections.of_flink
    assert connection.streams[connection.server].missing_bytes > 0
    rows = [(row[0], row[1], row[2], row[5]) for row in without_instants(capture.probe)]
    expected = [(row[0], row[1], row[2], row[5]) for row in direct_rows(steps)]
    assert set(rows) <= set(expected)


def test_zero_windows_are_kept_by_whose_they_are() -> None:
    capture = Capture()
    capture.open()
    for source, data in first_conversation():
        capture.connections.add(capture.segment(source, data))
    start_ns = capture.at_ns
    capture.connections.add(capture.segment(CLIENT, window=0))
    capture.connections.add(capture.segment(CLIENT, window=0))
    capture.connections.add(capture.segment(CLIENT, window=9))
    capture.connections.add(capture.segment(SERVER, window=0))
    capture.connections.add(capture.segment(CLIENT, window=9))
    capture.connections.finish()
    (connection,) = capture.connections.of_flink
    producer, consumer = connection.server, 1 - connection.server
    assert connection.zero_windows[consumer] == [(start_ns + 1000, start_ns + 3000)]
    assert connection.zero_windows[producer] == [(start_ns + 4000, None)]
    assert connection.zero_window_ns[consumer] == 2000
    assert connection.zero_window_ns[producer] == 1000


@pytest.mark.parametrize("is_reset", [True, False])
def test_ports_that_are_used_again_are_another_connection(is_reset: bool) -> None:
    capture = Capture()
    steps = first_conversation()
    for _ in range(2):
        capture.open()
        for source, data in steps:
            capture.connections.add(capture.segment(source, data))
        if is_reset:
            capture.connections.add(capture.segment(SERVER)._replace(is_reset=True))
        capture.next_number = {SERVER: 5_000, CLIENT: 9_000_000}
    capture.connections.finish()
    assert len(capture.begun) == 2
    assert capture.connections.count == 2


@pytest.mark.parametrize("captured", [(SERVER, CLIENT), (CLIENT,)])
def test_a_connection_has_ended_after_a_fin_of_each_captured_end(
    captured: tuple[Endpoint, ...],
) -> None:
    capture = Capture()
    (_, request) = first_conversation()[0]
    ended = []
    for segment in (
        capture.segment(CLIENT, syn=True),
        capture.segment(SERVER, syn=True),
        request_segment := capture.segment(CLIENT, request),
        capture.segment(CLIENT)._replace(is_fin=True),
        capture.segment(SERVER)._replace(is_fin=True),
        request_segment,
    ):
        if segment.source in captured:
            capture.connections.add(segment)
            of_flink = capture.connections.of_flink
            ended.append([each.is_ended for each in of_flink] == [True])
            assert all(each.is_ended == ended[-1] for each in capture.table.channels)
    assert ended == [False] * (len(ended) - 2) + [True] * 2
    assert capture.connections.count == 1


def test_a_repeated_syn_is_no_new_connection() -> None:
    capture = Capture()
    syn = capture.segment(CLIENT, syn=True)
    capture.connections.add(syn)
    capture.connections.add(syn)
    capture.connections.add(capture.segment(SERVER, syn=True))
    for source, data in first_conversation():
        capture.connections.add(capture.segment(source, data))
    assert capture.connections.count == 1
    assert capture.begun == [(SERVER, CLIENT, True)]


@pytest.mark.parametrize(
    ("host", "has_fin", "quiet_ns", "is_finished"),
    [
        (CLIENT.host, False, REPLACED_NS // 2, False),
        (CLIENT.host, False, 2 * REPLACED_NS, True),
        ("10.0.0.3", False, 2 * REPLACED_NS, False),
        ("10.0.0.3", True, 2 * REPLACED_NS, True),
        ("10.0.0.3", False, 2 * SILENT_NS, True),
    ],
)
def test_a_connection_without_a_captured_end_is_finished_once_it_is_long_silent(
    host: str, has_fin: bool, quiet_ns: int, is_finished: bool
) -> None:
    capture, another = Capture(), Endpoint(host, 50_001)
    for source, data in first_conversation():
        capture.connections.add(capture.segment(source, data))
    capture.connections.add(capture.segment(SERVER)._replace(is_fin=has_fin))
    capture.at_ns += 1_000_000
    for wait_ns in (0, quiet_ns):
        capture.at_ns += wait_ns
        for source, data in first_conversation():
            segment = capture.segment(source, data)
            ends = {"source": another} if source == CLIENT else {"target": another}
            capture.connections.add(segment._replace(**ends))
    assert capture.connections.flink_count == 2
    assert capture.connections.silent == is_finished
    assert len(capture.connections.take_finished()) == is_finished
    assert len(capture.connections.of_flink) == 2 - is_finished
