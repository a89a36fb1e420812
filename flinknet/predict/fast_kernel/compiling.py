"""How the functions of the kernel are compiled, and how they read the memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

_Function = TypeVar("_Function", bound=Callable[..., object])

_intrinsic: Any = intrinsic
_make_array: Any = make_array
_pointer_to: Any = types.CPointer

_HOW: dict[str, Any] = {"error_model": "numpy"}


def compiled(function: _Function) -> _Function:
    """Compiled together with whoever calls it."""
    return cast(_Function, numba.njit(**_HOW)(function))


def kept_on_disk(function: _Function) -> _Function:
    """Compiled once for all processes, where there is a place to keep it.

    What is kept is found by the file of the function, its code and what it closes over, whatever
    became of the functions that it calls: so it has to close over `digest_of` their files.
    """
    try:
        return cast(_Function, numba.njit(cache=True, **_HOW)(function))
    except RuntimeError:  # no directory can be written to
        return compiled(function)


def digest_of(folder: Path) -> int:
    """A number that changes with any source file of a folder."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.py")):
        digest.update(file.read_bytes())
    return int.from_bytes(digest.digest()[:7], "big")


def _pointer(_context: Any, array: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _make_array(signature.args[0])(context, builder, arguments[0]).data

    return _pointer_to(array.dtype)(array), code


def _bits(_context: Any, _number: Any) -> Any:
    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.int64))

    return types.int64(types.float64), code


pointer: Callable[[Any], Any] = _intrinsic(_pointer)
"""Where the numbers of an array begin; indexed as the array is, and twice as fast for the whole
kernel: an index into an array may count from its end, and each access looks whether it does."""

bits: Callable[[float], int] = _intrinsic(_bits)
"""The 64 bits of a number: sign, exponent, mantissa; frexp is a call that takes longer."""
