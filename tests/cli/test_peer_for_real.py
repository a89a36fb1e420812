"""flinknet as both peers: two commands that know of each other an address and a partition only."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from flinknet.core.probe import MessageKind, TracePoint
from tests.interop.exchange import (
    PARTITIONS,
    Flinknet,
    assert_sound,
    partition_options,
    produce,
    trace_columns,
)
from tests.strangers import intrude

pytestmark = [pytest.mark.socket, pytest.mark.usefixtures("usual_signals")]


def read(directory: Path, port: int, *options: str, partitions: int = 1) -> Flinknet:
    """A consumer, in a directory of its own."""
    directory.mkdir()
    address = f"127.0.0.1:{port}"
    return Flinknet(directory, "consume", address, *partition_options(partitions), *options)


def test_both_ends_count_the_same(tmp_path: Path) -> None:
    numbers = ["--subpartition", "0", "--subpartition", "1"]
    options = ["--records", "20000", "--consumers", "2", "--checkpoint-interval", "20ms"]
    with (
        produce(tmp_path, *options, partitions=2) as producer,
        read(tmp_path / "c", producer.port, "--stamped", *numbers, partitions=2) as consumer,
    ):
        consumed, produced = consumer.end(), producer.end()
    assert (consumed.code, produced.code) == (0, 0), (consumed.lines, produced.lines)
    assert consumed.result["end"] == produced.result["end"] == "end of partition"
    assert consumed.result["layout"] == "2.x"
    assert [channel["records"] for channel in consumed.channels] == [10_000] * 4
    for name in ("partition", "subpartition", "records", "buffers", "buffer_bytes", "events"):
        assert [c[name] for c in consumed.channels] == [c[name] for c in produced.channels]
    assert {channel["partition"] for channel in produced.channels} == set(map(str, PARTITIONS))
    for channel in consumed.channels:
        assert (channel["lost"], channel["value_bytes"]) == (0, 1_000_000)
    assert_sound(consumer.run)
    assert_sound(producer.run)


def test_a_stranger_of_a_producer_is_named_in_its_result(tmp_path: Path) -> None:
    with produce(tmp_path, "--records", "5000") as producer:
        port = producer.port
        intrude(port)
        with read(tmp_path / "c", port, "--stamped") as consumer:
            consumed, produced = consumer.end(), producer.end()
    assert (consumed.code, produced.code) == (0, 0), (consumed.lines, produced.lines)
    assert consumed.result["warnings"] == []
    (warning,) = produced.result["warnings"]
    assert "1 connection, 129 requests" in warning["text"]


@pytest.mark.slow("real processes, for rules tested without")
def test_a_blocking_partition_comes_compressed(tmp_path: Path) -> None:
    blocking = ["--partition-type", "blocking"]
    with (
        produce(tmp_path, "--records", "5000", *blocking) as producer,
        read(tmp_path / "c", producer.port, "--stamped", *blocking) as consumer,
    ):
        consumed, produced = consumer.end(), producer.end()
    assert (consumed.code, produced.code) == (0, 0), (consumed.lines, produced.lines)
    (channel,) = consumed.channels
    assert (channel["records"], channel["value_bytes"]) == (5000, 500_000)
    assert 0 < channel["buffer_bytes"] < 250_000


@pytest.mark.slow("real processes, for rules tested without")
def test_a_consumer_with_enough_cancels(tmp_path: Path) -> None:
    with (
        produce(tmp_path, "--duration", "1h") as producer,
        read(tmp_path / "c", producer.port, "--records", "5000") as consumer,
    ):
        consumed, produced = consumer.end(), producer.end()
    assert (consumed.code, produced.code) == (0, 0), (consumed.lines, produced.lines)
    assert consumed.result["end"] == produced.result["end"] == "cancelled"
    assert 5000 <= consumed.result["records"] <= produced.result["records"]
    kind, point = MessageKind.CLOSE_REQUEST, TracePoint.RECEIVED
    assert trace_columns(producer.run, "channel", kind=kind, point=point) == [[-1]]
    assert_sound(consumer.run)
    assert_sound(producer.run)


@pytest.mark.slow("real processes, for rules tested without")
def test_a_producer_that_is_interrupted_fails_its_consumer(tmp_path: Path) -> None:
    with (
        produce(tmp_path, "--duration", "1h", "--rate", "1k/s") as producer,
        read(tmp_path / "c", producer.port, "--stamped") as consumer,
    ):
        producer.wait_for("writing")
        producer.send(signal.SIGINT)
        consumed, produced = consumer.end(), producer.end()
    assert (consumed.code, produced.code) == (4, 130)
    assert any(line.startswith("flinknet: interrupted after ") for line in produced.lines)
    assert (consumed.result["end"], produced.result["end"]) == ("failed", "cancelled")
    assert "ProducerFailedException: the producing task was cancelled" in consumed.lines[-1]


@pytest.mark.slow("real processes for each case", first=True)
@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "magic number"),
        (bytes.fromhex("7fffffffbadc0ffe00"), "a frame of 2147483647 bytes"),
        (b"", "was closed by it"),
    ],
)
def test_what_is_no_task_manager_is_one_line(tmp_path: Path, answer: bytes, complaint: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with read(tmp_path / "c", port) as consumer:
            connection, _ = server.accept()
            with connection:
                connection.recv(97)
                connection.sendall(answer)
            consumed = consumer.end()
    assert consumed.code == 4
    assert complaint in consumed.lines[-1]
    assert not any("Traceback" in line for line in consumed.lines)
