from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from flinknet.replay.spark.worker import freeze_what_is_loaded

OBJECTS = 10_000


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_what_was_loaded_is_not_looked_through_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "loaded_first", ModuleType("loaded_first"))
    held: list[list[int]] = [[] for _ in range(OBJECTS)]
    freeze_what_is_loaded()
    assert gc.get_freeze_count() > OBJECTS
    assert len(held) == OBJECTS


def test_it_is_done_again_only_when_there_is_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "loaded_second", ModuleType("loaded_second"))
    monkeypatch.setitem(sys.modules, "loaded_third", ModuleType("loaded_third"))
    freeze_what_is_loaded()
    before = gc.get_freeze_count()
    held: list[list[int]] = [[] for _ in range(OBJECTS)]
    freeze_what_is_loaded()
    assert gc.get_freeze_count() < before + OBJECTS
    monkeypatch.setitem(sys.modules, "loaded_fourth", ModuleType("loaded_fourth"))
    freeze_what_is_loaded()
    assert gc.get_freeze_count() > before + OBJECTS // 2
    assert len(held) == OBJECTS
