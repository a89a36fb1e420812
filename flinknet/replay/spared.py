"""Spark's Python workers collect garbage after every task, and look through all that they have
ever loaded for it: 80 ms and more once there are pandas and the compiler, as long as many a task
takes.
"""

from __future__ import annotations

import gc
import sys
from functools import cache


def spare_what_is_loaded() -> None:
    """From now on no collection looks through what this process has loaded. Called in a worker, at
    the end of a task."""
    _spare(len(sys.modules))


@cache
def _spare(_modules: int) -> None:
    """Once more whenever there are more modules."""
    gc.collect()
    gc.freeze()
