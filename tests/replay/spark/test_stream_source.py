"""The stream reader: traces that grow, rotate, are dropped by a ring, damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinknet.core.probe import MessageKind, TracePoint
from flinknet.errors import ConfigError, FlinknetError, TraceDamagedError, TraceError
from flinknet.replay.spark.event_rows import EventRows, Wanted
from flinknet.replay.spark.source import Offset, TraceDataSource, TraceStreamReader
from flinknet.trace import ProcessInfo, TraceWriter
from flinknet.trace.format import BLOCK_HEADER_BYTES
from tests.recorded_run import event, rows_of, write_run

MS = 1_000_000


def write_block(writer: TraceWriter, first_ns: int, events: int = 10, channel: int = 0) -> None:
    """A block with an AddCredit each ms, whose value is its instant."""
    rows = [
        event(
            at_ns=at_ns,
            channel=channel,
            kind=MessageKind.ADD_CREDIT,
            point=TracePoint.SENT,
            value=at_ns,
        )
        for at_ns in range(first_ns, first_ns + events * MS, MS)
    ]
    writer.write_events(rows_of(rows))


def new_file(directory: Path, name: str = "tap-0001.fnt") -> TraceWriter:
    directory.mkdir(exist_ok=True)
    return TraceWriter(directory / name, ProcessInfo("tap", name, 1))


ALL = Wanted()


def reader_of(path: Path, wanted: Wanted = ALL, **how: Any) -> TraceStreamReader:
    return TraceStreamReader(path, EventRows(("at_ns", "run"), wanted), **how)


def instants(reader: TraceStreamReader, start: Offset, end: Offset) -> list[int]:
    return sorted(
        at_ns
        for part in reader.partitions(start, end)
        for batch in reader.read(part)
        for at_ns in batch["at_ns"].to_pylist()
    )


def test_what_is_written_between_two_looks_is_read_once(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with new_file(run) as writer:
        reader = reader_of(tmp_path)
        write_block(writer, 0)
        begin = reader.latestOffset()
        assert instants(reader, {}, begin) == list(range(0, 10 * MS, MS))
        assert reader.latestOffset(begin) == begin
        assert reader.partitions(begin, begin) == []
        write_block(writer, 10 * MS)
        later = reader.latestOffset(begin)
        assert instants(reader, begin, later) == list(range(10 * MS, 20 * MS, MS))
    ended = reader.latestOffset(later)  # by the trailer, which holds no events
    assert instants(reader, later, ended) == []
    assert reader.latestOffset(ended) == ended


def test_a_block_that_is_written_in_part_waits_for_its_rest(tmp_path: Path) -> None:
    with new_file(tmp_path / "whole") as writer:
        write_block(writer, 0)
        first = writer.size_bytes
        write_block(writer, 10 * MS)
        second = writer.size_bytes
    data = (tmp_path / "whole" / "tap-0001.fnt").read_bytes()
    run = tmp_path / "run"
    run.mkdir()
    file = run / "tap-0001.fnt"
    reader = reader_of(run)
    for length in (0, 3, 40):
        file.write_bytes(data[:length])
        assert set(reader.latestOffset().values()) <= {0}
    for length in (first, first + 5, first + 70, second - 1):
        file.write_bytes(data[:length])
        assert reader.latestOffset() == {"tap-0001.fnt": first}
    file.write_bytes(data[:second])
    assert reader.latestOffset() == {"tap-0001.fnt": second}


def test_files_and_runs_that_begin_later_are_found(tmp_path: Path) -> None:
    with new_file(tmp_path / "a") as writer:
        write_block(writer, 0)
    reader = reader_of(tmp_path)
    begin = reader.latestOffset()
    for run, name in (("a", "tap-0002.fnt"), ("b", "tap-0001.fnt")):
        with new_file(tmp_path / run, name) as writer:
            write_block(writer, 50 * MS, events=1)
    later = reader.latestOffset(begin)
    assert instants(reader, begin, later) == [50 * MS, 50 * MS]
    runs = {
        name
        for part in reader.partitions({}, later)
        for batch in reader.read(part)
        for name in batch["run"].to_pylist()
    }
    assert runs == {"a", "b"}


def test_a_file_that_a_ring_dropped_has_no_rows(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", buffers=4)
    reader = reader_of(run)
    with new_file(run, "tap-0009.fnt") as writer:
        write_block(writer, 0)
    end = reader.latestOffset()
    parts = reader.partitions({}, end)
    (run / "tap-0009.fnt").unlink()  # which the manifest does not name
    assert sum(len(batch) for part in parts for batch in reader.read(part)) > 0
    assert len(reader.partitions({}, end)) == len(parts) - 1
    (run / "tm-0.fnt").unlink()
    with pytest.raises(TraceError, match=r"tm-0\.fnt: it was removed while it was read"):
        reader.partitions({}, end)


def test_a_damaged_block_is_named(tmp_path: Path) -> None:
    with new_file(tmp_path / "run") as writer:
        write_block(writer, 0, events=400)
        middle = writer.size_bytes
        write_block(writer, 400 * MS)
    file = tmp_path / "run" / "tap-0001.fnt"
    reader = reader_of(tmp_path)
    offset = reader.latestOffset()
    data = bytearray(file.read_bytes())
    data[middle + BLOCK_HEADER_BYTES] ^= 1
    file.write_bytes(data)
    with pytest.raises(TraceDamagedError, match=f"byte {middle}"):
        instants(reader, {"run/tap-0001.fnt": middle}, offset)
    data[middle] ^= 1
    file.write_bytes(data)
    with pytest.raises(TraceDamagedError, match=f"byte {middle}: no block begins there"):
        reader_of(tmp_path).latestOffset()


def test_a_stream_may_begin_with_what_comes(tmp_path: Path) -> None:
    with new_file(tmp_path / "run") as writer:
        write_block(writer, 0)
        reader = reader_of(tmp_path, starting="latest")
        begin = reader.initialOffset()
        write_block(writer, 10 * MS, events=1)
        assert instants(reader, begin, reader.latestOffset(begin)) == [10 * MS]
    with pytest.raises(ConfigError, match="neither earliest nor latest"):
        reader_of(tmp_path, starting="now")


def test_only_what_is_wanted_is_read(tmp_path: Path) -> None:
    with new_file(tmp_path / "run") as writer:
        for block in range(40):
            write_block(writer, block * 10 * MS, channel=block % 2)
    wanted = Wanted(channels=(1,), from_ns=100 * MS, to_ns=125 * MS)
    reader = reader_of(tmp_path, wanted)
    end = reader.latestOffset()
    assert instants(reader, {}, end) == list(range(110 * MS, 120 * MS, MS))
    assert len(reader_of(tmp_path).partitions({}, end)) == 3  # 16 blocks each


def test_a_micro_batch_may_be_limited(tmp_path: Path) -> None:
    streaming = pytest.importorskip("pyspark.sql.streaming.datasource")
    with new_file(tmp_path / "run") as writer:
        for block in range(6):
            write_block(writer, block * 10 * MS)
    reader = reader_of(tmp_path, max_bytes=1)
    limit = reader.getDefaultReadLimit()
    assert limit == streaming.ReadMaxBytes(1)
    offset: Offset = {}
    for block in range(6):
        before, offset = offset, reader.latestOffset(offset, limit)
        assert instants(reader, before, offset)[0] == block * 10 * MS
    assert reader.latestOffset({}, streaming.ReadAllAvailable()) == reader.latestOffset()


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("s3://bucket/runs", "s3://bucket/runs: a stream follows files of this machine"),
        ("dbfs:/Volumes/a/runs", "^/Volumes/a/runs: there is no such file or directory"),
    ],
)
def test_a_path_that_cannot_be_followed_is_named(path: str, says: str) -> None:
    source = TraceDataSource({"path": path})
    with pytest.raises(FlinknetError, match=says):
        source.streamReader(source.schema())
