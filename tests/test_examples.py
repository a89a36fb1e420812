"""Property tests take the same examples every time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def drawn() -> list[tuple[int, str]]:
    """The examples of a test."""
    found: list[tuple[int, str]] = []

    @given(st.integers(), st.text())
    @settings(settings.get_profile("flinknet"), max_examples=300)
    def take(number: int, text: str) -> None:
        found.append((number, text))

    take()
    return found


def test_examples_do_not_depend_on_what_was_imported_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = drawn()
    numbers = ", ".join(str(number * 1_000_003) for number in range(1, 300))
    texts = ", ".join(f"'constant {number}'" for number in range(300))
    (tmp_path / "a_module_with_constants.py").write_text(f"FOUND = [{numbers}, {texts}]\n")
    monkeypatch.syspath_prepend(tmp_path)
    pytest.importorskip("a_module_with_constants")
    assert drawn() == before
