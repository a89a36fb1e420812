"""What a simulation notes of its messages: backlog, credit, and bounds of unknown waits."""

from __future__ import annotations

from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.histogram import LogLinearHistogram
from flinknet.results import BacklogSummary

_SENT, _CONSUMED = int(TracePoint.SENT), int(TracePoint.CONSUMED)
_WRITER_RESUMES = int(TracePoint.WRITER_RESUMES)
_BUFFER_RESPONSE, _ADD_CREDIT = int(MessageKind.BUFFER_RESPONSE), int(MessageKind.ADD_CREDIT)


class BacklogProbe:
    """A Probe that keeps what data messages say of the backlog, how much credit came, and when a
    writer last went on that had waited for buffers.
    """

    def __init__(self) -> None:
        self.messages = 0
        self.backlog_total = 0
        self.backlog_max: int | None = None
        self.credits = 0
        self.credit_messages = 0
        self.resumed_ns = 0

    def record(
        self,
        at_ns: int,
        _channel: int,
        point: int,
        kind: int,
        data_type: int,
        _reason: int,
        _sequence_number: int,
        _payload_bytes: int,
        _records: int,
        _first_record_ns: int,
        _last_record_ns: int,
        backlog_buffers: int,
        credit_before: int,
        *_others: int,
    ) -> None:
        """Count a data message or an AddCredit that was sent; note a writer that goes on."""
        if point == _SENT and kind == _BUFFER_RESPONSE and data_type in IS_BUFFER:
            self.messages += 1
            self.backlog_total += backlog_buffers
            if self.backlog_max is None or backlog_buffers > self.backlog_max:
                self.backlog_max = backlog_buffers
        elif point == _SENT and kind == _ADD_CREDIT:
            self.credit_messages += 1
            self.credits += credit_before
        elif point == _WRITER_RESUMES:
            self.resumed_ns = at_ns

    def summary(self) -> BacklogSummary:
        """Backlog over the data messages."""
        mean = self.backlog_total / self.messages if self.messages else None
        return BacklogSummary(mean, self.backlog_max)


class WaitBoundsProbe(BacklogProbe):
    """Keeps, too, how short and how long the latency may have been of records whose instants are
    not known: each came after the buffer before its own had left, and before its own did.

    Attributes:
        low: as if every record had come just before its buffer was sent.
        high: as if it had come just after the buffer before it was sent; no longer before its own
            than one beat of the flusher, which would have sent it, unless it waited for credit; and
            no later than it is assumed to have come.

    Args:
        beat_ns: of the flusher; None without a buffer timeout.
    """

    def __init__(self, start_ns: int, beat_ns: int | None) -> None:
        super().__init__()
        self.low, self.high = LogLinearHistogram(), LogLinearHistogram()
        self._start_ns = start_ns
        self._beat_ns = beat_ns
        self._last_sent_ns: dict[int, int] = {}
        self._sent_ns: dict[tuple[int, int], tuple[int, int]] = {}

    def record(self, at_ns: int, channel: int, point: int, kind: int, *rest: int) -> None:
        """Count a data message, an AddCredit, or the records of a buffer that was consumed."""
        if kind == _BUFFER_RESPONSE and rest[0] in IS_BUFFER:
            sequence_number, records = rest[2], rest[4]
            if point == _SENT:
                wait_ns = at_ns - self._last_sent_ns.get(channel, self._start_ns)
                first_record_ns, backlog_buffers = rest[5], rest[7]
                if self._beat_ns is not None and backlog_buffers <= 0:
                    wait_ns = min(wait_ns, self._beat_ns)
                if first_record_ns >= 0:  # a writer that is busy holds records up, too
                    wait_ns = max(wait_ns, at_ns - first_record_ns)
                self._sent_ns[channel, sequence_number] = at_ns, wait_ns
                self._last_sent_ns[channel] = at_ns
            elif point == _CONSUMED:
                sent_ns, wait_ns = self._sent_ns.pop((channel, sequence_number))
                if records > 0:
                    self.low.add([at_ns - sent_ns], records)
                    self.high.add([at_ns - sent_ns + wait_ns], records)
        super().record(at_ns, channel, point, kind, *rest)
