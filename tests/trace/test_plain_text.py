"""JSON files that are parsed piece by piece: what comes out, and what is wrong with them, is the
same as of the whole text."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flinknet.trace import plain_text
from flinknet.trace.plain_text import read_json, read_json_file

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(st.text(max_size=8), VALUES, max_size=4)
TEXTS = st.builds(
    json.dumps, DOCUMENTS, indent=st.sampled_from([None, 1]), ensure_ascii=st.booleans()
)


def outcome(read: Callable[[], Any]) -> Any:
    """What it returns, or what is wrong."""
    try:
        return read()
    except ValueError as error:
        return type(error), str(error)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("json") / "file.json"


@given(
    TEXTS,
    st.integers(1, 9),
    st.none() | st.integers(0, 80),
    st.sampled_from(["", ",", "}", "1", "\\ud800"]),
)
@example('{"a": [1, 23, {"b": "\\ud83d\\ude00"}], "c": 456, "c": []}', 1, None, "")
@example('{"a": [1, ]}', 3, None, "")
@example('{"a": "\\ud800"}', 2, None, "")
@example(" ", 1, None, "")
@example("[]", 1, None, "")
def test_a_file_in_pieces_is_read_as_its_text_is(
    file: Path, text: str, piece: int, place: int | None, put: str
) -> None:
    if place is not None:
        text = text[:place] + put + text[place + 1 :]
    file.write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_text, "PIECE_BYTES", piece)
        assert outcome(lambda: read_json_file(file)) == outcome(lambda: read_json(text))


def test_objects_of_a_list_are_made_of_it_as_they_come(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_text, "PIECE_BYTES", 1 << 12)
    items = [{"number": number, "text": "x" * 100} for number in range(30_000)]
    file.write_text(json.dumps({"items": items}))
    tracemalloc.start()
    try:
        found = read_json_file(file, lambda value: value["number"])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == {"items": list(range(30_000))}
    assert most < file.stat().st_size


def test_bytes_that_are_no_text_are_named(file: Path) -> None:
    file.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(UnicodeDecodeError):
        read_json_file(file)
