"""flinknet as consumer of Flink's own shuffle environment."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from flinknet.core.probe import MessageKind, TracePoint
from flinknet.core.wire.events import OtherEvent
from flinknet.core.wire.ids import InputChannelID
from flinknet.core.wire.messages import TaskEventRequest
from tests.interop.conftest import RECORDS
from tests.interop.exchange import (
    PARTITIONS,
    Ending,
    Release,
    as_options,
    assert_sound,
    consume,
    tls_keys,
    trace_columns,
)

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("usual_signals")]

LAYOUTS = {"2.3.0": "2.x", "1.20.5": "1.20"}
ENDS = {"RECOVERY_COMPLETION": 1, "END_OF_DATA": 1, "END_OF_PARTITION": 1}


def read(
    producing: Release, directory: Path, *options: str, **producer: object
) -> tuple[Ending, Path]:
    """An exchange that ends well: what flinknet says, and its trace.

    Args:
        options, producer: those of flinknet, and of Flink's end.
    """
    with (
        producing.start("produce", **producer) as flink,
        consume(directory, flink, *options) as flinknet,
    ):
        ending = flinknet.end()
    assert ending.code == 0, ending.lines
    return ending, flinknet.run


def test_every_record_and_event_comes_once_and_in_order(producing: Release, tmp_path: Path) -> None:
    options = {"records": RECORDS, "size": 100, "barrier_every": RECORDS // 5}
    with (
        producing.start("produce", **options) as flink,
        consume(tmp_path, flink, "--stamped") as flinknet,
    ):
        ending = flinknet.end()
        assert ending.code == 0, ending.lines
        assert flink.done()["records"] == RECORDS
    (channel,) = ending.channels
    assert ending.result["end"] == "end of partition"
    assert ending.result["layout"] == LAYOUTS[producing.version]
    assert channel["records"] == RECORDS
    assert channel["value_bytes"] == 100 * RECORDS
    assert channel["buffer_bytes"] == 105 * RECORDS
    assert (channel["lost"], channel["repeated"], channel["reordered"]) == (0, 0, 0)
    assert channel["events"] == {**ENDS, "ALIGNED_CHECKPOINT_BARRIER": 5}
    assert channel["credit"] >= channel["buffers"]
    assert_sound(flinknet.run)


@pytest.mark.row("S081")
def test_a_flink_task_is_told_an_event(producing: Release) -> None:
    event = OtherEvent("org.apache.flink.runtime.iterative.event.TerminationEvent")
    receiver = InputChannelID(bytes(range(16)))
    with (
        producing.start("produce", records=1000) as flink,
        socket.create_connection(("127.0.0.1", flink.port)) as sock,
    ):
        sock.sendall(TaskEventRequest(event, PARTITIONS[0], receiver).encode())
        assert flink.wait_for("told") == {"event": "TerminationEvent"}


def test_several_channels_share_a_connection(producing: Release, tmp_path: Path) -> None:
    options = {"partitions": PARTITIONS, "subpartitions": 3, "records": 5000, "barrier_every": 1000}
    numbers = ["--subpartition", "0", "--subpartition", "1", "--subpartition", "2"]
    with (
        producing.start("produce", **options) as flink,
        consume(tmp_path, flink, "--stamped", *numbers, partitions=2) as flinknet,
    ):
        ending = flinknet.end()
        assert ending.code == 0, ending.lines
        assert flink.done()["records"] == 30_000
    assert [channel["records"] for channel in ending.channels] == [5000] * 6
    assert {(channel["partition"], channel["subpartition"]) for channel in ending.channels} == {
        (str(partition), number) for partition in PARTITIONS for number in range(3)
    }
    for channel in ending.channels:
        assert channel["events"] == {**ENDS, "ALIGNED_CHECKPOINT_BARRIER": 5}
    assert_sound(flinknet.run)


@pytest.mark.parametrize(("size", "records"), [(100_000, 60), (6_000_000, 3)])
def test_records_larger_than_a_segment_are_put_together(
    producing: Release, tmp_path: Path, size: int, records: int
) -> None:
    ending, _ = read(producing, tmp_path, "--stamped", records=records, size=size)
    (channel,) = ending.channels
    assert (channel["records"], channel["value_bytes"]) == (records, records * size)
    assert channel["buffers"] > records * size // 32768


def test_a_slow_consumer_holds_flink_back_by_credit(producing: Release, tmp_path: Path) -> None:
    ending, run = read(
        producing, tmp_path, "--stamped", "--slow-consumer", "0:50us", records=5000, size=1000
    )
    assert ending.channels[0]["records"] == 5000
    assert ending.channels[0]["backlog_max"] > 0
    kind, point = MessageKind.BUFFER_RESPONSE, TracePoint.RECEIVED
    (free,) = trace_columns(run, "credit_after", kind=kind, point=point)
    assert min(each for each in free if each >= 0) == 0  # Flink had no credit left
    assert_sound(run)


def test_without_exclusive_buffers_credit_follows_announcements(
    producing: Release, tmp_path: Path
) -> None:
    options = {"records": 50_000, "barrier_every": 10_000}
    key = "taskmanager.network.memory.buffers-per-channel=0"
    ending, run = read(producing, tmp_path, "--stamped", "-D", key, **options)
    assert ending.channels[0]["records"] == 50_000
    received = TracePoint.RECEIVED
    (told,) = trace_columns(run, "value", kind=MessageKind.BACKLOG_ANNOUNCEMENT, point=received)
    assert told
    assert min(told) > 0
    assert_sound(run)


def test_unaligned_barriers_overtake(producing: Release, tmp_path: Path) -> None:
    options = {"records": 100_000, "barrier_every": 10_000, "unaligned": 1}
    key = "execution.checkpointing.unaligned.enabled=true"
    ending, _ = read(
        producing, tmp_path, "--stamped", "-D", key, "--slow-consumer", "0:2us", **options
    )
    assert ending.channels[0]["records"] == 100_000
    assert ending.channels[0]["events"] == {**ENDS, "PRIORITIZED_EVENT_BUFFER": 10}


@pytest.mark.parametrize(
    ("version", "shuffle", "codec"),
    [
        *(("2.3.0", "sort-merge", codec) for codec in ("LZ4", "ZSTD", "NONE")),
        ("1.20.5", "sort-merge", "LZ4"),
        ("1.20.5", "hash", "LZ4"),  # Flink 2 has sort-merge partitions only
    ],
)
def test_a_blocking_partition_is_read_whatever_its_codec(
    release_of: Callable[[str], Release], tmp_path: Path, version: str, shuffle: str, codec: str
) -> None:
    producing, key = release_of(version), "taskmanager.network.compression.codec"
    options: dict[str, object] = {"type": "BLOCKING", "records": 20_000, key: codec}
    if shuffle == "hash":
        options["taskmanager.network.sort-shuffle.min-parallelism"] = 1000
    with (
        producing.start("produce", subpartitions=2, **options) as flink,
        consume(
            *(tmp_path, flink, "--stamped", "--partition-type", "blocking"),
            *("-D", f"{key}={codec}", "--subpartition", "1", "--subpartition", "0"),
        ) as flinknet,
    ):
        ending = flinknet.end()
    assert ending.code == 0, ending.lines
    for channel in ending.channels:
        assert channel["records"] == 20_000
        assert channel["value_bytes"] == 2_000_000
        if codec == "NONE":
            assert channel["buffer_bytes"] == 2_100_000
        else:
            assert 0 < channel["buffer_bytes"] < 1_000_000
    assert_sound(flinknet.run)


def test_records_of_unknown_content_are_counted(producing: Release, tmp_path: Path) -> None:
    ending, _ = read(producing, tmp_path, records=1000, size=40)
    (channel,) = ending.channels
    assert (channel["records"], channel["value_bytes"], channel["lost"]) == (1000, 40_000, None)
    assert channel["other_elements"] == 0


def test_a_partition_that_is_not_there_is_one_line(producing: Release, tmp_path: Path) -> None:
    timeout = "taskmanager.network.partition-request-timeout"
    waits = ["-D", f"{timeout}=200ms", "-D", "taskmanager.network.request-backoff.max=400"]
    options = {"partitions": PARTITIONS[1:], timeout: "200 ms"}
    with (
        producing.start("produce", **options) as flink,
        consume(tmp_path, flink, *waits) as flinknet,
    ):
        ending = flinknet.end()
    assert ending.code == 4
    assert ending.result["end"] == "failed"
    assert f"PartitionNotFoundException: Partition {PARTITIONS[0]} not found" in ending.lines[-1]
    requests = trace_columns(
        flinknet.run, "channel", kind=MessageKind.PARTITION_REQUEST, point=TracePoint.SENT
    )
    assert len(requests[0]) > 1  # it was asked for again, as Flink does


def test_a_producer_that_fails_is_named_with_its_reason(producing: Release, tmp_path: Path) -> None:
    """Flink tells a consumer only if data is due for it at that moment: so nothing may leave, for
    the consumer stands still and gave more credit than the sockets hold.
    """
    options = {"records": 50_000_000, "say_at": 100_000, "fail_when_stalled": 1}
    key = "taskmanager.network.memory.buffers-per-channel=1500"
    with (
        producing.start("produce", **options) as flink,
        consume(tmp_path, flink, "--stamped", "-D", key) as flinknet,
    ):
        flink.wait_for("written")
        flinknet.send(signal.SIGSTOP)
        flink.wait_for("partition-failed")
        flinknet.send(signal.SIGCONT)
        ending = flinknet.end()
    assert ending.code == 4
    assert ending.result["end"] == "failed"
    assert "ProducerFailedException" in ending.lines[-1]
    assert "the interop producer fails on demand" in ending.lines[-1]


def test_a_producer_that_dies_is_named(producing: Release, tmp_path: Path) -> None:
    options = {"records": 50_000_000, "say_at": 100_000}
    with producing.start("produce", **options) as flink, consume(tmp_path, flink) as flinknet:
        flink.wait_for("written")
        flink.send(signal.SIGKILL)
        ending = flinknet.end()
    assert ending.code == 4
    assert "the connection to 127.0.0.1:" in ending.lines[-1]
    assert "Failed channels: 0" in ending.lines[-1]


@pytest.mark.parametrize("how", ["records", "interrupt"])
def test_flinknet_cancels_and_flink_lets_go(producing: Release, tmp_path: Path, how: str) -> None:
    limit = ["--records", "20000"] if how == "records" else ["--slow-consumer", "0:10us"]
    options = {"records": 50_000_000, "say_at": 10_000, "close_when_dismissed": 1}
    with (
        producing.start("produce", **options) as flink,
        consume(tmp_path, flink, "--stamped", *limit) as flinknet,
    ):
        if how == "interrupt":
            flink.wait_for("written")
            flinknet.send(signal.SIGINT)
        ending = flinknet.end()
        flink.dismiss()
        assert flink.wait_for("closed") == {"released": "true"}  # no reader holds it
    assert ending.code == (0 if how == "records" else 130)
    assert ending.result["end"] == "cancelled"
    assert ending.result["records"] < 1_000_000
    assert_sound(flinknet.run)


def test_tls_is_flinks_own(producing: Release, tmp_path: Path) -> None:
    keys = tls_keys(tmp_path / "certificates")
    ending, _ = read(producing, tmp_path, "--stamped", *as_options(keys), records=20_000, **keys)
    assert ending.channels[0]["records"] == 20_000


def test_without_tls_no_word_is_understood(flink: Release, tmp_path: Path) -> None:
    keys = tls_keys(tmp_path / "certificates")
    with (
        flink.start("produce", **keys) as producer,
        consume(tmp_path, producer) as flinknet,
    ):
        ending = flinknet.end()
    assert ending.code == 4
    assert ending.result["records"] == 0
    assert "Failed channels: 0" in ending.lines[-1]
