# mypyc
"""ControlMessages: what one end of a data connection sends in addition to buffers.

Each message has an event in the trace.

Not what JobManager and TaskManagers say to each other (`runtime.cluster.control_messages`).
"""

from __future__ import annotations

from typing import Final

from .probe import Probe, TracePoint, note

_SENT: Final = int(TracePoint.SENT)


class ControlMessages:
    """Encoded messages in order, until the driver takes them.

    Attributes:
        record: of the probe.
        now_ns: the instant of the call that the driver has made last; events get it.
    """

    __slots__ = ("_waiting", "now_ns", "record")

    def __init__(self, probe: Probe) -> None:
        self.record = probe.record
        self.now_ns = 0
        self._waiting: list[bytes] = []

    def send(
        self, encoded: bytes, kind: int, channel: int, *, value: int = -1, backlog_buffers: int = -1
    ) -> None:
        """Queue a message of this MessageKind and note it."""
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
        """Record an event of a message that is no buffer."""
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
        """Whether there is anything to hand over."""
        return bool(self._waiting)

    def move_to(self, out: list[bytes | memoryview]) -> None:
        """Hand everything over."""
        out.extend(self._waiting)
        self._waiting.clear()

    def clear(self) -> None:
        """Forget everything: nobody will read it."""
        self._waiting.clear()
