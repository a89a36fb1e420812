"""A log for the tools of HdrHistogram: the latencies of the buffers of each channel, second by
second, each channel under a tag of its own.

The log's format is version 1.3 (tags), its histograms are encoded by "V2": three significant
digits, counts as ZigZag LEB128, compressed, in base 64.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator

import numpy as np

from flinknet.arrays import IntArray
from flinknet.storage import AnyPath
from flinknet.trace.buffers import ChannelBuffers
from flinknet.units import NS_PER_S

from .buffers import begun_ns, channel_title, channels_read
from .files import whole_text_file
from .selection import Selection
from .tables import OnRows

SIGNIFICANT_DIGITS = 3
HIGHEST_TRACKABLE_NS = 24 * 3600 * NS_PER_S
"""Longer latencies count as this one."""

_SUB_BUCKET_BITS = 11
"""2048 linear buckets, then every power of two in 1024: what three digits need."""
_HALF_BITS = _SUB_BUCKET_BITS - 1

_COOKIE = 0x1C849313
_COMPRESSED_COOKIE = 0x1C849314
_NO_CONVERSION = bytes.fromhex("3ff0000000000000")  # 1.0
_LONGEST_VARINT_BYTES = 9

Line = tuple[float, int, str]
"""Start of the interval in seconds and channel, by which lines are sorted, and the line itself."""


def write_hdr(selection: Selection, path: AnyPath, on_rows: OnRows = lambda _: None) -> int:
    """Write the log; returns the number of buffers in it.

    A buffer counts in the second in which its consumer was done with it. Seconds count from the
    start of the measured part, or from the first event if the selection begins before it.
    """
    zero_ns = selection.first_ns if selection.from_ns is None else selection.from_ns
    zero_ns = min(zero_ns, selection.origin_ns)
    started_at = selection.run.manifest.started_at if selection.run.manifest is not None else ""
    lines: list[Line] = []
    titles = []
    buffers = 0
    for info, _, paired in channels_read(selection):
        titles.append(channel_title(info))
        lines.extend(_interval_lines(info.index, paired, zero_ns))
        buffers += len(paired.sequence_number)
        on_rows(buffers)
    with whole_text_file(path) as file:
        file.write(
            "#[flinknet: latency of each buffer in ns, from its first record until its consumer was"
            " done with it]\n"
        )
        file.write(f"#[Run: {selection.run.path.name}, recorded at {started_at}]\n")
        for title in titles:
            file.write(f"#[{title}]\n")
        file.write("#[Histogram log format version 1.3]\n")
        file.write("#[StartTime: 0.000 (seconds since epoch)]\n")
        file.write(
            '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n'
        )
        file.writelines(f"{text}\n" for _, _, text in sorted(lines))
    return buffers


def _interval_lines(channel: int, buffers: ChannelBuffers, zero_ns: int) -> Iterator[Line]:
    latency_ns = np.clip(buffers.consumed_ns - begun_ns(buffers), 0, HIGHEST_TRACKABLE_NS)
    second = (buffers.consumed_ns - zero_ns) // NS_PER_S
    for start in np.unique(second).tolist():
        of_second = latency_ns[second == start]
        encoded = encode_histogram(of_second)
        yield (
            start,
            channel,
            f"Tag=channel-{channel},{start:.3f},1.000,{int(of_second.max()) / 1e6:.3f},{encoded}",
        )


def encode_histogram(values: IntArray) -> str:
    """The histogram of some values (0 to HIGHEST_TRACKABLE_NS) as text.

        cookie  length  offset  digits  lowest  highest  ratio | counts
        u4      u4      u4      u4      i8      i8       f8    | ZigZag LEB128 each

    A negative count -n stands for n buckets without a value. All of it is compressed and stands
    behind a cookie and its length (u4 each); numbers are big-endian.
    """
    indexes, counts = np.unique(count_index(values), return_counts=True)
    encoded = bytearray()
    following = 0
    for index, count in zip(indexes.tolist(), counts.tolist(), strict=True):
        if index > following:
            encoded += _zigzag_leb128(following - index)
        encoded += _zigzag_leb128(count)
        following = index + 1
    header = [_COOKIE, len(encoded), 0, SIGNIFICANT_DIGITS]
    body = b"".join(
        [
            *(number.to_bytes(4, "big") for number in header),
            (1).to_bytes(8, "big"),
            HIGHEST_TRACKABLE_NS.to_bytes(8, "big"),
            _NO_CONVERSION,
            encoded,
        ]
    )
    compressed = zlib.compress(body)
    frame = _COMPRESSED_COOKIE.to_bytes(4, "big") + len(compressed).to_bytes(4, "big") + compressed
    return base64.b64encode(frame).decode("ascii")


def count_index(values: IntArray) -> IntArray:
    """Where HdrHistogram counts each value (HdrHistogram: countsArrayIndex)."""
    bits = np.frexp(np.maximum(values, 1).astype(np.float64))[1].astype(np.int64)
    bucket = np.maximum(bits - _SUB_BUCKET_BITS, 0)
    index: IntArray = (bucket << _HALF_BITS) + (values >> bucket)
    return index


def _zigzag_leb128(value: int) -> bytes:
    """An int64 in one to nine bytes; the ninth holds eight bits."""
    rest = ((value << 1) ^ (value >> 63)) & 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while rest > 0x7F and len(encoded) < _LONGEST_VARINT_BYTES - 1:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
