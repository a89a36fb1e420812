"""TraceWriter: writes blocks to a file, append-only."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.errors import TraceError, TraceFormatError
from flinknet.whole_files import close_file

from . import format
from .blocks import IS_DATA, NO_TIMES, Rows, check_block, encode_events
from .manifest import ProcessInfo
from .schema import ROW_DTYPE

_NO_CHANNELS = np.zeros(0, dtype=format.CHANNEL_ENTRY)
_COLUMNS_WITHOUT_TIMES = len(ROW_DTYPE) + 1


class TraceWriter:
    """Writes one trace file: the header first, then blocks, and the trailer at close.

    Invariant: the file is a header and complete blocks. An incomplete write is cut off again, so a
        full disk costs only the block that did not fit; the next one that fits is written with the
        number of events that are missing before it. If the cut fails, too, it is tried again before
        the next block. The first block with times raises the version in the header.

    Attributes:
        dropped_events: events that could not be written.
        size_bytes: bytes written so far.
    """

    def __init__(self, path: Path, process: ProcessInfo) -> None:
        """Create the file, which must not exist. Raises: TraceError."""
        self.path = path = Path(path)
        self.events = 0
        self.size_bytes = 0
        self._blocks: list[format.BlockEntry] = []
        self.dropped_events = 0
        self._missing_events = 0  # since the last block
        self._is_torn = False  # bytes of an incomplete block are at the end
        self._process = process
        self._version = format.WITHOUT_TIMES
        try:
            self._file = open(path, "xb", buffering=0)  # noqa: SIM115 - closed by close()
        except FileExistsError:
            raise TraceError(f"{path}: exists already; traces are never overwritten") from None
        except OSError as error:
            raise TraceError(f"{path}: cannot create the trace ({error.strerror})") from error
        try:
            self._append(format.encode_file_header(process.to_dict()))
        except TraceError:
            with suppress(OSError):
                self._file.close()
            with suppress(OSError):
                path.unlink(missing_ok=True)
            raise

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write_meta(self, description: dict[str, Any]) -> None:
        """Write a META block: JSON-ready data about the whole file, such as its channels."""
        data = format.encode_meta(description)
        self._add(data, _meta_entry(data))

    def write_events(self, rows: Rows) -> None:
        """Write one EVENTS block of at least one row, in the order of recording."""
        for _ in self.events_in_steps(rows):
            pass

    def copy_block(self, data: bytes) -> None:
        """Write a block from another file, unchanged; events that it says are missing are missing
        here, too. Raises: TraceFormatError if a byte of it is wrong.
        """
        header = format.decode_block_header(data[: format.BLOCK_HEADER_BYTES])
        if header is None or header.length_bytes != len(data):
            raise TraceFormatError("the header of a block is damaged")
        entry = check_block(header, data[format.BLOCK_HEADER_BYTES :], 0)
        self._add(data, entry, has_times=header.columns > _COLUMNS_WITHOUT_TIMES)
        if format.may_be_gap(entry):
            self.dropped_events += format.missing_events(data[format.BLOCK_HEADER_BYTES :])

    def events_in_steps(self, rows: Rows, times: Rows = NO_TIMES) -> Iterator[None]:
        """Write one EVENTS block in steps of some 0.1 ms; `rows` must not change until the last."""
        data, entry = yield from encode_events(rows, times)
        self._add(data, entry, has_times=len(times) > 0)

    def close(self, *, dropped_events: int = 0) -> None:
        """Write the trailer, which proves a clean end, and close the file; idempotent. More events
        may have been dropped than this writer knows of.

        Raises: TraceError if the trailer could not be written, or if earlier data did not reach the
        disk.
        """
        if self._file.closed:
            return
        try:
            dropped_events = max(dropped_events, self.dropped_events)
            trailer = format.Trailer(self.events, dropped_events, tuple(self._blocks))
            self._append(format.encode_end(trailer, self.size_bytes))
        finally:
            try:
                close_file(self._file)
            except OSError as error:
                raise self._failed(error) from error

    def drop(self, events: int) -> None:
        self.dropped_events += events
        self._missing_events += events

    def _add(self, data: bytes, entry: format.BlockEntry, *, has_times: bool = False) -> None:
        """Write a block, in one piece with the number of events that are missing before it."""
        if has_times and self._version == format.WITHOUT_TIMES:
            self._version = format.FORMAT_VERSION
            header = format.encode_file_header(self._process.to_dict(), format.FORMAT_VERSION)
            with suppress(OSError):  # as for the block itself, which reports it
                os.pwrite(self._file.fileno(), header, 0)
        gap = b""
        if self._missing_events:
            gap = format.encode_meta({format.DROPPED_EVENTS: self._missing_events})
        offset = self.size_bytes
        try:
            self._append(gap + data)
        except TraceError:
            self.drop(entry.count)
            raise
        if gap:
            self._blocks.append(replace(_meta_entry(gap), offset=offset))
            self._missing_events = 0
        self._blocks.append(replace(entry, offset=offset + len(gap)))
        self.events += entry.count

    def _append(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            if self._is_torn:
                self._cut_back()
            self._is_torn = True
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            with suppress(OSError):
                self._cut_back()
            raise self._failed(error) from error
        self._is_torn = False
        self.size_bytes += len(data)

    def _cut_back(self) -> None:
        self._file.truncate(self.size_bytes)
        self._file.seek(self.size_bytes)
        self._is_torn = False

    def _failed(self, error: OSError) -> TraceError:
        cause = str(error.strerror)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            cause = "no space left on the device; free some, or write to another place"
        elif error.errno == errno.EFBIG:
            cause = "no space left under the file size limit (ulimit -f); raise it, or trace a"
            cause += " shorter run"
        return TraceError(f"{self.path}: cannot write the trace: {cause}")


def _meta_entry(data: bytes) -> format.BlockEntry:
    return format.BlockEntry(0, len(data), format.BlockType.META, 0, 0, 0, _NO_CHANNELS)


ROWS_PER_STEP = 8_192
"""Rows counted without a break, in some 0.1 ms."""

_BY_CHANNEL = (
    *("channel_bytes_in", "channel_buffers"),
    *("channel_backlog_sum", "channel_backlog_max"),
)


class EventWriter(Protocol):
    """Takes full blocks of rows (writer.TraceWriter)."""

    def events_in_steps(self, rows: Rows, times: Rows = NO_TIMES) -> Iterator[None]:
        """Write rows, a step at a time, with the times of some of them."""

    def close(self, *, dropped_events: int = 0) -> None:
        """End the file."""


class CountingWriter:
    """An EventWriter that counts rows and passes them on to the next one, if there is one."""

    def __init__(self, writer: EventWriter | None) -> None:
        self._writer = writer

    def count(self, rows: NDArray[np.void]) -> None:
        """Count up to ROWS_PER_STEP rows."""
        raise NotImplementedError

    def events_in_steps(self, rows: Rows, times: Rows = NO_TIMES) -> Iterator[None]:
        for start in range(0, len(rows), ROWS_PER_STEP):
            self.count(rows[start : start + ROWS_PER_STEP])
            yield
        if self._writer is not None:
            yield from self._writer.events_in_steps(rows, times)

    def close(self, *, dropped_events: int = 0) -> None:
        if self._writer is not None:
            self._writer.close(dropped_events=dropped_events)


class EventStatistics(CountingWriter):
    """Counts events for the result of a run, from measured_from_ns on, with the drain, which has
    the last records of the measured part: data buffers sent, their flush reasons and backlog, bytes
    of buffers received, credit announced. Arrays are indexed by channel; backlog is its sum there.
    """

    def __init__(self, channels: int, writer: EventWriter | None) -> None:
        super().__init__(writer)
        self.measured_from_ns = 0
        self.buffers = 0
        self.buffer_bytes = 0
        self.events = 0
        self.reasons = np.zeros(len(FlushReason), np.int64)
        self.credit_announced = 0
        self.credit_messages = 0
        self.channel_bytes_in = np.zeros(channels, np.int64)
        self.channel_buffers = np.zeros(channels, np.int64)
        self.channel_backlog_sum = np.zeros(channels, np.int64)
        self.channel_backlog_max = np.zeros(channels, np.int64)

    def grow(self, channels: int) -> None:
        """Extend the arrays to `channels` channels."""
        more = channels - len(self.channel_buffers)
        if more > 0:
            for name in _BY_CHANNEL:
                setattr(self, name, np.pad(getattr(self, name), (0, more)))

    def count(self, rows: NDArray[np.void]) -> None:
        """Add rows to the totals. Reads only the necessary columns of the relevant rows: 15 ns per
        row, against 100 for selecting whole rows.
        """
        point, kind = rows["point"].copy(), rows["kind"].copy()
        counts = rows["at_ns"] >= self.measured_from_ns
        is_buffer = counts & (kind == MessageKind.BUFFER_RESPONSE)
        is_sent = point == TracePoint.SENT
        credits = rows["value"][counts & is_sent & (kind == MessageKind.ADD_CREDIT)]
        self.credit_announced += int(credits.sum())
        self.credit_messages += len(credits)
        received = np.flatnonzero(is_buffer & (point == TracePoint.RECEIVED))
        channel, size_bytes = rows["channel"][received], rows["payload_bytes"][received]
        known, channels = channel >= 0, len(self.channel_bytes_in)
        sizes = np.bincount(channel[known], size_bytes[known], channels)
        self.channel_bytes_in += sizes.astype(np.int64)
        sent = np.flatnonzero(is_buffer & is_sent)
        data = sent[IS_DATA[rows["data_type"][sent]]]
        self.events += len(sent) - len(data)
        if not len(data):
            return
        self.buffers += len(data)
        self.buffer_bytes += int(rows["payload_bytes"][data].sum(dtype=np.int64))
        self.reasons += np.bincount(rows["reason"][data], minlength=len(FlushReason))
        # np.maximum.at takes a tenth of the time if it need not convert
        channel = rows["channel"][data].astype(np.int64)
        backlog = rows["backlog_buffers"][data].astype(np.int64)
        if channel.min() < 0:
            known = channel >= 0
            channel, backlog = channel[known], backlog[known]
        self.channel_buffers += np.bincount(channel, minlength=channels)
        self.channel_backlog_sum += np.bincount(channel, backlog, channels).astype(np.int64)
        np.maximum.at(self.channel_backlog_max, channel, backlog)
