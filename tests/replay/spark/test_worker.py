from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from flinknet.replay.spark import worker
from flinknet.replay.spark.worker import freeze_what_is_loaded

OBJECTS = 10_000


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_what_is_loaded_is_frozen_again_when_there_is_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "loaded_first", ModuleType("loaded_first"))
    freeze_what_is_loaded()
    before = gc.get_freeze_count()
    held: list[list[int]] = [[] for _ in range(OBJECTS)]
    freeze_what_is_loaded()
    assert gc.get_freeze_count() < before + OBJECTS
    monkeypatch.setitem(sys.modules, "loaded_second", ModuleType("loaded_second"))
    freeze_what_is_loaded()
    assert gc.get_freeze_count() > before + OBJECTS // 2
    assert len(held) == OBJECTS


@pytest.mark.parametrize(("resident", "is_given"), [(1, True), (-1, False)])
def test_memory_is_given_back_where_there_is_much(
    monkeypatch: pytest.MonkeyPatch, resident: int, is_given: bool
) -> None:
    given: list[int] = []
    monkeypatch.setattr(worker, "_trim_heap", lambda: given.append)
    assert worker._resident_bytes() > 10 << 20
    with monkeypatch.context() as without_proc:
        without_proc.setattr(worker, "Path", lambda _: Path("/nowhere"))
        assert worker._resident_bytes() == worker.RESIDENT_BYTES_KEPT
    monkeypatch.setattr(worker, "_resident_bytes", lambda: worker.RESIDENT_BYTES_KEPT + resident)
    worker.return_free_memory()
    assert bool(given) is is_given
