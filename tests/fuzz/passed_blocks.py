"""Counts the blocks of code that an input passes for libFuzzer, in less than half of the time that
Atheris takes, which is 100 ns each. Inputs pass up to 2,000 of them.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

CORE = "atheris.core_with_libfuzzer"
"""Atheris' library, which it loads when fuzzing begins."""

ONE = np.uint8(1)
"""Of the type of the counters: another one costs numpy 70 us for 1,600 blocks instead of 3."""


def counted(run: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """A target that counts the blocks of code it passes.

    Instrumented code calls `atheris._trace_branch` with the number of each block. From the first
    input on that appends the number to a list, and the counters of libFuzzer are raised
    after the input, all at once; they wrap at 256, as always.
    """
    import atheris

    blocks = atheris._reserve_counter()  # all that are reserved are below it
    counters = np.zeros(blocks, np.uint8)
    addresses = np.zeros((blocks, 2), np.uintp)  # and flags
    addresses[:, 0] = np.arange(1, blocks + 1)
    passed: list[int] = []

    def run_counted(data: bytes) -> None:
        if atheris._trace_branch != passed.append:
            core = ctypes.CDLL(str(sys.modules[CORE].__file__))
            _register(core.__sanitizer_cov_8bit_counters_init, counters)
            _register(core.__sanitizer_cov_pcs_init, addresses)
            atheris._trace_branch = passed.append
        run(data)
        np.add.at(counters, np.fromiter(passed, np.int64, len(passed)), ONE)
        passed.clear()

    return run_counted


def _register(take: Callable[..., None], memory: npt.NDArray[Any]) -> None:
    """Show memory to libFuzzer, which uses it from now on."""
    start = memory.ctypes.data
    take(ctypes.c_void_p(start), ctypes.c_void_p(start + memory.nbytes))
