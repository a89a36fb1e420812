"""What recorders count on the way: totals, messages by channel, and the rows of each job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import FlushReason, MessageKind, TracePoint, note
from flinknet.errors import TraceError
from flinknet.trace import ProcessInfo, TraceReader, TraceRecorder, TraceWriter
from flinknet.trace.blocks import NO_TIMES, ORDER, Rows
from flinknet.trace.recorder import JobTrace, JobTraces, MessageCounts
from flinknet.trace.schema import ROW_DTYPE
from flinknet.trace.writer import ROWS_PER_STEP, EventStatistics

CHANNELS = 5
MEASURED_FROM_NS = 1_000


def rows_of(seed: int, count: int) -> NDArray[np.void]:
    random = np.random.default_rng(seed)
    rows = np.zeros(count, np.dtype(ROW_DTYPE))
    rows["at_ns"] = random.integers(0, 10_000, count)
    rows["channel"] = random.integers(-1, CHANNELS, count)
    rows["point"] = random.choice([int(each) for each in TracePoint], count)
    rows["kind"] = random.choice([int(each) for each in MessageKind], count)
    rows["data_type"] = random.choice([int(each) for each in DataType], count)
    rows["reason"] = random.choice([int(each) for each in FlushReason], count)
    rows["payload_bytes"] = random.integers(0, 40_000, count)
    rows["backlog_buffers"] = random.integers(0, 100, count)
    rows["value"] = random.integers(0, 9, count)
    return rows


def test_totals_are_those_of_a_plain_count() -> None:
    rows = rows_of(1, ROWS_PER_STEP + 3_000)
    statistics = EventStatistics(CHANNELS, None)
    statistics.measured_from_ns = MEASURED_FROM_NS
    steps = sum(1 for _ in statistics.events_in_steps(rows))
    assert steps == 2

    found: Counter[str] = Counter()
    by_channel = {name: [0] * CHANNELS for name in ("in", "buffers", "backlog", "most")}
    reasons = [0] * len(FlushReason)
    for row in rows:
        if row["at_ns"] < MEASURED_FROM_NS:
            continue
        channel, is_known = int(row["channel"]), row["channel"] >= 0
        if row["kind"] == MessageKind.ADD_CREDIT and row["point"] == TracePoint.SENT:
            found["credit"] += int(row["value"])
            found["credit messages"] += 1
        if row["kind"] != MessageKind.BUFFER_RESPONSE:
            continue
        if row["point"] == TracePoint.RECEIVED and is_known:
            by_channel["in"][channel] += int(row["payload_bytes"])
        if row["point"] != TracePoint.SENT:
            continue
        if not DataType(row["data_type"]).is_buffer:
            found["events"] += 1
            continue
        found["buffers"] += 1
        found["bytes"] += int(row["payload_bytes"])
        reasons[row["reason"]] += 1
        if is_known:
            backlog = int(row["backlog_buffers"])
            by_channel["buffers"][channel] += 1
            by_channel["backlog"][channel] += backlog
            by_channel["most"][channel] = max(by_channel["most"][channel], backlog)

    assert statistics.credit_announced == found["credit"]
    assert statistics.credit_messages == found["credit messages"]
    assert statistics.events == found["events"]
    assert statistics.buffers == found["buffers"]
    assert statistics.buffer_bytes == found["bytes"]
    assert statistics.reasons.tolist() == reasons
    assert statistics.channel_bytes_in.tolist() == by_channel["in"]
    assert statistics.channel_buffers.tolist() == by_channel["buffers"]
    assert statistics.channel_backlog_sum.tolist() == by_channel["backlog"]
    assert statistics.channel_backlog_max.tolist() == by_channel["most"]


def test_rows_without_any_buffer_count_nothing() -> None:
    rows = rows_of(2, 50)
    rows["kind"] = int(MessageKind.NEW_BUFFER_SIZE)
    statistics = EventStatistics(CHANNELS, None)
    statistics.count(rows)
    assert (statistics.buffers, statistics.events, statistics.credit_announced) == (0, 0, 0)


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


class Jobs:
    """Jobs whose events one recorder takes."""

    def __init__(self, directory: Path, *, block_events: int = 64) -> None:
        self.directory = directory
        self.traces = JobTraces()
        self.recorder = TraceRecorder(self.traces, block_events=block_events)
        self.at_ns = 0

    def open(self, name: str, *channels: int) -> JobTrace:
        writer = TraceWriter(self.directory / name, ProcessInfo("tm-0", name, 1))
        trace = self.traces.open(writer)
        self.traces.claim(trace, channels)
        return trace

    def record(self, *channels: int) -> None:
        for channel in channels:
            self.at_ns += 1
            self.recorder.record(self.at_ns, channel, 0, 0, 1, 1, 0, 5, 1, 7, 7, 3, 1, 0, 2, 3, -1)

    def close(self, trace: JobTrace) -> None:
        self.recorder.flush()
        self.traces.close_one(trace)

    def read(self, name: str) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        with TraceReader(self.directory / name) as reader:
            for block in reader.events(("at_ns", "channel", ORDER)):
                order = np.argsort(block[ORDER])
                instants, channels = block["at_ns"][order], block["channel"][order]
                found += zip(instants.tolist(), channels.tolist(), strict=True)
        return found


@pytest.mark.parametrize("block_events", [1, 3, 64])
def test_each_job_has_the_events_of_its_channels(tmp_path: Path, block_events: int) -> None:
    jobs = Jobs(tmp_path, block_events=block_events)
    one = jobs.open("one", 0, 1)
    jobs.record(0, 1, 0)
    two = jobs.open("two", 5, 3)
    jobs.record(3, 0, 5, 1)
    jobs.close(one)
    jobs.record(3, 0)
    jobs.close(two)
    assert jobs.read("one") == [(1, 0), (2, 1), (3, 0), (5, 0), (7, 1)]
    assert jobs.read("two") == [(4, 3), (6, 5), (8, 3)]
    assert one.statistics.channel_buffers.tolist() == [3, 2]
    assert two.statistics.channel_buffers.tolist() == [0, 0, 0, 2, 0, 1]


def test_events_of_no_channel_are_in_every_trace_that_is_open(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    one, two = jobs.open("one", 0), jobs.open("two", 1)
    jobs.record(-1, 7, 0)
    jobs.close(one)
    jobs.record(-1)
    jobs.close(two)
    assert jobs.read("one") == [(1, -1), (3, 0)]
    assert jobs.read("two") == [(1, -1), (4, -1)]


def test_a_job_that_ends_while_a_block_is_written_loses_nothing(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, block_events=64)
    one = jobs.open("one", 0)
    jobs.record(*[0] * 50)
    jobs.recorder.begin_flush()
    assert jobs.recorder.step()
    two = jobs.open("two", 1)
    jobs.record(1, 0)
    jobs.close(one)
    jobs.recorder.close()
    assert len(jobs.read("one")) == 51
    assert jobs.read("two") == [(51, 1)]
    assert two.statistics.channel_buffers.tolist() == [0, 1]


class Full:
    """A writer on a disk that is full."""

    def events_in_steps(self, rows: Rows, times: Rows = NO_TIMES) -> Iterator[None]:
        raise TraceError("no space left")
        yield

    def close(self, *, dropped_events: int = 0) -> None:
        """Nothing to end."""


def test_a_trace_that_cannot_be_written_costs_the_other_nothing(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    one, two = jobs.traces.open(Full()), jobs.open("two", 1)
    jobs.traces.claim(one, [0])
    jobs.record(0, 1, 0)
    with pytest.raises(TraceError, match=r"no space left \(2 events were lost\)"):
        jobs.close(one)
    jobs.close(two)
    assert jobs.read("two") == [(2, 1)]
