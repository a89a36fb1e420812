"""A trial: what follows from a seed, what came of it, and how it is made smaller."""

from __future__ import annotations

import json
import re
import shlex
import signal
import traceback
from collections import Counter
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from .draw import NOTHING, Choices, Draw

Marks = Counter[str]
"""How often each state was reached."""

TRIAL_S_MAX = 30
"""A trial that takes longer hangs; processor time."""

SHRINK_S = 20.0
SHRINK_PASSES = 10
"""What is spent on making a failing trial smaller: time, and passes over its choices."""

KINDS = ("exchange",) * 7 + ("control",)


@dataclass(frozen=True, slots=True)
class Failure:
    """A trial that failed.

    Attributes:
        choices: those that are not 0; None: those of the seed.
        kind: what failed, without its numbers: the same defect has the same one.
        text: with the traceback.
    """

    seed: int
    choices: Choices | None
    kind: str
    text: str

    @property
    def command(self) -> str:
        """What repeats it."""
        command = f"python -m tests.campaign --seed {self.seed}"
        if self.choices is None:
            return command
        return f"{command} --choices {shlex.quote(json.dumps(self.choices))}"


def run_trial(draw: Draw, marks: Marks) -> None:
    """Run one trial. Raises: whatever it fails with."""
    from .control import run_control
    from .exchange import run_exchange

    if draw.one_of("kind", KINDS) == "control":
        run_control(draw, marks)
    else:
        run_exchange(draw, marks)


def failure_of(
    seed: int, marks: Marks, choices: Choices | None = None, *, pinned: Choices = NOTHING
) -> Failure | None:
    """Run the trial of a seed. Returns: how it failed, None if it did not."""
    draw = Draw(seed, choices, pinned=pinned)
    failure = _failure_of(draw, choices, marks)
    if failure is None or not pinned:
        return failure
    return replace(failure, choices={name: value for name, value in draw.drawn.items() if value})


def smaller(failure: Failure) -> Failure:
    """The same failure of a simpler trial: each choice is made 0, or else as small as it may be, as
    long as the trial fails alike.
    """
    until_s = monotonic() + SHRINK_S
    for _ in range(SHRINK_PASSES):
        draw = Draw(failure.seed, failure.choices)
        _failure_of(draw, failure.choices, Counter())
        made = {name: value for name, value in draw.drawn.items() if value}
        again = _once_smaller(failure, made, until_s)
        if again is None or again.choices == failure.choices:
            return failure_of(failure.seed, Counter(), made) or failure
        failure = again
    return failure


def _once_smaller(failure: Failure, made: Choices, until_s: float) -> Failure | None:
    """One pass over all choices. Returns: None if it made nothing smaller."""
    smallest = None
    for name, value in made.items():
        passes, fails = -1, value  # 0 is tried first, then the middle between the two
        while fails - passes > 1 and monotonic() < until_s:
            tried = 0 if passes < 0 else (passes + fails) // 2
            choices = {**((smallest and smallest.choices) or made), name: tried}
            again = failure_of(failure.seed, Counter(), choices)
            if again is not None and again.kind == failure.kind:
                smallest, fails = again, tried
            else:
                passes = tried
    return smallest


def _failure_of(draw: Draw, choices: Choices | None, marks: Marks) -> Failure | None:
    signal.signal(signal.SIGPROF, _hangs)
    signal.setitimer(signal.ITIMER_PROF, TRIAL_S_MAX)
    try:
        run_trial(draw, marks)
    except Exception as error:
        kind = f"{type(error).__name__}: {re.sub('[0-9a-f]*[0-9][0-9a-f]*', 'N', str(error))}"
        return Failure(draw.seed, choices, kind, traceback.format_exc())
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def _hangs(*_: Any) -> None:
    raise TimeoutError(f"a trial takes more than {TRIAL_S_MAX} s")
