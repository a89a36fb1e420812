"""What runs in the fork that fuzzes one target."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.json_mutator import json_mutator


def be_fuzzed(name: str, arguments: Sequence[str], place: Path) -> None:
    """Fuzz one target; this process ends with it, without cleaning up.

    Args:
        arguments: libFuzzer's.
        place: a directory for all files of the target, and `log`, which takes what is printed.
    """
    import atheris

    from tests.fuzz.instrumented import TARGETS

    tempfile.tempdir = str(place)
    with (place / "log").open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    target = TARGETS[name]
    options = {}
    if target.json_from is not None:
        options["custom_mutator"] = json_mutator(target.json_from)
    atheris.Setup(["fuzz", *arguments], target.run, **options)
    atheris.Fuzz()
