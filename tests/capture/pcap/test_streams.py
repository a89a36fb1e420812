"""Reassembly of TCP streams: whatever order segments come in, the bytes come out once, in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flinknet.capture.pcap.segments import Endpoint, TcpSegment
from flinknet.capture.pcap.streams import PATIENCE_SEGMENTS, StreamData, StreamGap, TcpStream

HERE, THERE = Endpoint("10.0.0.1", 4000), Endpoint("10.0.0.2", 5000)


def segment(
    sequence_number: int,
    data: bytes = b"",
    *,
    at_ns: int = 0,
    syn: bool = False,
    cut_bytes: int = 0,
) -> TcpSegment:
    return TcpSegment(
        at_ns,
        HERE,
        THERE,
        sequence_number % 2**32,
        0,
        1000,
        syn,
        False,
        False,
        data,
        cut_bytes,
    )


def read(stream: TcpStream, *segments: TcpSegment) -> list[StreamData | StreamGap]:
    return [item for each in segments for item in stream.add(each)]


def joined(items: list[StreamData | StreamGap]) -> bytes:
    assert all(isinstance(item, StreamData) for item in items)
    return b"".join(item.data for item in items if isinstance(item, StreamData))


def test_segments_in_order() -> None:
    stream = TcpStream()
    items = read(stream, segment(99, syn=True), segment(100, b"ab"), segment(102, b"cd", at_ns=5))
    assert items == [StreamData(0, b"ab"), StreamData(5, b"cd")]
    assert stream.is_from_start
    assert (stream.bytes, stream.gaps, stream.retransmitted_bytes) == (4, 0, 0)


def test_a_late_segment_lets_those_behind_it_be_read_at_its_instant() -> None:
    stream = TcpStream()
    items = read(
        stream, segment(0, b"a", at_ns=1), segment(2, b"c", at_ns=2), segment(1, b"b", at_ns=3)
    )
    assert items == [StreamData(1, b"a"), StreamData(3, b"b"), StreamData(3, b"c")]
    assert stream.out_of_order_segments == 1


def test_retransmitted_bytes_are_read_once_and_counted() -> None:
    stream = TcpStream()
    items = read(stream, segment(0, b"abc"), segment(0, b"abc"), segment(2, b"cdef"))
    assert joined(items) == b"abcdef"
    assert (stream.retransmitted_segments, stream.retransmitted_bytes) == (2, 4)


def test_a_keep_alive_probe_is_no_retransmit() -> None:
    stream = TcpStream()
    read(stream, segment(0, b"abc"), segment(2, b"c"))
    assert stream.retransmitted_segments == 0


def test_a_stream_without_its_beginning_starts_with_its_first_segment() -> None:
    stream = TcpStream()
    assert joined(read(stream, segment(7_000, b"xy"), segment(7_002, b"z"))) == b"xyz"
    assert not stream.is_from_start


def test_sequence_numbers_wrap() -> None:
    stream = TcpStream()
    first = 2**32 - 3
    items = read(stream, segment(first, b"abcd"), segment(first + 6, b"gh"), segment(1, b"ef"))
    assert joined(items) == b"abcdefgh"


def test_bytes_that_were_acknowledged_and_do_not_come_are_a_gap() -> None:
    stream = TcpStream()
    read(stream, segment(0, b"a"), segment(5, b"f", at_ns=50))
    stream.acknowledge(6)
    items = read(stream, *(segment(6 + i, b"x", at_ns=60) for i in range(PATIENCE_SEGMENTS - 1)))
    assert items == []  # it may still come
    items = read(stream, *(segment(37 + i, b"x", at_ns=60) for i in range(2)))
    assert items[:2] == [StreamGap(50, 4), StreamData(50, b"f")]
    assert (stream.gaps, stream.missing_bytes) == (1, 4)


def test_without_acknowledgement_it_waits_to_the_end() -> None:
    stream = TcpStream()
    assert read(stream, segment(0, b"a"), *(segment(5 + i, b"x") for i in range(100)))[1:] == []
    items = stream.finish()
    assert items[0] == StreamGap(0, 4)
    assert joined(items[1:]) == b"x" * 100


def test_what_the_snap_length_cut_off_is_a_gap() -> None:
    stream = TcpStream()
    items = read(stream, segment(0, b"ab", at_ns=1, cut_bytes=3), segment(5, b"f", at_ns=2))
    assert items == [StreamData(1, b"ab"), StreamGap(1, 3), StreamData(2, b"f")]


def test_held_bytes_are_bounded() -> None:
    stream = TcpStream()
    read(stream, segment(0, b"a"))
    items: list[StreamData | StreamGap] = []
    for i in range(300):
        items += stream.add(segment(10 + i * 65_536, bytes(65_536)))
    assert items[0] == StreamGap(0, 9)
    assert stream.gaps == 1


@given(
    data=st.binary(min_size=1, max_size=200),
    start=st.integers(0, 2**32 - 1),
    choices=st.lists(st.tuples(st.integers(0, 199), st.integers(1, 60)), max_size=40),
    order=st.randoms(use_true_random=False),
)
def test_any_order_any_cut_any_repetition(
    data: bytes, start: int, choices: list[tuple[int, int]], order: object
) -> None:
    pieces = [(at % len(data), length) for at, length in choices]
    pieces += [(at, 30) for at in range(0, len(data), 30)]  # every byte at least once
    order.shuffle(pieces)  # type: ignore[attr-defined]
    stream = TcpStream()
    items = stream.add(segment(start - 1, syn=True))
    for at, length in pieces:
        items += stream.add(segment(start + at, data[at : at + length]))
    assert joined(items) == data
    assert stream.finish() == []


def test_what_was_acknowledged_and_never_came_is_a_gap_at_the_end() -> None:
    stream = TcpStream()
    read(stream, segment(0, b"abc", at_ns=4))
    stream.acknowledge(4)  # 4 would be the end of the stream itself
    assert stream.finish() == []
    stream.acknowledge(9)
    assert stream.finish() == [StreamGap(4, 6)]
