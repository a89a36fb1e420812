"""What helps the Python processes that Spark starts: no time is lost in them, and no words.

Spark's workers collect garbage after every task, and look through all that they have ever loaded
for it: 80 ms and more once there are pandas and the compiler, as long as many a task takes. When a
scan is ended early, by a limit say, Spark closes the pipe of its worker, whose parent prints the
stack of the write that failed; that is no error.
"""

from __future__ import annotations

import gc
import sys
import traceback
from functools import cache, wraps
from typing import Any


def freeze_what_is_loaded() -> None:
    """Exempt what this process has loaded from collections. Called in a worker, at the end of a
    task."""
    _freeze(len(sys.modules))


@cache
def _freeze(_modules: int) -> None:
    """Again whenever there are more modules."""
    gc.collect()
    gc.freeze()


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
