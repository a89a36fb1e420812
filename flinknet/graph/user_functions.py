"""Functions of a program: a copy for each subtask, as Flink deserialises one (Flink:
InstantiationUtil, ClosureCleaner).

A copy has state of its own: attributes of objects, captured variables, and default arguments.
Variables of modules and classes are not copied: the subtasks of a TaskManager share them, like
static fields in a JVM.
"""

from __future__ import annotations

import io
import sys
from functools import cache
from pickle import HIGHEST_PROTOCOL, Pickler, Unpickler
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

from flinknet.errors import ConfigError

MODULE_NAME = "flinknet_job"
"""Module of the program's file, in every process that runs it."""

NO_RECORDS = "not an iterable of records"
NO_KEY = "which cannot be a key, because it can change; return a tuple"

_SHARED = (type, ModuleType, type(cache(len)))
"""Types of values that are not copied."""

_Value = TypeVar("_Value")


class WrongResultError(TypeError):
    """A function of the program returned something that its operator cannot use.

    Attributes:
        function: the function.
    """

    def __init__(self, function: Any, result: Any, why: str) -> None:
        super().__init__(f"{function_name(function)} returns {shown(result)}, {why}")
        self.function = function


def copied(value: _Value) -> _Value:
    """A deep copy. Raises: any exception, if a part cannot be copied."""
    written = io.BytesIO()
    pickler = _Pickler(written)
    pickler.dump(value)
    written.seek(0)
    found: _Value = _Unpickler(written, pickler.kept).load()
    return found


def check_function(function: Any, method: str) -> None:
    """Check that a method of the API can use a function, in every subtask.

    Raises: ConfigError if it cannot be called or copied, with the part that prevents it.
    """
    if not callable(function):
        raise ConfigError(
            f"{method}: {shown(function)} is not a function; give one, such as `lambda record: …`"
        )
    try:
        copied(function)
    except Exception as error:
        part = next((name for name, each in _parts(function) if not _is_copied(each)), "")
        raise ConfigError(
            f"{method}: {function_name(function)} cannot be copied for each subtask:"
            f" {part or type(error).__name__}: {error}; create it in open(), which each subtask"
            " calls, or as a variable of the module, which they share"
        ) from None


def function_name(function: Any) -> str:
    """Name of a function, for messages; the class of a callable object."""
    name: str = getattr(function, "__name__", type(function).__name__)
    return "the lambda" if name == "<lambda>" else name


def function_code(function: Any) -> CodeType | None:
    """Code of a function, or of the method that calls an object; None if it is not in Python."""
    function = getattr(function, "func", function)  # of a partial
    code = getattr(function, "__code__", None) or getattr(function.__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None


def shown(value: Any, length: int = 80) -> str:
    """A value of the program in one line, cut to a number of characters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:
        return f"a {type(value).__name__}"
    return text if len(text) <= length else f"{text[: length - 1]}…"


class _Kept:
    """Refers to a value that is not copied, although values of its type are."""

    def __init__(self, value: Any) -> None:
        self.value = value


class _Pickler(Pickler):
    """Pickles in this process. The pickle module refuses functions that are not found by name."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, HIGHEST_PROTOCOL)
        self.kept: list[Any] = []

    def persistent_id(self, value: Any) -> int | None:
        kind = type(value)
        if kind is _Kept:
            value = value.value
        elif kind is FunctionType:
            if _has_state(value):
                return None
        elif not (issubclass(kind, _SHARED) or value is sys.stdout or value is sys.stderr):
            return None
        self.kept.append(value)
        return len(self.kept) - 1

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, FunctionType):
            state = value.__defaults__, value.__kwdefaults__, value.__dict__
            cells = value.__closure__
            return _new_function, (_Kept(value), cells), state, None, None, _set_function_state
        if isinstance(value, CellType):
            try:
                contents = (value.cell_contents,)
            except ValueError:  # not assigned yet
                return CellType, ()
            return CellType, (), contents, None, None, _set_contents
        return NotImplemented


class _Unpickler(Unpickler):
    def __init__(self, file: io.BytesIO, kept: list[Any]) -> None:
        super().__init__(file)
        self._kept = kept

    def persistent_load(self, number: int) -> Any:
        return self._kept[number]


def _has_state(function: FunctionType) -> bool:
    """Whether a function has state that is not a module's. Functions of modules that the program
    imports are a module's altogether.
    """
    if not (
        function.__closure__
        or function.__defaults__
        or function.__kwdefaults__
        or function.__dict__
    ):
        return False
    if function.__module__ == MODULE_NAME:
        return True
    found: Any = sys.modules.get(function.__module__ or "")
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is not function


def _new_function(original: FunctionType, cells: tuple[CellType, ...] | None) -> FunctionType:
    code, name = original.__code__, original.__name__
    return FunctionType(code, original.__globals__, name, None, cells)


def _set_function_state(function: FunctionType, state: Any) -> None:
    function.__defaults__, function.__kwdefaults__, attributes = state
    function.__dict__.update(attributes)


def _set_contents(cell: CellType, state: tuple[Any]) -> None:
    (cell.cell_contents,) = state


def _parts(function: Any) -> list[tuple[str, Any]]:
    """The parts of a function that have state, with their names."""
    parts: list[tuple[str, Any]] = []
    if isinstance(function, MethodType):
        return _parts(function.__self__)
    if isinstance(function, FunctionType):
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        parts += [(f"its variable {name!r}", cell) for name, cell in cells]
    attributes = getattr(function, "__dict__", {}).items()
    return parts + [(f"its attribute {name!r}", each) for name, each in attributes]


def _is_copied(value: Any) -> bool:
    try:
        copied(value)
    except Exception:
        return False
    return True
