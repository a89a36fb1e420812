"""MessageCounts: both ends of a channel count what the other one sent."""

from __future__ import annotations

import numpy as np
import pytest

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind, TracePoint, note
from flinknet.trace.recorder import MessageCounts, TraceRecorder

SENT, RECEIVED = TracePoint.SENT, TracePoint.RECEIVED


def counted(*, is_consumer: bool) -> MessageCounts:
    """The counts of a small conversation over two channels, and some that must not count."""
    data_point, credit_point = (RECEIVED, SENT) if is_consumer else (SENT, RECEIVED)
    counts = MessageCounts(2, is_consumer=is_consumer, writer=None)
    recorder = TraceRecorder(counts)
    for channel, credit in ((0, 2), (1, 0)):
        kind = MessageKind.PARTITION_REQUEST
        accepted = (-1, -1) if is_consumer else (0, credit)
        note(
            recorder.record,
            0,
            channel,
            credit_point,
            kind,
            value=credit,
            credit_before=accepted[0],
            credit_after=accepted[1],
        )
    for number, data_type in enumerate((1, 1, 8, DataType.END_OF_DATA, DataType.END_OF_DATA)):
        note(
            recorder.record,
            *(0, 0, data_point, MessageKind.BUFFER_RESPONSE),
            data_type=data_type,
            sequence_number=number,
            payload_bytes=100 + number,
            backlog_buffers=3 - number,
        )
    for channel in (0, 1, 1, -1):
        note(recorder.record, 0, channel, credit_point, MessageKind.ADD_CREDIT, value=5)
    note(recorder.record, 0, 1, credit_point, MessageKind.BUFFER_RESPONSE, data_type=1)
    note(recorder.record, 0, 1, TracePoint.CONSUMED, MessageKind.BUFFER_RESPONSE, data_type=1)
    named = {"value": 7} if is_consumer else {"backlog_buffers": 7}
    note(recorder.record, 0, 1, data_point, MessageKind.BACKLOG_ANNOUNCEMENT, **named)
    recorder.flush()
    return counts


@pytest.mark.parametrize("is_consumer", [True, False])
def test_each_kind_is_counted_where_it_passes(is_consumer: bool) -> None:
    counts = counted(is_consumer=is_consumer)
    assert [counts.buffers(channel) for channel in (0, 1)] == [3, 0]
    assert [counts.events(channel) for channel in (0, 1)] == [{"END_OF_DATA": 2}, {}]
    assert counts.buffer_bytes.tolist() == [100 + 101 + 102, 0]
    assert counts.credit.tolist() == [2 + 5, 10]
    assert counts.credit_messages.tolist() == [1, 2]
    assert counts.backlog_max.tolist() == [3, 7]
    assert counts.announcements.tolist() == [0, 1]


def test_before_the_first_message_there_is_no_backlog() -> None:
    counts = MessageCounts(1, is_consumer=True, writer=None)
    assert counts.backlog_max.tolist() == [-1]
    assert np.count_nonzero(counts.data_types) == 0


def test_credit_of_a_refused_request_is_not_counted() -> None:
    counts = MessageCounts(1, is_consumer=False, writer=None)
    recorder = TraceRecorder(counts)
    for credit, accepted in ((2, (0, 2)), (-(2**31), (-1, -1)), (2**31 - 1, (-1, -1))):
        kind = MessageKind.PARTITION_REQUEST
        note(
            recorder.record,
            0,
            0,
            RECEIVED,
            kind,
            value=credit,
            credit_before=accepted[0],
            credit_after=accepted[1],
        )
    recorder.flush()
    assert counts.credit.tolist() == [2]
