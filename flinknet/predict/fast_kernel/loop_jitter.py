"""By how much the parts of the turns of an event loop vary."""

from __future__ import annotations

from . import loop_words as lw
from . import words as w
from .compiling import compiled
from .words import Words


@compiled
def jitter_ns(m: Words, task_manager: int, kind: int) -> int:
    """What the next part of a turn takes more than usual, or less."""
    jitter = m[task_manager + w.LOOP_STATE] + lw.JITTERS + kind * lw.JITTER_WORDS
    count = m[jitter + 1]
    if count == 0:
        return 0
    following = m[jitter + 2]
    m[jitter + 2] = following + 1 if following + 1 < count else 0
    return m[m[jitter] + following]
