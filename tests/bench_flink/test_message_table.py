"""A tap's messages, counted as Flink counts them, and compared with those of a capture."""

from __future__ import annotations

import numpy as np

from bench.flink.exchange import Exchange
from bench.flink.message_table import MessageTable, difference, finished, first
from bench.flink.tapped import counts
from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind, TracePoint

DATA, BARRIER = int(DataType.DATA_BUFFER), int(DataType.ALIGNED_CHECKPOINT_BARRIER)
RESPONSE, CREDIT = int(MessageKind.BUFFER_RESPONSE), int(MessageKind.ADD_CREDIT)

Message = tuple[int, int, int, int, int]
"""Channel, kind, data type, payload bytes, records."""

JOB: list[Message] = [
    (0, RESPONSE, DATA, 60, 1),
    (0, CREDIT, 0, 0, 0),
    (0, RESPONSE, DATA, 40, 1),  # the rest of the first segment of 100 bytes
    (1, RESPONSE, DATA, 100, 2),
    (0, RESPONSE, DATA, 10, 0),  # a second one, which the barrier finishes
    (0, RESPONSE, BARRIER, 24, 0),
    (1, RESPONSE, BARRIER, 24, 0),
    (0, RESPONSE, DATA, 5, 1),  # a third one
    (0, RESPONSE, BARRIER, 24, 0),
    (1, RESPONSE, BARRIER, 24, 0),
]


def table(messages: list[Message], *, late: int = 0) -> MessageTable:
    count = len(messages)
    rows = np.array(messages, np.int64).reshape(count, 5).T
    columns = dict(
        zip(("channel", "kind", "data_type", "payload_bytes", "records"), rows, strict=True)
    )
    is_response = columns["kind"] == RESPONSE
    columns |= {
        "at_ns": np.arange(count) + late,
        "point": np.where(is_response, int(TracePoint.SENT), int(TracePoint.RECEIVED)),
        **{name: np.zeros(count, np.int64) for name in ("backlog_buffers", "value")},
        "sequence_number": np.zeros(count, np.int64),
    }
    return MessageTable(columns, {0: "a", 1: "b"})


def test_a_flush_does_not_finish_a_buffer_and_an_event_does() -> None:
    assert finished(table(JOB), 100) == (4, 215)
    assert finished(table([]), 100) == (0, 0)


def test_behind_the_last_event_only_full_buffers_are_finished() -> None:
    assert finished(table([*JOB, (0, RESPONSE, DATA, 250, 2)]), 100) == (6, 415)


def test_the_first_messages_are_counted_with_their_events() -> None:
    assert first(table(JOB), 3).total("payload_bytes") == 200
    assert first(table(JOB), 6).total("payload_bytes") == 258
    assert len(first(table(JOB), 99)) == 9


def test_counts_stand_next_to_flinks() -> None:
    metrics = {
        "source": {"numRecordsOut": 5, "numBytesOut": 215, "numBuffersOut": 3},
        "sink": {"numBuffersInRemote": 9, "numBytesInRemote": 311},
    }
    watermark = (0, RESPONSE, DATA, 13, 0)  # comes at the end, when Flink has been asked
    rows = counts(table([*JOB, watermark]), metrics, Exchange())
    assert len(rows) == 5
    assert all(flink == tap for _, flink, tap in rows)


def test_counts_that_differ_are_noticed() -> None:
    metrics = {
        "source": {"numRecordsOut": 6, "numBytesOut": 216, "numBuffersOut": 4},
        "sink": {"numBuffersInRemote": 99, "numBytesInRemote": 312},
    }
    rows = counts(table(JOB), metrics, Exchange())
    assert not any(flink == tap for _, flink, tap in rows)


def test_of_local_channels_only_what_the_sinks_took_from_afar_is_compared() -> None:
    metrics = {"source": {}, "sink": {"numBuffersInRemote": 9, "numBytesInRemote": 311}}
    rows = counts(table(JOB), metrics, Exchange(placement="spread"))
    assert [name for name, *_ in rows] == ["numBuffersInRemote", "numBytesInRemote"]


def test_two_observers_of_one_run_agree_but_for_instants() -> None:
    same = difference(table(JOB), table(JOB, late=77))
    assert (same.channels, same.messages, same.compared) == (0, 0, len(JOB))


def test_a_lost_message_and_a_changed_one_are_found() -> None:
    assert difference(table(JOB), table(JOB[:-1])).messages == 1
    changed = [*JOB[:3], (1, RESPONSE, DATA, 99, 2), *JOB[4:]]
    assert difference(table(JOB), table(changed)).messages == 1


def test_a_channel_that_only_one_saw_is_found() -> None:
    found = difference(table(JOB), table([each for each in JOB if each[0] == 0]))
    assert (found.channels, found.messages) == (1, 3)
