"""The table of rows: what counts as shown, what is missing, what is listed."""

from __future__ import annotations

from pathlib import Path

from tests.rows import Row, listed, note_outcome, read_rows

CASE = "tests/core/test_x.py::test_it_holds"


def rows(tmp_path: Path) -> dict[str, Row]:
    path = tmp_path / "rows.toml"
    path.write_text(
        'asked_from = "S001"\nasked_to = "S002"\n[rows]\nS001 = { title = "One" }\n'
        'S002 = { title = "Two", reason = "no threads here" }\nS003 = { title = "Three" }\n'
    )
    return read_rows(path)


def test_the_repository_has_all_rows_in_order() -> None:
    table = read_rows()
    asked = [row.id for row in table.values() if row.is_asked]
    assert asked == [f"S{number:03d}" for number in range(1, 171)]
    assert list(table) == sorted(table)
    assert all(row.title for row in table.values())


def test_a_row_without_test_is_missing_unless_it_has_a_reason(tmp_path: Path) -> None:
    table = rows(tmp_path)
    assert (table["S001"].result, table["S001"].is_good) == ("missing", False)
    assert (table["S002"].result, table["S002"].is_good) == ("no test", True)
    assert table["S002"].tests() == "no threads here"


def test_cases_of_a_test_are_counted_and_all_of_them_must_pass(tmp_path: Path) -> None:
    table = rows(tmp_path)
    note_outcome(table, ["S001"], f"{CASE}[1]", "passed")
    note_outcome(table, ["S001"], f"{CASE}[2]", "passed")
    assert table["S001"].result == "passed"
    assert table["S001"].tests() == "core/test_x.py::test_it_holds (2 cases)"
    note_outcome(table, ["S001"], f"{CASE}[3]", "failed")
    assert (table["S001"].result, table["S001"].is_good) == ("failed", False)
    assert table["S001"].tests().endswith("(3 cases): 1 failed")


def test_a_row_that_only_the_simulator_shows_says_why(tmp_path: Path) -> None:
    table = rows(tmp_path)
    row = table["S001"]
    note_outcome(table, ["S001"], "tests/simulator/test_x.py::test_it_holds", "passed")
    assert (row.result, row.is_good) == ("only virtual", False)
    row.virtual_time = "a link with a delay"
    assert (row.result, row.is_good) == ("passed", True)
    assert row.tests() == "simulator/test_x.py::test_it_holds\na link with a delay"
    row.virtual_time = None
    note_outcome(table, ["S001"], CASE, "passed")
    assert row.result == "passed"


def test_a_skipped_test_is_no_failed_row_and_says_what_it_needs(tmp_path: Path) -> None:
    table = rows(tmp_path)
    note_outcome(table, ["S001"], "tests/interop/test_a.py::test_a", "skipped: Flink's jars")
    assert (table["S001"].result, table["S001"].is_good) == ("skipped", True)
    assert "Flink's jars" in table["S001"].tests()
    note_outcome(table, ["S001"], "tests/core/test_b.py::test_b", "passed")
    assert table["S001"].result == "passed"
    note_outcome(table, ["S001"], "tests/core/test_b.py::test_c", "failed")
    assert table["S001"].result == "failed"


def test_rows_nobody_asked_for_are_listed_when_they_have_tests(tmp_path: Path) -> None:
    table = rows(tmp_path)
    assert [row.id for row in listed(table)] == ["S001", "S002"]
    note_outcome(table, ["S003"], CASE, "passed")
    assert [row.id for row in listed(table)] == ["S001", "S002", "S003"]


def test_a_test_may_show_several_rows(tmp_path: Path) -> None:
    table = rows(tmp_path)
    note_outcome(table, ["S001", "S003"], CASE, "failed")
    assert [table[row_id].result for row_id in ("S001", "S003")] == ["failed", "failed"]
