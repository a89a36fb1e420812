"""Lets a mutant be imported in the place of what it was made from; as a plugin of pytest, too."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import CodeType, ModuleType
from typing import Any

from .mutants import FLINKNET, MUTANTS, Mutant

SWITCH = "FLINKNET_MUTANT"
"""Number of the mutant that tests run with."""


class _Loader(SourceFileLoader):
    mutant: Mutant

    def path_stats(self, path: str) -> dict[str, Any]:
        """None: what was compiled of the sound source is not looked for, nor is this kept."""
        raise OSError(path)

    def source_to_code(self, data: Any, path: Any, **options: Any) -> CodeType:  # type: ignore[override]
        """The code of the mutant."""
        return super().source_to_code(self.mutant.applied_to(bytes(data).decode()), path)


class _Finder(MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of the mutant."""
        if name != self._mutant.module:
            return None
        file = str(FLINKNET / self._mutant.path)
        loader = _Loader(name, file)
        loader.mutant = self._mutant
        return spec_from_file_location(name, file, loader=loader)


def install(number: int) -> None:
    """Import a mutant from now on, and nothing that was compiled."""
    assert "flinknet" not in sys.modules, "flinknet was imported already"
    os.environ["FLINKNET_COMPILED"] = "0"
    sys.meta_path.insert(0, _Finder(MUTANTS[number]))


if SWITCH in os.environ:
    install(int(os.environ[SWITCH]))
