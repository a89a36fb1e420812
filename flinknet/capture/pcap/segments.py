"""TCP segments out of captured packets: link layer, IPv4 or IPv6, TCP, decoded by dpkt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

from dpkt import UnpackError, ethernet, loopback, sll, sll2
from dpkt.ip import IP
from dpkt.ip6 import IP6
from dpkt.tcp import TCP

from flinknet.units import format_address

from .files import CapturedPacket

_LINK_NULL, _LINK_ETHERNET, _LINK_LOOP, _LINK_SLL, _LINK_SLL2 = 0, 1, 108, 113, 276
_LINK_RAW = (12, 14, 101, 228, 229)
_LINKS = {_LINK_NULL, _LINK_ETHERNET, _LINK_LOOP, _LINK_SLL, _LINK_SLL2, *_LINK_RAW}

COPY_WITHIN_NS: Final = 100_000_000
"""Between two copies of one packet, at most. A sender that hears nothing waits longer."""

UNNUMBERED_WITHIN_NS: Final = 5_000_000
"""The same of packets without a number or a time of their sender; TCP repeats nothing so soon."""

PACKETS_KEPT: Final = 1 << 15
"""Packets of which copies are known."""

_BY_ETHER_TYPE = {b"\x08\x00": IP, b"\x86\xdd": IP6}
"""What most Ethernet frames hold; dpkt reads the others, such as those of VLANs."""

_TIMESTAMPS: Final = b"\x08\x0a"
"""Kind and length of TCP's option with the time of the sender."""

_FIN, _SYN, _RST, _ACK = 0x01, 0x02, 0x04, 0x10


class Endpoint(NamedTuple):
    """Address and port of one end of a TCP connection."""

    host: str
    port: int

    def __str__(self) -> str:
        return format_address(self.host, self.port)


class TcpSegment(NamedTuple):
    """One TCP segment.

    Attributes:
        at_ns: instant of the capture, ns since 1970.
        acknowledged: sequence number up to which it acknowledges; None without an ACK.
        window: as in the header, not scaled; 0 says "send no more" in any scale.
        data: payload, as far as it was captured.
        cut_bytes: payload that the snap length cut off its end.
    """

    at_ns: int
    source: Endpoint
    target: Endpoint
    sequence_number: int
    acknowledged: int | None
    window: int
    is_syn: bool
    is_fin: bool
    is_reset: bool
    data: bytes
    cut_bytes: int = 0


@dataclass(slots=True)
class PacketCounts:
    """What the packets of a capture were.

    Attributes:
        duplicates: copies of packets, as a capture of several interfaces or of a mirror port has
            them; they are left out.
        others: not TCP, or damaged.
    """

    tcp_segments: int = 0
    duplicates: int = 0
    fragments: int = 0
    others: int = 0
    unknown_link_types: set[int] = field(default_factory=set)


class _Left(Enum):
    """Why a packet gives no segment."""

    DUPLICATE = 1
    FRAGMENT = 2
    OTHER = 3


def tcp_segments(
    packets: Iterable[CapturedPacket], counts: PacketCounts | None = None
) -> Iterator[TcpSegment]:
    """The TCP segments among packets; `counts` is kept while they are taken.

    Fragments of IP packets are counted and left out: TCP avoids them, and what they carried shows
    as a gap in its stream.
    """
    counts = counts if counts is not None else PacketCounts()
    copies = _Copies()
    for packet in packets:
        if packet.link_type not in _LINKS:
            counts.unknown_link_types.add(packet.link_type)
            counts.others += 1
            continue
        try:
            segment = _segment(packet, copies)
        except (UnpackError, IndexError, ValueError):
            segment = _Left.OTHER
        if segment is _Left.DUPLICATE:
            counts.duplicates += 1
        elif segment is _Left.FRAGMENT:
            counts.fragments += 1
        elif segment is _Left.OTHER:
            counts.others += 1
        else:
            counts.tcp_segments += 1
            yield segment


class _Copies:
    """Which packets were captured before: a copy has everything of its sender in common with the
    first one, while what is sent again has another number of IP or another time."""

    def __init__(self) -> None:
        self._seen: dict[tuple[Any, ...], int] = {}  # when, by what the sender wrote

    def has(self, at_ns: int, datagram: IP | IP6, tcp: TCP) -> bool:
        """Whether a packet is a copy of one before; else its own copies are known from here on."""
        number = getattr(datagram, "id", 0)
        key = (
            *(datagram.src, datagram.dst, number, tcp.sport, tcp.dport, tcp.seq, tcp.ack),
            *(tcp.flags, tcp.win, bytes(tcp.opts), len(tcp.data)),
        )
        is_numbered = number or _TIMESTAMPS in tcp.opts
        within_ns = COPY_WITHIN_NS if is_numbered else UNNUMBERED_WITHIN_NS
        if abs(at_ns - self._seen.get(key, -within_ns - 1)) <= within_ns:
            return True
        self._seen[key] = at_ns
        if len(self._seen) > PACKETS_KEPT:
            del self._seen[next(iter(self._seen))]
        return False


def _segment(packet: CapturedPacket, copies: _Copies) -> TcpSegment | _Left:
    try:
        datagram = _datagram(packet)
    except AttributeError:  # dpkt expects no other header behind that of a fragment
        return _Left.FRAGMENT
    if isinstance(datagram, IP):
        headers_bytes, total_bytes = datagram.hl * 4, datagram.len
        is_fragment = bool(datagram.mf or datagram.offset)
    elif isinstance(datagram, IP6):
        headers_bytes = sum(len(each) for each in datagram.all_extension_headers)
        total_bytes = datagram.plen
        is_fragment = 44 in datagram.extension_hdrs
    else:
        return datagram if isinstance(datagram, _Left) else _Left.OTHER
    if is_fragment:
        return _Left.FRAGMENT
    tcp = datagram.data
    if not isinstance(tcp, TCP):
        return _Left.OTHER
    if copies.has(packet.at_ns, datagram, tcp):
        return _Left.DUPLICATE
    cut_bytes = packet.cut_bytes
    if total_bytes:  # 0 where the kernel handed over more than the field holds
        cut_bytes = total_bytes - headers_bytes - tcp.off * 4 - len(tcp.data)
    flags = tcp.flags
    return TcpSegment(
        packet.at_ns,
        Endpoint(_host(datagram.src), tcp.sport),
        Endpoint(_host(datagram.dst), tcp.dport),
        tcp.seq,
        tcp.ack if flags & _ACK else None,
        tcp.win,
        bool(flags & _SYN),
        bool(flags & _FIN),
        bool(flags & _RST),
        bytes(tcp.data),
        max(0, cut_bytes),
    )


def _datagram(packet: CapturedPacket) -> Any:
    """The IP packet in a frame, or what it carries instead."""
    frame, link_type = packet.frame, packet.link_type
    if link_type == _LINK_ETHERNET:
        read = _BY_ETHER_TYPE.get(frame[12:14])
        return ethernet.Ethernet(frame).data if read is None else read(frame[14:])
    if link_type in (_LINK_SLL, _LINK_SLL2):
        return (sll.SLL if link_type == _LINK_SLL else sll2.SLL2)(frame).data
    if link_type in (_LINK_NULL, _LINK_LOOP):
        return loopback.Loopback(frame).data
    return IP6(frame) if frame[0] >> 4 == 6 else IP(frame)


@lru_cache(maxsize=1024)
def _host(address: bytes) -> str:
    return str(ip_address(address))
