"""Packets in a capture file, with exact instants.

dpkt reads the header of a pcap file and the blocks of pcapng. Its own readers give instants as
floats, which do not hold nanoseconds since 1970, and know one interface; so the walk over the file
is ours. Packets have four numbers before them in pcap, which are read here, in a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from dpkt import UnpackError, pcap, pcapng

from flinknet.errors import ConfigError, TraceFormatError

LONGEST_BLOCK_BYTES = 1 << 26
"""Whatever claims to be longer is taken for damage."""

LATEST_NS = 1 << 62
"""In the year 2116; an instant beyond it is taken for damage."""

_SECTION_HEADER = b"\x0a\x0d\x0d\x0a"  # reads the same in both byte orders
_LITTLE_ENDIAN = b"\x4d\x3c\x2b\x1a"

_ByteOrder = Literal["little", "big"]


class CapturedPacket(NamedTuple):
    """One packet.

    Attributes:
        at_ns: instant of the capture, ns since 1970.
        link_type: how the frame begins (LINKTYPE_… of pcap).
        frame: what was captured of it.
        cut_bytes: what the snap length cut off its end.
    """

    at_ns: int
    link_type: int
    frame: bytes
    cut_bytes: int


class _Interface(NamedTuple):
    link_type: int
    ticks_per_s: int
    offset_s: int


class CaptureFile:
    """A pcap or pcapng file; iterating it gives its packets.

    After that `is_truncated` says whether it ended in the middle of a packet, as it does when the
    capture was killed; the packets before are given.

    Raises: TraceFormatError, when opened or iterated, for what is no capture or is damaged; it
        names the last good packet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_truncated = False
        self.packets = 0

    def __iter__(self) -> Iterator[CapturedPacket]:
        try:
            with self.path.open("rb") as file:
                is_pcapng = file.read(4) == _SECTION_HEADER
                file.seek(0)
                for packet in self._pcapng(file) if is_pcapng else self._pcap(file):
                    self.packets += 1
                    yield packet
        except IsADirectoryError:
            raise ConfigError(f"{self.path}: is a directory; give a pcap or pcapng file") from None
        except OSError as error:
            raise TraceFormatError(f"{self.path}: cannot read it ({error.strerror})") from error

    def _pcap(self, file: BinaryIO) -> Iterator[CapturedPacket]:
        head = file.read(pcap.FileHdr.__hdr_len__)
        if len(head) < pcap.FileHdr.__hdr_len__:
            raise self._foreign()
        header = pcap.FileHdr(head)
        magic = header.magic
        if magic in (pcap.PMUDPCT_MAGIC, pcap.PMUDPCT_MAGIC_NANO, pcap.PACPDOM_MAGIC):
            header = pcap.LEFileHdr(head)
        if magic not in pcap.MAGIC_TO_PKT_HDR:
            raise self._foreign()
        of_packet = pcap.MAGIC_TO_PKT_HDR[magic]
        order: _ByteOrder = "little" if of_packet.__hdr_fmt__.startswith("<") else "big"
        unit_ns = 1 if magic in (pcap.TCPDUMP_MAGIC_NANO, pcap.PMUDPCT_MAGIC_NANO) else 1_000
        link_type = header.linktype & 0xFFFF
        while head := file.read(of_packet.__hdr_len__):
            if len(head) < of_packet.__hdr_len__:
                self.is_truncated = True
                return
            seconds, fraction = int.from_bytes(head[:4], order), int.from_bytes(head[4:8], order)
            captured_bytes = int.from_bytes(head[8:12], order)
            if captured_bytes > LONGEST_BLOCK_BYTES:
                raise self._damaged(f"claims {captured_bytes} bytes")
            frame = file.read(captured_bytes)
            if len(frame) < captured_bytes:
                self.is_truncated = True
                return
            at_ns = seconds * 1_000_000_000 + fraction * unit_ns
            cut_bytes = max(0, int.from_bytes(head[12:16], order) - captured_bytes)
            yield CapturedPacket(at_ns, link_type, frame, cut_bytes)

    def _pcapng(self, file: BinaryIO) -> Iterator[CapturedPacket]:
        interfaces: list[_Interface] = []
        order: _ByteOrder = "little"
        while head := file.read(12):
            if head.startswith(_SECTION_HEADER):
                order = "little" if head[8:] == _LITTLE_ENDIAN else "big"
                interfaces = []
            kind, length = int.from_bytes(head[:4], order), int.from_bytes(head[4:8], order)
            if len(head) == 12 and not 12 <= length <= LONGEST_BLOCK_BYTES:
                raise self._damaged(f"is a block that claims {length} bytes")
            block = head + file.read(max(0, length - 12))
            if len(head) < 12 or len(block) < length:
                self.is_truncated = True
                return
            try:
                if kind == pcapng.PCAPNG_BT_IDB:
                    interfaces.append(_interface(block, order))
                elif kind == pcapng.PCAPNG_BT_EPB:
                    yield _enhanced_packet(block, order, interfaces)
            except (UnpackError, IndexError, ValueError) as error:
                raise self._damaged(f"cannot be read ({error})") from error

    def _foreign(self) -> TraceFormatError:
        return TraceFormatError(
            f"{self.path}: neither a pcap nor a pcapng file; give what `tcpdump -w` or Wireshark"
            " wrote"
        )

    def _damaged(self, what: str) -> TraceFormatError:
        return TraceFormatError(
            f"{self.path}: damaged: what follows packet {self.packets} {what}; cut the file there,"
            " or capture again"
        )


def _interface(block: bytes, order: _ByteOrder) -> _Interface:
    little = order == "little"
    read = pcapng.InterfaceDescriptionBlockLE if little else pcapng.InterfaceDescriptionBlock
    description = read(block)
    ticks_per_s, offset_s = 1_000_000, 0
    for option in description.opts:
        if option.code == pcapng.PCAPNG_OPT_IF_TSRESOL:
            exponent = option.data[0] & 0x7F
            ticks_per_s = 2**exponent if option.data[0] & 0x80 else 10**exponent
        elif option.code == pcapng.PCAPNG_OPT_IF_TSOFFSET:
            offset_s = int.from_bytes(option.data[:8], order, signed=True)
    return _Interface(description.linktype, ticks_per_s, offset_s)


def _enhanced_packet(
    block: bytes, order: _ByteOrder, interfaces: list[_Interface]
) -> CapturedPacket:
    little = order == "little"
    packet: Any = (pcapng.EnhancedPacketBlockLE if little else pcapng.EnhancedPacketBlock)(block)
    of = interfaces[packet.iface_id]
    ticks = (packet.ts_high << 32) | packet.ts_low
    at_ns = of.offset_s * 1_000_000_000 + ticks * 1_000_000_000 // of.ticks_per_s
    if not 0 <= at_ns < LATEST_NS:
        raise ValueError(f"its instant is {at_ns} ns after 1970")
    cut_bytes = max(0, packet.pkt_len - packet.caplen)
    return CapturedPacket(at_ns, of.link_type, bytes(packet.pkt_data), cut_bytes)
