"""Listener: a listening socket that pauses while the process can open no more sockets."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TypeVar

from .sockets import connect_error

_Accepted = TypeVar("_Accepted")


class Listener:
    """A listening socket and its watch.

    Without a free file descriptor a selector would report a waiting connection again and again. So
    the socket is not watched from then on until `wake`; new connections wait in the kernel's
    backlog.

    Args:
        sock: non-blocking listening socket, owned by the listener from now on.
        watch: makes the driver call `accept` when a connection waits. Called at once.
        unwatch: ends the watch.

    Attributes:
        refusal: why no connection can be accepted, while the listener is paused; else None.
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
    def is_paused(self) -> bool:
        """Whether accepting is paused until `wake`."""
        return self.refusal is not None

    def accept(self, take: Callable[[socket.socket], _Accepted]) -> _Accepted | None:
        """Return the result of `take` on the socket; None if no connection waits, or none can be
        accepted now.
        """
        try:
            return take(self.sock)
        except (BlockingIOError, ConnectionError):  # it may have disconnected meanwhile
            return None
        except OSError as error:
            self.refusal = f"cannot accept: {connect_error(error.errno or 0)}"
            self._unwatch()
            return None

    def wake(self) -> None:
        """Resume accepting, if paused."""
        if self.is_paused:
            self.refusal = None
            self._watch()

    def close(self) -> None:
        """Stop listening."""
        if not self.is_paused:
            self._unwatch()
        self.sock.close()
