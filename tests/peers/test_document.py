"""The page of misbehaving peers is that of the tables."""

from __future__ import annotations

from tests.peers import by_clients, by_consumers, by_producers
from tests.peers.document import PATH, document
from tests.peers.flink import DIFFERENCES, NOT_COMPARED


def test_the_page_is_made_from_the_tables() -> None:
    assert PATH.read_text(encoding="utf-8") == document(), "run python -m tests.peers.document"


def test_differences_are_of_cases_that_exist() -> None:
    numbers = {
        f"{letter}{case.number:02d}"
        for letter, table in (("P", by_consumers), ("C", by_producers), ("J", by_clients))
        for case in table.CASES  # type: ignore[attr-defined]
    }
    assert DIFFERENCES.keys() | NOT_COMPARED.keys() <= numbers
    assert not DIFFERENCES.keys() & NOT_COMPARED.keys()
