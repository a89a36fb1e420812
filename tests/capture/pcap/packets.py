"""Packets made by hand, for tests of capture files."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from dpkt import ethernet, ip, ip6, sll, sll2, tcp, udp

TUNNELS = (
    *("VXLAN", "VXLAN with a policy", "Geneve", "Geneve with options", "Geneve of IP"),
    *("GRE", "GRE with checksum, key and number", "GRE of Ethernet", "IP in IP"),
)
LINKS = {"null": 0, "ethernet": 1, "raw": 101, "sll": 113, "sll2": 276}


def tcp_packet(
    data: bytes = b"",
    *,
    link: str = "ethernet",
    version: int = 4,
    source: tuple[str, int] = ("10.0.0.1", 4000),
    target: tuple[str, int] = ("10.0.0.2", 5000),
    sequence_number: int = 1,
    acknowledged: int = 0,
    flags: int = tcp.TH_ACK,
    window: int = 1000,
    vlan: bool = False,
    from_us: bool = False,
    options: bytes = b"",
    identification: int = 0,
) -> bytes:
    """The frame of one TCP segment."""
    if version == 6:
        source, target = (
            (f"2001:db8::{host.rsplit('.', 1)[1]}", port) for host, port in (source, target)
        )
    segment = tcp.TCP(
        sport=source[1],
        dport=target[1],
        seq=sequence_number % 2**32,
        ack=acknowledged % 2**32,
        flags=flags,
        win=window,
        data=data,
    )
    if options:
        segment.opts = options
        segment.off = (20 + len(options)) // 4
    addresses: Any = {"src": ip_address(source[0]).packed, "dst": ip_address(target[0]).packed}
    datagram: Any
    if version == 4:
        datagram = ip.IP(p=ip.IP_PROTO_TCP, id=identification, data=segment, **addresses)
        datagram.len = len(datagram)
    else:
        datagram = ip6.IP6(nxt=ip.IP_PROTO_TCP, plen=len(segment), data=segment, **addresses)
        datagram.extension_hdrs = {}
    return framed(bytes(datagram), link=link, version=version, vlan=vlan, from_us=from_us)


def tunnelled(frame: bytes, way: str, *, version: int = 4) -> bytes:
    """An Ethernet frame in one of these tunnels between two hosts, over this version of IP."""
    inner, kind = frame[14:], frame[12:14]
    protocol, payload = {
        "VXLAN": (17, bytes.fromhex("0800000000002a00") + frame),
        "VXLAN with a policy": (17, bytes.fromhex("8800123400002a00") + frame),
        "Geneve": (17, bytes.fromhex("0000655800002a00") + frame),
        "Geneve with options": (17, bytes.fromhex("0240655800002a000102030112345678") + frame),
        "Geneve of IP": (17, b"\0\0" + kind + bytes.fromhex("00002a00") + inner),
        "GRE": (47, b"\0\0" + kind + inner),
        "GRE with checksum, key and number": (47, b"\xb0\0" + kind + bytes(12) + inner),
        "GRE of Ethernet": (47, bytes.fromhex("2000655800002a00") + frame),
        "IP in IP": ({b"\x08\x00": 4, b"\x86\xdd": 41}[kind], inner),
    }[way]
    if protocol == 17:
        payload = bytes(udp.UDP(sport=49_999, dport=8472, ulen=8 + len(payload), data=payload))
    return _ip_packet(protocol, payload, version)


def _ip_packet(protocol: int, payload: bytes, version: int) -> bytes:
    datagram: Any
    if version == 4:
        datagram = ip.IP(p=protocol, src=b"\xc0\xa8\0\1", dst=b"\xc0\xa8\0\2", data=payload)
        datagram.len = len(datagram)
    else:
        datagram = ip6.IP6(
            nxt=protocol, plen=len(payload), src=bytes(16), dst=bytes(16), data=payload
        )
        datagram.extension_hdrs = {}
    return framed(bytes(datagram), link="ethernet", version=version)


def framed(
    datagram: bytes, *, link: str, version: int = 4, vlan: bool = False, from_us: bool = False
) -> bytes:
    """An IP packet in a frame of a link layer."""
    kind = ethernet.ETH_TYPE_IP if version == 4 else ethernet.ETH_TYPE_IP6
    if link == "ethernet":
        addresses = bytes(range(12))
        tag = b"\x81\x00\x00\x07" if vlan else b""
        return addresses + tag + kind.to_bytes(2, "big") + datagram
    if link == "null":
        return (2 if version == 4 else 24).to_bytes(4, "little") + datagram
    if link in ("sll", "sll2"):
        cooked: Any = sll.SLL if link == "sll" else sll2.SLL2
        head = cooked(hrd=772, type=4 if from_us else 0, ethtype=kind)
        return bytes(head)[: cooked.__hdr_len__] + datagram
    return datagram
