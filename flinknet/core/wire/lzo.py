"""LZO1X decompression of one raw block, for exchanges of a Flink configured for LZO.

A block is a sequence of instructions: literals to copy from the input, or a match to copy from the
output so far, followed by up to three literals. `11 00 00` ends it. The meaning of an instruction
below 16 depends on the number of literals that the previous one copied.
"""

from __future__ import annotations

from flinknet.errors import FrameCorruptedError

_LONG_RUN = 4
"""Literals of the last instruction: 0 to 3 after a match, this for a run of four or more."""


def decompress_lzo1x(block: bytes, original_bytes: int) -> bytes:
    """Decompress `block`.

    Raises: FrameCorruptedError if it is truncated, refers to missing data, or does not yield
    exactly `original_bytes`.
    """
    try:
        return _Lzo(block, original_bytes).decompress()
    except IndexError as error:
        raise FrameCorruptedError("the LZO block is truncated") from error


class _Lzo:
    """Decompression state. Invariant: never more than original_bytes of output."""

    def __init__(self, block: bytes, original_bytes: int) -> None:
        self.block = block
        self.original_bytes = original_bytes
        self.at = 0
        self.out = bytearray()

    def decompress(self) -> bytes:
        literals = 0
        if self.block[0] > 17:
            first_run = self._byte() - 17
            self._copy_literals(first_run)
            literals = min(first_run, _LONG_RUN)
        while True:
            code = self._byte()
            if code < 16 and literals == 0:
                self._copy_literals(3 + self._length(code, 15))
                literals = _LONG_RUN
                continue
            distance, length, literals = self._match(code, literals)
            if distance == 0:
                break
            self._copy_match(distance, length)
            self._copy_literals(literals)
        if self.at != len(self.block) or len(self.out) != self.original_bytes:
            raise FrameCorruptedError("the LZO block does not have the announced length")
        return bytes(self.out)

    def _match(self, code: int, literals: int) -> tuple[int, int, int]:
        """Distance (0 at the end of the block), length, and the literals that follow the match."""
        if code >= 64:
            length = 5 + (code >> 5 & 3) if code >= 128 else 3 + (code >> 5 & 1)
            return (self._byte() << 3) + (code >> 2 & 7) + 1, length, code & 3
        if code >= 32:
            length = 2 + self._length(code & 31, 31)
            low = self._little_endian()
            return (low >> 2) + 1, length, low & 3
        if code >= 16:
            length = 2 + self._length(code & 7, 7)
            low = self._little_endian()
            far = ((code & 8) << 11) + (low >> 2)
            return (far + 0x4000 if far else 0), length, low & 3
        near = (self._byte() << 2) + (code >> 2 & 3) + 1
        if literals == _LONG_RUN:
            return near + 0x800, 3, code & 3
        return near, 2, code & 3

    def _byte(self) -> int:
        self.at += 1
        return self.block[self.at - 1]

    def _little_endian(self) -> int:
        return self._byte() | self._byte() << 8

    def _length(self, short: int, longest: int) -> int:
        """A length that does not fit its bits continues in bytes: zeros of 255 each,
        then the rest.
        """
        if short:
            return short
        length = longest
        while not (rest := self._byte()):
            length += 255
        return length + rest

    def _copy_literals(self, length: int) -> None:
        if length > len(self.block) - self.at:
            raise FrameCorruptedError("the LZO block is truncated")
        self._check_room(length)
        self.out += self.block[self.at : self.at + length]
        self.at += length

    def _copy_match(self, distance: int, length: int) -> None:
        """Copy a match, which may overlap its own output: its start is repeated then."""
        if distance > len(self.out):
            raise FrameCorruptedError("the LZO block refers to bytes before its start")
        self._check_room(length)
        start = len(self.out) - distance
        pattern = self.out[start : start + length]
        self.out += (pattern * (length // len(pattern) + 1))[:length]

    def _check_room(self, length: int) -> None:
        if len(self.out) + length > self.original_bytes:
            raise FrameCorruptedError("the LZO block is longer than announced")
