"""Who has found which mutant in this checkout, in `.campaign/mutants.jsonl`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from .mutants import FLINKNET, MUTANTS

KEPT = FLINKNET.parent / ".campaign" / "mutants.jsonl"


def keep(number: int, by: str, path: Path = KEPT) -> None:
    """Note who found a mutant."""
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"digest": _digest(number), "by": by}) + "\n")


def kept(path: Path = KEPT) -> Mapping[int, str]:
    """Who found which mutant at last; without those that have been changed since."""
    found: dict[str, str] = {}
    with suppress(FileNotFoundError):
        for line in path.read_text(encoding="utf-8").splitlines():
            noted = json.loads(line)
            found[noted["digest"]] = noted["by"]
    digests = {number: _digest(number) for number in range(len(MUTANTS))}
    return {number: found[each] for number, each in digests.items() if each in found}


def _digest(number: int) -> str:
    return hashlib.blake2b(repr(MUTANTS[number]).encode(), digest_size=8).hexdigest()
