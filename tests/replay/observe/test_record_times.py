"""How old records are at a tap, and which channel holds a watermark back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from flinknet.capture import ChannelTable, ConnectionObserver
from flinknet.capture.recording import About, CaptureRecording
from flinknet.core.wire.ids import ResultSubpartitionIndexSet
from flinknet.core.wire.messages import AddCredit, PartitionRequest
from flinknet.core.wire.records import (
    LatencyMarker,
    Record,
    StreamElement,
    Watermark,
    WatermarkStatus,
    encode_record,
)
from flinknet.replay.observe.observed import observe_here
from flinknet.replay.observe.record_times import record_times
from flinknet.replay.read import AskedPart, open_runs
from flinknet.results import RecordTimes
from flinknet.trace import ClockInfo
from tests.capture.conversations import buffer
from tests.pair import partition_id, receiver_ids

MS, S = 1_000_000, 1_000_000_000
EPOCH_NS = -1_700_000_000 * S + 123
"""Instant of the trace's clock at which the wall clock was 0."""

Elements = Callable[[int, int], Sequence[StreamElement]]


def times_of(
    directory: Path,
    elements: Elements,
    *,
    producers: int = 1,
    seconds: int = 6,
    per_s: int = 20,
    epoch_ns: int | None = EPOCH_NS,
) -> RecordTimes:
    """A tap on channels from some producers to one task: of each, buffers with the elements of that
    producer at that wall clock, in ms. The first second is left out."""
    clock = ClockInfo(epoch_ns=epoch_ns)
    about = About("tap", "tap", 7, "2030-01-01T00:00:00Z", clock=clock)
    table = ChannelTable()
    recording = CaptureRecording(directory / "run", about, table)
    recorder = recording.recorder
    observer = ConnectionObserver(recorder, table, note_times=recorder.note_times)
    receivers = receiver_ids(producers)
    for number, receiver in enumerate(receivers):
        index = ResultSubpartitionIndexSet(0, 0)
        observer.from_client(PartitionRequest(partition_id(number), index, receiver, 1).encode(), 0)
    for turn in range(seconds * per_s):
        at_ns = turn * S // per_s
        for number, receiver in enumerate(receivers):
            payload = b"".join(map(encode_record, elements(number, (at_ns - EPOCH_NS) // MS)))
            observer.from_client(AddCredit(1, receiver).encode(), at_ns)
            observer.from_server(buffer(turn, payload, receiver=receiver).encode(), at_ns)
    recording.close(seconds * S)
    (run,) = open_runs([directory / "run"], AskedPart(from_ns=S))
    (observed,) = observe_here([run])
    found = record_times(run, observed.rows.record_times, observed.rows.watermarks)
    return found


def test_age_is_the_clock_minus_the_timestamp(tmp_path: Path) -> None:
    """Records are 30 ms old, one of ten 250 ms."""
    found = times_of(
        tmp_path,
        lambda _, now: [*(Record(b"", now - 30) for _ in range(18)), *2 * [Record(b"", now - 250)]],
    )
    assert found.follows_clock
    assert found.records == pytest.approx(100 * 20, abs=20)
    assert found.age_ns.p50 == pytest.approx(30 * MS, abs=MS)
    assert found.age_ns.p99 == pytest.approx(250 * MS, rel=0.02)
    assert all(each.p50 == pytest.approx(30 * MS, abs=MS) for each in found.over_time)
    assert sum(each.width_ns for each in found.over_time) == pytest.approx(5 * S, rel=0.05)


@pytest.mark.parametrize("epoch_ns", [EPOCH_NS, None], ids=["old", "unknown-clock"])
def test_of_timestamps_that_do_not_follow_the_clock_nothing_is_derived(
    tmp_path: Path, epoch_ns: int | None
) -> None:
    old = 86_400_000 if epoch_ns is not None else 5
    found = times_of(tmp_path, lambda _, now: [Record(b"", now - old)], epoch_ns=epoch_ns)
    assert not found.follows_clock
    assert (found.age_ns.count, found.over_time) == (0, ())
    assert found.records == 100


def test_the_channel_that_holds_a_watermark_back_is_found(tmp_path: Path) -> None:
    """Timestamps are of another century: watermarks are compared with each other. One channel is 12
    s behind; another, far behind it, is idle and does not count."""

    def elements(number: int, now: int) -> list[StreamElement]:
        if number == 3:
            idle = WatermarkStatus(WatermarkStatus.IDLE)
            return [Watermark(now // 2 - 99_000), idle]
        return [
            Record(b"", now // 2),
            Watermark(now // 2 - (12_000 if number == 1 else 50 * number)),
        ]

    found = times_of(tmp_path, elements, producers=4)
    assert [each.channel for each in found.watermarks] == [0, 1, 2, 3]
    held = found.held_back
    assert held.channel == 1
    assert held.behind_ns == pytest.approx(12 * S, rel=0.01)
    assert held.held_share == 1
    assert [each.idle_share for each in found.watermarks] == [0, 0, 0, 1]
    assert held.lag_ns is None


def test_watermarks_that_are_as_far_apart_as_their_emission_hold_nothing_back(
    tmp_path: Path,
) -> None:
    found = times_of(tmp_path, lambda number, now: [Watermark(now - 200 * number)], producers=3)
    assert found.held_back is None
    assert [each.lag_ns for each in found.watermarks] == [
        pytest.approx(each * MS, abs=MS) for each in (0, 200, 400)
    ]


def test_a_source_that_has_finished_holds_nothing_back(tmp_path: Path) -> None:
    end = -EPOCH_NS // MS + 1_500

    def elements(number: int, now: int) -> list[StreamElement]:
        return [Watermark((1 << 63) - 1 if number == 0 and now >= end else now)]

    found = times_of(tmp_path, elements, producers=2)
    assert found.held_back is None


def test_channels_that_read_old_data_in_step_hold_nothing_back(tmp_path: Path) -> None:
    """A thousand times as quick as the clock: between two watermarks lie 200 s, and so many between
    the two channels."""

    def elements(number: int, now: int) -> list[StreamElement]:
        tick = (now // 100) % 2 == number
        return [Watermark((now % 10_000_000) * 1000)] if tick else [Record(b"", 5)]

    found = times_of(tmp_path, elements, producers=2)
    assert len(found.watermarks) == 2
    assert found.held_back is None


def test_records_from_a_clock_that_is_ahead_have_no_age(tmp_path: Path) -> None:
    found = times_of(tmp_path, lambda _, now: [Record(b"", now + 40)])
    assert not found.follows_clock
    assert found.age_ns.count == 0


def test_idle_time_counts_while_no_channel_sends_a_watermark(tmp_path: Path) -> None:
    idle_from = -EPOCH_NS // MS + 2_000

    def elements(_: int, now: int) -> list[StreamElement]:
        if now < idle_from:
            return [Watermark(now)]
        idle = WatermarkStatus(WatermarkStatus.IDLE)
        return [idle if now < idle_from + 50 else Record(b"", now)]

    found = times_of(tmp_path, elements)
    assert found.watermarks[0].idle_share == pytest.approx(0.8, abs=0.05)


def test_latency_markers_have_a_travel_time(tmp_path: Path) -> None:
    found = times_of(tmp_path, lambda _, now: [LatencyMarker(now - 44, bytes(16), 0)])
    assert found.travel_ns.p50 == pytest.approx(44 * MS, abs=MS)
    assert found.travel_ns.count == 100


def test_a_recording_without_times_says_nothing(tmp_path: Path) -> None:
    assert times_of(tmp_path, lambda _, __: [Record(b"")]) is None
