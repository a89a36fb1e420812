"""What runs in the fork that fuzzes one target."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.json_mutator import json_mutator


def be_fuzzed(name: str, arguments: Sequence[str], log: Path) -> None:
    """Fuzz one target; this process ends with it.

    Args:
        arguments: libFuzzer's.
        log: file that takes what is printed.
    """
    import atheris

    from tests.fuzz.instrumented import TARGETS

    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    target = TARGETS[name]
    options = {}
    if target.json_from is not None:
        options["custom_mutator"] = json_mutator(target.json_from)
    atheris.Setup(["fuzz", *arguments], target.run, **options)
    atheris.Fuzz()
