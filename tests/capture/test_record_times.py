"""The times that records carry, from the bytes of a connection to the columns of a trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flinknet.capture import ChannelTable, ConnectionObserver
from flinknet.capture.observed_connection import SAMPLED_PER_S
from flinknet.core.wire.records import (
    NO_TIME,
    WATERMARK_IDLE,
    LatencyMarker,
    Record,
    StreamElement,
    Watermark,
    WatermarkStatus,
    encode_record,
)
from flinknet.job.elements import StreamElementSerializer
from flinknet.job.serializers import serializer_of
from flinknet.trace import ProcessInfo, TraceReader, TraceRecorder, TraceWriter
from flinknet.trace.schema import TIME_NAMES, TIMESTAMPS
from tests.capture.conversations import buffer, request

MS = 1_000_000


class Capture:
    """A connection that is recorded, with times or without."""

    def __init__(self, directory: Path, *, has_times: bool = True) -> None:
        self.path = directory / "tap.fnt"
        self.recorder = TraceRecorder(TraceWriter(self.path, ProcessInfo("tap", "tap.fnt", 1)))
        note_times = self.recorder.note_times if has_times else None
        self.observer = ConnectionObserver(self.recorder, ChannelTable(), note_times=note_times)
        self.observer.from_client(request().encode(), 0)
        self.number = 0

    def send(self, payload: bytes, at_ns: int = 7, **header: bool) -> None:
        self.observer.from_server(buffer(self.number, payload, **header).encode(), at_ns)  # type: ignore[arg-type]
        self.number += 1

    def rows(self) -> dict[str, list[int]]:
        """Columns of the data buffers, in the order of their sequence numbers."""
        self.recorder.close()
        names = ("sequence_number", "records", *TIME_NAMES)
        with TraceReader(self.path) as reader:
            (block,) = reader.events(names)
        is_data = block["sequence_number"] >= 0
        order = np.argsort(block["sequence_number"][is_data])
        return {name: values[is_data][order].tolist() for name, values in block.items()}


def encoded(*elements: StreamElement) -> bytes:
    return b"".join(map(encode_record, elements))


def test_a_record_counts_and_has_its_time_in_the_buffer_in_which_it_ends(tmp_path: Path) -> None:
    capture = Capture(tmp_path)
    stream = encoded(Record(b"1", 1000), Record(b"2" * 50, 1007), Record(b"3", 990))
    capture.send(stream[:25])
    capture.send(stream[25:] + encoded(Watermark(985)))
    rows = capture.rows()
    assert rows["records"] == [1, 2]
    assert [rows[name] for name in TIMESTAMPS[:3]] == [
        [1000, 1007],
        [NO_TIME, 990 - 1007],
        [NO_TIME, NO_TIME],
    ]
    assert rows["watermark_ms"] == [NO_TIME, 985]


def test_jobs_of_flinknet_write_the_same_elements(tmp_path: Path) -> None:
    capture = Capture(tmp_path)
    serializer = StreamElementSerializer(serializer_of("long"))
    values, stamps = np.arange(5), np.arange(5, dtype=np.int64) * 10
    capture.send(bytes(serializer.write(values, stamps).data))
    rows = capture.rows()
    assert [rows[name][0] for name in TIMESTAMPS[:6]] == [0, 10, 20, 30, 40, NO_TIME]


def test_the_last_watermark_status_and_marker_of_a_buffer_are_kept(tmp_path: Path) -> None:
    capture = Capture(tmp_path)
    idle = WatermarkStatus(WatermarkStatus.IDLE)
    capture.send(encoded(Watermark(1), LatencyMarker(5, bytes(16), 0), Watermark(2)))
    capture.send(encoded(Watermark(3), idle))
    rows = capture.rows()
    assert rows["watermark_ms"] == [2, WATERMARK_IDLE]
    assert rows["marker_ms"] == [5, NO_TIME]


@pytest.mark.parametrize("has_times", [True, False])
def test_without_times_the_file_has_no_columns_for_them(tmp_path: Path, has_times: bool) -> None:
    """Of records without timestamps, or where they are not asked for, the bytes are the same."""
    capture = Capture(tmp_path, has_times=has_times)
    capture.send(encoded(Record(b"1", None if has_times else 4)))
    capture.recorder.close()
    with TraceReader(capture.path) as reader:
        assert not set(TIME_NAMES) & set(reader.stored_columns(0))


def test_a_buffer_whose_records_are_not_certain_has_no_times(tmp_path: Path) -> None:
    capture = Capture(tmp_path)
    capture.send(encoded(Record(b"1", 4)), is_compressed=True)
    capture.send(encoded(Record(b"1", 5)))
    capture.number += 1  # a lost buffer
    capture.send(encoded(Record(b"1", 6)))
    rows = capture.rows()
    assert rows["records"] == [-1, -1, -1]
    assert set(rows["timestamp_1_ms"]) == {NO_TIME}


def test_of_a_fast_connection_some_buffers_are_sampled_all_watermarks_are_read(
    tmp_path: Path,
) -> None:
    capture = Capture(tmp_path)
    payload = encoded(Record(b"1", 4), Watermark(3))
    for number in range(4 * SAMPLED_PER_S):
        capture.send(payload, number * MS // 8)  # eight times as many as are allowed
    rows = capture.rows()
    sampled = sum(each != NO_TIME for each in rows["timestamp_1_ms"][SAMPLED_PER_S:])
    assert sampled == pytest.approx(3 * SAMPLED_PER_S / 8, rel=0.2)
    assert set(rows["watermark_ms"]) == {3}
