"""Settings of all tests; and the rows of the conformance table that a test shows."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.rows import PROPERTY, read_rows

# How long an example takes says nothing on a busy machine; the suite has its own timeout.
settings.register_profile("flinknet", deadline=None)
settings.load_profile("flinknet")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the report of a test tell its rows; a row that the table does not have is a mistake."""
    known = read_rows()
    for item in items:
        for mark in item.iter_markers("row"):
            for row_id in mark.args:
                if row_id not in known:
                    raise pytest.UsageError(f"{item.nodeid}: no row {row_id} in tests/rows.toml")
                item.user_properties.append((PROPERTY, row_id))
