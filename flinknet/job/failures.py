"""Failures of a program's functions, in words: which record, and which line of the program."""

from __future__ import annotations

import traceback
from itertools import dropwhile
from pathlib import Path
from typing import Any

import flinknet
from flinknet.errors import TaskFailedError
from flinknet.graph.absent import NoSuchCallError
from flinknet.graph.user_functions import MODULE_NAME, WrongResultError, function_code, shown
from flinknet.units import ordinal

_OWN = (f"{Path(flinknet.__file__).parent}/", "flinknet/")
"""Files of flinknet itself; compiled modules have relative names."""

_NOTED_CHARACTERS = 100_000


def record_text(number: int, value: Any) -> str:
    """A record by its number, from 1, and its value: "50th record, value 7"."""
    return f"{ordinal(number)} record, value {shown(value)}"


def place_of(error: BaseException) -> str:
    """The line of the program where an exception arose, with " (" and ")": the last one in its file
    or, if that has none, in the module that flinknet called. Empty if no function was called.
    """
    if isinstance(error, WrongResultError):
        return defined_at(error.function)
    frames = [
        (frame.f_globals.get("__name__"), frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    outer = list(dropwhile(lambda frame: frame[1].startswith(_OWN), frames))
    name = MODULE_NAME if any(each[0] == MODULE_NAME for each in outer) else outer and outer[0][0]
    lines = [_place(path, line) for module, path, line in outer if module == name]
    return lines[-1] if lines else ""


def defined_at(function: Any) -> str:
    """The line where the program defines a function, as in `place_of`; empty if it does not."""
    code = function_code(function) if callable(function) else None
    if code is None or code.co_filename.startswith(_OWN):
        return ""
    return _place(code.co_filename, code.co_firstlineno)


def task_failed(text: str, error: BaseException, value: Any) -> TaskFailedError:
    """The error of a task whose function raised: a line, and the record as a note."""
    is_named = isinstance(error, WrongResultError | NoSuchCallError)
    kind = "" if is_named else f"{type(error).__name__}: "
    failed = TaskFailedError(f"{text}{place_of(error)}: {kind}{error}")
    failed.__cause__ = error  # compiled code raises without a cause
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
