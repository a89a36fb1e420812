"""Trace files: any cut leaves every whole block, any flipped byte is seen, every version is
read.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.errors import TraceDamagedError, TraceError, TraceFormatError, TraceTruncatedError
from flinknet.storage import path_of
from flinknet.trace import ProcessInfo, TraceReader, TraceWriter, format, open_run
from flinknet.trace.blocks import ORDER
from flinknet.trace.describe import describe_run
from flinknet.trace.manifest import SCHEMA_VERSION
from flinknet.trace.ranged_files import RANGE_BYTES, RemoteFile, open_ranged
from flinknet.trace.schema import COLUMN_NAMES, ROW_DTYPE
from flinknet.trace.verify import verify_run
from tests.object_store import ObjectStore
from tests.sample_traces import EXPECTED_NAME, summary
from tests.synthetic_trace import interleaved, write_trace

PROCESS = ProcessInfo("tm-0", "tm-0.fnt", 100)


@pytest.fixture
def events() -> np.ndarray:
    return interleaved(channels=3, data_buffers=20)[0]


@pytest.fixture
def trace(tmp_path: Path, events: np.ndarray) -> Path:
    return write_trace(tmp_path / "tm-0.fnt", PROCESS, events)


@pytest.fixture
def few_events() -> np.ndarray:
    """Values without pattern in every column: every column of a block has bytes of its own."""
    random = np.random.default_rng(5)
    rows = np.zeros(5, dtype=ROW_DTYPE)
    for name, kind in ROW_DTYPE:
        rows[name] = random.integers(0, 200 if kind == "u1" else 1 << 30, len(rows))
    return rows


@pytest.fixture
def small_trace(tmp_path: Path, few_events: np.ndarray) -> Path:
    """Two blocks."""
    return write_trace(tmp_path / "small.fnt", PROCESS, few_events, block_events=3)


def in_order(reader: TraceReader, index: int) -> np.ndarray:
    """A block as rows in the order of recording."""
    block = reader.read_block(index, (*COLUMN_NAMES, ORDER))
    rows = np.empty(len(block[ORDER]), dtype=ROW_DTYPE)
    for name in COLUMN_NAMES:
        rows[name] = block[name]
    return rows[np.argsort(block[ORDER])]


def all_in_order(reader: TraceReader) -> np.ndarray:
    return np.concatenate([in_order(reader, index) for index in range(len(reader.blocks()))])


def verify_findings(path: Path) -> set[str]:
    return {finding.rule for finding in verify_run(open_run(path)).findings}


def test_what_was_written_is_read_in_the_order_of_recording(
    trace: Path, events: np.ndarray
) -> None:
    with TraceReader(trace) as reader:
        assert reader.process == PROCESS
        assert reader.meta() == ({"about": "tm-0"},)
        assert reader.is_whole
        assert reader.dropped_events == 0
        np.testing.assert_array_equal(all_in_order(reader), events)


def test_rows_of_a_block_are_sorted_by_channel_then_kind_then_point(trace: Path) -> None:
    with TraceReader(trace) as reader:
        for index in range(len(reader.blocks())):
            block = reader.read_block(index, ("channel", "kind", "point", ORDER))
            keys = list(zip(*(block[name].tolist() for name in block), strict=True))
            assert keys == sorted(keys)


def test_the_index_shows_what_each_block_holds(trace: Path) -> None:
    with TraceReader(trace) as reader:
        for index, entry in enumerate(reader.blocks()):
            block = reader.read_block(index, ("channel", "at_ns"))
            assert entry.count == len(block["at_ns"])
            assert (entry.first_ns, entry.last_ns) == (block["at_ns"].min(), block["at_ns"].max())
            for channel, count, first_ns, last_ns in entry.channels.tolist():
                instants = block["at_ns"][block["channel"] == channel]
                assert (count, first_ns, last_ns) == (
                    len(instants),
                    instants.min(),
                    instants.max(),
                )


@pytest.mark.parametrize("channels", [None, [1], [0, 2], [9], []])
@pytest.mark.parametrize("span", [(None, None), (100_000, None), (None, 90_000), (60_000, 120_000)])
def test_selected_events_are_those_a_plain_filter_finds(
    trace: Path,
    events: np.ndarray,
    channels: list[int] | None,
    span: tuple[int | None, int | None],
) -> None:
    from_ns, to_ns = (None if at is None else int(events["at_ns"][0]) + at for at in span)
    keep = np.ones(len(events), dtype=bool)
    if channels is not None:
        keep &= np.isin(events["channel"], channels)
    if from_ns is not None:
        keep &= events["at_ns"] >= from_ns
    if to_ns is not None:
        keep &= events["at_ns"] < to_ns
    with TraceReader(trace) as reader:
        found = [
            pair
            for block in reader.events(("channel", "sequence_number"), channels, from_ns, to_ns)
            for pair in zip(block["channel"], block["sequence_number"], strict=True)
        ]
        wanted = events[keep]
        assert sorted(found) == sorted(
            zip(wanted["channel"], wanted["sequence_number"], strict=True)
        )


def test_columns_not_wanted_are_not_read(trace: Path) -> None:
    with TraceReader(trace) as reader:
        entry = reader.blocks()[0]
        damaged = bytearray(trace.read_bytes())
        damaged[entry.offset + entry.length_bytes - 1] ^= 1  # in `order`, the last column stored
        trace.write_bytes(damaged)
        reader.read_block(0, ("at_ns", "channel"))
        with pytest.raises(TraceFormatError, match="column order"):
            reader.read_block(0, (ORDER,))


def test_damage_shows_where_to_cut_to_have_what_stands_before(trace: Path) -> None:
    with TraceReader(trace) as reader:
        entry = reader.blocks()[1]
    damaged = bytearray(trace.read_bytes())
    damaged[entry.offset + entry.length_bytes - 1] ^= 1
    trace.write_bytes(damaged)
    with TraceReader(trace) as reader:
        with pytest.raises(TraceDamagedError, match=rf"truncate -s {entry.offset}\b") as caught:
            reader.read_block(1, (ORDER,))
        assert caught.value.damage.startswith(f"block 1 at byte {entry.offset}: the checksum of")
        assert "truncate" not in caught.value.damage
    trace.write_bytes(damaged[: entry.offset])
    with TraceReader(trace) as reader:
        assert len(reader.blocks()) == 1
        reader.read_block(0)


def test_an_unknown_column_is_named(trace: Path) -> None:
    with TraceReader(trace) as reader, pytest.raises(TraceFormatError, match="no column 'cerdit'"):
        reader.read_block(0, ("cerdit",))


def test_a_file_cut_anywhere_gives_every_whole_block(
    small_trace: Path, tmp_path: Path, few_events: np.ndarray
) -> None:
    whole = small_trace.read_bytes()
    with TraceReader(small_trace) as reader:
        ends = [entry.offset + entry.length_bytes for entry in reader.blocks()]
        sizes = [entry.count for entry in reader.blocks()]
        meta_end = reader.blocks()[0].offset
    header_end = whole.index(b"FNTB")
    cut = tmp_path / "cut.fnt"
    for length in range(header_end, len(whole)):
        cut.write_bytes(whole[:length])
        expected = sum(size for size, end in zip(sizes, ends, strict=True) if end <= length)
        with TraceReader(cut) as reader:
            assert reader.truncation.whole_blocks == len(reader.blocks())
            assert reader.truncation.gap_bytes == 0
            assert reader.truncation.blocks_before_damage == len(reader.blocks())
            if length < ends[-1]:
                kept = max([header_end, meta_end, *ends], key=lambda end: (end <= length) * end)
                assert reader.truncation.lost_bytes == length - kept
            assert sum(entry.count for entry in reader.blocks()) == expected
            if expected and length % 97 == 0:
                np.testing.assert_array_equal(all_in_order(reader), few_events[:expected])


def test_a_file_cut_within_its_header_says_so(trace: Path, tmp_path: Path) -> None:
    whole = trace.read_bytes()
    cut = tmp_path / "cut.fnt"
    for length in range(1, whole.index(b"FNTB")):
        cut.write_bytes(whole[:length])
        with pytest.raises(TraceTruncatedError, match="cut off; 0 whole blocks"):
            TraceReader(cut)


def test_any_flipped_byte_is_found(small_trace: Path, tmp_path: Path) -> None:
    whole = small_trace.read_bytes()
    assert verify_findings(small_trace) == set()
    flipped = tmp_path / "flipped.fnt"
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        flipped.write_bytes(damaged)
        try:
            assert verify_findings(flipped) & {"file", "checksum"}, position
        except TraceError:
            assert position < whole.index(b"FNTB")


def test_damage_in_the_middle_costs_one_block_even_without_a_trailer(trace: Path) -> None:
    with TraceReader(trace) as reader:
        entries = reader.blocks()
    damaged = bytearray(trace.read_bytes()[: entries[-1].offset + entries[-1].length_bytes])
    damaged[entries[1].offset + 2] ^= 0x40
    trace.write_bytes(damaged)
    with TraceReader(trace) as reader:
        assert [entry.offset for entry in reader.blocks()] == [
            entry.offset for entry in entries if entry is not entries[1]
        ]
        assert reader.truncation.gap_bytes == entries[1].length_bytes
        assert reader.truncation.blocks_before_damage == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the file is empty"),
        (b"PAR1" + bytes(100), "not a flinknet trace"),
        (b"\x89P", "not a flinknet trace"),
        (format.MAGIC + (format.FORMAT_VERSION + 1).to_bytes(4, "little") + bytes(8), "version 3"),
    ],
)
def test_what_is_no_trace_of_ours_is_named(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "foreign.fnt"
    path.write_bytes(content)
    with pytest.raises(TraceFormatError, match=says) as raised:
        TraceReader(path)
    assert str(path) in str(raised.value)


def test_garbage_after_the_header_is_lost_bytes_and_no_crash(trace: Path) -> None:
    whole = trace.read_bytes()
    header = whole[: whole.index(b"FNTB")]
    random = np.random.default_rng(11)
    for length in (1, 50, 51, 52, 70, 500):
        trace.write_bytes(header + b"FNTB" + random.bytes(length))
        with TraceReader(trace) as reader:
            assert reader.truncation.lost_bytes == length + 4
            assert reader.blocks() == ()


COUNTS = st.sampled_from([0, 1, 2, 17, 255])


@given(
    st.sampled_from(format.BlockType),
    st.binary(max_size=200),
    st.binary(max_size=200),
    COUNTS,
    st.sampled_from([0, 1, 50, format.MAX_BLOCK_EVENTS, (1 << 32) - 1]),
    COUNTS,
    st.booleans(),
)
def test_checked_bytes_that_contradict_each_other_are_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory,
    block_type: format.BlockType,
    directory: bytes,
    data: bytes,
    columns: int,
    count: int,
    channels: int,
    is_closed: bool,
) -> None:
    path = tmp_path_factory.mktemp("crafted") / "tm-0.fnt"
    header = format.encode_file_header(PROCESS.to_dict())
    block = format.encode_block(
        block_type, directory, [data], columns=columns, count=count, channels=channels
    )
    entry = format.BlockEntry(
        len(header), len(block), block_type, count, 0, 0, np.zeros(channels, format.CHANNEL_ENTRY)
    )
    end = (
        format.encode_end(format.Trailer(count, 0, (entry,)), len(header) + len(block))
        if is_closed
        else b""
    )
    path.write_bytes(header + block + end)
    with contextlib.suppress(TraceError):
        verify_run(open_run(path))
    with contextlib.suppress(TraceError):
        describe_run(open_run(path))


def test_a_trace_is_never_overwritten(trace: Path) -> None:
    before = trace.read_bytes()
    with pytest.raises(TraceError, match="exists already"):
        TraceWriter(trace, PROCESS)
    assert trace.read_bytes() == before


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="No such file"):
        TraceWriter(tmp_path / "absent" / "tm-0.fnt", PROCESS)


@contextlib.contextmanager
def file_size_limit() -> Iterator[None]:
    """No file may grow beyond 4096 bytes, also the output of the tests: refused by the system as on
    a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def write_for_ever(writer: TraceWriter, events: np.ndarray) -> NoReturn:
    while True:
        writer.write_events(events)


def test_a_full_disk_costs_nothing_that_was_written(tmp_path: Path, events: np.ndarray) -> None:
    path = tmp_path / "tm-0.fnt"
    with file_size_limit():
        writer = TraceWriter(path, PROCESS)
        with pytest.raises(TraceError, match=r"tm-0\.fnt: cannot write the trace: no space left"):
            write_for_ever(writer, events)
        writer.close()
    written = writer.events // len(events)
    assert written > 0
    with TraceReader(path) as reader:
        assert len(reader.blocks()) == written
        assert reader.is_whole
        np.testing.assert_array_equal(in_order(reader, written - 1), events)


def test_a_header_of_impossible_length_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "tm-0.fnt"
    path.write_bytes(format.MAGIC + format.FORMAT_VERSION.to_bytes(4, "little") + b"\xff" * 4)
    os.truncate(path, 1 << 40)
    with pytest.raises(TraceFormatError, match="the length in its file header is damaged"):
        TraceReader(path)


TRACES = Path(__file__).parents[2] / "traces"
SAMPLES = sorted(expected.parent for expected in TRACES.glob(f"v*/*/{EXPECTED_NAME}"))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_committed_sample_still_says_what_it_said(sample: Path) -> None:
    assert summary(sample) == json.loads((sample / EXPECTED_NAME).read_text())


def test_every_format_version_has_a_sample() -> None:
    assert {sample.parent.name for sample in SAMPLES} >= {
        f"v{version}" for version in range(1, max(format.FORMAT_VERSION, SCHEMA_VERSION) + 1)
    }


@pytest.mark.socket
def test_a_file_is_fetched_in_ranges(store: ObjectStore, tmp_path: Path) -> None:
    content = np.random.default_rng(1).bytes(20 * RANGE_BYTES)
    (tmp_path / "data").write_bytes(content)
    file = open_ranged(path_of(store.upload(tmp_path, "ranges")) / "data")
    assert isinstance(file, RemoteFile)
    assert file.read(0, 10) == content[:10]
    assert file.read(10, 100) == content[10:110]
    assert (file.requests, file.fetched_bytes) == (1, RANGE_BYTES)
    file.prepare(5 * RANGE_BYTES, 3 * RANGE_BYTES)
    assert (
        file.read(6 * RANGE_BYTES, 2 * RANGE_BYTES) == content[6 * RANGE_BYTES :][: 2 * RANGE_BYTES]
    )
    assert file.read(len(content) - 7, 100) == content[-7:]
    assert file.read(len(content) - 1000, 993) == content[-1000:-7]
    assert (file.requests, file.fetched_bytes) == (3, 5 * RANGE_BYTES)
    file.close()
