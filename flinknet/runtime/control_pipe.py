"""ControlPipe: one end of the pipe between the launcher and a TaskManager: messages as JSON.

Nothing is unpickled from it, whatever the other end sends.
"""

from __future__ import annotations

import socket
from multiprocessing.connection import Connection
from typing import Any

from flinknet.plain_values import decode_message, encode_message

from .messages import MESSAGES


class ControlPipe:
    """Either end, of which each message is one frame.

    Args:
        connection: keeps the bounds of frames.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def fileno(self) -> int:
        """By which the end is waited for."""
        return self.connection.fileno()

    def send(self, message: Any) -> None:
        """Say something. Raises: OSError when the other end is gone."""
        self.connection.send_bytes(encode_message(message))

    def receive(self) -> Any:
        """Wait for a message and take it.

        Raises: EOFError or OSError when the other end is gone, RemoteProtocolError for what is no
            message.
        """
        return decode_message(MESSAGES, self.connection.recv_bytes())

    def close(self) -> None:
        """Close this end."""
        self.connection.close()


def connected_pair() -> tuple[Connection, Connection]:
    """Two ends, of which a process that is spawned can be given one."""
    one, other = socket.socketpair()
    return Connection(one.detach()), Connection(other.detach())
