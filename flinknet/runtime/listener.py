"""Listener: a listening socket that rests while the process can open nothing more."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TypeVar

from .sockets import connect_error

_Accepted = TypeVar("_Accepted")


class Listener:
    """A listening socket and who waits for it.

    A selector reports a connection that cannot be accepted, for want of a descriptor, again and
    again. So nobody waits for the socket from then on until `wake`; what connects meanwhile stays
    in the backlog of the kernel.

    Args:
        sock: listening, never blocks; owned by the listener from now on.
        watch: makes the driver call when somebody has connected. Called at once.
        unwatch: ends that.

    Attributes:
        refusal: why nothing can be accepted, while the listener rests.
    """

    def __init__(
        self, sock: socket.socket, watch: Callable[[], object], unwatch: Callable[[], object]
    ) -> None:
        self.sock = sock
        self.refusal: str | None = None
        self._watch = watch
        self._unwatch = unwatch
        watch()

    @property
    def is_resting(self) -> bool:
        """Whether nothing is accepted until `wake`."""
        return self.refusal is not None

    def accept(self, take: Callable[[socket.socket], _Accepted]) -> _Accepted | None:
        """What `take` makes of the next connection; None if there is none, or it cannot be
        accepted now.
        """
        try:
            return take(self.sock)
        except (BlockingIOError, ConnectionError):  # it may have gone away in the meantime
            return None
        except OSError as error:
            self.refusal = f"cannot accept: {connect_error(error.errno or 0)}"
            self._unwatch()
            return None

    def wake(self) -> None:
        """Accept again, if it rests."""
        if self.is_resting:
            self.refusal = None
            self._watch()

    def close(self) -> None:
        """Stop listening."""
        if not self.is_resting:
            self._unwatch()
        self.sock.close()
