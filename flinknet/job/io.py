"""Input and output of tasks: text read, lines printed and files written.

The driver fills text inputs and implements `TaskIO`; there is no socket and no file here.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from flinknet.errors import TaskFailedError

WAITING_LINES_MAX = 4096
"""Above this many waiting lines, no more text is read."""

LINE_BYTES_MAX = 1 << 28


class TaskIO(Protocol):
    """Takes the output of sinks."""

    def print_line(self, line: str) -> None:
        """Print a line to standard output."""

    def open_file(self, path: str) -> None:
        """Create or truncate a file; creates its directory, too."""

    def write_file(self, path: str, data: bytes) -> None:
        """Append to an open file."""

    def close_file(self, path: str) -> None:
        """Close a file."""


class TextInput:
    """Splits bytes into lines. The driver feeds bytes while `wants_data`, then `receive_eof`."""

    def __init__(self, delimiter: str) -> None:
        self.is_ended = False
        self.received_bytes = 0
        self._delimiter = delimiter.encode()
        self._strips_return = delimiter == "\n"
        self._rest = bytearray()
        self._lines: deque[bytes] = deque()
        self._error: TaskFailedError | None = None

    @property
    def wants_data(self) -> bool:
        """Whether more text may be fed; if not, enough lines are waiting."""
        return not self.is_ended and len(self._lines) < WAITING_LINES_MAX

    @property
    def has_lines(self) -> bool:
        return bool(self._lines) or self._error is not None

    @property
    def is_exhausted(self) -> bool:
        return self.is_ended and not self.has_lines

    def receive_data(self, data: bytes | bytearray | memoryview) -> None:
        self.received_bytes += len(data)
        searched = max(0, len(self._rest) - len(self._delimiter) + 1)
        self._rest += data
        if self._rest.find(self._delimiter, searched) >= 0:
            *lines, self._rest = self._rest.split(self._delimiter)
            self._lines.extend(map(bytes, lines))
        if len(self._rest) > LINE_BYTES_MAX:
            self.fail(f"a line of more than {LINE_BYTES_MAX} bytes")

    def receive_eof(self) -> None:
        """End the input; text after the last delimiter is a line, too."""
        if not self.is_ended:
            self.is_ended = True
            if self._rest:
                self._lines.append(bytes(self._rest))
                self._rest = bytearray()

    def fail(self, reason: str) -> None:
        """Fail the input: the task fails once it has taken the waiting lines."""
        self.is_ended = True
        self._error = TaskFailedError(f"{self}: {reason}")

    def take(self, limit: int) -> list[str]:
        """Up to `limit` lines. Raises: TaskFailedError if none are left and the input failed."""
        lines = self._lines
        if not lines and self._error is not None:
            raise self._error
        taken = [lines.popleft() for _ in range(min(limit, len(lines)))]
        if self._strips_return:
            taken = [line[:-1] if line.endswith(b"\r") else line for line in taken]
        return [line.decode("utf-8", "replace") for line in taken]


class SocketTextInput(TextInput):
    """Text from a TCP connection, which the driver opens to host and port."""

    def __init__(self, host: str, port: int, delimiter: str = "\n") -> None:
        super().__init__(delimiter)
        self.host, self.port = host, port

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class FileTextInput(TextInput):
    """One subtask's share of a file: the lines that begin in its byte range.

    The driver calls `set_size`, then feeds bytes from `next_byte` on while `wants_data`.

    Attributes:
        next_byte: file position of the next byte to feed.
    """

    def __init__(self, path: str, subtask: int, parallelism: int) -> None:
        super().__init__("\n")
        self.path = path
        self.next_byte = 0
        self._subtask, self._parallelism = subtask, parallelism
        self._end: int | None = None
        self._size = 0
        self._skips_line = False

    @property
    def wants_data(self) -> bool:
        return self._end is not None and super().wants_data

    def set_size(self, size_bytes: int) -> None:
        """Set the size of the file, which determines the byte range."""
        begin = size_bytes * self._subtask // self._parallelism
        self._end = size_bytes * (self._subtask + 1) // self._parallelism
        self._size = size_bytes
        self._skips_line = begin > 0
        self.next_byte = max(0, begin - 1)  # shows whether a line begins at `begin`
        if begin == self._end:
            self.is_ended = True

    def receive_data(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes; the line across the end of the range is the last."""
        assert self._end is not None
        if self.is_ended:
            return
        data, start = bytes(data), self.next_byte
        self.next_byte += len(data)
        if self._skips_line:
            found = data.find(b"\n")
            if found < 0:
                if self.next_byte >= self._end:
                    self.is_ended = True
                return
            self._skips_line = False
            data, start = data[found + 1 :], start + found + 1
            if start >= self._end:
                self.is_ended = True
                return
        last = data.find(b"\n", max(0, self._end - 1 - start))
        if last >= 0:
            super().receive_data(data[: last + 1])
            self.is_ended = True
        else:
            super().receive_data(data)
        if self.next_byte >= self._size:
            self.receive_eof()

    def __str__(self) -> str:
        return self.path
