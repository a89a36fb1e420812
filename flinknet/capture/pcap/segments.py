"""TCP segments from captured packets: link layer, IPv4 or IPv6, TCP, decoded by dpkt, also within
tunnels. VXLAN and Geneve are recognised by their headers; port numbers are not used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

from dpkt import UnpackError, ethernet, loopback, sll, sll2
from dpkt.gre import GRE
from dpkt.ip import IP, IP_PROTO_TCP, get_ip_proto_name
from dpkt.ip6 import IP6
from dpkt.tcp import TCP
from dpkt.udp import UDP

from flinknet.units import format_address

from .files import CapturedPacket

_LINK_NULL, _LINK_ETHERNET, _LINK_LOOP, _LINK_SLL, _LINK_SLL2 = 0, 1, 108, 113, 276
_LINK_RAW = (12, 14, 101, 228, 229)
_LINKS = {_LINK_NULL, _LINK_ETHERNET, _LINK_LOOP, _LINK_SLL, _LINK_SLL2, *_LINK_RAW}

COPY_WITHIN_NS: Final = 100_000_000
"""Longest time between two copies of one packet, in ns; retransmissions come later."""

UNNUMBERED_WITHIN_NS: Final = 5_000_000
"""Longest time between copies of packets without an IP number and a TCP timestamp, in ns."""

PACKETS_KEPT: Final = 1 << 15
"""Most packets that are remembered to recognise copies."""

_ETHERNET = b"\x65\x58"
"""EtherType of an Ethernet frame in a tunnel."""

_BY_ETHER_TYPE = {b"\x08\x00": IP, b"\x86\xdd": IP6, _ETHERNET: ethernet.Ethernet}
"""Decoders for the content of most Ethernet frames; dpkt reads the others, such as VLANs."""

_TIMESTAMPS: Final = b"\x08\x0a"
"""Kind and length of TCP's timestamps option."""

_ESP = 50

_LAYERS_MAX = 16

_UNREADABLE = (UnpackError, IndexError, ValueError, RecursionError)
"""Exceptions of dpkt for cut or damaged packets."""

_FIN, _SYN, _RST, _ACK = 0x01, 0x02, 0x04, 0x10

_DUPLICATE, _FRAGMENT = "duplicate", "fragment"
"""Reasons for skipping a packet of TCP."""


class Endpoint(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return format_address(self.host, self.port)


class TcpSegment(NamedTuple):
    at_ns: int  # instant of the capture, since 1970
    source: Endpoint
    target: Endpoint
    sequence_number: int
    acknowledged: int | None  # None without an ACK
    window: int  # the header's value, not scaled; 0 means "send no more" in any scale
    is_syn: bool
    is_fin: bool
    is_reset: bool
    data: bytes  # payload, as far as it was captured
    cut_bytes: int = 0  # of the payload, by the snap length
    sent_ms: int | None = None  # the sender's timestamp, a TCP option, in most systems in ms


@dataclass(slots=True)
class PacketCounts:
    tcp_segments: int = 0
    cut_segments: int = 0  # by the snap length
    duplicates: int = 0  # skipped copies, as from several interfaces or a mirror port
    fragments: int = 0
    others: int = 0  # not TCP, or damaged; `kinds` counts them by kind
    unknown_link_types: set[int] = field(default_factory=set)
    kinds: Counter[str] = field(default_factory=Counter)


def tcp_segments(packets: Iterable[CapturedPacket], counts: PacketCounts) -> Iterator[TcpSegment]:
    """The TCP segments among packets; `counts` is updated during iteration.

    Fragments of IP packets are counted and skipped: TCP avoids them, and their data shows as a gap
    in its stream.
    """
    copies = _Copies()
    for packet in packets:
        if packet.link_type not in _LINKS:
            counts.unknown_link_types.add(packet.link_type)
            counts.others += 1
            continue
        try:
            segment = _segment(packet, copies)
        except AttributeError:  # dpkt expects no other header after that of a fragment
            segment = _FRAGMENT
        except _UNREADABLE:
            segment = "damaged"
        if isinstance(segment, TcpSegment):
            counts.tcp_segments += 1
            counts.cut_segments += segment.cut_bytes > 0
            yield segment
        elif segment == _DUPLICATE:
            counts.duplicates += 1
        elif segment == _FRAGMENT:
            counts.fragments += 1
        else:
            counts.others += 1
            counts.kinds[segment] += 1


class _Copies:
    """Recently captured packets. A copy equals the first packet in all fields from the sender; a
    retransmission has another IP number or another timestamp."""

    def __init__(self) -> None:
        self._instants: dict[tuple[Any, ...], int] = {}  # instants by the sender's fields

    def has(self, at_ns: int, datagram: IP | IP6, tcp: TCP) -> bool:
        """Whether a packet is a copy of an earlier one; if not, remember it."""
        number = getattr(datagram, "id", 0)
        key = (
            *(datagram.src, datagram.dst, number, tcp.sport, tcp.dport, tcp.seq, tcp.ack),
            *(tcp.flags, tcp.win, bytes(tcp.opts), len(tcp.data)),
        )
        is_numbered = number or _TIMESTAMPS in tcp.opts
        within_ns = COPY_WITHIN_NS if is_numbered else UNNUMBERED_WITHIN_NS
        if abs(at_ns - self._instants.get(key, -within_ns - 1)) <= within_ns:
            return True
        self._instants[key] = at_ns
        if len(self._instants) > PACKETS_KEPT:
            del self._instants[next(iter(self._instants))]
        return False


def _segment(packet: CapturedPacket, copies: _Copies) -> TcpSegment | str:
    """The segment in a packet; otherwise the reason for skipping it, or its kind."""
    layer = _datagram(packet)
    what = f"EtherType 0x{packet.frame[12:14].hex()}" if isinstance(layer, bytes) else ""
    for _ in range(_LAYERS_MAX):
        if isinstance(layer, IP):
            headers_bytes, total_bytes = layer.hl * 4, layer.len
            is_fragment = bool(layer.mf or layer.offset)
        elif isinstance(layer, IP6):
            headers_bytes = sum(len(each) for each in layer.all_extension_headers)
            total_bytes = layer.plen
            is_fragment = 44 in layer.extension_hdrs
        elif isinstance(layer, ethernet.Ethernet):
            layer = layer.data
            continue
        else:
            return what or type(layer).__name__
        if is_fragment:
            return _FRAGMENT
        if isinstance(layer.data, TCP):
            if copies.has(packet.at_ns, layer, layer.data):
                return _DUPLICATE
            cut_bytes = packet.cut_bytes
            if total_bytes:  # else it is more than the length field can express
                sent_bytes = total_bytes - headers_bytes - layer.data.off * 4
                cut_bytes = sent_bytes - len(layer.data.data)
            return _tcp_segment(packet.at_ns, layer, cut_bytes)
        what, layer = _kind(layer), _carried(layer.data)
    return what


def _tcp_segment(at_ns: int, datagram: IP | IP6, cut_bytes: int) -> TcpSegment:
    tcp = datagram.data
    flags, at = tcp.flags, tcp.opts.find(_TIMESTAMPS) + len(_TIMESTAMPS)
    sent = tcp.opts[at : at + 4] if at >= len(_TIMESTAMPS) else b""
    return TcpSegment(
        at_ns,
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
        int.from_bytes(sent) if len(sent) == 4 else None,
    )


def _kind(datagram: IP | IP6) -> str:
    inside, protocol = datagram.data, datagram.p
    if isinstance(inside, UDP):
        is_wire_guard = inside.data[:4] in (b"\1\0\0\0", b"\2\0\0\0", b"\4\0\0\0")
        if 4500 in (inside.sport, inside.dport):
            return "IPsec"
        return "WireGuard" if is_wire_guard else f"UDP port {min(inside.sport, inside.dport)}"
    if protocol == IP_PROTO_TCP:
        return "TCP without its whole header"
    return "IPsec" if protocol == _ESP else str(get_ip_proto_name(protocol))


def _carried(inside: Any) -> Any:
    """The next layer of a tunnel, or other content of an IP packet."""
    if isinstance(inside, UDP) and len(data := inside.data) > 8 and not data[7]:
        is_geneve = data[0] < 64 and not data[1] & 63
        if is_geneve and data[2:4] in _BY_ETHER_TYPE:
            return _frame(data[2:4], data[8 + data[0] * 4 :])
        if data[0] & 8:  # VXLAN
            return _frame(_ETHERNET, data[8:])
    return inside.data if isinstance(inside, GRE) else inside


def _frame(ether_type: bytes, data: bytes) -> Any:
    """Decode bytes by their EtherType; unchanged if the type is unknown."""
    return _BY_ETHER_TYPE.get(ether_type, bytes)(data)


def _datagram(packet: CapturedPacket) -> Any:
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
