"""A log for the tools of HdrHistogram: latencies of buffers, second by second, with a tag for each
channel; or latencies of the records of whole runs.

The log's format is version 1.3 (tags). Its histograms have the encoding "V2": three significant
digits, counts as ZigZag LEB128, compressed, in base 64.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from flinknet.arrays import IntArray
from flinknet.storage import AnyPath
from flinknet.units import NS_PER_S

from .selection import Selection, begun_ns, channel_titles, channels_read, whole_text_file
from .tables import OnRows

SIGNIFICANT_DIGITS = 3
HIGHEST_TRACKABLE_NS = 24 * 3600 * NS_PER_S
"""Longest latency, in ns; longer ones count as this one."""

_SUB_BUCKET_BITS = 11
"""log2 of the sub-buckets: 2048 linear ones, then 1024 per power of two, for three digits."""
_HALF_BITS = _SUB_BUCKET_BITS - 1

_COOKIE = 0x1C849313
_COMPRESSED_COOKIE = 0x1C849314
_NO_CONVERSION = bytes.fromhex("3ff0000000000000")  # 1.0
_LONGEST_VARINT_BYTES = 9


def write_hdr(selection: Selection, path: AnyPath, on_rows: OnRows = lambda _: None) -> int:
    """Write the log. Returns: the number of buffers in it.

    A buffer counts in the second in which it was consumed. Seconds count from the start of the
    measured part, or from the selection's first event if that is earlier.
    """
    zero_ns = selection.first_ns if selection.from_ns is None else selection.from_ns
    zero_ns = min(zero_ns, selection.origin_ns)
    manifest = selection.run.manifest
    started_at = manifest.started_at if manifest is not None else ""
    epoch_ns = manifest.clock.epoch_ns if manifest is not None else None
    start_s = _seconds_since_1970(started_at) if epoch_ns is None else (zero_ns - epoch_ns) / 1e9
    lines: list[tuple[float, int, str]] = []  # start in s, channel
    titles = channel_titles(selection)
    buffers = 0
    for info, _, paired in channels_read(selection):
        latency_ns = np.clip(paired.consumed_ns - begun_ns(paired), 0, HIGHEST_TRACKABLE_NS)
        second = (paired.consumed_ns - zero_ns) // NS_PER_S
        for at in np.unique(second).tolist():
            of_second = latency_ns[second == at]
            longest_ms, encoded = int(of_second.max()) / 1e6, encode_histogram(of_second)
            text = f"Tag=channel-{info.index},{at:.3f},1.000,{longest_ms:.3f},{encoded}"
            lines.append((at, info.index, text))
        buffers += len(paired.sequence_number)
        on_rows(buffers)
    comments = [
        "flinknet: latency of each buffer in ns, from its first record until its consumer was done"
        " with it",
        f"Run: {selection.run.path.name}, recorded at {started_at}",
        *titles.values(),
    ]
    _write_log(path, comments, start_s, (text for _, _, text in sorted(lines)))
    return buffers


@dataclass(frozen=True, slots=True)
class RunLatencies:
    """Latencies of the records of a run, as numbers of records by latency, with a tag."""

    tag: str
    duration_ns: int
    values_ns: IntArray
    records: IntArray

    @classmethod
    def of_ranges(
        cls,
        tag: str,
        duration_ns: int,
        low_ns: Sequence[float],
        high_ns: Sequence[float],
        records: Sequence[int],
    ) -> RunLatencies:
        """Make latencies from a histogram; each record counts in the middle of its range."""
        middles_ns = (np.asarray(low_ns) + np.asarray(high_ns) - 1) / 2
        return cls(tag, duration_ns, middles_ns.astype(np.int64), np.asarray(records, np.int64))


def write_records_hdr(
    path: AnyPath, runs: Iterable[RunLatencies], started_at: str | None = None
) -> None:
    """Write a log with an interval for each run, under its tag; `started_at` is the start of the
    first run, in ISO 8601, None if unknown."""
    lines = []
    for run in runs:
        values_ns = np.clip(run.values_ns, 0, HIGHEST_TRACKABLE_NS)
        longest_ms = int(values_ns.max()) / 1e6
        tag = re.sub(r"[\s,]+", "_", run.tag)
        lines.append(
            f"Tag={tag},0.000,{run.duration_ns / 1e9:.3f},{longest_ms:.3f},"
            f"{encode_histogram(values_ns, run.records)}"
        )
    start_s = _seconds_since_1970(started_at or "")
    _write_log(path, ["flinknet: latency of each record in ns"], start_s, lines)


def _seconds_since_1970(iso: str) -> float | None:
    """The Unix time of an ISO text, in seconds; None for any other text."""
    try:
        return datetime.fromisoformat(iso).timestamp()
    except ValueError:
        return None


def _write_log(
    path: AnyPath, comments: Iterable[str], start_s: float | None, lines: Iterable[str]
) -> None:
    head = [*comments, "Histogram log format version 1.3"]
    if start_s is not None:
        head.append(f"StartTime: {start_s:.3f} (seconds since epoch)")
    with whole_text_file(path) as file:
        for comment in head:
            file.write(f"#[{comment}]\n")
        file.write(
            '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n'
        )
        file.writelines(f"{text}\n" for text in lines)


def encode_histogram(values: IntArray, weights: IntArray | None = None) -> str:
    """The histogram of values (0 to HIGHEST_TRACKABLE_NS) as text.

        cookie  length  offset  digits  lowest  highest  ratio | counts
        u4      u4      u4      u4      i8      i8       f8    | ZigZag LEB128 each

    A negative count -n stands for n buckets without a value. The whole is compressed and follows a
    cookie and its length (u4 each); numbers are big-endian.

    Args:
        weights: number of times each value counts; None: once.
    """
    indexes, place = np.unique(count_index(values), return_inverse=True)
    counts = np.zeros(len(indexes), dtype=np.int64)
    np.add.at(counts, place, 1 if weights is None else weights)
    encoded = bytearray()
    following = 0
    for index, count in zip(indexes.tolist(), counts.tolist(), strict=True):
        if index > following:
            encoded += _zigzag_leb128(following - index)
        encoded += _zigzag_leb128(count)
        following = index + 1
    header = [_COOKIE, len(encoded), 0, SIGNIFICANT_DIGITS]
    body = b"".join(number.to_bytes(4, "big") for number in header)
    body += (1).to_bytes(8, "big") + HIGHEST_TRACKABLE_NS.to_bytes(8, "big") + _NO_CONVERSION
    compressed = zlib.compress(body + encoded)
    frame = _COMPRESSED_COOKIE.to_bytes(4, "big") + len(compressed).to_bytes(4, "big") + compressed
    return base64.b64encode(frame).decode("ascii")


def count_index(values: IntArray) -> IntArray:
    """Index of each value's bucket (HdrHistogram: countsArrayIndex)."""
    bits = np.frexp(np.maximum(values, 1).astype(np.float64))[1].astype(np.int64)
    bucket = np.maximum(bits - _SUB_BUCKET_BITS, 0)
    index: IntArray = (bucket << _HALF_BITS) + (values >> bucket)
    return index


def _zigzag_leb128(value: int) -> bytes:
    """Encode an int64 in one to nine bytes; the ninth has eight bits of it."""
    rest = ((value << 1) ^ (value >> 63)) & 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while rest > 0x7F and len(encoded) < _LONGEST_VARINT_BYTES - 1:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
