"""Every call that the recorder makes to its file fails once: nothing but the block in hand is lost,
it is counted, and what is in the file can be read.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count, islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from flinknet.errors import TraceError
from flinknet.trace import ProcessInfo, TraceReader, TraceRecorder, TraceWriter
from tests.synthetic_trace import interleaved

BLOCK_EVENTS = 40
ERRORS = (errno.ENOSPC, errno.EIO)


class FailingFile:
    """A file of which one call fails; a write that fails has written half before, or nothing.

    Attributes:
        calls: made so far.
        stays: calls that follow the one that fails, and fail, too.
    """

    def __init__(self, file: io.FileIO, fails_at: int, error: int, stays: int = 0) -> None:
        self._file = file
        self._fails = range(fails_at, fails_at + 1 + stays)
        self._error = error
        self.calls = 0

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: memoryview) -> int:
        if self._is_due():
            self._file.write(data[: len(data) // 2])
            raise self._failure()
        return self._file.write(data[: max(512, len(data) // 2)])  # short, as writes may be

    def truncate(self, size: int) -> int:
        return self._call(lambda: self._file.truncate(size))

    def seek(self, offset: int) -> int:
        return self._call(lambda: self._file.seek(offset))

    def close(self) -> None:
        is_due = self._is_due()
        self._file.close()
        if is_due:
            raise self._failure()

    def _call(self, action: Callable[[], Any]) -> Any:
        if self._is_due():
            raise self._failure()
        return action()

    def _is_due(self) -> bool:
        self.calls += 1
        return self.calls in self._fails

    def _failure(self) -> OSError:
        return OSError(self._error, os.strerror(self._error))


def rows() -> Iterator[tuple[int, ...]]:
    producer, _ = interleaved(2, 60)
    yield from (tuple(row) for row in producer.tolist())


def record(path: Path, fails_at: int, error: int, stays: int = 0) -> tuple[int, TraceRecorder, int]:
    """Record with a failure. Returns: what was recorded, the recorder, the calls made."""
    writer = TraceWriter(path, ProcessInfo("tm-0", path.name, 1))
    file = FailingFile(writer._file, fails_at, error, stays)  # type: ignore[arg-type]
    writer._file = file  # type: ignore[assignment]
    recorder = TraceRecorder(writer, block_events=BLOCK_EVENTS)
    recorded = 0
    for row in rows():
        recorder.record(*row)
        recorded += 1
    if file.calls < fails_at or recorder.error is None:
        with suppress(TraceError):  # of the last calls
            recorder.close()
    else:
        with pytest.raises(TraceError, match=f"{path.name}: cannot write .* events were lost"):
            recorder.close()
    assert file.closed
    return recorded, recorder, file.calls


def read_back(path: Path) -> tuple[int, int | None]:
    """Events of a file, every checksum checked; and those that it says were dropped."""
    with TraceReader(path) as reader:
        for index in range(len(reader.blocks())):
            reader.check_block(index)
        events = sum(len(block["at_ns"]) for block in reader.events(("at_ns",)))
        return events, reader.dropped_events


@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("stays", [0, 4])
def test_a_call_that_fails_costs_no_more_than_the_block_in_hand(
    tmp_path: Path, error: int, stays: int
) -> None:
    fails_at, calls = 1, 1
    while fails_at <= calls:
        path = tmp_path / f"tm-{fails_at}.fnt"
        recorded, recorder, calls = record(path, fails_at, error, stays)
        found, said = read_back(path)
        assert found + recorder.dropped_events == recorded, fails_at
        assert recorder.dropped_events <= (1 + stays) * BLOCK_EVENTS, fails_at
        assert said in (recorder.dropped_events, None), fails_at
        fails_at += 1
    assert fails_at > 10


@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("stays", [0, 2])
@pytest.mark.parametrize("is_cut", [False, True])
def test_the_place_of_what_is_missing_is_known(
    tmp_path: Path, error: int, stays: int, is_cut: bool
) -> None:
    starts = [row[0] for row in islice(rows(), 0, None, BLOCK_EVENTS)]  # instants, which differ
    seen = 0
    for fails_at in count(1):
        path = tmp_path / f"tm-{fails_at}.fnt"
        _, _, calls = record(path, fails_at, error, stays)
        if calls < fails_at:
            break
        if is_cut:
            with TraceReader(path) as reader:
                last = reader.blocks()[-1]
            os.truncate(path, last.offset + last.length_bytes)
        with TraceReader(path) as reader:
            held = [-1, *(starts.index(block.first_ns) for block in reader.blocks())]
            missing = [after - before - 1 for before, after in pairwise(held)]
            gaps = {
                number: blocks * BLOCK_EVENTS for number, blocks in enumerate(missing) if blocks
            }
            assert reader.gaps() == gaps
            if is_cut:
                assert reader.dropped_events == (sum(gaps.values()) or None)
            assert reader.is_whole or reader.truncation.blocks_before_damage == len(missing)
            seen += len(gaps)
    assert seen > 2


def test_without_a_failure_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "tm-0.fnt"
    recorded, recorder, _ = record(path, 10**9, errno.EIO)
    assert (read_back(path), recorder.dropped_events) == ((recorded, 0), 0)
    assert recorded > 2 * BLOCK_EVENTS


def test_a_header_that_cannot_be_written_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tm-0.fnt"
    monkeypatch.setattr(
        "builtins.open",
        lambda *_, **__: FailingFile(io.FileIO(path, "xb"), 1, errno.EIO, stays=9),
    )
    with pytest.raises(TraceError, match="cannot write the trace"):
        TraceWriter(path, ProcessInfo("tm-0", path.name, 1))
    monkeypatch.undo()
    assert not path.exists()
