"""Failures of a program's functions, in words: which record, and which line of the program."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from itertools import dropwhile
from pathlib import Path
from typing import Any

import flinknet
from flinknet.errors import TaskFailedError
from flinknet.graph.user_functions import WrongResultError, function_code, shown
from flinknet.units import ordinal

_OWN = (f"{Path(flinknet.__file__).parent}/", "flinknet/")
"""Files of flinknet itself; compiled modules have relative names."""

_NOTED_CHARACTERS = 100_000


def record_text(number: int, value: Any) -> str:
    """A record by its number, from 1, and its value: "50th record, value 7"."""
    return f"{ordinal(number)} record, value {shown(value)}"


def place_of(error: BaseException) -> str:
    """The line of the program where an exception arose, with " (" and ")": in the file of the
    function that flinknet called. Empty if no function was called.
    """
    if isinstance(error, WrongResultError):
        code = function_code(error.function)
        return "" if code is None else _place(code.co_filename, code.co_firstlineno)
    frames: Iterable[traceback.FrameSummary] = traceback.extract_tb(error.__traceback__)
    outer = list(dropwhile(lambda frame: frame.filename.startswith(_OWN), frames))
    own = [frame for frame in outer if frame.filename == outer[0].filename]
    return _place(own[-1].filename, own[-1].lineno or 0) if own else ""


def task_failed(text: str, error: BaseException, value: Any) -> TaskFailedError:
    """The error of a task whose function raised: a line, and the record as a note."""
    kind = "" if isinstance(error, WrongResultError) else f"{type(error).__name__}: "
    failed = TaskFailedError(f"{text}{place_of(error)}: {kind}{error}")
    failed.add_note(f"record: {shown(value, _NOTED_CHARACTERS)}")
    return failed


def details_of(error: BaseException) -> str:
    """Traceback and record of a function that failed; empty for other errors."""
    if error.__cause__ is None or not isinstance(error, TaskFailedError):
        return ""
    notes = getattr(error, "__notes__", [])
    return "".join(traceback.format_exception(error.__cause__)) + "".join(f"{n}\n" for n in notes)


def _place(path: str, line: int) -> str:
    return f" ({Path(path).name}:{line})"
