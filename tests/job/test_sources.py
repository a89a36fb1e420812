"""Sources: each record once, when it is due; texts: every line out once, however they are cut."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.errors import TaskFailedError
from flinknet.graph import CollectionSource, GeneratedSource, SequenceSource
from flinknet.job import FileTextInput, SocketTextInput
from flinknet.job.io import WAITING_LINES_MAX, TextInput
from flinknet.job.sources import NUMBER_BITS, RecordSource, record_source
from flinknet.job.task_operators import as_text

S = 1_000_000_000


def sources(source: Any, parallelism: int, end_ns: int | None = None) -> list[RecordSource]:
    return [
        record_source(source, subtask, parallelism, start_ns=S, end_ns=end_ns, seed=subtask)
        for subtask in range(parallelism)
    ]


def drained(source: RecordSource, now_ns: int) -> tuple[list[Any], list[int]]:
    values: list[Any] = []
    instants: list[int] = []
    while (batch := source.take(now_ns=now_ns)) is not None:
        values += list(batch[0])
        instants += batch[1].tolist()
    return values, instants


@pytest.mark.parametrize("parallelism", [1, 3, 7])
def test_a_sequence_is_shared_out(parallelism: int) -> None:
    found = [
        int(v) for each in sources(SequenceSource(-3, 20), parallelism) for v in drained(each, S)[0]
    ]
    assert found == list(range(-3, 21))


def test_subtasks_without_a_part_have_ended_at_once() -> None:
    made = sources(SequenceSource(1, 2), 5)
    assert sum(each.is_ended for each in made) == 3
    generated = sources(GeneratedSource(records=2, rate_per_s=10.0), 5)
    assert [each.is_ended for each in generated] == [False, False, True, True, True]


def test_a_collection_comes_in_order() -> None:
    (source,) = sources(CollectionSource(tuple(range(3000))), 1)
    values, instants = drained(source, 5 * S)
    assert values == list(range(3000))
    assert set(instants) == {5 * S}
    assert source.is_ended
    assert source.next_ns(now_ns=S) is None


def test_generated_records_are_due_at_their_rate_and_not_before() -> None:
    (source,) = sources(GeneratedSource(rate_per_s=1000.0), 1, end_ns=3 * S)
    assert source.take(now_ns=S - 1) is None
    first_ns = source.next_ns(now_ns=S)
    assert first_ns is not None
    assert S <= first_ns <= S + 1_000_000
    _, early = drained(source, 2 * S)
    assert len(early) == 1000
    assert max(early) <= 2 * S
    assert not source.is_ended
    _, late = drained(source, 9 * S)
    assert len(late) == 1000
    assert max(late) < 3 * S
    assert source.is_ended


def test_payloads_begin_with_the_number_of_their_record() -> None:
    _, source = sources(GeneratedSource(records=5000, record_size_bytes=20), 2)
    batch = source.take(now_ns=S)
    assert batch is not None
    payloads = batch[0]["f1"].tolist()  # type: ignore[call-overload]
    numbers = [int.from_bytes(each[:8], "big") for each in payloads]
    assert numbers == [(1 << NUMBER_BITS) + n for n in range(len(numbers))]
    assert {len(each) for each in payloads} == {20}


def test_small_payloads_have_their_size() -> None:
    (source,) = sources(GeneratedSource(records=10, record_size_bytes=3), 1)
    values, _ = drained(source, S)
    assert [len(value[1].tobytes()) for value in values] == [3] * 10


def test_a_source_that_was_stopped_makes_no_more() -> None:
    for source in (
        *sources(GeneratedSource(), 1),
        *sources(SequenceSource(1, 10**9), 1),
        *sources(CollectionSource((1, 2)), 1),
    ):
        source.stop()
        assert source.is_ended
        assert source.take(now_ns=S) is None


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
