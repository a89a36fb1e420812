"""How the tests are shared out among the workers of pytest-xdist (`-n 3`, as tests wait for
processes): a file at a time, what takes longest first, and the files that ask for the Spark session
together, so that there is one.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parent.parent

LONGEST = ("spark", "interop", "socket")
"""Marks of tests that start processes, the longest ones first."""

_SESSION = re.compile(r"\bspark: Any|\bwith_spark\b")


class FileScheduling(LoadScopeScheduling):
    """Keeps the order of the files, see `in_order`."""

    def __init__(self, config: pytest.Config, log: object) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return piece_of(nodeid.partition("::")[0])


@cache
def piece_of(file: str) -> str:
    """What a file is shared out with: itself, or all files that ask for the Spark session."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return "spark" if _SESSION.search(text) else file


def in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests by file, those first that take longest: the workers end together."""
    ranks: dict[str, int] = {}
    for item in items:
        marks = {each.name for each in item.iter_markers()}
        rank = next((at for at, name in enumerate(LONGEST) if name in marks), len(LONGEST))
        piece = piece_of(item.location[0])
        ranks[piece] = min(rank, ranks.get(piece, rank))
    return sorted(items, key=lambda item: ranks[piece_of(item.location[0])])
