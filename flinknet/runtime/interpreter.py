"""Speed of the interpreter, and its build as far as it is known: bytecode is most of the work of a
TaskManager, and one build of CPython can be half as fast again as another.
"""

from __future__ import annotations

import sysconfig
import time

_ROUNDS = 8
_TURNS = 10_000
_OPERATIONS_PER_TURN = 3  # a call, an addition, an append

DEBUG = "debug build"
OPTIMISED = "profile-guided optimisation"


def build_of_interpreter() -> str | None:
    """DEBUG or OPTIMISED; None if unknown: some distributions optimise without recording it in the
    configuration.
    """
    if sysconfig.get_config_var("Py_DEBUG"):
        return DEBUG
    flags = (
        f"{sysconfig.get_config_var('CONFIG_ARGS')} {sysconfig.get_config_var('PY_CORE_CFLAGS')}"
    )
    if "--enable-optimizations" in flags or "-fprofile-use" in flags:
        return OPTIMISED
    return None


def operations_per_s() -> float:
    """Simple operations of Python code per second, the best of several rounds; takes some 10 ms."""
    return _TURNS * _OPERATIONS_PER_TURN / min(_round_s() for _ in range(_ROUNDS))


def _round_s() -> float:
    kept: list[int] = []
    append, number = kept.append, 0
    begun_ns = time.perf_counter_ns()
    for _ in range(_TURNS):
        number = _next(number)
        append(number)
    return max(1, time.perf_counter_ns() - begun_ns) / 1e9


def _next(number: int) -> int:
    return number + 1
