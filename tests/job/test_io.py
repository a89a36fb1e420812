"""Texts: bytes in, cut anywhere, and every line out once; what printed records look like."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.errors import TaskFailedError
from flinknet.job import FileTextInput, SocketTextInput
from flinknet.job.io import WAITING_LINES_MAX, TextInput
from flinknet.job.task_operators import as_text

LINES = st.lists(st.text(alphabet="ab é€", max_size=8), max_size=30)


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    """Data in pieces, cut at positions taken modulo its length."""
    at = sorted({each % (len(data) + 1) for each in cuts})
    return [data[a:b] for a, b in zip([0, *at], [*at, len(data)], strict=True)]


def all_lines(text: TextInput) -> list[str]:
    found: list[str] = []
    while text.has_lines:
        found += text.take(7)
    return found


@given(lines=LINES, has_last=st.booleans(), cuts=st.lists(st.integers(0, 500), max_size=10))
def test_lines_of_a_socket_come_whole_however_bytes_are_cut(
    lines: list[str], has_last: bool, cuts: list[int]
) -> None:
    content = "\n".join(lines) + ("\n" if has_last else "")
    text = SocketTextInput("localhost", 1)
    for piece in cut(content.encode(), cuts):
        text.receive_data(piece)
    assert not text.is_exhausted
    text.receive_eof()
    expected = content.split("\n")
    assert all_lines(text) == (expected[:-1] if expected[-1] == "" else expected)
    assert text.is_exhausted


def test_returns_before_newlines_are_dropped_and_other_delimiters_are_possible() -> None:
    text = SocketTextInput("localhost", 1)
    text.receive_data(b"one\r\ntwo\r")
    text.receive_eof()
    assert all_lines(text) == ["one", "two"]
    other = SocketTextInput("localhost", 1, "::")
    for piece in (b"a:", b":b\n:", b":"):
        other.receive_data(piece)
    assert all_lines(other) == ["a", "b\n"]


def test_no_more_is_asked_for_than_can_wait() -> None:
    text = SocketTextInput("localhost", 1)
    text.receive_data(b"x\n" * WAITING_LINES_MAX)
    assert not text.wants_data
    text.take(1)
    assert text.wants_data


def test_what_cannot_be_read_is_told_behind_what_was() -> None:
    text = SocketTextInput("localhost", 7)
    text.receive_data(b"x\n")
    text.fail("connection refused")
    assert text.take(5) == ["x"]
    with pytest.raises(TaskFailedError, match=r"^localhost:7: connection refused$"):
        text.take(5)


@given(
    lines=LINES,
    has_last=st.booleans(),
    parallelism=st.integers(1, 6),
    piece_bytes=st.integers(1, 40),
)
def test_subtasks_read_every_line_of_a_file_once(
    lines: list[str], has_last: bool, parallelism: int, piece_bytes: int
) -> None:
    data = ("\n".join(lines) + ("\n" if has_last else "")).encode()
    found: list[str] = []
    for subtask in range(parallelism):
        text = FileTextInput("f", subtask, parallelism)
        assert not text.wants_data
        text.set_size(len(data))
        while text.wants_data:
            piece = data[text.next_byte : text.next_byte + piece_bytes]
            if not piece:
                text.receive_eof()
            text.receive_data(piece)
        found += all_lines(text)
    expected = data.decode().split("\n")
    assert found == (expected[:-1] if expected[-1] == "" else expected)


class Named(NamedTuple):
    word: str


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("word", "word"),
        (("word", 3), "(word,3)"),
        (("a", ("b", True)), "(a,(b,true))"),
        ([1, 2], "[1, 2]"),
        (None, "null"),
        (1.5, "1.5"),
        (np.int64(7), "7"),
        ({"a": False}, "{a=false}"),
        (Named("x"), "Named(word='x')"),
    ],
)
def test_records_are_printed_as_flink_would(value: Any, expected: str) -> None:
    assert as_text(value) == expected
