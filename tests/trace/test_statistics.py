"""EventStatistics: totals over rows, as a plain count finds them."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
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
