"""Signals during a run."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from weakref import ref

from flinknet.errors import Terminated

_TERMINATIONS = (signal.SIGTERM, signal.SIGHUP)
_END_SIGNALS = (signal.SIGINT, *_TERMINATIONS)
_PR_SET_PDEATHSIG = 1


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Delay a Ctrl-C until a process has been started, and keep it from that process, which must
    not report an interrupt while it still imports: it inherits the mask. That is this thread's
    alone, so the handler is delayed, too.
    """
    held: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)
    for number in held:
        signal.raise_signal(number)


def ignore_end_signals() -> None:
    """Ignore these signals in a process that its parent ends, even if a signal goes to both."""
    for each in _END_SIGNALS:
        signal.signal(each, signal.SIG_IGN)


def end_with_parent(grace_s: int) -> None:
    """Make this process end with its parent: SIGALRM kills it, even if it was stopped, once it has
    not ended by itself for so long. Only Linux sends a signal for it.
    """
    parent = os.getppid()

    def check(number: int, frame: FrameType | None) -> None:
        if os.getppid() != parent:
            signal.alarm(grace_s)

    signal.signal(signal.SIGCONT, check)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)


@contextmanager
def terminations_unwind() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP of a closed terminal, end the block like an exception, so that
    processes and temporary files are cleaned up. The process exits with 128 + the signal. A signal
    that is ignored (nohup) or has a handler keeps that. A repeated signal does not disturb the end.

    The exception may be raised in code that drops or replaces it (C extensions, destructors,
    `__set_name__`). So the request is kept: it is raised again by the next signal, by
    `raise_dropped_termination`, and when the block ends.
    """
    raise_dropped_termination()  # of a block around this one
    taken = [each for each in _TERMINATIONS if signal.getsignal(each) is signal.SIG_DFL]
    if not taken:
        yield
        return
    _termination.clear()
    for each in taken:
        signal.signal(each, _terminate)
    try:
        yield
        if _termination:  # no exception is propagating, even if something keeps a reference to it
            raise Terminated(128 + _termination[0][0])
    except Terminated:
        raise
    except (Exception, SystemExit) as error:
        if _termination:
            raise Terminated(128 + _termination[0][0]) from error
        raise
    finally:
        for each in taken:
            signal.signal(each, signal.SIG_DFL)
        _termination.clear()


def raise_dropped_termination() -> None:
    """Raise again if a signal of `terminations_unwind` has come and its exception was dropped on
    its way up. Call this between two steps of anything long. Raises: Terminated.
    """
    if _termination:
        number, raised = _termination[0]
        if raised() is None:
            _terminate(number, None)


_termination: list[tuple[int, ref[Terminated]]] = []
"""The latest signal within `terminations_unwind`, and its exception, alive while it propagates."""


def _terminate(number: int, _: FrameType | None) -> None:
    if _termination and _termination[0][1]() is not None:
        return  # the exception is still propagating
    error = Terminated(128 + number)
    _termination[:] = [(number, ref(error))]
    try:
        raise error
    finally:
        del error  # else the traceback would keep it alive through this frame


@contextmanager
def interrupts_noted(*, and_terminations: bool = True) -> Iterator[list[int]]:
    """Let Ctrl-C (`and_terminations`: SIGTERM and SIGHUP, too) end the block when it suits: their
    numbers are added to a list, which the code inside checks between two steps.
    """
    noted: list[int] = []
    taken = [signal.SIGINT]
    if and_terminations:
        taken += [each for each in _TERMINATIONS if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, lambda number, _: noted.append(number)) for each in taken}
    try:
        yield noted
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
