"""The pages in docs/ name files that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
FILES = {
    each.relative_to(ROOT).as_posix()
    for room in ("flinknet", "bench", "tests")
    for each in (ROOT / room).rglob("*")
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+(?:\.py|/))`", text)
    missing = [
        name
        for name in named
        if not any(f"/{each}".endswith(f"/{name.rstrip('/')}") for each in FILES)
    ]
    assert not missing
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert not [link for link in links if not (page.parent / link).exists()]


def test_the_readme_links_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert not [page.name for page in PAGES if f"](docs/{page.name})" not in readme]
