"""The rows of the conformance table, each with the tests that show it and what became of them.

    python tests/rows.py [pytest's arguments]

Exit code 1 when an asked row has neither test nor reason, when a test of a row did not pass, or
when all of its tests live in the simulator and the row does not say why that is enough.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

ROWS_FILE = Path(__file__).with_name("rows.toml")
IN_VIRTUAL_TIME = ("simulator/", "campaign/")
"""Tests that live there show a row in virtual time only."""

SKIPPED = "skipped"
"""Outcome of a test that needs something that is not installed; what it needs follows."""

PROPERTY = "row"
"""Name under which tests/conftest.py hands the rows of a test to whoever reads its report."""


@dataclass
class Row:
    """One row of the table; `outcomes` has the outcome of each case of each of its tests.

    Attributes:
        reason: why the row, or a part of it, has no test.
        virtual_time: why tests in the simulator are enough.
    """

    id: str
    title: str
    reason: str | None = None
    is_asked: bool = True
    virtual_time: str | None = None
    outcomes: dict[str, list[str]] = field(default_factory=dict)

    @property
    def result(self) -> str:
        """passed, skipped, failed, only virtual, missing, or no test (with a reason)."""
        if self.outcomes:
            found = {each for test in self.outcomes.values() for each in test}
            if any(each != "passed" and not each.startswith(SKIPPED) for each in found):
                return "failed"
            if "passed" not in found:
                return SKIPPED
            is_virtual = all(each.startswith(IN_VIRTUAL_TIME) for each in self.outcomes)
            return "only virtual" if is_virtual and self.virtual_time is None else "passed"
        return "no test" if self.reason else "missing"

    @property
    def is_good(self) -> bool:
        """Whether the row is shown, or the table says why not."""
        return self.result in ("passed", SKIPPED, "no test")

    def tests(self) -> str:
        """The tests by name, with the number of cases; those that did not pass say so."""
        lines = []
        for test, outcomes in self.outcomes.items():
            bad = [each for each in outcomes if each != "passed"]
            cases = f" ({len(outcomes)} cases)" if len(outcomes) > 1 else ""
            lines.append(f"{test}{cases}" + (f": {len(bad)} {bad[0]}" if bad else ""))
        lines += [each for each in (self.reason, self.virtual_time) if each]
        return "\n".join(lines) or "–"


def read_rows(path: Path = ROWS_FILE) -> dict[str, Row]:
    """The rows of the file, without outcomes."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    asked_from, asked_to = document["asked_from"], document["asked_to"]
    return {
        row_id: Row(
            row_id,
            entry["title"],
            entry.get("reason"),
            asked_from <= row_id <= asked_to,
            entry.get("virtual_time"),
        )
        for row_id, entry in document["rows"].items()
    }


def note_outcome(rows: Mapping[str, Row], row_ids: Iterable[str], node_id: str, how: str) -> None:
    """Put the outcome of one case of a test to its rows."""
    file, _, test = node_id.partition("::")
    name = f"{file.removeprefix('tests/')}::{test.partition('[')[0]}"
    for row_id in row_ids:
        rows[row_id].outcomes.setdefault(name, []).append(how)


def listed(rows: Mapping[str, Row]) -> list[Row]:
    """The rows that were asked for, and any other that has tests."""
    return [row for row in rows.values() if row.is_asked or row.outcomes]


def table_of(rows: Iterable[Row]) -> Table:
    """The table as it is printed."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("row", no_wrap=True)
    table.add_column("title", ratio=2)
    table.add_column("tests", ratio=4, overflow="fold")
    table.add_column("result", no_wrap=True)
    for row in rows:
        table.add_row(
            row.id, row.title, row.tests(), row.result, style=None if row.is_good else "red"
        )
    return table


class RowRecorder:
    """A pytest plugin that keeps the outcome of every case of every marked test."""

    def __init__(self, rows: Mapping[str, Row]) -> None:
        self._rows = rows

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        row_ids = [str(value) for name, value in report.user_properties if name == PROPERTY]
        is_expected_failure = hasattr(report, "wasxfail")
        if report.when == "call" or report.outcome != "passed":
            how = "expected to fail" if is_expected_failure else report.outcome
            if how == SKIPPED and isinstance(report.longrepr, tuple):
                how = f"{SKIPPED}: {report.longrepr[2].removeprefix('Skipped: ')}"
            note_outcome(self._rows, row_ids, report.nodeid, how)


def main(arguments: list[str]) -> int:
    """Run the marked tests, print the table, tell how it went."""
    rows = read_rows()
    run = ["-m", "row", "-q", "--no-header", *arguments]
    status = pytest.main(run, plugins=[RowRecorder(rows)])
    shown = listed(rows)
    console = Console(width=None if sys.stdout.isatty() else 180)
    console.print(table_of(shown))
    results = ("passed", SKIPPED, "no test")
    counts = {how: sum(row.result == how for row in shown) for how in results}
    bad = [row.id for row in shown if not row.is_good]
    console.print(
        f"{len(shown)} rows: {counts['passed']} passed, {counts[SKIPPED]} skipped for what is not"
        f" installed, {counts['no test']} without a test for the reason given,"
        f" {len(bad)} missing, failed or virtual only" + (": " + " ".join(bad) if bad else ""),
        highlight=False,
    )
    return 1 if bad or status != pytest.ExitCode.OK else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
