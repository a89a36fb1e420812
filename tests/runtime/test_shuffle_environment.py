"""The network state of a TaskManager: started once, its trace, and bytes in files."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.config import CREDIT, NetworkConfig
from flinknet.core.consumer import RecordReader
from flinknet.errors import LocalProtocolError, LocalTransportError
from flinknet.runtime.connection_manager import ConnectionID
from flinknet.runtime.shuffle_environment import (
    FLUSH_INTERVAL_NS,
    FLUSH_PAUSE_NS,
    PIECES_MAX,
    WRITE_BUFFER_BYTES,
    RecordFile,
    ShuffleEnvironment,
    SpillFile,
    create_record_file,
)
from flinknet.trace import TraceReader, open_run
from flinknet.trace.recorder import BLOCK_EVENTS
from flinknet.trace.verify import verify_run
from tests.node import HOST, Node
from tests.pair import Consumer, partition_of, receiver_ids, records_of, sent_bytes
from tests.synthetic_trace import manifest


@pytest.fixture
def environment() -> Iterator[ShuffleEnvironment]:
    found = ShuffleEnvironment(
        NetworkConfig(), CREDIT, "tm-0", task_managers=2, channel_of={}, may_spin=False
    )
    yield found
    with suppress(Exception):
        found.close()


@pytest.mark.socket
@pytest.mark.row("S160")
def test_an_environment_that_was_shut_down_does_not_start(environment: ShuffleEnvironment) -> None:
    assert environment.start() > 0
    environment.close()
    with pytest.raises(LocalProtocolError, match="environment has already been shut down"):
        environment.start()


@pytest.mark.socket
@pytest.mark.row("S160")
def test_a_client_is_initialized_once(environment: ShuffleEnvironment) -> None:
    environment.start()
    with pytest.raises(LocalProtocolError, match="client has already been initialized"):
        environment.start()


@pytest.mark.socket
@pytest.mark.row("S160")
def test_a_client_that_was_shut_down_opens_no_connection(environment: ShuffleEnvironment) -> None:
    environment.connections.close()
    for use in (
        environment.connections.start,
        lambda: environment.connections.create_client(ConnectionID(1, (HOST, 1))),
    ):
        with pytest.raises(LocalProtocolError, match="client has already been shut down"):
            use()


@pytest.mark.socket
@pytest.mark.row("S160")
def test_a_channel_without_a_connection_answers_nothing(node: Callable[..., Node]) -> None:
    one, other = node(), node()
    channel = other.channel_to(one, 0)
    for use in (channel.resume_consumption, channel.acknowledge_all_records_processed):
        with pytest.raises(LocalProtocolError, match=r"has not been requested: .* no connection"):
            use()
    client = other.manager.create_client(other.address_of(one))
    client.request_subpartition(channel, now_ns=time.monotonic_ns())
    channel.resume_consumption()


def tracing(path: Path) -> ShuffleEnvironment:
    found = ShuffleEnvironment(
        NetworkConfig(), CREDIT, "tm-0", task_managers=1, channel_of={}, may_spin=False
    )
    found.traces.claim(found.open_trace(path.parent), [0])
    return found


def record(found: ShuffleEnvironment, events: int) -> None:
    for number in range(events):
        found.recorder.record(number, 0, 0, 0, 1, 1, number, 5, 1, 7, 7, 0, 1, 0, 2, 3, -1)


def written(path: Path) -> int:
    with TraceReader(path) as reader:
        return sum(len(block["at_ns"]) for block in reader.events(("at_ns",)))


def flushed(found: ShuffleEnvironment, now_ns: int) -> tuple[int, int]:
    """Call it when it says until all is written. Returns: when that is, and how often it took."""
    for calls in range(1, 1_000):
        due_ns = found.flush_trace(now_ns=now_ns)
        assert found.flush_trace(now_ns=due_ns - 1) == due_ns  # nothing before that
        assert FLUSH_PAUSE_NS <= due_ns - now_ns <= FLUSH_INTERVAL_NS
        if not found.recorder.pending_events:
            return now_ns, calls
        now_ns = due_ns
    pytest.fail("it never comes to its end")


@pytest.mark.parametrize("events", [1, 100, BLOCK_EVENTS - 1, BLOCK_EVENTS, BLOCK_EVENTS + 10])
def test_what_was_recorded_is_written_within_seconds_when_nothing_follows(
    tmp_path: Path, events: int
) -> None:
    path = tmp_path / "tm-0.fnt"
    found = tracing(path)
    record(found, events)
    reached_ns, calls = flushed(found, 0)
    assert calls > 10 or events < 1_000
    assert reached_ns <= 2 * FLUSH_INTERVAL_NS
    assert written(path) == events
    record(found, 50)
    flushed(found, reached_ns + FLUSH_INTERVAL_NS)
    assert written(path) == events + 50
    found.recorder.close()
    found.close()


def test_where_nothing_was_recorded_it_looks_once_a_second(tmp_path: Path) -> None:
    found = tracing(tmp_path / "tm-0.fnt")
    assert found.flush_trace(now_ns=7) == 7 + FLUSH_INTERVAL_NS
    found.recorder.close()
    found.close()


def test_data_behind_the_end_of_its_trace_is_canceled_without_a_fault_in_the_producers(
    tmp_path: Path,
) -> None:
    producing, consuming = (
        ShuffleEnvironment(
            *(NetworkConfig(), CREDIT, name),
            task_managers=1,
            channel_of=dict.fromkeys(receiver_ids(1), 0),
            may_spin=False,
        )
        for name in ("tm-0", "tm-1")
    )
    traces = [each.open_trace(tmp_path) for each in (producing, consuming)]
    for each, trace in zip((producing, consuming), traces, strict=True):
        each.traces.claim(trace, [0])
    partition, _ = partition_of()
    producing.partitions.register(partition)
    producer = producing.connections.protocol.server_connection()
    reader = Consumer(probe=consuming.recorder)
    partition.emit(0, records_of([100, 100]))
    partition.flush_all()
    producer.receive_data(memoryview(sent_bytes(reader.connection)), now_ns=1)
    on_its_way = sent_bytes(producer, 2)
    reader.close()
    canceled = sent_bytes(reader.connection, 3)
    consuming.close_trace(traces[1])
    reader.connection.receive_data(memoryview(on_its_way), now_ns=4)
    again = sent_bytes(reader.connection, 5)
    assert again == 2 * canceled
    producer.receive_data(memoryview(canceled + again), now_ns=6)
    producing.close_trace(traces[0])
    processes = tuple(replace(x, pid=os.getpid()) for x in manifest(1).processes)
    replace(manifest(1), processes=processes).save(tmp_path)
    found = verify_run(open_run(tmp_path))
    assert (found.findings, found.channels) == ((), 1)
    for each in producing, consuming:
        each.close()


def read(spill: SpillFile, offset: int, size_bytes: int) -> bytes:
    """So many bytes from an offset on, in pieces of one byte."""
    memory = memoryview(bytearray(size_bytes))
    pieces = [memory[each : each + 1] for each in range(size_bytes)]
    return bytes(memory[: spill.read(offset, pieces)])


def test_what_was_written_is_read_from_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "a-0"
    spill = SpillFile(path)
    assert not path.exists()
    reused = bytearray(b"abcdef")
    spill.write((b"12", memoryview(reused)[1:4]))
    reused[:] = b"------"
    large = b"x" * WRITE_BUFFER_BYTES
    spill.write((large,))
    spill.write((b"end",))
    spill.finish()
    assert path.stat().st_size == 5 + len(large) + 3
    assert path.stat().st_mode & 0o077 == 0
    assert read(spill, 0, 6) == b"12bcdx"
    assert read(spill, 5 + len(large), 10) == b"end"
    spill.release()
    spill.release()
    assert not path.exists()


def test_more_pieces_than_one_call_takes_are_written_and_read(tmp_path: Path) -> None:
    spill = SpillFile(tmp_path / "a-0")
    size = WRITE_BUFFER_BYTES // PIECES_MAX
    written = [bytes([each % 251]) * size for each in range(3 * PIECES_MAX)]
    spill.write(written)
    spill.finish()
    assert read(spill, 1, 3 * PIECES_MAX) == b"".join(written)[1 : 1 + 3 * PIECES_MAX]
    memory = memoryview(bytearray(len(written) * size + 1))
    assert spill.read(0, [memory[:7], memory[7:]]) == len(written) * size
    assert memory[:-1] == b"".join(written)
    spill.release()


def test_an_empty_one_is_read_too(tmp_path: Path) -> None:
    spill = SpillFile(tmp_path / "a-0")
    spill.finish()
    assert read(spill, 0, 10) == b""
    spill.release()


def test_one_that_was_given_up_leaves_nothing(tmp_path: Path) -> None:
    spill = SpillFile(tmp_path / "a-0")
    spill.write((b"never written",))
    spill.release()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_to_is_reported(tmp_path: Path) -> None:
    spill = SpillFile(tmp_path / "no" / "a-0")
    spill.write((b"1",))
    with pytest.raises(LocalTransportError, match=r"a-0: .*No such file.*--records.*TMPDIR"):
        spill.finish()


def test_a_file_that_is_there_already_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a-0"
    path.write_bytes(b"somebody's")
    spill = SpillFile(path)
    spill.write((b"1",))
    with pytest.raises(LocalTransportError, match="File exists"):
        spill.finish()
    assert path.read_bytes() == b"somebody's"


MIB = 1024 * 1024


class Watched:
    """Keeps the files it has made."""

    def __init__(self, directory: Path) -> None:
        self.files: list[RecordFile] = []
        self._directory = directory

    def create(self) -> RecordFile:
        self.files.append(create_record_file(self._directory))
        return self.files[-1]


def record_of(length: int, number: int = 7) -> bytes:
    body = bytes([number]) * 8 + bytes(range(256)) * (length // 256 + 1)
    return length.to_bytes(4, "big") + body[:length]


@pytest.mark.row("S055")
def test_a_record_of_six_mebibytes_goes_through_a_file_that_is_deleted(tmp_path: Path) -> None:
    spills = Watched(tmp_path)
    reader = RecordReader(spills.create)
    records = [record_of(100, 1), record_of(6 * MIB, 2), record_of(100, 3)]
    stream = memoryview(b"".join(records))
    found = []
    for start in range(0, len(stream), 32 * 1024):
        for memory, offset, count, size in reader.read(stream[start : start + 32 * 1024]):
            found += [
                bytes(memory[offset + i * size : offset + (i + 1) * size]) for i in range(count)
            ]
        if start == MIB:
            (file,) = spills.files
            assert re.fullmatch(r"[0-9a-f]{40}\.inputchannel", file.path.name)
            assert os.fstat(file.descriptor).st_size > MIB
    assert found == records
    assert [file.descriptor for file in spills.files] == [-1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.row("S055")
def test_only_records_above_five_mebibytes_do(tmp_path: Path) -> None:
    spills = Watched(tmp_path)
    for length, files in ((5 * MIB, 0), (5 * MIB + 1, 1)):
        reader = RecordReader(spills.create)
        record = memoryview(record_of(length))
        assert reader.read(record[:1000]) == []
        (run,) = reader.read(record[1000:])
        assert bytes(run[0]) == record
        assert len(spills.files) == files


def test_what_never_becomes_whole_is_given_up(tmp_path: Path) -> None:
    spills = Watched(tmp_path)
    reader = RecordReader(spills.create)
    record = memoryview(record_of(6 * MIB))
    reader.read(record[:MIB])
    reader.read(record[MIB : 2 * MIB])
    reader.release()
    reader.release()
    reader.check_between_records(0)
    assert spills.files[0].descriptor == -1


def test_without_a_directory_that_takes_a_file_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LocalTransportError, match=r"no file can be made.*No such file.*TMPDIR"):
        create_record_file(tmp_path / "missing")
