"""The tally of what runs at random."""

from __future__ import annotations

from pathlib import Path

from tests import tally


def test_runs_of_one_kind_are_added_up(tmp_path: Path) -> None:
    kept = tmp_path / "kept" / "tally.jsonl"
    assert tally.table(tally.entries(kept)).count("\n") == 1
    tally.add("fuzz: trace", 1_000_000, 3600.0, 0, kept=kept)
    tally.add("campaign", 200, 2.0, 1, kept=kept)
    total = tally.add("campaign", 100, 1.0, 0, kept=kept)
    assert (total.runs, total.seconds, total.findings, total.commits) == (300, 3.0, 1, 1)
    assert tally.table(tally.entries(kept)).splitlines()[2:] == [
        "| fuzz: trace | 1 000 000 | 1.00 | 0 | 1 |",
        "| campaign | 300 | 0.00 | 1 | 1 |",
    ]


def test_broken_lines_and_a_file_that_cannot_be_written_hide_nothing(tmp_path: Path) -> None:
    kept = tmp_path / "tally.jsonl"
    tally.add("kills", 7, 1.0, 0, kept=kept)
    with kept.open("a") as file:
        file.write('{"kind": "kills"\n[]\n{"kind": "kills"}\n{"runs": "many"}\n')
    assert tally.add("kills", 3, 1.0, 0, kept=kept).runs == 10
    assert tally.add("kills", 3, 1.0, 0, kept=tmp_path / "not" / "there" / "tally.jsonl").runs == 3
