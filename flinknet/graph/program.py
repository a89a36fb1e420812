"""A program in a file: `main(env)` builds a job and ends with `env.execute()`.

Any process that runs it gets the same graphs, which is how functions come to other processes.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from flinknet.errors import ConfigError, FlinknetError

from .environment import StreamExecutionEnvironment

MODULE_NAME = "flinknet_job"


def load_program(
    path: Path, settings: Mapping[str, str], arguments: Sequence[str] = ()
) -> StreamExecutionEnvironment:
    """Run a program up to its `env.execute()`, which runs no job.

    Args:
        settings: Flink's keys; what the program sets wins.
        arguments: given to `main` after the environment.

    Returns: the environment, with what the program built.
    Raises: ConfigError for a file that is no program, or that fails, with the line where it did.
    """
    module = _load(path)
    main = getattr(module, "main", None)
    if not callable(main):
        raise ConfigError(f"{path}: it has no function main(env); define one that builds the job")
    environment = StreamExecutionEnvironment(settings)
    try:
        inspect.signature(main).bind(environment, *arguments)
    except TypeError as error:
        raise ConfigError(
            f"{path}: main{inspect.signature(main)} cannot be called with env and"
            f" {len(arguments)} argument(s): {error}"
        ) from None
    _guarded(path, lambda: main(environment, *arguments))
    if not environment.is_executed:
        raise ConfigError(f"{path}: the program ends without a job; call env.execute() at its end")
    return environment


def _load(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; give a Python file with a function main(env)")
    spec = importlib.util.spec_from_file_location(MODULE_NAME, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path}: no Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE_NAME] = module  # annotations of its functions are looked up there
    loader = spec.loader
    _guarded(path, lambda: loader.exec_module(module))
    return module


def _guarded(path: Path, call: Callable[[], object]) -> None:
    """Call a part of the program; what goes wrong in it becomes one line."""
    try:
        call()
    except FlinknetError as error:
        raise ConfigError(f"{_place(path, error)}: {error}") from None
    except Exception as error:
        raise ConfigError(f"{_place(path, error)}: {type(error).__name__}: {error}") from error


def _place(path: Path, error: Exception) -> str:
    """Where in the file it went wrong, as far as that is known."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f"{path}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == path]
    return f"{path}:{lines[-1]}" if lines else str(path)
