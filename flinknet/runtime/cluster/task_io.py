"""Input and output of tasks besides the network: text over sockets, text of files, printed lines,
files of results. Sockets never block; files are read and written in pieces.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from flinknet.errors import TaskFailedError
from flinknet.job.io import FileTextInput, SocketTextInput, TextInput

from ..event_loop import EventLoop
from ..sockets import connect_error, loss_of

READ_BYTES = 64 * 1024


class ProcessIO:
    """The output of sinks (implements jobs.TaskIO).

    Lines are collected, also from the threads of tasks, and written by `flush`, which the event
    loop calls in every turn.
    """

    def __init__(self, stdout: IO[str] | None = None) -> None:
        self._stdout = stdout or sys.stdout
        self._lines: deque[str] = deque()
        self._files: dict[str, IO[bytes]] = {}

    @property
    def has_lines(self) -> bool:
        return bool(self._lines)

    def print_line(self, line: str) -> None:
        self._lines.append(line)

    def open_file(self, path: str) -> None:
        """Create or truncate a file, and create its directory. Raises: TaskFailedError."""
        with _writing(path):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._files[path] = open(path, "wb")  # noqa: SIM115 - until close_file

    def write_file(self, path: str, data: bytes) -> None:
        """Append to an open file. Raises: TaskFailedError."""
        with _writing(path):
            self._files[path].write(data)

    def close_file(self, path: str) -> None:
        """Close a file. Raises: TaskFailedError."""
        with _writing(path):
            self._files.pop(path).close()

    def flush(self) -> None:
        if self._lines:
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            with suppress(OSError):  # the disk may be full
                self._stdout.write("\n".join(lines) + "\n")
                self._stdout.flush()


@contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TaskFailedError(f"{path}: it cannot be written ({error.strerror})") from None


class SocketReader:
    """Reads text from a TCP connection, which it opens (Flink: SocketTextStreamFunction)."""

    is_waiting = False
    """Whether text can be read at once; here the socket wakes the loop."""

    def __init__(self, loop: EventLoop, text: SocketTextInput) -> None:
        self._loop = loop
        self._text = text
        self._is_reading = False
        self._sock: socket.socket | None = None
        self._connecting: socket.socket | None = None
        self._connect()

    def pump(self) -> None:
        """Start or stop reading, as the text wants data or not."""
        if self._sock is not None and self._text.wants_data != self._is_reading:
            self._is_reading = self._text.wants_data
            if self._is_reading:
                self._loop.add_reader(self._sock, self._receive)
            else:
                self._loop.remove(self._sock)

    def close(self) -> None:
        sock, self._sock = self._sock, None
        if sock is not None:
            if self._is_reading:
                self._loop.remove(sock)
            sock.close()
        if self._connecting is not None:
            self._loop.remove(self._connecting)
            self._connecting.close()
            self._connecting = None

    def _connect(self) -> None:
        text = self._text
        try:
            family, _, _, _, address = socket.getaddrinfo(
                text.host, text.port, type=socket.SOCK_STREAM
            )[0]
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            text.fail(f"it cannot be connected to ({error.strerror})")
            return
        sock.setblocking(False)
        code = sock.connect_ex(address)
        if code in (0, errno.EINPROGRESS):
            self._connecting = sock
            self._loop.add_writer(sock, self._connected)
        else:
            self._refused(sock, code)

    def _connected(self) -> None:
        sock, self._connecting = self._connecting, None
        assert sock is not None
        self._loop.remove(sock)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._refused(sock, code)
            return
        self._sock = sock
        self.pump()

    def _refused(self, sock: socket.socket, code: int) -> None:
        sock.close()
        why = f"it cannot be connected to ({connect_error(code)})"
        self._text.fail(f"{why}; start what the text comes from first")

    def _receive(self) -> None:
        assert self._sock is not None
        try:
            data = self._sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._text.fail(f"the connection {loss_of(error)}")
            self.close()
            return
        if data:
            self._text.receive_data(data)
            self.pump()
        else:
            self._text.receive_eof()
            self.close()


class FileReader:
    """Reads the text of a file, one piece per turn."""

    def __init__(self, text: FileTextInput) -> None:
        self._text = text
        self._descriptor: int | None = None
        try:
            self._descriptor = os.open(text.path, os.O_RDONLY)
            text.set_size(os.fstat(self._descriptor).st_size)
        except OSError as error:
            self._fail(error)

    @property
    def is_waiting(self) -> bool:
        return self._descriptor is not None and self._text.wants_data

    def pump(self) -> None:
        if self._descriptor is None or not self._text.wants_data:
            return
        try:
            data = os.pread(self._descriptor, READ_BYTES, self._text.next_byte)
        except OSError as error:
            self._fail(error)
            return
        if data:
            self._text.receive_data(data)
        else:
            self._text.receive_eof()
        if self._text.is_ended:
            self.close()

    def _fail(self, error: OSError) -> None:
        self._text.fail(f"it cannot be read ({error.strerror})")
        self.close()

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


TextReader = SocketReader | FileReader


def reader_of(loop: EventLoop, text: TextInput) -> TextReader:
    if isinstance(text, SocketTextInput):
        return SocketReader(loop, text)
    assert isinstance(text, FileTextInput)
    return FileReader(text)
