"""Signals that end a run: what is in its hands goes with it."""

from __future__ import annotations

import os
import signal

import pytest

from flinknet.runtime.signals import terminations_unwind


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
