"""A trial: what follows from a seed, what came of it, and how it is made smaller."""

from __future__ import annotations

import re
import signal
import traceback
from collections import Counter
from dataclasses import dataclass
from time import monotonic
from typing import Any

from .draw import Choices, Draw

Marks = Counter[str]
"""How often each state was reached."""

TRIAL_S_MAX = 60
"""A trial that takes longer hangs."""

SHRINK_S = 20.0
SHRINK_RUNS = 400
"""What is spent on making a failing trial smaller."""

KINDS = ("exchange",) * 7 + ("control",)


@dataclass(frozen=True, slots=True)
class Failure:
    """A trial that failed.

    Attributes:
        fixed: choices that were made otherwise than the seed has it.
        kind: what failed, without its numbers: the same defect has the same one.
        text: with the traceback.
    """

    seed: int
    fixed: Choices
    kind: str
    text: str

    @property
    def command(self) -> str:
        """What repeats it."""
        fixed = "".join(f" --fix '{name}={value}'" for name, value in self.fixed.items())
        return f"python -m tests.campaign --seed {self.seed}{fixed}"


def run_trial(draw: Draw, marks: Marks) -> None:
    """Run one trial. Raises: whatever it fails with."""
    from .control import run_control
    from .exchange import run_exchange

    if draw.one_of("kind", KINDS) == "control":
        run_control(draw, marks)
    else:
        run_exchange(draw, marks)


def failure_of(seed: int, marks: Marks, fixed: Choices | None = None) -> Failure | None:
    """Run the trial of a seed. Returns: how it failed, None if it did not."""
    draw = Draw(seed, fixed)
    return _failure_of(draw, marks)


def smaller(failure: Failure) -> Failure:
    """The same failure of a simpler trial: each choice is tried at 0, then halved, as long as it
    fails alike.
    """
    until_s = monotonic() + SHRINK_S
    runs = 0
    has_changed = True
    while has_changed:
        has_changed = False
        draw = Draw(failure.seed, failure.fixed)
        _failure_of(draw, Counter())
        for name, value in draw.drawn.items():
            for tried in sorted({0, value // 2, value - 1}):
                if tried < 0 or tried >= value:
                    continue
                if runs >= SHRINK_RUNS or monotonic() > until_s:
                    return failure
                runs += 1
                again = failure_of(failure.seed, Counter(), {**failure.fixed, name: tried})
                if again is not None and again.kind == failure.kind:
                    failure, has_changed = again, True
                    break
    return failure


def _failure_of(draw: Draw, marks: Marks) -> Failure | None:
    signal.signal(signal.SIGALRM, _hangs)
    signal.alarm(TRIAL_S_MAX)
    try:
        run_trial(draw, marks)
    except Exception as error:
        kind = f"{type(error).__name__}: {re.sub('[0-9a-f]*[0-9][0-9a-f]*', 'N', str(error))}"
        fixed = {name: value for name, value in (draw._fixed).items() if name in draw.drawn}
        return Failure(draw.seed, fixed, kind, traceback.format_exc())
    finally:
        signal.alarm(0)
    return None


def _hangs(*_: Any) -> None:
    raise TimeoutError(f"a trial takes more than {TRIAL_S_MAX} s")
