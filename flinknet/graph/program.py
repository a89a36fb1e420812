"""A program in a file: `main(env)` builds a job and ends with `env.execute()`.

Every process that runs it gets the same graphs; that is how functions get to other processes.
"""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from flinknet.errors import ConfigError, FlinknetError, Terminated
from flinknet.options.keys import RUNTIME_MODE
from flinknet.results import RunWarning
from flinknet.units import counted

from .data_stream import DataStream
from .environment import StreamExecutionEnvironment
from .stream_graph import StreamGraph
from .user_functions import MODULE_NAME

_last_imported: list[str] = []
"""Modules that the last program imported from its folder. Another program may have modules of the
same names, or the same one may have changed them (in Flink each job has its own class loader).
"""


@dataclass(frozen=True, slots=True)
class Program:
    """The job of a program, and warnings about its keys."""

    stream_graph: StreamGraph
    warnings: tuple[RunWarning, ...]


def load_program(
    path: Path,
    settings: Mapping[str, str],
    arguments: Sequence[str] = (),
    *,
    source: str | None = None,
    cache: Path | None = None,
    modules: Path | None = None,
) -> Program:
    """Run a program up to its `env.execute()`, which does not run the job.

    Modules next to the file can be imported, as in a script; their copies come first.

    Args:
        settings: Flink's keys; settings of the program override them.
        arguments: passed to `main` after the environment.
        source: text of the file when the job was submitted; None: as it is now.
        cache, modules: directories of copies of cached files, and of the modules next to the file;
            None: there are no copies.

    Raises: ConfigError for a file that is not a program, or one that fails, with the line.
    """
    for name in _last_imported:
        sys.modules.pop(name, None)
    known, places = set(sys.modules), [each for each in (modules, path.parent) if each is not None]
    folders = [os.path.abspath(each) for each in places]
    try:
        text = read_source(path) if source is None else source
        return _run(path, folders, StreamExecutionEnvironment(settings, cache), arguments, text)
    finally:
        within = tuple(each + os.sep for each in folders)
        _last_imported[:] = [
            name
            for name, module in list(sys.modules.items())
            if name.partition(".")[0] not in known  # no part of a package imported before
            and (
                getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
            ).startswith(within)
        ]
        if modules is not None:
            _extend_packages(*folders)


def files_of_modules(path: Path) -> dict[str, Path]:
    """The files of the modules that the program in this file, loaded last, has imported from its
    folder, by their path within it. Modules that are found only with more folders or archives on
    `sys.path` are left out.
    """
    found = {}
    for name in set(_last_imported) - {MODULE_NAME}:
        file = getattr(sys.modules.get(name), "__file__", None) or ""
        place, within = name.replace(".", "/"), os.path.relpath(file or ".", path.parent)
        if within.startswith((f"{place}.", f"{place}/__init__.")) and os.path.isfile(file):
            found[within] = Path(file)
    return found


def _run(
    path: Path,
    folders: list[str],
    environment: StreamExecutionEnvironment,
    arguments: Sequence[str],
    source: str,
) -> Program:
    module = ModuleType(MODULE_NAME)
    module.__file__ = str(path)
    if sys.path[: len(folders)] != folders:
        sys.path[:] = [*folders, *(each for each in sys.path if each not in folders)]
    sys.modules[MODULE_NAME] = module  # annotations of its functions are resolved there
    _guarded(path, lambda: exec(compile(source, str(path), "exec"), module.__dict__))
    main = getattr(module, "main", None)
    if not callable(main):
        raise ConfigError(f"{path}: it has no function main(env); define one that builds the job")
    try:
        inspect.signature(main).bind(environment, *arguments)
    except TypeError as error:
        raise ConfigError(
            f"{path}: main{inspect.signature(main)} cannot be called with env and"
            f" {counted(len(arguments), 'argument')}: {error}"
        ) from None
    _guarded(path, lambda: main(environment, *arguments))
    if not environment.executed:
        raise ConfigError(f"{path}: the program ends without a job; call env.execute() at its end")
    if len(environment.executed) > 1:
        raise ConfigError(
            f"{path}: the program has {len(environment.executed)} jobs; call env.execute() once"
        )
    return Program(environment.executed[0], environment.warnings)


def read_source(path: Path) -> str:
    """The text of a program. Raises: ConfigError."""
    if not path.is_file():
        what = "not a file" if path.exists() else "no such file"
        raise ConfigError(f"{path}: {what}; give a Python file with a function main(env)")
    if path.suffix != ".py":
        raise ConfigError(f"{path}: no Python file; its name must end in .py")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: it cannot be read as text ({error})") from None


def _extend_packages(modules: str, folder: str) -> None:
    """Let functions import later, from the folder, modules of packages that were copied in part."""
    for name in _last_imported:
        places, parts = getattr(sys.modules.get(name), "__path__", None), name.split(".")
        if isinstance(places, list) and places == [os.path.join(modules, *parts)]:
            places.append(os.path.join(folder, *parts))


def _guarded(path: Path, call: Callable[[], object]) -> None:
    """Call a part of the program; an exception becomes one line."""
    try:
        call()
    except Terminated:
        raise
    except SystemExit as error:
        text = f"{_place(path, error)}: the program ends itself; let it return"
        raise ConfigError(text) from None
    except FlinknetError as error:
        raise ConfigError(f"{_place(path, error)}: {error}") from None
    except Exception as error:
        raise ConfigError(f"{_place(path, error)}: {type(error).__name__}: {error}") from error


def _place(path: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.lineno:
        return f"{path}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == path]
    return f"{path}:{lines[-1]}" if lines else str(path)


def vertex_row(parallelism: Sequence[int], settings: Mapping[str, str]) -> Program:
    """The job with a vertex of each parallelism, from its source to its last vertex."""
    environment = StreamExecutionEnvironment(settings)
    first, *others = parallelism
    records = 1 if settings.get(RUNTIME_MODE, "").upper() == "BATCH" else None  # it has to end
    stream: DataStream = (
        environment.generate(records=records).set_parallelism(first).name("vertex 1")
    )
    for number, subtasks in enumerate(others, start=2):
        kept = stream.rebalance().filter(_keep)
        stream = kept.set_parallelism(subtasks).name(f"vertex {number}")
    environment.execute(f"{len(parallelism)} vertices")
    return Program(environment.executed[0], environment.warnings)


def _keep(record: object) -> bool:
    return True
