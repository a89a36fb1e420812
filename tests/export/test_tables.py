"""Messages in three forms, which part of a run is exported, and whole files."""

from __future__ import annotations

import csv
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from flinknet.core.wire.records import NO_TIME, WATERMARK_IDLE
from flinknet.errors import ConfigError, TraceFormatError
from flinknet.export import select
from flinknet.export.selection import whole_packed_file, whole_text_file
from flinknet.export.tables import event_batches, json_lines, write_events
from flinknet.trace import ProcessInfo, TraceReader, TraceRecorder, TraceWriter, open_run
from flinknet.trace.arrow import EVENT_SCHEMA
from flinknet.trace.schema import COLUMN_NAMES, TIME_NAMES, TIMESTAMPS
from tests.synthetic_trace import (
    START_NS,
    STEP_NS,
    event,
    interleaved,
    rows,
    write_run,
    write_trace,
)

PRODUCER_EVENTS, CONSUMER_EVENTS = 34, 54  # of two channels with ten buffers each
FIRST_DATA: dict[str, Any] = {
    "at_ns": START_NS + STEP_NS,
    "channel": 0,
    "point": "SENT",
    "kind": "BUFFER_RESPONSE",
    "data_type": "DATA_BUFFER",
    "reason": "FULL",
    "sequence_number": 0,
    "payload_bytes": 1_000,
    "records": 10,
    "first_record_ns": START_NS,
    "last_record_ns": START_NS + STEP_NS - STEP_NS // 10,
    "backlog_buffers": 0,
    "credit_before": 2,
    "credit_after": 1,
    "pool_available_buffers": None,
    "pool_size_buffers": None,
    "value": None,
    **dict.fromkeys(TIME_NAMES),
    "process": "tm-0",
    "connection": "tm-0->tm-1",
    "direction": "to_consumer",
    "watermark_status": None,
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", channels=2, data_buffers=10)


def test_parquet_holds_every_event_in_the_order_of_recording(run: Path, tmp_path: Path) -> None:
    observed: list[int] = []
    assert write_events(select(open_run(run)), tmp_path / "o.parquet", observed.append) == 88
    table = pyarrow.parquet.read_table(tmp_path / "o.parquet")
    assert table.schema.equals(EVENT_SCHEMA)
    assert table.slice(2, 1).to_pylist() == [FIRST_DATA]
    at_ns = table["at_ns"].to_pylist()
    assert at_ns[:PRODUCER_EVENTS] == sorted(at_ns[:PRODUCER_EVENTS])
    assert at_ns[PRODUCER_EVENTS:] == sorted(at_ns[PRODUCER_EVENTS:])
    assert observed == [34, 74, 88]  # a block of 40 at a time is all that is in memory


def test_csv_and_json_say_what_parquet_says(run: Path, tmp_path: Path) -> None:
    selection = select(open_run(run))
    for form, name in (("parquet", "o.parquet"), ("csv", "o.csv"), ("json", "o.jsonl")):
        write_events(selection, tmp_path / name, form=form)
    expected = pyarrow.parquet.read_table(tmp_path / "o.parquet").to_pylist()
    lines = (tmp_path / "o.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == expected
    with open(tmp_path / "o.csv", newline="") as file:
        assert list(csv.DictReader(file)) == [
            {name: "" if value is None else str(value) for name, value in row.items()}
            for row in expected
        ]


def test_times_are_those_of_the_wire_and_null_where_there_are_none(tmp_path: Path) -> None:
    file = tmp_path / "tap.fnt"
    recorder = TraceRecorder(TraceWriter(file, ProcessInfo("tap", "tap.fnt", 1)))
    absent = (NO_TIME,) * (len(TIME_NAMES) - 4)
    for watermark in (900, WATERMARK_IDLE):
        recorder.note_times((watermark, NO_TIME, 1_000, 1_007, *absent))
        recorder.record(*range(1, len(COLUMN_NAMES) + 1))
    recorder.close()
    (batch,) = event_batches(select(open_run(file)))
    names = ("watermark_ms", "watermark_status", "marker_ms", *TIMESTAMPS[:3])
    assert [tuple(row[name] for name in names) for row in batch.to_pylist()] == [
        (900, None, None, 1_000, 1_007, None),
        (None, "IDLE", None, 1_000, 1_007, None),
    ]


def test_any_text_is_json() -> None:
    texts = ['a "quoted" \\ name', None, "line\nbreak", "ünï"]
    batch = pa.RecordBatch.from_pydict({"text": texts, "number": [1, None, -(1 << 62), 4]})
    assert [json.loads(line) for line in json_lines(batch).to_pylist()] == batch.to_pylist()


def test_only_what_is_wanted_is_in_it(run: Path) -> None:
    selection = select(open_run(run), [1], 20_000, 40_000)
    found = [row for batch in event_batches(selection) for row in batch.to_pylist()]
    assert {row["channel"] for row in found} == {1}
    assert {row["at_ns"] - START_NS for row in found} == {
        *(20_100, 23_100, 26_100),  # the second buffer
        *(25_100, 28_100),  # credit after it
        *(30_100, 33_100, 36_100),
    }


def test_an_ordinal_without_a_name_is_null(tmp_path: Path) -> None:
    process = open_run(write_run(tmp_path / "run")).manifest.processes[0]  # type: ignore[union-attr]
    strange = rows([event(at_ns=1, channel=0, point=200, kind=1)])
    path = write_trace(tmp_path / "strange.fnt", process, strange)
    (batch,) = event_batches(select(open_run(path)))
    (row,) = batch.to_pylist()
    assert (row["point"], row["kind"], row["connection"]) == (None, "ERROR_RESPONSE", None)


def test_a_cut_trace_gives_its_whole_blocks(run: Path, tmp_path: Path) -> None:
    file = run / "tm-1.fnt"
    assert len(interleaved(2, 10)[1]) == CONSUMER_EVENTS
    with TraceReader(file) as reader:
        second = reader.blocks()[1]
    file.write_bytes(file.read_bytes()[: second.offset + second.length_bytes - 1])
    written = write_events(select(open_run(run)), tmp_path / "o.csv", form="csv")
    assert written == PRODUCER_EVENTS + 40


def test_time_counts_from_the_start_of_the_measured_part(run: Path) -> None:
    selection = select(open_run(run), [1, 1], 10_000, 50_000)
    assert selection.origin_ns == START_NS
    assert (selection.from_ns, selection.to_ns) == (START_NS + 10_000, START_NS + 50_000)
    assert selection.channels == (1,)
    assert [each.index for each in selection.channel_infos] == [1]


def test_a_trace_file_alone_counts_from_its_first_event_and_has_no_pairs(run: Path) -> None:
    selection = select(open_run(run / "tm-1.fnt"), None, 0, 10_000)
    assert selection.from_ns == selection.first_ns == START_NS
    with pytest.raises(TraceFormatError, match="give the run directory"):
        _ = selection.channel_infos


def test_a_channel_or_a_time_that_is_not_there_is_refused_with_what_is(run: Path) -> None:
    with pytest.raises(ConfigError, match="7 is not in the trace; its channels are 0 to 1"):
        select(open_run(run), [0, 7])
    for bounds in ((1_000_000_000, None), (None, -1), (5, 5)):
        with pytest.raises(ConfigError, match=r"lie between 0.000s and 0.000s"):
            select(open_run(run), None, *bounds)


def test_a_cut_file_is_named(run: Path) -> None:
    file = run / "tm-0.fnt"
    file.write_bytes(file.read_bytes()[:-100])
    assert select(open_run(run)).cut_files == ("tm-0.fnt",)


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")

    def fail_halfway() -> None:
        with whole_text_file(path) as file:
            file.write("half of the new one")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_halfway()
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["out.txt"]
    with whole_text_file(path) as file:
        file.write("new")
    assert path.read_text() == "new"


def test_a_name_with_gz_is_compressed_and_the_same_each_time(tmp_path: Path) -> None:
    paths = [tmp_path / "a.gz", tmp_path / "b.gz"]
    for path in paths:
        with whole_text_file(path) as file:
            file.write("text\n")
    assert gzip.decompress(paths[0].read_bytes()) == b"text\n"
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_what_is_no_regular_file_is_written_to_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with whole_packed_file(pipe) as file:
            file.write(b"through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
