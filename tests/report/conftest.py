"""What holds for all tables, and a browser for pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flinknet.report.page import page_of
from flinknet.report.page_parts import Page
from tests.chromium import Chromium


@pytest.fixture(autouse=True)
def without_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables off a terminal are as wide as COLUMNS says, which workers of pytest-xdist have."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def show_page(chromium: Chromium, tmp_path: Path) -> Iterator[Callable[..., Chromium]]:
    """Open a page; at the end nothing may have been complained of or asked for."""

    def open_page(page: Page, width: int = 1280, **options: str) -> Chromium:
        path = tmp_path / "page.html"
        path.write_text(page_of(page), encoding="utf-8")
        chromium.open(path, width, **options)
        return chromium

    chromium.complaints.clear()
    yield open_page
    assert chromium.complaints == []
    assert chromium.requested == []
