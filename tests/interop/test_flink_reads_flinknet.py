"""Flink's own shuffle environment as consumer of flinknet; it checks every byte of the records."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from flinknet.core.probe import MessageKind, TracePoint
from tests.interop.conftest import RECORDS
from tests.interop.exchange import (
    PARTITIONS,
    Ending,
    Release,
    as_options,
    assert_sound,
    produce,
    tls_keys,
    trace_columns,
)

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("usual_signals")]

RECEIVED, SENT = TracePoint.RECEIVED, TracePoint.SENT
ENDS = {"EndOfOutputChannelStateEvent": 1, "EndOfData": 1, "EndOfPartitionEvent": 1}


def consumed(
    flink: Release, directory: Path, *options: str, partitions: int = 1, **consumer: object
) -> tuple[dict[str, int], Ending, Path]:
    """An exchange that ends well: what Flink counted, what flinknet says, and its trace.

    Args:
        options, consumer: those of flinknet, and of Flink's end.
    """
    with (
        produce(directory, *options, partitions=partitions) as flinknet,
        flink.start(
            "consume", port=flinknet.port, partitions=PARTITIONS[:partitions], **consumer
        ) as reader,
    ):
        told = reader.done()
        ending = flinknet.end()
    assert ending.code == 0, ending.lines
    return told, ending, flinknet.run


def test_every_record_and_event_comes_once_and_in_order(flink: Release, tmp_path: Path) -> None:
    options = ["--records", str(RECORDS), "--checkpoint-interval", "20ms"]
    told, ending, run = consumed(flink, tmp_path, *options, size=100)
    (channel,) = ending.channels
    barriers = channel["events"].get("ALIGNED_CHECKPOINT_BARRIER", 0)
    assert told.pop("buffers") <= channel["buffers"]
    assert told == {
        **ENDS,
        "records": RECORDS,
        "bytes": 100 * RECORDS,
        **({"CheckpointBarrier": barriers, "checkpoints": barriers} if barriers else {}),
    }
    assert ending.result["end"] == "end of partition"
    assert channel["records"] == RECORDS
    assert channel["credit"] >= channel["buffers"]
    kind = MessageKind.ACK_ALL_USER_RECORDS_PROCESSED
    assert trace_columns(run, "channel", kind=kind, point=RECEIVED) == [[0]]
    assert_sound(run)


@pytest.mark.row("S081")
def test_an_event_of_a_flink_task_is_taken_and_harms_nothing(
    flink: Release, tmp_path: Path
) -> None:
    told, _, run = consumed(flink, tmp_path, "--records", "5000", size=100, tell_at=100)
    assert told["records"] == 5000
    kind = MessageKind.TASK_EVENT_REQUEST
    assert trace_columns(run, "channel", kind=kind, point=RECEIVED) == [[0]]


def test_several_channels_share_a_connection(flink: Release, tmp_path: Path) -> None:
    options = ["--records", "15000", "--consumers", "3"]
    told, ending, run = consumed(flink, tmp_path, *options, partitions=2, subpartitions=3)
    assert told["records"] == 30_000
    assert {name: told[name] for name in ENDS} == dict.fromkeys(ENDS, 6)
    assert [channel["records"] for channel in ending.channels] == [5000] * 6
    assert_sound(run)


@pytest.mark.parametrize(("size", "records"), [(100_000, 60), (6_000_000, 3)])
def test_records_larger_than_a_segment_are_put_together(
    flink: Release, tmp_path: Path, size: int, records: int
) -> None:
    options = ["--records", str(records), "--record-size", f"{size}b"]
    told, _, _ = consumed(flink, tmp_path, *options, size=size)
    assert (told["records"], told["bytes"]) == (records, records * size)


def test_a_slow_consumer_holds_flinknet_back_by_credit(flink: Release, tmp_path: Path) -> None:
    options = ["--records", "5000", "--record-size", "1000b"]
    told, _, run = consumed(flink, tmp_path, *options, size=1000, delay=3)
    assert told["records"] == 5000
    (left,) = trace_columns(run, "credit_after", kind=MessageKind.BUFFER_RESPONSE, point=SENT)
    assert left.count(0) > len(left) // 2  # it waited for credit most of the time
    assert_sound(run)


def test_a_receiver_without_initial_credit_is_told_the_backlog(
    flink: Release, tmp_path: Path
) -> None:
    key = "taskmanager.network.memory.read-buffer.required-per-gate.max"
    options = ["--records", "50000", "--checkpoint-interval", "20ms"]
    told, _, run = consumed(flink, tmp_path, *options, **{key: 1})
    assert told["records"] == 50_000
    kind = MessageKind.PARTITION_REQUEST
    assert trace_columns(run, "value", kind=kind, point=RECEIVED) == [[0]]
    (announced,) = trace_columns(
        run, "backlog_buffers", kind=MessageKind.BACKLOG_ANNOUNCEMENT, point=SENT
    )
    assert announced
    assert_sound(run)


def test_buffers_get_the_size_that_flink_wishes_for(flink: Release, tmp_path: Path) -> None:
    told, _, run = consumed(flink, tmp_path, "--records", "20000", announce=1000)
    assert told["records"] == 20_000
    assert told["buffers"] > 200  # of 32 KiB it would be 65
    kind = MessageKind.NEW_BUFFER_SIZE
    assert trace_columns(run, "value", kind=kind, point=RECEIVED) == [[1000]]


@pytest.mark.parametrize("timeout", ["0ms", "1ms"])
def test_unaligned_barriers_overtake(flink: Release, tmp_path: Path, timeout: str) -> None:
    keys = [
        *("-D", "execution.checkpointing.unaligned.enabled=true"),
        *("-D", f"execution.checkpointing.aligned-checkpoint-timeout={timeout}"),
    ]
    options = ["--records", "100000", "--checkpoint-interval", "50ms", *keys]
    told, ending, _ = consumed(flink, tmp_path, *options, delay=2)
    assert told["records"] == 100_000
    sent = ending.channels[0]["events"]
    assert sent["PRIORITIZED_EVENT_BUFFER"] > 0
    in_time = sent.get("TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER", 0)  # left before they timed out
    assert told["CheckpointBarrier"] == sent["PRIORITIZED_EVENT_BUFFER"] + in_time


@pytest.mark.parametrize("codec", ["LZ4", "ZSTD", "NONE"])
def test_a_blocking_partition_is_read_whatever_its_codec(
    flink: Release, tmp_path: Path, codec: str
) -> None:
    key = "taskmanager.network.compression.codec"
    options = ["--records", "40000", "--partition-type", "blocking", "-D", f"{key}={codec}"]
    told, ending, run = consumed(
        flink,
        tmp_path,
        *options,
        "--consumers",
        "2",
        type="BLOCKING",
        subpartitions=2,
        **{key: codec},
    )
    assert told["records"] == 40_000
    sent_bytes = sum(channel["buffer_bytes"] for channel in ending.channels)
    assert sent_bytes == 40_000 * 105 if codec == "NONE" else sent_bytes < 40_000 * 50
    assert_sound(run)


def test_a_partition_that_is_not_there_is_refused(flink: Release, tmp_path: Path) -> None:
    timeout = "taskmanager.network.partition-request-timeout"
    keys = {timeout: "200 ms", "taskmanager.network.request-backoff.max": 400}
    with (
        produce(tmp_path, "-D", f"{timeout}=200ms") as flinknet,
        flink.start("consume", port=flinknet.port, partitions=PARTITIONS[1:], **keys) as consumer,
    ):
        assert f"PartitionNotFoundException: Partition {PARTITIONS[1]}" in consumer.failed()
        flinknet.send(signal.SIGINT)
        ending = flinknet.end()
    assert ending.code == 130
    assert ending.result["records"] == 0
    kind = MessageKind.ERROR_RESPONSE
    assert len(trace_columns(flinknet.run, "channel", kind=kind, point=SENT)[0]) > 1


def test_a_producer_that_is_interrupted_tells_flink(flink: Release, tmp_path: Path) -> None:
    with (
        produce(tmp_path, "--duration", "1h", "--rate", "1k/s") as flinknet,
        flink.start("consume", port=flinknet.port, say_at=100) as consumer,
    ):
        consumer.wait_for("read")
        flinknet.send(signal.SIGINT)
        told = consumer.failed()
        ending = flinknet.end()
    assert ending.code == 130
    assert ending.result["end"] == "cancelled"
    assert "ProducerFailedException: the producing task was cancelled" in told
    assert_sound(flinknet.run)


def test_a_producer_that_dies_is_noticed_by_flink(flink: Release, tmp_path: Path) -> None:
    with (
        produce(tmp_path, "--duration", "1h") as flinknet,
        flink.start("consume", port=flinknet.port, say_at=100) as consumer,
    ):
        consumer.wait_for("read")
        flinknet.send(signal.SIGKILL)
        assert "TransportException" in consumer.failed()


def test_a_consumer_that_dies_is_one_line(flink: Release, tmp_path: Path) -> None:
    with (
        produce(tmp_path, "--duration", "1h") as flinknet,
        flink.start("consume", port=flinknet.port, say_at=100) as consumer,
    ):
        consumer.wait_for("read")
        consumer.send(signal.SIGKILL)
        ending = flinknet.end()
    assert ending.code == 4
    assert ending.result["end"] == "failed"
    assert "the connection from" in ending.lines[-1]


def test_flink_cancels_and_flinknet_ends(flink: Release, tmp_path: Path) -> None:
    told, ending, run = consumed(flink, tmp_path, "--records", "100000000", cancel_at=50_000)
    assert 50_000 <= told["records"] < 200_000
    assert ending.result["end"] == "cancelled"
    kind = MessageKind.CANCEL_PARTITION_REQUEST
    (cancelled,) = trace_columns(run, "channel", kind=kind, point=RECEIVED)
    assert sorted(cancelled)[-2:] in ([0], [-1, 0])  # again for each buffer that still arrived
    assert_sound(run)


def test_tls_is_flinks_own(flink: Release, tmp_path: Path) -> None:
    keys = tls_keys(tmp_path / "certificates")
    told, _, _ = consumed(flink, tmp_path, "--records", "20000", *as_options(keys), **keys)
    assert told["records"] == 20_000
