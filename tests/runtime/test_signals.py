"""Signals that end a run: what is in its hands goes with it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from flinknet.errors import Terminated
from flinknet.graph.program import load_program
from flinknet.runtime.signals import interrupts_noted, terminations_unwind

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


def test_who_notes_interrupts_takes_them_from_who_unwinds() -> None:
    with terminations_unwind():
        with interrupts_noted() as noted:
            signal.raise_signal(signal.SIGTERM)
        assert noted == [signal.SIGTERM]
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)


def test_a_termination_while_a_program_is_read_is_no_end_of_the_program(tmp_path: Path) -> None:
    program = tmp_path / "job.py"
    program.write_text("import signal\nsignal.raise_signal(signal.SIGTERM)\n")
    with terminations_unwind(), pytest.raises(Terminated):
        load_program(program, {})
