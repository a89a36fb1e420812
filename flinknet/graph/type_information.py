"""Types of an operator's records, from its function (Flink: TypeExtractor).

A function without annotations is no error yet: the type is missing, and the next transformation,
which needs it, raises the error.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flinknet.errors import ConfigError

from .user_functions import function_name

UserFunction = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class MissingType:
    """Placeholder for an unknown type, with the reason (Flink: MissingTypeInfo)."""

    operator: str
    why: str


def type_of_results(
    function: UserFunction, operator: str, explicit: Any = None, *, are_elements: bool = False
) -> Any:
    """The type of a function's result, or of the elements of its result.

    Args:
        function: its return annotation is read. A class returns instances of itself.
        operator: name for a later error message.
        explicit: type given by the user, which takes precedence.
        are_elements: whether the function returns an iterable of records.

    Returns: a type, or MissingType.
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
    """Whether one stream can have records of both types: they are equal, as far as they are
    specified.
    """
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
    """Require a type.

    Raises: ConfigError if it is missing, with the remedy (Flink: InvalidTypesException).
    """
    if isinstance(output_type, MissingType):
        raise ConfigError(
            f"{output_type.operator}: the type of its records is not known, because"
            f" {output_type.why}; annotate the function, or give output_type=… (object for"
            " anything)"
        )
    return output_type


def type_name(output_type: Any) -> str:
    """Name of a type, for display."""
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
