"""How functions are compiled and kept, and how those of the kernel read the memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.core import caching
from numba.extending import intrinsic
from numba.misc.appdirs import AppDirs
from numba.np.arrayobj import make_array

from flinknet import histogram

_Function = TypeVar("_Function", bound=Callable[..., object])

_njit: Any = numba.njit
_intrinsic: Any = intrinsic
_config: Any = numba.config
_app_dirs: Any = AppDirs
_make_array: Any = make_array
_pointer_to: Any = types.CPointer

_HOW: dict[str, Any] = {"error_model": "numpy"}

_kept: list[Any] = []


def compiled(function: _Function) -> _Function:
    """Compiled together with whoever calls it, and called by nobody else."""
    return cast(_Function, _njit(**_HOW, no_cpython_wrapper=True)(function))


def inlined(function: _Function) -> _Function:
    """Compiled as a part of the function that calls it, however large it is: one in each of several
    runs."""
    return cast(_Function, _njit(**_HOW, no_cpython_wrapper=True, forceinline=True)(function))


def kept_on_disk(function: _Function) -> _Function:
    """Compiled once for all processes, where there is a place to keep it."""
    dispatcher = numba.njit(**_HOW)(function)
    with suppress(RuntimeError):  # no directory can be written to
        dispatcher._cache = _Cache(function)  # type: ignore[no-untyped-call]
        _kept.append(dispatcher)
    return cast(_Function, dispatcher)


def load_kept() -> None:
    """Load the machine code that is on disk of the functions imported so far, without a call: who
    is forked from this process has it. Nothing is compiled.
    """
    for dispatcher in _kept:
        cache, target = dispatcher._cache, dispatcher.targetctx
        target.refresh()
        for key in cache._cache_file._load_index():
            if key == cache._index_key(key[0], target.codegen()):  # of this processor and code
                dispatcher.compile(key[0])


class _ByContent(caching._CacheLocator):
    """Machine code is found by the sources that it was made from, wherever they lie: all clones
    and environments of a user share it. numba's own cache looks at one file, by its path, and
    never at those of the functions that are called.

    It lies where numba keeps what has no other place: in NUMBA_CACHE_DIR, or with the user's
    caches.
    """

    def __init__(self, function: Callable[..., object], file: str) -> None:
        folder = Path(file).parent
        self._line = function.__code__.co_firstlineno
        self._digest = digest_of(folder)
        root = _config.CACHE_DIR or _app_dirs(appname="numba", appauthor=False).user_cache_dir
        self._path = Path(root, f"flinknet-{folder.name}-{self._digest[:16]}")

    def get_cache_path(self) -> str:
        return str(self._path)

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, function: Callable[..., object], file: str) -> _ByContent | None:
        """None where the sources are in an archive, or nothing can be written."""
        if not Path(file).exists():
            return None
        locator = cls(function, file)
        try:
            locator.ensure_cache_path()  # type: ignore[no-untyped-call]
        except OSError:
            return None
        return locator


class _CacheOfResults(caching.CompileResultCacheImpl):
    _locator_classes = [  # noqa: RUF012 - so numba declares it
        _ByContent,
        *caching.CompileResultCacheImpl._locator_classes,
    ]


class _Cache(caching.FunctionCache):
    _impl_class = _CacheOfResults


def digest_of(folder: Path) -> str:
    """A text that changes with any source file of a folder, and with the histogram's, whose numbers
    are compiled in."""
    digest = hashlib.sha256()
    for file in [*sorted(folder.glob("*.py")), Path(histogram.__file__)]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _pointer(_context: Any, array: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _make_array(signature.args[0])(context, builder, arguments[0]).data

    return _pointer_to(array.dtype)(array), code


def _moved(_context: Any, numbers: Any, _places: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]])

    return numbers(numbers, types.int64), code


def _bits(_context: Any, _number: Any) -> Any:
    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.int64))

    return types.int64(types.float64), code


pointer: Callable[[Any], Any] = _intrinsic(_pointer)
"""Where the numbers of an array begin; indexed as the array is, and twice as fast for the whole
kernel: an index into an array may count from its end, and each access looks whether it does."""

moved: Callable[[Any, int], Any] = _intrinsic(_moved)
"""Such a pointer, so many numbers farther on."""

bits: Callable[[float], int] = _intrinsic(_bits)
"""The 64 bits of a number: sign, exponent, mantissa; frexp is a call that takes longer."""
