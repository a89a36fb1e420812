"""Signals that end a run: what is in its hands goes with it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from flinknet.errors import Terminated
from flinknet.graph.program import load_program
from flinknet.runtime.signals import (
    interrupts_noted,
    raise_dropped_termination,
    terminations_unwind,
)

pytestmark = pytest.mark.usefixtures("usual_signals")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_termination_that_comes_again_does_not_disturb_the_end(number: signal.Signals) -> None:
    ended = []

    def be_ended() -> None:
        with terminations_unwind():
            try:
                os.kill(os.getpid(), number)
            finally:
                os.kill(os.getpid(), number)
                ended.append("well")

    with pytest.raises(SystemExit) as raised:
        be_ended()
    assert raised.value.code == 128 + number
    assert ended == ["well"]
    assert signal.getsignal(number) is signal.SIG_DFL


def drop(number: signal.Signals) -> None:
    """A signal comes in the middle of code that drops whatever is raised in it."""
    with suppress(BaseException):
        signal.raise_signal(number)


class _Fails:
    def __set_name__(self, owner: type, name: str) -> None:
        signal.raise_signal(signal.SIGTERM)


_kept: list[BaseException] = []


def keep() -> None:
    """What a signal raises is dropped and kept, as an unraisable hook may do."""
    try:
        signal.raise_signal(signal.SIGTERM)
    except Terminated as error:
        _kept.append(error)


@pytest.mark.parametrize(
    ("step", "number"),
    [
        (lambda: drop(signal.SIGTERM), signal.SIGTERM),
        (lambda: drop(signal.SIGHUP), signal.SIGHUP),
        (keep, signal.SIGTERM),
        (lambda: (keep(), sys.exit(0)), signal.SIGTERM),
        # Python 3.11 makes a RuntimeError of it
        (lambda: type("Owner", (), {"attribute": _Fails()}), signal.SIGTERM),
    ],
    ids=["dropped", "hang-up", "kept", "exits", "another error"],
)
def test_a_termination_that_was_dropped_kept_or_replaced_still_ends_the_block(
    step: Callable[[], object], number: signal.Signals
) -> None:
    def run() -> None:
        with terminations_unwind():
            step()

    with pytest.raises(Terminated) as raised:
        run()
    assert raised.value.code == 128 + number
    assert raised.value not in _kept
    assert signal.getsignal(number) is signal.SIG_DFL


def test_a_termination_that_was_dropped_is_raised_before_the_next_step() -> None:
    steps = []

    def run() -> None:
        with terminations_unwind():
            drop(signal.SIGTERM)
            steps.append("first")
            with terminations_unwind():  # what begins, ends at once
                steps.append("second")

    with pytest.raises(Terminated):
        run()
    assert steps == ["first"]


def test_a_second_termination_acts_if_the_first_was_dropped() -> None:
    steps = []

    def run() -> None:
        with terminations_unwind():
            drop(signal.SIGTERM)
            steps.append("first")
            signal.raise_signal(signal.SIGTERM)
            steps.append("second")

    with pytest.raises(Terminated):
        run()
    assert steps == ["first"]


def test_an_error_without_a_termination_stays_what_it_is() -> None:
    with pytest.raises(ValueError, match="mine"), terminations_unwind():
        raise ValueError("mine")
    raise_dropped_termination()


def test_who_notes_interrupts_takes_them_from_who_unwinds() -> None:
    taken = []

    def run() -> None:
        with terminations_unwind():
            with interrupts_noted() as noted:
                signal.raise_signal(signal.SIGTERM)
            taken.extend(noted)
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Terminated):
        run()
    assert taken == [signal.SIGTERM]


def test_a_termination_while_a_program_is_read_is_no_end_of_the_program(tmp_path: Path) -> None:
    program = tmp_path / "job.py"
    program.write_text("import signal\nsignal.raise_signal(signal.SIGTERM)\n")
    with pytest.raises(Terminated), terminations_unwind():
        load_program(program, {})
