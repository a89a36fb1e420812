"""From frames of every link layer to TCP segments, and from these to the bytes, once, in order."""

from __future__ import annotations

import pytest
from dpkt import ip, ip6, tcp
from hypothesis import given
from hypothesis import strategies as st

from flinknet.capture.pcap.files import CapturedPacket
from flinknet.capture.pcap.segments import Endpoint, PacketCounts, TcpSegment, tcp_segments
from flinknet.capture.pcap.streams import PATIENCE_SEGMENTS, StreamData, StreamGap, TcpStream
from tests.capture.pcap.packets import LINKS, TUNNELS, framed, tcp_packet, tunnelled


def read(
    frame: bytes, link: str = "ethernet", *, cut_bytes: int = 0
) -> tuple[list[TcpSegment], PacketCounts]:
    counts = PacketCounts()
    packet = CapturedPacket(7, LINKS[link], frame, cut_bytes)
    return list(tcp_segments([packet], counts)), counts


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("version", [4, 6])
def test_link_layers_and_both_versions_of_ip(link: str, version: int) -> None:
    frame = tcp_packet(
        b"data", link=link, version=version, sequence_number=2**32 - 1, acknowledged=9, window=0
    )
    (segment,), counts = read(frame, link)
    host = "10.0.0.1" if version == 4 else "2001:db8::1"
    assert segment.source == Endpoint(host, 4000)
    assert (segment.at_ns, segment.sequence_number, segment.acknowledged) == (7, 2**32 - 1, 9)
    assert (segment.window, segment.data, segment.cut_bytes) == (0, b"data", 0)
    assert counts == PacketCounts(tcp_segments=1)


@pytest.mark.parametrize("outer", [4, 6])
@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("tunnel", TUNNELS)
def test_segments_are_found_in_tunnels(tunnel: str, version: int, outer: int) -> None:
    bare = tcp_packet(b"data", version=version)
    expected = read(bare)
    assert read(tunnelled(bare, tunnel, version=outer)) == expected
    twice = tunnelled(tunnelled(bare, tunnel), "Geneve", version=outer)
    (segment,), _ = read(twice)
    assert segment.data == b"data"
    (segment,), _ = read(tunnelled(tcp_packet(bytes(50), version=version), tunnel)[:-20])
    assert (len(segment.data), segment.cut_bytes) == (30, 20)


@pytest.mark.parametrize(
    ("protocol", "payload", "kind"),
    [
        (50, bytes(60), "IPsec"),
        (17, bytes.fromhex("1194119400480000") + b"\x12\x34\x56\x78" + bytes(60), "IPsec"),
        (17, bytes.fromhex("ca6cca6c00480000") + b"\4\0\0\0" + bytes(60), "WireGuard"),
        (17, bytes.fromhex("ffff003500480000") + bytes(64), "UDP port 53"),
        (6, bytes(19), "TCP without its whole header"),
        (1, bytes(8), "ICMP"),
        (47, bytes.fromhex("3000080000"), "GRE"),
    ],
)
def test_packets_without_tcp_are_named(protocol: int, payload: bytes, kind: str) -> None:
    whole = ip.IP(p=protocol, data=payload)
    whole.len = len(whole)
    segments, counts = read(framed(bytes(whole), link="ethernet"))
    assert segments == []
    assert (counts.others, counts.kinds) == (1, {kind: 1})


def test_tunnels_in_tunnels_come_to_an_end() -> None:
    frame = tcp_packet(b"data", link="raw")
    for _ in range(3_000):
        frame = bytes.fromhex("45000000000000004004000000000000") + bytes(4) + frame
    for bare in (frame, b"\0" * 12 + b"\x88\x47" + b"\0\0\1\0" * 20_000):
        segments, counts = read(framed(bare, link="ethernet"))
        assert segments == []
        assert counts.others == 1


def test_endpoints_print_as_addresses_are_written() -> None:
    assert str(Endpoint("10.0.0.1", 80)) == "10.0.0.1:80"
    assert str(Endpoint("::1", 80)) == "[::1]:80"


def test_vlan_tags_and_tcp_options() -> None:
    frame = tcp_packet(b"data", vlan=True, options=b"\x01\x01\x08\x0a" + bytes(8))
    (segment,), _ = read(frame)
    assert segment.data == b"data"


def test_padding_of_short_ethernet_frames_is_no_data() -> None:
    (segment,), _ = read(tcp_packet(b"d") + bytes(6))
    assert (segment.data, segment.cut_bytes) == (b"d", 0)


def test_flags() -> None:
    for flag, name in ((tcp.TH_SYN, "is_syn"), (tcp.TH_FIN, "is_fin"), (tcp.TH_RST, "is_reset")):
        (segment,), _ = read(tcp_packet(flags=flag))
        assert getattr(segment, name)
        assert segment.acknowledged is None


@pytest.mark.parametrize("version", [4, 6])
def test_the_snap_length_cuts_payload(version: int) -> None:
    frame = tcp_packet(bytes(range(100)), version=version)
    (segment,), _ = read(frame[:-30], cut_bytes=30)
    assert (len(segment.data), segment.cut_bytes) == (70, 30)


def test_a_packet_longer_than_its_length_field_holds() -> None:
    frame = bytearray(tcp_packet(b"data", link="raw"))
    frame[2:4] = b"\0\0"
    (segment,), _ = read(bytes(frame), "raw", cut_bytes=3)
    assert (segment.data, segment.cut_bytes) == (b"data", 3)


@pytest.mark.parametrize("link", ["sll", "sll2"])
@pytest.mark.parametrize("version", [4, 6])
def test_a_packet_that_was_captured_several_times_is_taken_once(link: str, version: int) -> None:
    frames = [tcp_packet(b"data", link=link, version=version, from_us=each) for each in (1, 0, 0)]
    counts = PacketCounts()
    packets = [CapturedPacket(7 + at, LINKS[link], frame, 0) for at, frame in enumerate(frames)]
    assert len(list(tcp_segments(packets, counts))) == 1
    assert counts == PacketCounts(tcp_segments=1, duplicates=2)


def test_what_is_sent_again_is_no_copy() -> None:
    times = [bytes.fromhex(f"0101080a{at:08x}00000001") for at in (5, 5, 6)]
    frames = [tcp_packet(b"data", version=6, options=each) for each in times]
    frames += [tcp_packet(b"more", version=6)] * 2
    at_ns = [0, 90_000_000, 91_000_000, 100_000_000, 110_000_000]
    packets = [CapturedPacket(at, 1, frame, 0) for at, frame in zip(at_ns, frames, strict=True)]
    found = [segment.at_ns for segment in tcp_segments(packets, PacketCounts())]
    assert found == [0, 91_000_000, 100_000_000, 110_000_000]


def test_fragments_are_counted() -> None:
    whole = ip.IP(tcp_packet(b"data", link="raw"))
    whole.mf = 1
    segments, counts = read(framed(bytes(whole), link="ethernet"))
    assert segments == []
    assert counts == PacketCounts(fragments=1)


HEADERS = st.sampled_from(sorted(ip6.EXT_HDRS))
"""The extension headers of IPv6 that dpkt knows, by number."""


def _behind_headers(kind: int, headers: bytes) -> bytes:
    """A frame of IPv6 with extension headers, the first of this kind."""
    whole = tcp_packet(b"data", link="raw", version=6)
    length = (len(headers) + len(whole) - 40).to_bytes(2, "big")
    datagram = whole[:4] + length + bytes([kind]) + whole[7:40] + headers + whole[40:]
    return framed(datagram, link="ethernet", version=6)


@given(then=HEADERS)
def test_fragments_of_ip_6_are_counted_whatever_header_comes_next(then: int) -> None:
    fragment = bytes([then, 0, 0, 1]) + bytes(4)
    other = bytes([ip.IP_PROTO_TCP, 0, 1, 4]) + bytes(4)
    segments, counts = read(_behind_headers(ip.IP_PROTO_FRAGMENT, fragment + other))
    assert segments == []
    assert counts == PacketCounts(fragments=1)


@given(kind=HEADERS, then=HEADERS, rest=st.binary(max_size=80))
def test_any_extension_headers_are_read_or_left_out(kind: int, then: int, rest: bytes) -> None:
    _, counts = read(_behind_headers(kind, bytes([then]) + rest))
    assert counts.tcp_segments + counts.fragments + counts.others == 1


def test_other_packets_are_left_out() -> None:
    udp = ip.IP(tcp_packet(b"data", link="raw"))
    udp.p = ip.IP_PROTO_UDP
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    for frame in (framed(bytes(udp), link="ethernet"), arp, b"", tcp_packet(b"")[:40]):
        segments, counts = read(frame)
        assert segments == []
        assert counts == PacketCounts(others=1, kinds=counts.kinds)


def test_link_types_that_are_not_known_are_named() -> None:
    counts = PacketCounts()
    assert list(tcp_segments([CapturedPacket(0, 147, b"abc", 0)], counts)) == []
    assert counts == PacketCounts(others=1, unknown_link_types={147})


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


def added(stream: TcpStream, *segments: TcpSegment) -> list[StreamData | StreamGap]:
    return [item for each in segments for item in stream.add(each)]


def joined(items: list[StreamData | StreamGap]) -> bytes:
    assert all(isinstance(item, StreamData) for item in items)
    return b"".join(item.data for item in items if isinstance(item, StreamData))


def test_segments_in_order() -> None:
    stream = TcpStream()
    items = added(stream, segment(99, syn=True), segment(100, b"ab"), segment(102, b"cd", at_ns=5))
    assert items == [StreamData(0, b"ab"), StreamData(5, b"cd")]
    assert stream.is_from_start
    assert (stream.bytes, stream.gaps, stream.retransmitted_bytes) == (4, 0, 0)


def test_a_late_segment_lets_those_behind_it_be_read_at_its_instant() -> None:
    stream = TcpStream()
    items = added(
        stream, segment(0, b"a", at_ns=1), segment(2, b"c", at_ns=2), segment(1, b"b", at_ns=3)
    )
    assert items == [StreamData(1, b"a"), StreamData(3, b"b"), StreamData(3, b"c")]
    assert stream.out_of_order_segments == 1


def test_retransmitted_bytes_are_read_once_and_counted() -> None:
    stream = TcpStream()
    items = added(stream, segment(0, b"abc"), segment(0, b"abc"), segment(2, b"cdef"))
    assert joined(items) == b"abcdef"
    assert (stream.retransmitted_segments, stream.retransmitted_bytes) == (2, 4)


def test_a_keep_alive_probe_is_no_retransmit() -> None:
    stream = TcpStream()
    added(stream, segment(0, b"abc"), segment(2, b"c"))
    assert stream.retransmitted_segments == 0


def test_a_stream_without_its_beginning_starts_with_its_first_segment() -> None:
    stream = TcpStream()
    assert joined(added(stream, segment(7_000, b"xy"), segment(7_002, b"z"))) == b"xyz"
    assert not stream.is_from_start


def test_bytes_that_were_acknowledged_and_do_not_come_are_a_gap() -> None:
    stream = TcpStream()
    added(stream, segment(0, b"a"), segment(5, b"f", at_ns=50))
    stream.acknowledge(6)
    items = added(stream, *(segment(6 + i, b"x", at_ns=60) for i in range(PATIENCE_SEGMENTS - 1)))
    assert items == []  # it may still come
    items = added(stream, *(segment(37 + i, b"x", at_ns=60) for i in range(2)))
    assert items[:2] == [StreamGap(50, 4), StreamData(50, b"f")]
    assert (stream.gaps, stream.missing_bytes) == (1, 4)


def test_without_acknowledgement_it_waits_to_the_end() -> None:
    stream = TcpStream()
    assert added(stream, segment(0, b"a"), *(segment(5 + i, b"x") for i in range(100)))[1:] == []
    items = stream.finish()
    assert items[0] == StreamGap(0, 4)
    assert joined(items[1:]) == b"x" * 100


def test_what_the_snap_length_cut_off_is_a_gap() -> None:
    stream = TcpStream()
    items = added(stream, segment(0, b"ab", at_ns=1, cut_bytes=3), segment(5, b"f", at_ns=2))
    assert items == [StreamData(1, b"ab"), StreamGap(1, 3), StreamData(2, b"f")]


def test_held_bytes_are_bounded() -> None:
    stream = TcpStream()
    added(stream, segment(0, b"a"))
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
    added(stream, segment(0, b"abc", at_ns=4))
    stream.acknowledge(4)  # 4 would be the end of the stream itself
    assert stream.finish() == []
    stream.acknowledge(9)
    assert stream.finish() == [StreamGap(4, 6)]
