"""What helps the Python processes that Spark starts: no time or memory is lost in them, no words.

Spark's workers collect garbage after every task, and look through all that they have ever loaded
for it: 80 ms and more once there are pandas and the compiler, as long as many a task takes. When a
scan is ended early, by a limit say, Spark closes the pipe of its worker, whose parent prints the
stack of the write that failed; that is no error.
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
    """Exempt what this process has loaded from collections. Called in a worker, at the end of a
    task."""
    _freeze(len(sys.modules))


@cache
def _freeze(_modules: int) -> None:
    """Again whenever there are more modules."""
    gc.collect()
    gc.freeze()


RESIDENT_BYTES_KEPT = 448 << 20
"""Of a process that gives no memory back: what it has loaded takes half of that, and to have every
page of the rest anew for each unit takes 5 to 10% of its time."""


def return_free_memory() -> None:
    """Give free memory back to the system where a process has much: what allocators keep lies in
    pieces between what is in use, and the next unit needs others. After a unit of 90,000 channels
    that is 500 MB."""
    if _resident_bytes() < RESIDENT_BYTES_KEPT:
        return
    pa.default_memory_pool().release_unused()
    _trim_heap()(0)


def _resident_bytes() -> int:
    """Of this process; where the system does not say, it may be any number."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError):
        return RESIDENT_BYTES_KEPT
    return pages * PAGESIZE


@cache
def _trim_heap() -> Callable[[int], object]:
    """The function of glibc; elsewhere one that does nothing."""
    try:
        found: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return lambda _: None
    return found


_ABANDONED = (BrokenPipeError, ConnectionResetError)


def ignore_abandoned_pipes() -> None:
    """From now on this process prints no stack for a pipe that nobody reads any more."""
    print_exc = traceback.print_exc
    if hasattr(print_exc, "__wrapped__"):
        return

    @wraps(print_exc)
    def print_others(*args: Any, **options: Any) -> None:
        if not isinstance(sys.exc_info()[1], _ABANDONED):
            print_exc(*args, **options)

    traceback.print_exc = print_others
