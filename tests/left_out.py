"""Tests that `make test` leaves out, and the last line of a run, which says how many, and why.

@pytest.mark.slow("why")              a test; in `pytestmark`: all tests of a module
@pytest.mark.slow("why", first=True)  all cases of a test except the first
@pytest.mark.quick                    a test of a slow module that `make test` runs
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

KEY = "left out"
FLINK = pytest.mark.slow("with Flink's own classes, which make flink installs")

_ONE_MARK = re.compile(r"(slow|releases|cluster|wheel|commands)(?! or)\b")
"""Begins the choice of tests that all have this mark."""


class LeftOut:
    """A pytest plugin; workers of pytest-xdist report to the process that started them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._counts: Counter[str] = Counter()
        chosen = _ONE_MARK.match(config.option.markexpr)
        self._mark = chosen and re.compile(rf"mark\.({chosen[1]}|interop)\b")

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out files that have no test with the mark: importing them takes seconds."""
        if self._mark is None or not re.fullmatch(r"test_\w+\.py", collection_path.name):
            return None
        return None if self._mark.search(collection_path.read_text(encoding="utf-8")) else True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: Iterable[pytest.Item]) -> None:
        """Mark tests that need Flink's jars as slow, and first cases as quick."""
        seen = set()
        for item in items:
            test = item.nodeid.partition("[")[0]
            slow = item.get_closest_marker("slow")
            if slow is not None and slow.kwargs.get("first") and test not in seen:
                item.add_marker("quick")
            if item.get_closest_marker("interop") is not None:
                item.add_marker(FLINK)
            seen.add(test)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Count the tests that `-m "... not slow"` leaves out, by their reasons."""
        if "not slow" in self._config.option.markexpr:
            marks = [each.get_closest_marker("slow") for each in items]
            self._counts.update(str(mark.args[0]) for mark in marks if mark is not None)

    def pytest_sessionfinish(self) -> None:
        """Report the counts of a worker."""
        if hasattr(self._config, "workerinput"):
            self._config.workeroutput[KEY] = dict(self._counts)  # type: ignore[attr-defined]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Take the counts of a worker; all workers have the same."""
        self._counts = Counter(getattr(node, "workeroutput", {}).get(KEY)) or self._counts

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the line."""
        if self._counts:
            reasons = "; ".join(f"{count} {why}" for why, count in self._counts.most_common())
            terminalreporter.write_line(
                f"left to make test-all: {self._counts.total()} slow tests ({reasons})"
            )
