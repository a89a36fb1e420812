"""Files of one capture, as `tcpdump -C` and `dumpcap -b` split it, or of several captures: names,
and packets in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import chain
from pathlib import Path
from typing import Final

from .files import CapturedPacket, CaptureFile
from .sources import Turn

_COMPRESSED: Final = re.compile(r"\.(?:gz|zst|xz|bz2|lz4)$", re.IGNORECASE)
_SPLIT: Final = re.compile(
    r"(.+?)(?:_(\d{5}_\d{14}))?\.(?:pcap|pcapng|cap|dmp)(\d*)", re.IGNORECASE
)
"""Names such as rot.pcap12 (tcpdump -C) and rot_00012_20260102030405.pcapng (dumpcap -b)."""


def series_of(name: str) -> tuple[str, str | None]:
    """The name of a capture and the number of its file: ("rot", "1") for rot.pcap1.gz, ("rot", "")
    for rot.pcap; the number is None if the file is not named as a capture.
    """
    name = _COMPRESSED.sub("", name)
    found = _SPLIT.fullmatch(name)
    return (found[1], found[2] or found[3]) if found else (Path(name).stem, None)


class CaptureFiles:
    """Several capture files; iterating gives the packets of all, as of one file.

    Files of one capture are read one after another, in the order of their first packets; packets
    of different captures are merged by their instants.

    Args:
        turn, follows: for a live source, which is the only path; see `open_capture`.

    Raises: errors of a CaptureFile.
    """

    def __init__(
        self, paths: Sequence[Path], turn: Turn | None = None, *, follows: bool = False
    ) -> None:
        self.files = [CaptureFile(path, turn, follows=follows) for path in paths]

    @property
    def name(self) -> str:
        """The names of the files."""
        more = len(self.files) - 1
        return self.files[0].name + (f" and {more} more" if more else "")

    @property
    def short_names(self) -> str:
        """The names of all files, without their directories."""
        return ", ".join(Path(each.name).name for each in self.files)

    @property
    def packets(self) -> int:
        """Packets given so far."""
        return sum(each.packets for each in self.files)

    @property
    def truncated(self) -> list[str]:
        """Names of the files that ended in the middle of a packet."""
        return [each.name for each in self.files if each.is_truncated]

    @property
    def dropped_packets(self) -> int:
        """Packets that capture programs did not get."""
        return sum(each.dropped_packets for each in self.files)

    @property
    def unread_blocks(self) -> int:
        """Blocks of unknown kinds, which may contain packets."""
        return sum(each.unread_blocks for each in self.files)

    @property
    def timeless_packets(self) -> int:
        """Packets that state no instant."""
        return sum(each.timeless_packets for each in self.files)

    def __iter__(self) -> Iterator[CapturedPacket]:
        if len(self.files) == 1:
            return iter(self.files[0])
        return self._merged()

    def _merged(self) -> Iterator[CapturedPacket]:
        captures: dict[tuple[object, ...], list[tuple[int, int]]] = {}
        for index, file in enumerate(self.files):
            name, number = series_of(file.path.name)
            key = (index,) if number is None else (file.path.parent, name)
            captures.setdefault(key, []).append((file.first_ns(), index))
        # A capture waits with its first instant and is opened only then: no more files are open
        # than captures overlap.
        waiting: list[tuple[int, int, CapturedPacket | None]] = []
        packets: dict[int, Iterator[CapturedPacket]] = {}
        for starts in captures.values():
            starts.sort()
            at_ns, first = starts[0]
            packets[first] = chain.from_iterable(self.files[index] for _, index in starts)
            waiting.append((at_ns, first, None))
        heapify(waiting)
        while waiting:
            _, index, packet = waiting[0]
            if packet is not None:
                yield packet
            packet = next(packets[index], None)
            if packet is None:
                heappop(waiting)
            else:
                heapreplace(waiting, (packet.at_ns, index, packet))
