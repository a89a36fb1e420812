"""Signals that reach a process with a run in its hands."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from flinknet.errors import Terminated

_TERMINATIONS = (signal.SIGTERM, signal.SIGHUP)
_ENDS_A_RUN = (signal.SIGINT, *_TERMINATIONS)


@contextmanager
def interrupts_held(*, and_terminations: bool = False) -> Iterator[None]:
    """Let a Ctrl-C wait until a process is started, and never reach that process.

    Processes end when who started them says so, and must not tell of an interrupt while they are
    still being imported: they inherit the mask. It holds for this thread alone, so that the
    handler must wait, too. The resource tracker, which the first start brings up, would lift the
    mask.

    Args:
        and_terminations: SIGTERM and SIGHUP, too: for processes that have something to finish.
            Others can be ended by them, one by one.
    """
    numbers = _ENDS_A_RUN if and_terminations else (signal.SIGINT,)
    from multiprocessing import resource_tracker  # every command imports this module

    held: list[int] = []
    resource_tracker.ensure_running()
    before = {each: signal.signal(each, lambda number, _: held.append(number)) for each in numbers}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for each, handler in before.items():
            signal.signal(each, handler)
    for number in held:
        signal.raise_signal(number)


def ignore_what_ends_a_run() -> None:
    """For a process that whoever started it will end, also where a signal goes to both."""
    for each in _ENDS_A_RUN:
        signal.signal(each, signal.SIG_IGN)


@contextmanager
def terminations_unwind() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP of a closed terminal, end the block as an exception does, so that
    processes and temporary files go with it. The process exits with 128 + the signal, as shells
    tell it. A signal that is ignored (nohup) or has a handler keeps that. One that comes again, as
    `timeout` sends it to a process and to its group, does not disturb the end that goes on.
    """
    is_ending = False

    def end(number: int, _: FrameType | None) -> None:
        nonlocal is_ending
        if not is_ending:
            is_ending = True
            raise Terminated(128 + number)

    taken = [each for each in _TERMINATIONS if signal.getsignal(each) is signal.SIG_DFL]
    for each in taken:
        signal.signal(each, end)
    try:
        yield
    finally:
        for each in taken:
            signal.signal(each, signal.SIG_DFL)


@contextmanager
def interrupts_noted() -> Iterator[list[int]]:
    """Let Ctrl-C, SIGTERM and SIGHUP end the block when it suits: their numbers are noted, and who
    is inside looks at the list between two steps.
    """
    noted: list[int] = []
    taken = [signal.SIGINT]
    taken += [each for each in _TERMINATIONS if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, lambda number, _: noted.append(number)) for each in taken}
    try:
        yield noted
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
