"""Which part of a run is exported, and files that are whole or not there."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from flinknet.errors import ConfigError, TraceFormatError
from flinknet.export import select
from flinknet.export.files import whole_packed_file, whole_text_file
from flinknet.trace import open_run
from tests.synthetic_trace import START_NS, write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", channels=2, data_buffers=10)


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
