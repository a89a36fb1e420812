"""The process that Python workers are forked from, started before Spark asks for it.

Spark starts one at its first job, with an environment, arguments and three pipes, and talks to it
through these. A session starts another one next to its JVM, which loads meanwhile. What Spark
starts hands all of that over to it, at a socket in the session's own directory, and waits until it
ends; to Spark it is the daemon all the same. The early one ends with the session as long as nobody
has come, and from then on with the pipe from the JVM.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

VARIABLE = "FLINKNET_EARLY_DAEMON"
"""The path of the socket, for the process that Spark starts."""

_EARLY = "--early"
"""Argument of the process that the session starts, before the number of its socket."""

_BEFORE_START = {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "YES", "OMP_NUM_THREADS": "1"}
"""Of what Spark sets for its daemon: what Python and numpy look at when they start."""

_STANDARD = (0, 1, 2)
_END_WAIT_S = 5.0


@contextmanager
def early_daemon(module: str, environment: Mapping[str, str], path: Path) -> Iterator[None]:
    """A daemon that loads while the block goes on, and ends with it; none where a socket cannot
    have that path.

    Args:
        module: of the daemon.
        environment: variables that are not ours; what else Spark sets comes with its own.
        path: of the socket, in a directory that nobody else can enter.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            listener.bind(str(path))
            listener.listen(1)
            process = _start(module, environment, listener)
        except OSError:  # longer than the 107 bytes that the name of a socket has at most
            process = None
    try:
        yield
    finally:
        if process is not None:
            _end(process, is_asked_for=not path.exists())


def _start(
    module: str, environment: Mapping[str, str], listener: socket.socket
) -> subprocess.Popen[bytes]:
    from .jvm import ignore_interrupts  # not in the process that Spark starts: it is waited for

    return subprocess.Popen(
        [sys.executable, "-m", module, _EARLY, str(listener.fileno())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment, **_BEFORE_START},
        pass_fds=[listener.fileno()],
        preexec_fn=ignore_interrupts,
    )


def _end(process: subprocess.Popen[bytes], *, is_asked_for: bool) -> None:
    assert process.stdin is not None
    process.stdin.close()
    if not is_asked_for:  # it may be loading still
        process.kill()
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_WAIT_S)
    finally:  # Ctrl-C does not leave it behind
        process.kill()
        process.wait()


class Early:
    """This process as the early daemon."""

    def __init__(self, descriptor: int) -> None:
        self._listener = socket.socket(fileno=descriptor)
        self._replaced: socket.socket | None = None  # open as long as this process lives

    @classmethod
    def asked_for(cls) -> Early | None:
        """None if this process is one that Spark has started."""
        return cls(int(sys.argv[2])) if sys.argv[1:2] == [_EARLY] else None

    def take_place(self) -> bool:
        """Wait for the process that Spark starts, and be in its place from then on.

        Returns: False if the session has ended before.
        """
        asked = self._listener.fileno()
        ready, _, _ = select.select([asked, _STANDARD[0]], [], [])
        if asked not in ready:
            return False
        self._replaced, _ = self._listener.accept()
        os.unlink(self._listener.getsockname())  # others load by themselves
        self._listener.close()
        _, descriptors, _, _ = socket.recv_fds(self._replaced, 1, len(_STANDARD))
        with self._replaced.makefile("rb") as stream:
            sys.argv[1:], environment, path = json.load(stream)
        for own, given in zip(_STANDARD, descriptors, strict=True):
            os.dup2(given, own)
            os.close(given)
        sys.path += [each for each in path if each not in sys.path]
        os.environ.clear()
        os.environ.update(environment)
        return True


def hand_over() -> bool:
    """Let the early daemon take the place of this process, which Spark has started, and wait until
    it ends.

    Returns: False if there is none.
    """
    path = os.environ.pop(VARIABLE, None)
    if path is None:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as early, suppress(OSError):
        early.connect(path)
        socket.send_fds(early, [b"+"], _STANDARD)
        early.sendall(json.dumps([sys.argv[1:], dict(os.environ), sys.path]).encode())
        early.shutdown(socket.SHUT_WR)
        early.recv(1)
        return True
    return False
