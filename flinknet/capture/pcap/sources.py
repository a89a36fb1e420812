"""Bytes of a capture from a file, a pipe or standard input, decompressed if necessary."""

from __future__ import annotations

import bz2
import lzma
import os
import select
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, Final, NamedTuple

import lz4.frame
import zstandard

STANDARD_INPUT: Final = Path("-")

MEMORY_BYTES_MAX: Final = 1 << 28
"""Most memory of a decompressor, in bytes; `zstd --long=31` and the like need more."""

_PIECE_BYTES: Final = 1 << 16


class ReadingError(Exception):
    """A source cannot be opened or read; the cause is the OSError."""


class DecompressionError(Exception):
    """Compressed data cannot be read; the text has the tool that made it and the reason."""


class _Compression(NamedTuple):
    tool: str
    magic: bytes
    create: Callable[[], Any]  # a decompressor of one frame
    step_bytes: int  # compressed bytes decompressed at a time; fewer where compression is stronger


_COMPRESSIONS: Final = (
    _Compression("gzip", b"\x1f\x8b", lambda: zlib.decompressobj(31), 1 << 14),
    _Compression(
        "zstd",
        b"\x28\xb5\x2f\xfd",
        lambda: zstandard.ZstdDecompressor(max_window_size=MEMORY_BYTES_MAX).decompressobj(),
        1 << 10,
    ),
    _Compression(
        "xz",
        b"\xfd7zXZ\0",
        lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY_BYTES_MAX),
        1 << 10,
    ),
    _Compression("bzip2", b"BZh", bz2.BZ2Decompressor, 1 << 6),
    _Compression("lz4", b"\x04\x22\x4d\x18", lz4.frame.LZ4FrameDecompressor, 1 << 16),
)

_MAGIC_BYTES: Final = max(len(each.magic) for each in _COMPRESSIONS)

Turn = Callable[[bool], float | None]
"""Does what is due before a live source is read, given whether bytes have come since the last call.
Returns: the longest time to wait for bytes, in s; None to end reading."""


def is_pipe(path: Path) -> bool:
    """Whether bytes come from a pipe, a socket or a terminal, and so may come live."""
    try:
        mode = (os.fstat(sys.stdin.fileno()) if path == STANDARD_INPUT else path.stat()).st_mode
    except (OSError, ValueError, AttributeError):  # no descriptor, as for a stream in memory
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def open_capture(path: Path, turn: Turn | None = None, *, follows: bool = False) -> BufferedReader:
    """Open a file to read its decompressed bytes once, from beginning to end.

    Args:
        path: a file or a pipe; STANDARD_INPUT for standard input.
        turn: called again and again while bytes are read or awaited; None: reads wait for bytes.
        follows: at the end of a regular file, wait for more.

    Reading raises: EOFError after the last byte if compressed data ends early;
        DecompressionError; ReadingError; the errors of `turn`.
    Raises: ReadingError.
    """
    with _reading():
        file = _File(path) if turn is None else _LiveFile(path, turn, follows)
    return BufferedReader(_Pieces(file), _PIECE_BYTES)


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ReadingError(error.strerror or str(error)) from error


class _File:
    """A file or a pipe whose `read` waits for bytes."""

    def __init__(self, path: Path) -> None:
        self._is_own = path != STANDARD_INPUT
        self._file = path.open("rb") if self._is_own else sys.stdin.buffer

    def read(self, size: int) -> bytes:
        with _reading():
            return self._file.read(size)

    def close(self) -> None:
        if self._is_own:
            self._file.close()


class _LiveFile:
    """A pipe, or a file that grows, whose `read` returns the bytes that have come."""

    def __init__(self, path: Path, turn: Turn, follows: bool) -> None:
        self._is_own = path != STANDARD_INPUT
        # a named pipe without a writer must not hold up signals
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        self._descriptor = os.open(path, flags) if self._is_own else sys.stdin.fileno()
        self._turn = turn
        self._follows = follows and stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        self._has_come = False

    def read(self, size: int) -> bytes:
        """Wait for bytes. Returns: at most `size` of them; none at the end."""
        waited_for = [] if self._follows else [self._descriptor]
        while (timeout_s := self._turn(self._has_come)) is not None:
            self._has_come = False
            with _reading():
                if self._follows or select.select(waited_for, [], [], timeout_s)[0]:
                    data = os.read(self._descriptor, size)
                    self._has_come = bool(data)
                    if data or not self._follows:
                        return data
                    select.select([], [], [], timeout_s)
        return b""

    def close(self) -> None:
        if self._is_own:
            os.close(self._descriptor)


class _Pieces(RawIOBase):
    def __init__(self, file: _File | _LiveFile) -> None:
        self._file = file
        self._pieces = _pieces(file)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:  # no piece is empty
            self._left = memoryview(next(self._pieces, b""))
        taken = self._left[: len(buffer)]
        buffer[: len(taken)] = taken
        self._left = self._left[len(taken) :]
        return len(taken)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _pieces(file: _File | _LiveFile) -> Iterator[bytes]:
    head = file.read(_MAGIC_BYTES)
    while len(head) < _MAGIC_BYTES and (more := file.read(_MAGIC_BYTES - len(head))):
        head += more
    for each in _COMPRESSIONS:
        if head.startswith(each.magic):
            yield from _decompressed(file, head, each)
            return
    while head:
        yield head
        head = file.read(_PIECE_BYTES)


def _decompressed(
    file: _File | _LiveFile, data: bytes, compression: _Compression
) -> Iterator[bytes]:
    frame: Any = None
    while data := data or file.read(compression.step_bytes):
        if frame is None:  # zeros after a frame are padding of a tape or disk block
            data = data.lstrip(b"\0")
            frame = compression.create() if data else None
            continue
        try:
            piece = frame.decompress(data)
        except (zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError, RuntimeError) as error:
            raise DecompressionError(f"{compression.tool}: {error}") from error
        data = b""
        if frame.eof:
            data, frame = frame.unused_data, None
        if piece:
            yield piece
    if frame is not None:
        raise EOFError
