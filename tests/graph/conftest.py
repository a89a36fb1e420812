"""Every test begins as a new process does: ids of transformations count from 1."""

from __future__ import annotations

import itertools

import pytest

from flinknet.graph import transformations


@pytest.fixture(autouse=True)
def _ids_from_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformations, "_node_ids", itertools.count(1))
