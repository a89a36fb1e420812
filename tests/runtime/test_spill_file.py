"""The file of a blocking subpartition."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.errors import LocalTransportError
from flinknet.runtime.shuffle_environment import PIECES_MAX, WRITE_BUFFER_BYTES, SpillFile


def read(spill: SpillFile, offset: int, size_bytes: int) -> bytes:
    """So many bytes from an offset on, in pieces of one byte."""
    memory = memoryview(bytearray(size_bytes))
    pieces = [memory[each : each + 1] for each in range(size_bytes)]
    return bytes(memory[: spill.read(offset, pieces)])


def test_what_was_written_is_read_from_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "a-0"
    spill = SpillFile(path)
    assert not path.exists()
    reused = bytearray(b"abcdef")
    spill.write((b"12", memoryview(reused)[1:4]))
    reused[:] = b"------"
    large = b"x" * WRITE_BUFFER_BYTES
    spill.write((large,))
    spill.write((b"end",))
    spill.finish()
    assert path.stat().st_size == 5 + len(large) + 3
    assert path.stat().st_mode & 0o077 == 0
    assert read(spill, 0, 6) == b"12bcdx"
    assert read(spill, 5 + len(large), 10) == b"end"
    spill.release()
    spill.release()
    assert not path.exists()


def test_more_pieces_than_one_call_takes_are_written_and_read(tmp_path: Path) -> None:
    spill = SpillFile(tmp_path / "a-0")
    size = WRITE_BUFFER_BYTES // PIECES_MAX
    written = [bytes([each % 251]) * size for each in range(3 * PIECES_MAX)]
    spill.write(written)
    spill.finish()
    assert read(spill, 1, 3 * PIECES_MAX) == b"".join(written)[1 : 1 + 3 * PIECES_MAX]
    memory = memoryview(bytearray(len(written) * size + 1))
    assert spill.read(0, [memory[:7], memory[7:]]) == len(written) * size
    assert memory[:-1] == b"".join(written)
    spill.release()


def test_an_empty_one_is_read_too(tmp_path: Path) -> None:
    spill = SpillFile(tmp_path / "a-0")
    spill.finish()
    assert read(spill, 0, 10) == b""
    spill.release()


def test_one_that_was_given_up_leaves_nothing(tmp_path: Path) -> None:
    spill = SpillFile(tmp_path / "a-0")
    spill.write((b"never written",))
    spill.release()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_to_is_reported(tmp_path: Path) -> None:
    spill = SpillFile(tmp_path / "no" / "a-0")
    spill.write((b"1",))
    with pytest.raises(LocalTransportError, match=r"a-0: .*No such file.*--records.*TMPDIR"):
        spill.finish()


def test_a_file_that_is_there_already_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a-0"
    path.write_bytes(b"somebody's")
    spill = SpillFile(path)
    spill.write((b"1",))
    with pytest.raises(LocalTransportError, match="File exists"):
        spill.finish()
    assert path.read_bytes() == b"somebody's"
