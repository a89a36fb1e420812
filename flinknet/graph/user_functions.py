"""Functions of a program: a copy for each subtask, as Flink deserialises one (Flink:
InstantiationUtil, ClosureCleaner).

A copy has state of its own: attributes of objects, captured variables, and default arguments.
Variables of modules and classes are not copied: the subtasks of a TaskManager share them, like
static fields in a JVM. The types of a function's results are those of its annotations; a call that
flinknet's API does not have is refused by name.
"""

from __future__ import annotations

import io
import re
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pickle import HIGHEST_PROTOCOL, Pickler, Unpickler
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from flinknet.errors import ConfigError

_ABSENT = re.compile("window|timer|state|join|co_?group|watermark|runtime_context")

_ITERATION = re.compile("iterat|close_with|feedback")


class NoSuchCallError(ConfigError, AttributeError):
    """A program calls something that is not part of flinknet's API."""


class FlinkApi:
    """A class that programs call. Raises: NoSuchCallError for calls that it does not have."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            if name.startswith("_"):
                raise AttributeError(name)
            text = f"{type(self).__name__} has no {name}"
            plain = re.sub("(?<=[a-z])([A-Z])", r"_\1", name).lower()
            known = [each for each in dir(type(self)) if not each.startswith("_")]
            if _ITERATION.match(plain):
                text += ": iterations (Flink's FeedbackTransformation, with head and tail in one"
                text += " co-location group) were removed in Flink 2.0, and flinknet has none"
            elif _ABSENT.search(plain):
                text += ": flinknet has no windows, timers, joins or keyed state (docs/jobs.md); a"
                text += " function can keep what it needs in attributes of an object"
            elif found := get_close_matches(plain, known, n=1, cutoff=0.7):
                text += f"; did you mean {found[0]}?"
            else:
                text += f"; it has {', '.join(known)}"
            raise NoSuchCallError(text)


MODULE_NAME = "flinknet_job"
"""Module of the program's file, in every process that runs it."""

NO_RECORDS = "not an iterable of records"
NO_KEY = "which cannot be a key, because it can change; return a tuple"

_SHARED = (type, ModuleType, type(cache(len)))
"""Types of values that are not copied."""

_Value = TypeVar("_Value")


class WrongResultError(TypeError):
    """A function of the program returned something that its operator cannot use."""

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


UserFunction = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class MissingType:
    """Placeholder for an unknown type, with the reason (Flink: MissingTypeInfo)."""

    operator: str
    why: str


def type_of_results(
    function: UserFunction, operator: str, explicit: Any = None, *, are_elements: bool = False
) -> Any:
    """The type of a function's results, or of the elements of its results, or MissingType.

    Args:
        function: its return annotation is read. A class returns instances of itself.
        operator: name for a later error message.
        explicit: type given by the user, which takes precedence.
    """
    if explicit is not None:
        return explicit
    if isinstance(function, type) and not are_elements:
        return function
    hint = _return_hint(function)
    name = function_name(function)
    if hint is None:
        return MissingType(operator, f"{name} has no return annotation")
    if not are_elements:
        return hint
    arguments = typing.get_args(hint)
    if not arguments:
        return MissingType(operator, f"{name} does not say of what its results are")
    return arguments[0]


def known_results(function: UserFunction) -> Any:
    """The annotated type of a function's results; object if it has no annotation."""
    hint = _return_hint(function)
    return object if hint is None else hint


def check_results(function: UserFunction, method: str, needed: str, why_not: str) -> None:
    """Check that the annotated results of a function have a method. Raises: ConfigError."""
    hint = _return_hint(function)
    kind = typing.get_origin(hint) or hint
    if isinstance(kind, type) and getattr(kind, needed, None) is None:
        raise ConfigError(
            f"{method}: {function_name(function)} returns {type_name(hint)}, {why_not}"
        )


def are_alike(one: Any, other: Any) -> bool:
    """Whether one stream can have records of both types: equal, as far as they are specified."""
    if one == other or {object, Any} & {one, other}:
        return True
    kinds = [typing.get_origin(each) or each for each in (one, other)]
    arguments = [typing.get_args(each) for each in (one, other)]
    if types.UnionType in kinds or typing.Union in kinds:
        return any(are_alike(each, other) for each in arguments[0]) or any(
            are_alike(one, each) for each in arguments[1]
        )
    if kinds[0] != kinds[1] or len({len(each) for each in arguments if each}) > 1:
        return False
    return all(map(are_alike, *arguments)) if all(arguments) else True


def known_type(output_type: Any) -> Any:
    """A type that is not missing. Raises: ConfigError with the remedy (InvalidTypesException)."""
    if isinstance(output_type, MissingType):
        raise ConfigError(
            f"{output_type.operator}: the type of its records is not known, because"
            f" {output_type.why}; annotate the function, or give output_type=… (object for"
            " anything)"
        )
    return output_type


def type_name(output_type: Any) -> str:
    if isinstance(output_type, MissingType):
        return "missing"
    if output_type is None:
        return "none"
    is_plain = isinstance(output_type, type) and not typing.get_args(output_type)
    return output_type.__name__ if is_plain else str(output_type)


def _return_hint(function: UserFunction) -> Any:
    holder = function if hasattr(function, "__annotations__") else type(function).__call__
    try:
        return typing.get_type_hints(holder).get("return")
    except (NameError, TypeError, AttributeError):
        return None
