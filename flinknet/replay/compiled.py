"""Compiling by numba, kept on disk where that can be. Imported only where there is much to do:
loading the compiler takes half a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function in machine code, which is found again by the next process."""
    try:
        fast: Callable[..., Any] = numba.njit(cache=True)(function)
    except RuntimeError:  # no directory can be written to
        fast = numba.njit()(function)
    return fast
