"""The run directory of a capture while it grows, and the times that records carry into its
trace.
"""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from flinknet.capture import ChannelTable, ConnectionObserver
from flinknet.capture.meter import Trigger
from flinknet.capture.observed_connection import SAMPLED_PER_S
from flinknet.capture.recording import About, CaptureRecording
from flinknet.core.buffers.data_type import DataType
from flinknet.core.wire.checkpoint_barrier import CheckpointBarrier
from flinknet.core.wire.events import encode_pipelined
from flinknet.core.wire.messages import AddCredit, ResumeConsumption
from flinknet.core.wire.records import (
    NO_TIME,
    WATERMARK_IDLE,
    LatencyMarker,
    Record,
    StreamElement,
    Watermark,
    WatermarkStatus,
    encode_record,
)
from flinknet.errors import ConfigError, TraceError
from flinknet.job.elements import StreamElementSerializer
from flinknet.job.serializers import serializer_of
from flinknet.trace import ProcessInfo, TraceReader, TraceRecorder, TraceWriter, open_run
from flinknet.trace.describe import describe_run
from flinknet.trace.schema import TIME_NAMES, TIMESTAMPS
from flinknet.trace.verify import verify_run
from tests.capture.conversations import buffer, elements, request
from tests.pair import RECEIVER

S = 1_000_000_000
ABOUT = About(origin="tap", name="tap", pid=7, started_at="2030-01-01T00:00:00Z")


class Tapped:
    """A recording with one connection whose producer sends ten buffers a second."""

    def __init__(self, directory: Path, ring_ns: int | None = None, credit: int = 2) -> None:
        self.directory = directory
        self.table = ChannelTable()
        self.recording = CaptureRecording(directory, ABOUT, self.table, ring_ns)
        self.observer = ConnectionObserver(self.recording.recorder, self.table)
        self.number = 0
        self.credit = credit
        self.observer.from_client(request(credit=credit).encode(), 0)

    def run(self, from_s: int, to_s: int) -> None:
        """Ten buffers a second, paid for before each one."""
        for tenth in range(10 * from_s, 10 * to_s):
            at_ns = tenth * S // 10
            self.observer.from_client(AddCredit(1, RECEIVER).encode(), at_ns)
            frame = buffer(self.number, elements([40])).encode()
            self.observer.from_server(frame, at_ns + 1000)
            self.number += 1
            self.recording.tick(at_ns + 2000)

    def instants_s(self) -> list[int]:
        """Whole seconds in which something of the trace lies."""
        found: set[int] = set()
        for file in open_run(self.directory).files:
            with TraceReader(file) as reader:
                for block in reader.events(("at_ns",)):
                    found.update((block["at_ns"] // S).tolist())
        return sorted(found)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_everything_is_kept_and_verifies(tmp_path: Path) -> None:
    tapped = Tapped(tmp_path / "out")
    tapped.run(0, 5)
    tapped.recording.close(5 * S)
    run = open_run(tmp_path / "out")
    verification = verify_run(run)
    assert verification.is_ok
    assert (verification.messages_sent, verification.messages_received) == (50, 51)
    assert verification.is_from_between
    assert run.manifest is not None
    assert run.manifest.origin == "tap"
    assert run.manifest.is_from_between
    assert (run.manifest.measured_from_ns, run.manifest.measured_to_ns) == (1000, 4_900_001_001)
    description = describe_run(run)
    assert description["channels"][0]["producer"] == 0
    assert description["manifest"]["origin"] == "tap"


def test_a_ring_has_several_files_and_the_run_stays_whole(tmp_path: Path) -> None:
    tapped = Tapped(tmp_path / "out", 120 * S)
    tapped.run(0, 40)
    tapped.recording.close(40 * S)
    files = [name for name in names(tmp_path / "out") if name.endswith(".fnt")]
    assert len(files) > 2
    assert verify_run(open_run(tmp_path / "out")).is_ok
    assert tapped.instants_s() == list(range(40))


def test_a_crash_leaves_what_is_there(tmp_path: Path) -> None:
    tapped = Tapped(tmp_path / "out", 60 * S)
    tapped.run(0, 12)
    run = open_run(tmp_path / "out")  # nobody closed it
    assert run.manifest is not None
    assert [channel.index for channel in run.manifest.channels] == [0]
    assert run.manifest.measured_from_ns == 1000
    assert run.manifest.measured_to_ns is not None
    assert run.manifest.measured_to_ns > 8 * S
    assert tapped.instants_s()[:10] == list(range(10))
    findings = verify_run(run).findings
    assert [finding.rule for finding in findings] == ["file"]  # no trailer in the last one
    tapped.recording.close(12 * S)


def test_a_ring_keeps_the_newest(tmp_path: Path) -> None:
    tapped = Tapped(tmp_path / "out", 12 * S)
    tapped.run(0, 60)
    assert min(tapped.instants_s()) >= 60 - 12 - 2
    tapped.recording.close(60 * S)
    kept = tapped.instants_s()
    assert (kept[0], kept[-1]) == (pytest.approx(48, abs=2), 59)
    assert verify_run(open_run(tmp_path / "out")).is_ok
    assert len(names(tmp_path / "out")) <= 16


def test_a_trigger_keeps_the_ring_before_it_and_half_a_ring_after_it(tmp_path: Path) -> None:
    tapped = Tapped(tmp_path / "out", 12 * S)
    tapped.run(0, 40)
    tapped.recording.trigger("credit_starved is 80%", 40 * S)
    assert tapped.recording.keep_until_ns is not None
    tapped.run(40, 90)
    assert tapped.recording.keep_until_ns is None
    tapped.recording.close(90 * S)
    kept = tapped.instants_s()
    assert kept[0] == pytest.approx(28, abs=2)
    assert kept[-1] == pytest.approx(46, abs=2)
    assert kept == list(range(kept[0], kept[-1] + 1))
    manifest = open_run(tmp_path / "out").manifest
    assert manifest is not None
    assert manifest.measured_from_ns is not None
    assert manifest.measured_to_ns is not None
    assert manifest.measured_from_ns // S == kept[0]
    assert manifest.measured_to_ns // S == kept[-1]
    assert verify_run(open_run(tmp_path / "out")).is_ok


def test_credit_that_a_resume_voids_is_reported_across_files(tmp_path: Path) -> None:
    tapped = Tapped(tmp_path / "out", 36 * S, credit=0)
    barrier = encode_pipelined(CheckpointBarrier(1, 0))
    for second in range(1, 12):
        at_ns = second * S
        tapped.observer.from_client(AddCredit(3, RECEIVER).encode(), at_ns)
        tapped.observer.from_server(buffer(2 * second - 2, elements([40])).encode(), at_ns)
        event = buffer(2 * second - 1, barrier, DataType.ALIGNED_CHECKPOINT_BARRIER)
        tapped.observer.from_server(event.encode(), at_ns)
        tapped.observer.from_client(ResumeConsumption(RECEIVER).encode(), at_ns)
        tapped.recording.tick(at_ns)
    tapped.recording.close(12 * S)
    verification = verify_run(open_run(tmp_path / "out"))
    assert verification.files > 2
    assert verification.is_ok


def test_a_full_disk_stops_nothing_and_is_reported_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tapped = Tapped(tmp_path / "out")
    tapped.run(0, 3)

    def append(writer: TraceWriter, _: bytes) -> None:
        raise TraceError(f"{writer.path}: no space left on the device")

    monkeypatch.setattr(TraceWriter, "_append", append)
    tapped.run(3, 6)
    with pytest.raises(TraceError, match=r"no space left.*\d+ events were lost"):
        tapped.recording.close(6 * S)
    assert tapped.table.channels[0].data_buffers == 60
    assert set(tapped.instants_s()) <= {0, 1, 2, 3}


def test_a_disk_that_is_full_from_the_start_is_the_error_of_a_ring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object, **__: object) -> None:
        raise TraceError("no space left on the device") from OSError(errno.ENOSPC, "no space")

    (tmp_path / "out").mkdir()
    monkeypatch.setattr("flinknet.capture.recording.RunDirectory", no_room)
    ring_ns = 12 * S
    recording = CaptureRecording(tmp_path / "out", ABOUT, ChannelTable(), ring_ns, may_be_full=True)
    recording.tick(S)
    with pytest.raises(TraceError, match="no space left on the device"):
        recording.close(2 * S)


def test_each_file_says_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = {2: "_append", 3: "_append", 7: "_append", 11: "__init__"}
    failed = set()

    def no_room(*_: object) -> None:
        failed.add(second)
        raise TraceError("no room")

    tapped = Tapped(tmp_path / "out", 60 * S)
    for second in range(20):
        with monkeypatch.context() as patch:
            if second in failing:
                patch.setattr(TraceWriter, failing[second], no_room)
            tapped.run(second, second + 1)
    with pytest.raises(TraceError, match=r"\d+ events were lost"):
        tapped.recording.close(20 * S)
    dropped = tapped.recording.recorder.dropped_events
    assert failed == failing.keys()
    by_file, gaps = [], []
    for file in open_run(tmp_path / "out").files:
        with TraceReader(file) as reader:
            by_file.append(reader.dropped_events)
            gaps += reader.gaps().values()
    assert sum(by_file) == dropped > 0
    assert by_file[-1] == 0
    assert 0 < sum(gaps) <= dropped
    assert {each.rule for each in verify_run(open_run(tmp_path / "out")).findings} == {"dropped"}


def test_a_directory_has_one_recording_at_a_time_and_is_sealed_by_it(tmp_path: Path) -> None:
    tapped = Tapped(tmp_path / "out", 60 * S)
    tapped.run(0, 7)
    with pytest.raises(ConfigError, match="is writing to"):
        CaptureRecording(tmp_path / "out", ABOUT, ChannelTable())
    tapped.recording.close(7 * S)
    manifest = open_run(tmp_path / "out").manifest
    assert manifest is not None
    assert list(manifest.files) == [process.file for process in manifest.processes]


@pytest.mark.parametrize(
    ("text", "fires", "does_not"),
    [
        ("credit_starved>50%", 0.51, 0.5),
        ("credit_starved >= 50%", 0.5, 0.49),
        ("no_credit>50%", 0.51, 0.5),
        ("blocked>10%", 0.2, 0.0),
        ("backlog_buffers>8", 9, 8),
        ("throughput<10MiB/s", 1 << 20, 10 << 20),
        ("throughput<=1mb", 1 << 20, (1 << 20) + 1),
        ("records<1k/s", 999.0, 1000.0),
        ("connections<2", 1, 2),
        ("added_delay>1ms", 1_000_001, 1_000_000),
    ],
)
def test_triggers_fire_beyond_their_bound(text: str, fires: float, does_not: float) -> None:
    trigger = Trigger.parse(text)
    assert text in (trigger.reason({trigger.metric: fires}) or "")
    assert trigger.reason({trigger.metric: does_not}) is None
    assert trigger.reason({}) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a bound"),
        ("credit_starved", "is not a bound"),
        ("credit_starved=50%", "is not a bound"),
        ("credit_starved>", "is not a bound"),
        ("starved>50%", "choose from credit_starved"),
        ("credit_starved>50", "percentage"),
        ("credit_starved>500%", "not a share"),
        ("backlog_buffers>many", "not a number"),
        ("throughput<1k/h", "not a unit of size"),
        ("records<max", "not a bound"),
        ("added_delay>1", "no unit"),
    ],
)
def test_what_is_wrong_with_a_trigger_is_reported(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as raised:
        Trigger.parse(text)
    assert "--trigger" in str(raised.value)


MS = 1_000_000


class Capture:
    """A connection that is recorded, with times or without."""

    def __init__(self, directory: Path, *, has_times: bool = True) -> None:
        self.path = directory / "tap.fnt"
        self.recorder = TraceRecorder(TraceWriter(self.path, ProcessInfo("tap", "tap.fnt", 1)))
        note_times = self.recorder.note_times if has_times else None
        self.observer = ConnectionObserver(self.recorder, ChannelTable(), note_times=note_times)
        self.observer.from_client(request().encode(), 0)
        self.number = 0

    def send(self, payload: bytes, at_ns: int = 7, **header: bool) -> None:
        self.observer.from_server(buffer(self.number, payload, **header).encode(), at_ns)  # type: ignore[arg-type]
        self.number += 1

    def rows(self) -> dict[str, list[int]]:
        """Columns of the data buffers, in the order of their sequence numbers."""
        self.recorder.close()
        names = ("sequence_number", "records", *TIME_NAMES)
        with TraceReader(self.path) as reader:
            (block,) = reader.events(names)
        is_data = block["sequence_number"] >= 0
        order = np.argsort(block["sequence_number"][is_data])
        return {name: values[is_data][order].tolist() for name, values in block.items()}


def encoded(*elements: StreamElement) -> bytes:
    return b"".join(map(encode_record, elements))


def test_a_record_counts_and_has_its_time_in_the_buffer_in_which_it_ends(tmp_path: Path) -> None:
    capture = Capture(tmp_path)
    stream = encoded(Record(b"1", 1000), Record(b"2" * 50, 1007), Record(b"3", 990))
    capture.send(stream[:25])
    capture.send(stream[25:] + encoded(Watermark(985)))
    rows = capture.rows()
    assert rows["records"] == [1, 2]
    assert [rows[name] for name in TIMESTAMPS[:3]] == [
        [1000, 1007],
        [NO_TIME, 990 - 1007],
        [NO_TIME, NO_TIME],
    ]
    assert rows["watermark_ms"] == [NO_TIME, 985]


def test_jobs_of_flinknet_write_the_same_elements(tmp_path: Path) -> None:
    capture = Capture(tmp_path)
    serializer = StreamElementSerializer(serializer_of("long"))
    values, stamps = np.arange(5), np.arange(5, dtype=np.int64) * 10
    capture.send(bytes(serializer.write(values, stamps).data))
    rows = capture.rows()
    assert [rows[name][0] for name in TIMESTAMPS[:6]] == [0, 10, 20, 30, 40, NO_TIME]


def test_the_last_watermark_status_and_marker_of_a_buffer_are_kept(tmp_path: Path) -> None:
    capture = Capture(tmp_path)
    idle = WatermarkStatus(WatermarkStatus.IDLE)
    capture.send(encoded(Watermark(1), LatencyMarker(5, bytes(16), 0), Watermark(2)))
    capture.send(encoded(Watermark(3), idle))
    rows = capture.rows()
    assert rows["watermark_ms"] == [2, WATERMARK_IDLE]
    assert rows["marker_ms"] == [5, NO_TIME]


@pytest.mark.parametrize("has_times", [True, False])
def test_without_times_the_file_has_no_columns_for_them(tmp_path: Path, has_times: bool) -> None:
    """Of records without timestamps, or where they are not asked for, the bytes are the same."""
    capture = Capture(tmp_path, has_times=has_times)
    capture.send(encoded(Record(b"1", None if has_times else 4)))
    capture.recorder.close()
    with TraceReader(capture.path) as reader:
        assert not set(TIME_NAMES) & set(reader.stored_columns(0))


def test_a_buffer_whose_records_are_not_certain_has_no_times(tmp_path: Path) -> None:
    capture = Capture(tmp_path)
    capture.send(encoded(Record(b"1", 4)), is_compressed=True)
    capture.send(encoded(Record(b"1", 5)))
    capture.number += 1  # a lost buffer
    capture.send(encoded(Record(b"1", 6)))
    rows = capture.rows()
    assert rows["records"] == [-1, -1, -1]
    assert set(rows["timestamp_1_ms"]) == {NO_TIME}


def test_of_a_fast_connection_some_buffers_are_sampled_all_watermarks_are_read(
    tmp_path: Path,
) -> None:
    capture = Capture(tmp_path)
    payload = encoded(Record(b"1", 4), Watermark(3))
    for number in range(4 * SAMPLED_PER_S):
        capture.send(payload, number * MS // 8)  # eight times as many as are allowed
    rows = capture.rows()
    sampled = sum(each != NO_TIME for each in rows["timestamp_1_ms"][SAMPLED_PER_S:])
    assert sampled == pytest.approx(3 * SAMPLED_PER_S / 8, rel=0.2)
    assert set(rows["watermark_ms"]) == {3}
