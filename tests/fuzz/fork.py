"""What runs in the fork that fuzzes one target."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.json_mutator import json_mutator
from tests.fuzz.passed_blocks import counted

GARBAGE_OBJECTS = 20_000
"""So many are collected at a time: looking for a few after each input takes 4% of the time."""


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
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)
    options = {}
    if target.json_from is not None:
        options["custom_mutator"] = json_mutator(target.json_from)
    atheris.Setup(["fuzz", *arguments], counted(target.run), **options)
    try:
        atheris.Fuzz()
    except SystemExit as failed:  # libFuzzer keeps the input at the exit of C, not at Python's
        sys.stdout.flush()
        ctypes.CDLL(None).exit(failed.code)
