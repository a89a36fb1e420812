"""What holds for all tables."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def without_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables off a terminal are as wide as COLUMNS says, which workers of pytest-xdist have."""
    monkeypatch.delenv("COLUMNS", raising=False)
