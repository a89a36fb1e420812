"""TCP segments in frames of every link layer that captures have."""

from __future__ import annotations

import pytest
from dpkt import ip, ip6, tcp
from hypothesis import given
from hypothesis import strategies as st

from flinknet.capture.pcap.files import CapturedPacket
from flinknet.capture.pcap.segments import Endpoint, PacketCounts, TcpSegment, tcp_segments
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


def test_frames_of_macos_state_the_link_type_behind_their_header() -> None:
    header = (108).to_bytes(4, "little") + (1).to_bytes(4, "little")
    for link, number in (("null", 0), ("ethernet", 1), ("raw", 12)):
        frame = header + number.to_bytes(4, "little") + bytes(96) + tcp_packet(b"data", link=link)
        for link_type in (149, 258):
            (segment,) = tcp_segments([CapturedPacket(7, link_type, frame, 0)])
            assert segment.data == b"data"
    counts = PacketCounts()
    for frame in (b"", header, header + b"\xff\0\0\0" + bytes(200)):
        assert list(tcp_segments([CapturedPacket(7, 258, frame, 0)], counts)) == []
    assert counts == PacketCounts(others=3, unknown_link_types={258})


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
    found = [segment.at_ns for segment in tcp_segments(packets)]
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
