"""How functions are compiled and kept, and how those of the kernel read the memory."""

from __future__ import annotations

import fcntl
import hashlib
import operator
from collections.abc import Callable, MutableSequence
from contextlib import ExitStack, suppress
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast, get_args, get_origin

import numba
import numpy as np
import numpy.typing as npt
from numba import extending, types
from numba.core import caching, cgutils, imputils
from numba.core.typing import templates
from numba.extending import intrinsic, lower_builtin, models
from numba.misc.appdirs import AppDirs
from numba.np.arrayobj import make_array

from flinknet import histogram

from . import memory
from .views import List, Rows, View

_Function = TypeVar("_Function", bound=Callable[..., object])

_word, _number = types.int64, types.float64
_proxy, _signature = cgutils.create_struct_proxy, templates.signature

Ints = npt.NDArray[np.int64]
Words = MutableSequence[int]
"""Pointer to the words of the memory, within the kernel."""

_HOW: dict[str, Any] = {"error_model": "numpy"}

_kept: list[Any] = []


def compile_all(module: dict[str, Any], *inlined: Callable[..., object]) -> None:
    """Compile the functions of a file, each together with its callers, and called by them alone.
    Inlined ones become a part of each caller, however large they are: a view takes two registers of
    a call, and the kernel is 5 to 10% slower without."""
    for name, function in module.items():
        if isinstance(function, FunctionType) and function.__module__ == module["__name__"]:
            how = {**_HOW, "no_cpython_wrapper": True, "forceinline": function in inlined}
            module[name] = numba.njit(**how)(function)


def kept_on_disk(function: _Function) -> _Function:
    """Compiled once for all processes, where there is a place to keep it."""
    dispatcher = numba.njit(**_HOW)(function)
    with suppress(RuntimeError):  # no directory can be written to
        dispatcher._cache = _Cache(function)
        dispatcher.compile = partial(_compile_once, dispatcher, dispatcher.compile)
        _kept.append(dispatcher)
    return cast(_Function, dispatcher)


def _compile_once(dispatcher: Any, compile_or_load: Callable[[Any], Any], signature: Any) -> Any:
    """Compile in one process while others that need the same machine code wait for it."""
    cache, target = dispatcher._cache, dispatcher.targetctx
    target.refresh()
    with ExitStack() as stack:
        if cache._index_key(signature, target.codegen()) not in cache._cache_file._load_index():
            with suppress(OSError):
                path = Path(cache.cache_path, f"{cache._impl.filename_base}.lock")
                fcntl.flock(stack.enter_context(path.open("wb")), fcntl.LOCK_EX)
        return compile_or_load(signature)


def load_kept() -> None:
    """Load the machine code that is on disk of the functions imported so far, without a call: who
    is forked from this process has it. Nothing is compiled."""
    for dispatcher in _kept:
        cache, target = dispatcher._cache, dispatcher.targetctx
        target.refresh()
        for key in cache._cache_file._load_index():
            if key == cache._index_key(key[0], target.codegen()):  # of this processor and code
                dispatcher.compile(key[0])


class _ByContent(caching._SourceFileBackedLocatorMixin, caching._CacheLocator):
    """Machine code is found by the sources that it was made from, wherever they lie: all clones
    and environments of a user share it. numba's own cache looks at one file, by its path, and
    never at those of the functions that are called. It lies in NUMBA_CACHE_DIR, or with the user's
    caches."""

    def __init__(self, function: Callable[..., object], file: str) -> None:
        folder = Path(file).parent
        self._lineno = function.__code__.co_firstlineno
        self._digest = digest_of(folder)
        root = numba.config.CACHE_DIR or AppDirs(appname="numba", appauthor=False).user_cache_dir
        self._path = Path(root, f"flinknet-{folder.name}-{self._digest[:16]}")

    def get_cache_path(self) -> str:
        return str(self._path)

    def get_source_stamp(self) -> str:
        return self._digest


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
        return make_array(signature.args[0])(context, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), code


def _bits(_context: Any, _number: Any) -> Any:
    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.int64))

    return types.int64(types.float64), code


pointer: Callable[[Any], Any] = intrinsic(_pointer)
"""A pointer to the numbers of an array: indexed as the array is, and twice as fast for the whole
kernel, since an index into an array may count from its end, and each access checks that."""

bits: Callable[[float], int] = intrinsic(_bits)
"""The 64 bits of a number: sign, exponent, mantissa; frexp is a call that takes longer."""


class _Type(types.Type):
    """A view or a list in compiled functions: a pointer to all words, and an address. Elements of
    Rows lie in the list, whose words are otherwise their addresses."""

    def __init__(self, hint: Any) -> None:
        inner = get_args(hint)
        self.kind = None if inner else hint
        self.element = _type_of(inner[0]) if inner else None
        self.is_rows = get_origin(hint) is Rows
        self.width = 1 if inner and not self.is_rows else len((*inner, hint)[0].fields)
        super().__init__(name=str(hint))


class _View(_Type):
    """A record; lists are of the type _Type itself."""


@cache
def _type_of(hint: Any) -> Any:
    if hint in (int, float):
        return _word if hint is int else _number
    return _Type(hint) if get_args(hint) else _View(hint)


@extending.register_model(_Type)
@extending.register_model(_View)
class _Model(models.StructModel):
    def __init__(self, manager: Any, own: Any) -> None:
        members = [("words", types.CPointer(_word)), ("at", _word)]
        super().__init__(manager, own, members)


def _made(context: Any, builder: Any, words: Any, at: Any, kind: Any) -> Any:
    made = _proxy(kind)(context, builder)
    made.words, made.at = words, at
    return made._getvalue()


def _load(context: Any, builder: Any, words: Any, at: Any, kind: Any) -> Any:
    """A word as a value of a type."""
    value = builder.load(builder.gep(words, [at]))
    if kind is _number:
        return builder.bitcast(value, context.get_value_type(_number))
    return value if kind is _word else _made(context, builder, words, value, kind)


def _store(context: Any, builder: Any, words: Any, at: Any, kind: Any, value: Any) -> None:
    if kind is _number:
        value = builder.bitcast(value, context.get_value_type(_word))
    elif kind is not _word:
        value = _proxy(kind)(context, builder, value=value).at
    builder.store(value, builder.gep(words, [at]))


@templates.infer_getattr
class _Attributes(templates.AttributeTemplate):
    key = _Type

    def generic_resolve(self, own: Any, name: str) -> Any:
        known = {"words": types.CPointer(_word), "at": _word, "next": own}
        return known.get(name) or _type_of(own.kind.kinds()[name])


def _place(context: Any, builder: Any, own: Any, view: Any, name: str) -> Any:
    place = own.width if name == "next" else own.kind.fields[name].place
    return builder.add(view.at, context.get_constant(_word, place))


@extending.lower_getattr_generic(_Type)
def _get(context: Any, builder: Any, own: Any, value: Any, name: str) -> Any:
    view = _proxy(own)(context, builder, value=value)
    if name in ("words", "at"):
        return getattr(view, name)
    at = _place(context, builder, own, view, name)
    if name == "next":
        return _made(context, builder, view.words, at, own)
    return _load(context, builder, view.words, at, _type_of(own.kind.kinds()[name]))


@extending.lower_setattr_generic(_Type)
def _set(context: Any, builder: Any, signature: Any, arguments: Any, name: str) -> None:
    own, kind = signature.args
    view = _proxy(own)(context, builder, value=arguments[0])
    at = _place(context, builder, own, view, name)
    _store(context, builder, view.words, at, kind, arguments[1])


def _typing(function: Any, signature: Callable[[Any], Any], *kinds: Any) -> None:
    """Let calls of a function with arguments of some types have a signature."""

    @templates.infer_global(function)
    class _Typed(templates.AbstractTemplate):
        def generic(self, arguments: Any, _keywords: Any) -> Any:
            is_own = len(arguments) == len(kinds) and all(map(isinstance, arguments, kinds))
            return signature(arguments) if is_own else None


def _truth_type(own: Any) -> Any:
    return _signature(types.boolean, *own)


_typing(
    operator.getitem, lambda own: _signature(own[0].element, own[0], _word), _Type, types.Integer
)
_typing(
    operator.setitem,
    lambda own: _signature(types.none, own[0], _word, own[0].element),
    *(_Type, types.Integer, types.Type),
)
_typing(bool, _truth_type, _View)


@lower_builtin(operator.getitem, _Type, types.Integer)
def _item(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    own = signature.args[0]
    view = _proxy(own)(context, builder, value=arguments[0])
    place = builder.mul(arguments[1], context.get_constant(_word, own.width))
    make = _made if own.is_rows else _load
    return make(context, builder, view.words, builder.add(view.at, place), own.element)


@lower_builtin(operator.setitem, _Type, types.Integer, types.Any)
def _store_item(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    own = signature.args[0]
    view = _proxy(own)(context, builder, value=arguments[0])
    at = builder.add(view.at, arguments[1])
    _store(context, builder, view.words, at, own.element, arguments[2])
    return context.get_dummy_value()


@lower_builtin(bool, _View)
def _exists(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    at = _proxy(signature.args[0])(context, builder, value=arguments[0]).at
    return builder.icmp_signed("!=", at, context.get_constant(_word, 0))


def _comparing(compare: Any, sign: str) -> None:
    """Let compiled functions compare the addresses of views."""
    _typing(compare, _truth_type, _View, _View)

    @lower_builtin(compare, _View, _View)
    def _lowered(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pairs = zip(signature.args, arguments, strict=True)
        one, other = (_proxy(own)(context, builder, value=value).at for own, value in pairs)
        return builder.icmp_signed(sign, one, other)


for _name, _sign in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("ge", ">=")):
    _comparing(getattr(operator, _name), _sign)


def _know(kind: Any) -> None:
    """Let compiled functions make views of a kind."""

    @extending.type_callable(kind)
    def _typed(_context: Any) -> Any:
        return lambda words, at: _type_of(kind)

    @lower_builtin(kind, types.CPointer, types.Integer)
    def _lowered(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at = context.cast(builder, arguments[1], signature.args[1], _word)
        return _made(context, builder, arguments[0], at, signature.return_type)

    @extending.typeof_impl.register(kind)
    def _constant(_value: Any, _context: Any) -> Any:
        return _type_of(kind)


@imputils.lower_constant(_View)
def _none(context: Any, builder: Any, kind: Any, value: View) -> Any:
    """A constant of the kernel is no record."""
    words = context.get_constant_null(types.CPointer(_word))
    return _made(context, builder, words, context.get_constant(_word, value.at), kind)


def _moved_list(_context: Any, own: Any, _places: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = _proxy(own)(context, builder, value=arguments[0])
        return _made(context, builder, view.words, builder.add(view.at, arguments[1]), own)

    return own(own, _word), code


moved_list: Callable[[List[int], int], List[int]] = intrinsic(_moved_list)
"""A list that begins some numbers farther on."""

for _kind in vars(memory).values():
    if isinstance(_kind, type) and issubclass(_kind, View) and _kind is not View:
        _know(_kind)
