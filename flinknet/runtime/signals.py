"""Signals that reach a process with a run in its hands."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from weakref import ref

from flinknet.errors import Terminated

_TERMINATIONS = (signal.SIGTERM, signal.SIGHUP)
_ENDS_A_RUN = (signal.SIGINT, *_TERMINATIONS)


@contextmanager
def interrupts_held(*, and_terminations: bool = False) -> Iterator[None]:
    """Let a Ctrl-C wait until a process is started, and never reach that process.

    Processes end when who started them says so, and must not tell of an interrupt while they are
    still being imported: they inherit the mask. It holds for this thread alone, so that the
    handler must wait, too.

    Args:
        and_terminations: SIGTERM and SIGHUP, too: for processes that have something to finish.
            Others can be ended by them, one by one.
    """
    numbers = _ENDS_A_RUN if and_terminations else (signal.SIGINT,)
    held: list[int] = []
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
    report it. A signal that is ignored (nohup) or has a handler keeps that. One that comes again,
    as `timeout` sends it to a process and to its group, does not disturb the end that goes on.

    The exception may come up in the middle of anything, also of code that drops or replaces
    whatever is raised in it (C extensions, destructors, `__set_name__`). So the request is kept: it
    is raised again by the next signal, by `raise_dropped_termination`, and when the block ends.
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
        if _termination:  # nothing is on its way up, even if somebody keeps the exception
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
    """End what runs if a signal of `terminations_unwind` has come, and the exception that was
    raised then was dropped on its way up. To be called between two steps of anything long.

    Raises: Terminated.
    """
    if _termination:
        number, raised = _termination[0]
        if raised() is None:
            _terminate(number, None)


_termination: list[tuple[int, ref[Terminated]]] = []
"""The signal that came last within `terminations_unwind`, and the exception that was raised for it,
which lives as long as it is on its way up.
"""


def _terminate(number: int, _: FrameType | None) -> None:
    if _termination and _termination[0][1]() is not None:
        return  # the end goes on
    error = Terminated(128 + number)
    _termination[:] = [(number, ref(error))]
    try:
        raise error
    finally:
        del error  # or the traceback would keep it alive through this frame


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
