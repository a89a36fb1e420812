"""Long records go through a file, and no file stays."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from flinknet.core.consumer import RecordReader
from flinknet.errors import LocalTransportError
from flinknet.runtime.shuffle_environment import RecordFile, RecordSpills

MIB = 1024 * 1024


class Watched(RecordSpills):
    """Keeps the files it has made."""

    def __init__(self, *directories: Path) -> None:
        super().__init__(directories)
        self.files: list[RecordFile] = []

    def create(self) -> RecordFile:
        self.files.append(super().create())
        return self.files[-1]


def record_of(length: int, number: int = 7) -> bytes:
    body = bytes([number]) * 8 + bytes(range(256)) * (length // 256 + 1)
    return length.to_bytes(4, "big") + body[:length]


@pytest.mark.row("S055")
def test_a_record_of_six_mebibytes_goes_through_a_file_that_is_deleted(tmp_path: Path) -> None:
    spills = Watched(tmp_path)
    reader = RecordReader(spills.create)
    records = [record_of(100, 1), record_of(6 * MIB, 2), record_of(100, 3)]
    stream = memoryview(b"".join(records))
    found = []
    for start in range(0, len(stream), 32 * 1024):
        for memory, offset, count, size in reader.read(stream[start : start + 32 * 1024]):
            found += [
                bytes(memory[offset + i * size : offset + (i + 1) * size]) for i in range(count)
            ]
        if start == MIB:
            (file,) = spills.files
            assert re.fullmatch(r"[0-9a-f]{40}\.inputchannel", file.path.name)
            assert os.fstat(file.descriptor).st_size > MIB
    assert found == records
    assert [file.descriptor for file in spills.files] == [-1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.row("S055")
def test_only_records_above_five_mebibytes_do(tmp_path: Path) -> None:
    spills = Watched(tmp_path)
    for length, files in ((5 * MIB, 0), (5 * MIB + 1, 1)):
        reader = RecordReader(spills.create)
        record = memoryview(record_of(length))
        assert reader.read(record[:1000]) == []
        (run,) = reader.read(record[1000:])
        assert bytes(run[0]) == record
        assert len(spills.files) == files


def test_what_never_becomes_whole_is_given_up(tmp_path: Path) -> None:
    spills = Watched(tmp_path)
    reader = RecordReader(spills.create)
    record = memoryview(record_of(6 * MIB))
    reader.read(record[:MIB])
    reader.read(record[MIB : 2 * MIB])
    reader.release()
    reader.release()
    reader.check_between_records(0)
    assert spills.files[0].descriptor == -1


def test_directories_take_turns_and_one_that_takes_no_file_is_left_out(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    spills = Watched(first, tmp_path / "missing", second)
    parents = [spills.create().path.parent for _ in range(4)]
    assert parents == [first, second, first, second]
    for file in spills.files:
        file.delete()


def test_without_a_directory_that_takes_a_file_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LocalTransportError, match=r"no file can be made.*No such file.*TMPDIR"):
        RecordSpills([tmp_path / "missing"]).create()
