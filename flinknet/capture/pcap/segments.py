"""TCP segments out of captured packets: link layer, IPv4 or IPv6, TCP, decoded by dpkt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, NamedTuple

from dpkt import UnpackError, ethernet, loopback, sll, sll2
from dpkt.ip import IP
from dpkt.ip6 import IP6
from dpkt.tcp import TCP

from flinknet.units import format_address

from .files import CapturedPacket

_LINK_NULL, _LINK_ETHERNET, _LINK_LOOP, _LINK_SLL, _LINK_SLL2 = 0, 1, 108, 113, 276
_LINK_RAW = (12, 14, 101, 228, 229)
_LINKS = {_LINK_NULL, _LINK_ETHERNET, _LINK_LOOP, _LINK_SLL, _LINK_SLL2, *_LINK_RAW}

_FROM_US, _LOOPBACK_HARDWARE = 4, 772
"""In cooked captures: the direction of a packet that leaves, and the hardware type of loopback."""

_BY_ETHER_TYPE = {b"\x08\x00": IP, b"\x86\xdd": IP6}
"""What most Ethernet frames hold; dpkt reads the others, such as those of VLANs."""

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
        duplicates: packets over loopback that a capture of all interfaces has as leaving and as
            coming; the first is left out.
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
    for packet in packets:
        if packet.link_type not in _LINKS:
            counts.unknown_link_types.add(packet.link_type)
            counts.others += 1
            continue
        try:
            segment = _segment(packet)
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


def _segment(packet: CapturedPacket) -> TcpSegment | _Left:
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
        cooked = (sll.SLL if link_type == _LINK_SLL else sll2.SLL2)(frame)
        if cooked.hrd == _LOOPBACK_HARDWARE and cooked.type == _FROM_US:
            return _Left.DUPLICATE
        return cooked.data
    if link_type in (_LINK_NULL, _LINK_LOOP):
        return loopback.Loopback(frame).data
    return IP6(frame) if frame[0] >> 4 == 6 else IP(frame)


@lru_cache(maxsize=1024)
def _host(address: bytes) -> str:
    return str(ip_address(address))
