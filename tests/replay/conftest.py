"""A small run to ask."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.recorded_run import write_run


@pytest.fixture(scope="session")
def sawtooth_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100 buffers of ten records on each of two channels, one each 10 ms."""
    return write_run(tmp_path_factory.mktemp("runs") / "sawtooth")


@pytest.fixture
def make_run() -> Callable[..., Path]:
    """`write_run`, for runs of other shape."""
    return write_run
