"""Quiet workers: a scan that is ended early, by a limit say, is no error.

Spark then closes the pipe of the Python worker, whose parent prints the stack of the write that
failed. Called in a worker, before it yields anything.
"""

from __future__ import annotations

import sys
import traceback
from functools import wraps
from typing import Any

_ABANDONED = (BrokenPipeError, ConnectionResetError)


def say_nothing_when_abandoned() -> None:
    """From now on this process prints no stack for a pipe that nobody reads any more."""
    print_exc = traceback.print_exc
    if hasattr(print_exc, "__wrapped__"):
        return

    @wraps(print_exc)
    def print_others(*args: Any, **options: Any) -> None:
        if not isinstance(sys.exc_info()[1], _ABANDONED):
            print_exc(*args, **options)

    traceback.print_exc = print_others
