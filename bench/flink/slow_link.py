"""A link of little bandwidth out of a TaskManager: a proxy between its consumers and its tap, so
that the tap sees when a buffer leaves, and not when it arrives.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from types import TracebackType

from bench.flink.cluster import LOOPBACK, TaskManager

CHUNK_BYTES = 4_096
"""Bytes that pass at once; the link then rests for as long as they take."""


class SlowLink:
    """A context manager in which the bytes out of a TaskManager pass slowly, and those into it as
    fast as they come.

    Attributes:
        bytes_per_s: over all connections; None: no limit.
    """

    def __init__(self, task_manager: TaskManager) -> None:
        self.bytes_per_s: int | None = None
        self._to = (LOOPBACK, task_manager.tap_port or 0)
        self._listener = socket.create_server((LOOPBACK, task_manager.data_port))
        self._busy = threading.Lock()
        self._open: list[socket.socket] = []

    def __enter__(self) -> SlowLink:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                consumer, _ = self._listener.accept()
                consumer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, CHUNK_BYTES)
                tap = socket.socket()
                tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK_BYTES)
                try:
                    tap.connect(self._to)
                except ConnectionRefusedError:  # between two taps
                    consumer.close()
                    continue
                self._open += (consumer, tap)
                for ends in ((consumer, tap, False), (tap, consumer, True)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, is_slow: bool) -> None:
        with suppress(OSError):
            while chunk := source.recv(CHUNK_BYTES):
                if is_slow and self.bytes_per_s is not None:
                    with self._busy:
                        time.sleep(len(chunk) / self.bytes_per_s)
                target.sendall(chunk)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
