"""Tuning of Spark's Python workers: garbage collection, free memory, silenced tracebacks.

Spark's workers collect garbage after every task and then traverse all loaded objects, which takes
80 ms and more with pandas and the compiler, as long as many tasks. When a scan is ended early, as
by a limit, Spark closes the pipe of its worker, whose parent prints the stack of the failed write;
that is no error.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import traceback
from collections.abc import Callable
from functools import cache, wraps
from mmap import PAGESIZE
from pathlib import Path
from typing import Any

import pyarrow as pa


def freeze_what_is_loaded() -> None:
    """Exempt all loaded objects from garbage collection. Called in a worker, at the end of
    a task."""
    _freeze(len(sys.modules))


@cache
def _freeze(_modules: int) -> None:
    """Run once for each number of loaded modules."""
    gc.collect()
    gc.freeze()


RESIDENT_BYTES_KEPT = 448 << 20
"""Resident memory below which a process frees nothing: its modules take half of that, and new pages
for each unit cost 5 to 10% of its time."""


def return_free_memory() -> None:
    """Return free memory to the system if the process has much: allocators keep it in pieces
    between used ones, and the next unit needs others. After a unit of 90,000 channels that is 500
    MB."""
    if _resident_bytes() < RESIDENT_BYTES_KEPT:
        return
    pa.default_memory_pool().release_unused()
    _trim_heap()(0)


def _resident_bytes() -> int:
    """Resident memory of this process; a fixed number where the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError):
        return RESIDENT_BYTES_KEPT
    return pages * PAGESIZE


@cache
def _trim_heap() -> Callable[[int], object]:
    """malloc_trim of glibc; elsewhere a function without effect."""
    try:
        found: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return lambda _: None
    return found


_ABANDONED = (BrokenPipeError, ConnectionResetError)


def ignore_abandoned_pipes() -> None:
    """Keep this process from printing stacks of pipes that are not read any more."""
    print_exc = traceback.print_exc
    if hasattr(print_exc, "__wrapped__"):
        return

    @wraps(print_exc)
    def print_others(*args: Any, **options: Any) -> None:
        if not isinstance(sys.exc_info()[1], _ABANDONED):
            print_exc(*args, **options)

    traceback.print_exc = print_others
