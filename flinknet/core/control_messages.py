# mypyc
"""ControlMessages: messages of one end of a data connection, other than buffers.

Each message has a trace event.

Not to be confused with the messages of JobManager and TaskManagers
(`runtime.cluster.control_messages`).
"""

from __future__ import annotations

from typing import Final

from .probe import Probe, TracePoint, note

_SENT: Final = int(TracePoint.SENT)


class ControlMessages:
    """Encoded messages, in order, until the driver takes them.

    Attributes:
        record: method of the probe.
        now_ns: instant of the driver's last call, for trace events.
    """

    __slots__ = ("_waiting", "now_ns", "record")

    def __init__(self, probe: Probe) -> None:
        self.record = probe.record
        self.now_ns = 0
        self._waiting: list[bytes] = []

    def send(
        self, encoded: bytes, kind: int, channel: int, *, value: int = -1, backlog_buffers: int = -1
    ) -> None:
        """Queue a message of this MessageKind and trace it."""
        self._waiting.append(encoded)
        self.note(_SENT, kind, channel, value=value, backlog_buffers=backlog_buffers)

    def note(
        self,
        point: int,
        kind: int,
        channel: int,
        *,
        value: int = -1,
        backlog_buffers: int = -1,
        credit_before: int = -1,
        credit_after: int = -1,
    ) -> None:
        """Trace a message other than a buffer."""
        note(
            self.record,
            self.now_ns,
            channel,
            point,
            kind,
            backlog_buffers=backlog_buffers,
            credit_before=credit_before,
            credit_after=credit_after,
            value=value,
        )

    @property
    def is_waiting(self) -> bool:
        """Whether messages are waiting."""
        return bool(self._waiting)

    def move_to(self, out: list[bytes | memoryview]) -> None:
        """Move all messages to the output."""
        out.extend(self._waiting)
        self._waiting.clear()

    def clear(self) -> None:
        """Drop all messages: nobody will read them."""
        self._waiting.clear()
