"""Packets in a capture file, with exact instants.

dpkt reads the header of a pcap file and the blocks of pcapng. Its readers give instants as floats,
which cannot represent nanoseconds since 1970, and know one interface; so this module iterates over
the file itself. It also reads the four numbers before each packet in pcap, in a tenth of the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple

from dpkt import UnpackError, pcap, pcapng

from flinknet.errors import ConfigError, TraceFormatError

from .sources import STANDARD_INPUT, DecompressionError, ReadingError, Turn, open_capture

LONGEST_BLOCK_BYTES = 1 << 26
"""Longest block or packet, in bytes; a longer one counts as damage."""

LATEST_NS = 1 << 62
"""Latest instant, in ns since 1970 (the year 2116); a later one counts as damage."""

_INTERFACE_BYTES: Final = {pcapng.PCAPNG_BT_EPB: 4, pcapng.PCAPNG_BT_PB: 2}
"""Size of the interface number, in bytes, in each kind of block that has one packet with its
instant; these kinds differ only in this size."""

_STATISTICS: Final = 5
"""Kind of an Interface Statistics Block."""

_DROPS: Final = {5, 7}
"""Options of statistics: packets that the interface and the operating system dropped so far."""

_WITHOUT_PACKETS: Final = {4, 9, 10, 0xBAD, 0x4000_0BAD}
"""Kinds of blocks with names, journals, keys, and custom blocks of programs."""

_SECTION_HEADER = b"\x0a\x0d\x0d\x0a"  # reads the same in both byte orders
_LITTLE_ENDIAN = b"\x4d\x3c\x2b\x1a"

_ByteOrder = Literal["little", "big"]


class CapturedPacket(NamedTuple):
    at_ns: int  # since 1970
    link_type: int  # kind of the frame's header, LINKTYPE_… of pcap
    frame: bytes  # as far as it was captured
    cut_bytes: int  # cut off at its end by the snap length


class _Interface(NamedTuple):
    link_type: int
    ticks_per_s: int
    offset_s: int


class CaptureFile:
    """A pcap or pcapng file, compressed or not, or a pipe; iterating it gives its packets.

    Args:
        turn, follows: for a live source; see `open_capture`.

    Raises: ConfigError or TraceFormatError, when iterated, for a file that is no capture or is
        damaged; the text has the number of the last good packet.
    """

    def __init__(self, path: Path, turn: Turn | None = None, *, follows: bool = False) -> None:
        self.path = path
        self._turn = turn
        self._follows = follows
        self._dropped: dict[tuple[int, int], int] = {}  # by section and interface
        self.name = "standard input" if path == STANDARD_INPUT else str(path)
        self.packets = 0
        # of unknown kinds, which may contain packets, and of packets without an instant
        self.unread_blocks = 0
        self.is_truncated = False  # it ended within a packet, as after a killed capture

    @property
    def dropped_packets(self) -> int:
        """Packets that the capture program did not get, as a pcapng file states."""
        return sum(self._dropped.values())

    def __iter__(self) -> Iterator[CapturedPacket]:
        self.packets = self.unread_blocks = 0
        try:
            with open_capture(self.path, self._turn, follows=self._follows) as file:
                is_pcapng = file.peek(4).startswith(_SECTION_HEADER)
                for packet in self._pcapng(file) if is_pcapng else self._pcap(file):
                    self.packets += 1
                    yield packet
        except EOFError:
            self.is_truncated = True
        except DecompressionError as error:
            raise self._damaged(f"cannot be decompressed ({error})") from error
        except ReadingError as error:
            if isinstance(error.__cause__, IsADirectoryError):
                text = f"{self.name}: is a directory; give a pcap or pcapng file"
                raise ConfigError(text) from None
            raise TraceFormatError(f"{self.name}: cannot read it ({error})") from error

    def _pcap(self, file: BinaryIO) -> Iterator[CapturedPacket]:
        head = file.read(pcap.FileHdr.__hdr_len__)
        if not head and self._turn is not None:
            return
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
                raise EOFError
            seconds, fraction = int.from_bytes(head[:4], order), int.from_bytes(head[4:8], order)
            captured_bytes = int.from_bytes(head[8:12], order)
            if captured_bytes > LONGEST_BLOCK_BYTES:
                raise self._damaged(f"claims {captured_bytes} bytes")
            frame = file.read(captured_bytes)
            if len(frame) < captured_bytes:
                raise EOFError
            at_ns = seconds * 1_000_000_000 + fraction * unit_ns
            cut_bytes = max(0, int.from_bytes(head[12:16], order) - captured_bytes)
            yield CapturedPacket(at_ns, link_type, frame, cut_bytes)

    def _pcapng(self, file: BinaryIO) -> Iterator[CapturedPacket]:
        section, interfaces = 0, list[_Interface]()
        order: _ByteOrder = "little"
        while head := file.read(12):
            if head.startswith(_SECTION_HEADER):
                order = "little" if head[8:] == _LITTLE_ENDIAN else "big"
                section, interfaces = section + 1, []
            kind, length = int.from_bytes(head[:4], order), int.from_bytes(head[4:8], order)
            if len(head) == 12 and not 12 <= length <= LONGEST_BLOCK_BYTES:
                raise self._damaged(f"is a block that claims {length} bytes")
            block = head + file.read(max(0, length - 12))
            if len(head) < 12 or len(block) < length:
                self.is_truncated = True
                break
            try:
                if kind in _INTERFACE_BYTES:
                    yield _packet(kind, block, order, interfaces)
                elif kind == pcapng.PCAPNG_BT_IDB:
                    interfaces.append(_interface(block, order))
                elif kind == _STATISTICS:
                    number, dropped = _statistics(block, order)
                    self._dropped[section, number] = dropped
                elif kind not in _WITHOUT_PACKETS and head[:4] != _SECTION_HEADER:
                    self.unread_blocks += 1
            except (UnpackError, IndexError, ValueError) as error:
                raise self._damaged(f"cannot be read ({error})") from error

    def _foreign(self) -> TraceFormatError:
        return TraceFormatError(
            f"{self.name}: neither a pcap nor a pcapng file; give what `tcpdump -w` or Wireshark"
            " wrote"
        )

    def _damaged(self, what: str) -> TraceFormatError:
        return TraceFormatError(
            f"{self.name}: damaged: what follows packet {self.packets} {what}; cut the file there,"
            " or capture again"
        )


def _interface(block: bytes, order: _ByteOrder) -> _Interface:
    little, big = pcapng.InterfaceDescriptionBlockLE, pcapng.InterfaceDescriptionBlock
    description = (little if order == "little" else big)(block)
    ticks_per_s, offset_s = 1_000_000, 0
    for option in description.opts:
        if option.code == pcapng.PCAPNG_OPT_IF_TSRESOL:
            exponent = option.data[0] & 0x7F
            ticks_per_s = 2**exponent if option.data[0] & 0x80 else 10**exponent
        elif option.code == pcapng.PCAPNG_OPT_IF_TSOFFSET:
            offset_s = int.from_bytes(option.data[:8], order, signed=True)
    return _Interface(description.linktype, ticks_per_s, offset_s)


def _statistics(block: bytes, order: _ByteOrder) -> tuple[int, int]:
    """The interface of an Interface Statistics Block, and the packets that were dropped there."""
    dropped, at = 0, 20
    while at + 4 <= len(block) - 4:
        code, length = (int.from_bytes(block[at + of : at + of + 2], order) for of in (0, 2))
        if code in _DROPS and length == 8:
            dropped += int.from_bytes(block[at + 4 : at + 12], order)
        at += 4 + length + -length % 4
    return int.from_bytes(block[8:12], order), dropped


def _packet(
    kind: int, block: bytes, order: _ByteOrder, interfaces: list[_Interface]
) -> CapturedPacket:
    """The packet of an Enhanced Packet Block, or of an obsolete Packet Block (before 2009)."""
    of = interfaces[int.from_bytes(block[8 : 8 + _INTERFACE_BYTES[kind]], order)]
    high, low, captured_bytes, sent_bytes = (
        int.from_bytes(block[at : at + 4], order) for at in (12, 16, 20, 24)
    )
    at_ns = of.offset_s * 1_000_000_000 + ((high << 32) | low) * 1_000_000_000 // of.ticks_per_s
    if not 0 <= at_ns < LATEST_NS:
        raise ValueError(f"its instant is {at_ns} ns after 1970")
    frame = block[28:-4][:captured_bytes]
    if len(frame) < captured_bytes:
        raise ValueError(f"its packet claims {captured_bytes} bytes")
    return CapturedPacket(at_ns, of.link_type, frame, max(0, sent_bytes - captured_bytes))


_COMPRESSED: Final = re.compile(r"\.(?:gz|zst|xz|bz2|lz4)$", re.IGNORECASE)
_SPLIT: Final = re.compile(
    r"(.+?)(?:_(\d{5}_\d{14}))?\.(?:pcap|pcapng|cap|dmp)(\d*)", re.IGNORECASE
)
"""Names such as rot.pcap12 (tcpdump -C) and rot_00012_20260102030405.pcapng (dumpcap -b)."""


def series_of(name: str) -> tuple[str, str | None]:
    """The name of a capture and the number of its file: ("rot", "1") for rot.pcap1.gz, ("rot", "")
    for rot.pcap; the number is None if the file is not named as a capture."""
    name = _COMPRESSED.sub("", name)
    found = _SPLIT.fullmatch(name)
    return (found[1], found[2] or found[3]) if found else (Path(name).stem, None)


class CaptureFiles:
    """Several capture files; iterating gives the packets of all, as of one file.

    Files of one capture are read one after another, in the order of their first packets; packets
    of different captures are merged by their instants. A live source is the only path.
    """

    def __init__(
        self, paths: Sequence[Path], turn: Turn | None = None, *, follows: bool = False
    ) -> None:
        self.files = [CaptureFile(path, turn, follows=follows) for path in paths]

    @property
    def name(self) -> str:
        more = len(self.files) - 1
        return self.files[0].name + (f" and {more} more" if more else "")

    def total(self, name: str) -> int:
        return sum(getattr(each, name) for each in self.files)

    def __iter__(self) -> Iterator[CapturedPacket]:
        if len(self.files) == 1:
            yield from self.files[0]
            return
        captures: dict[tuple[object, ...], list[tuple[int, int]]] = {}
        for index, file in enumerate(self.files):
            name, number = series_of(file.path.name)
            key = (index,) if number is None else (file.path.parent, name)
            first_ns = 0  # of a pipe, which can be read only once, or an empty file
            if file.path.is_file():
                first_ns = next((each.at_ns for each in CaptureFile(file.path)), 0)
            captures.setdefault(key, []).append((first_ns, index))
        for _, packet in merge(*map(self._capture, captures.values()), key=itemgetter(0)):
            if packet is not None:
                yield packet

    def _capture(
        self, starts: list[tuple[int, int]]
    ) -> Iterator[tuple[int, CapturedPacket | None]]:
        """Packets of the files of one capture with their instants; first only the first instant, so
        that no more files are open than captures overlap."""
        starts.sort()
        yield starts[0][0], None
        for _, index in starts:
            for packet in self.files[index]:
                yield packet.at_ns, packet
