"""What the subtasks of the Java job write, put together; what TaskManagers are told."""

from __future__ import annotations

from typing import Any

import pytest

from bench.flink.cluster import TaskManager
from bench.flink.exchange import Exchange, outcome, sums


def source(records: int, **more: int) -> dict[str, Any]:
    return {"records": records, "measured_from_ns": 100, "ended_ns": 900, "latest_ns": 5} | more


def sink(numbers: list[int], **more: Any) -> dict[str, Any]:
    """A sink that took the records of these numbers, each after 200 ns (bucket 200)."""
    count = len(numbers)
    histogram = {"total": 200 * count, "min": 200, "max": 200, "buckets": {"200": count}}
    return {
        "records": count,
        "measured_records": count,
        "sum_of_numbers": sum(numbers),
        "out_of_order": 0,
        "first_arrival_ns": 50,
        "first_measured_ns": 1_000,
        "last_measured_ns": 2_001_000,
        "latency_ns": histogram,
        "uncorrected_ns": histogram,
    } | more


def test_subtasks_add_up() -> None:
    done = outcome(
        [source(3), source(3, measured_from_ns=90, ended_ns=950, latest_ns=7)],
        [sink([0, 2, 1]), sink([1, 0, 2], first_measured_ns=501_000)],
        {},
    )
    assert done.is_complete
    assert (done.sent_records, done.received_records, done.measured_records) == (6, 6, 6)
    assert done.throughput_records_per_s == pytest.approx(6 / 2e-3)
    assert (done.latency.count, done.latency.min, done.latency.max) == (6, 200, 200)
    assert (done.measured_from_ns, done.ended_ns, done.latest_ns) == (90, 950, 7)


@pytest.mark.parametrize(
    "received",
    [
        sink([0, 1]),  # one is lost
        sink([0, 1, 1]),  # one is lost, another came twice
        sink([0, 1, 2], out_of_order=1),
    ],
)
def test_what_is_lost_repeated_or_out_of_order_is_reported(received: dict[str, Any]) -> None:
    assert not outcome([source(3)], [received], {}).is_complete


def test_a_sink_that_got_nothing_does_not_spoil_the_others() -> None:
    empty = {"total": 0, "min": None, "max": None, "buckets": {}}
    idle = sink([], latency_ns=empty, uncorrected_ns=empty, first_arrival_ns=0)
    done = outcome([source(3)], [sink([0, 1, 2]), idle], {})
    assert (done.latency.count, done.first_arrival_ns) == (3, 50)


def test_sums_of_rest_lose_the_scope_of_their_names() -> None:
    answer = [
        {"id": "numBytesOut", "sum": 3.15e6},
        {"id": "Shuffle.Netty.Input.numBuffersInRemote", "sum": 75.0},
    ]
    assert sums(answer) == {"numBytesOut": 3_150_000, "numBuffersInRemote": 75}


def test_split_keeps_sources_and_sinks_apart() -> None:
    sources, sinks = Exchange(producers=3, consumers=2).task_managers()
    assert (sources.slots, list(sources.resources)) == (3, ["source"])
    assert (sinks.slots, list(sinks.resources)) == (2, ["sink"])


def test_spread_has_one_slot_on_each_for_a_source_and_a_sink() -> None:
    spread = Exchange(producers=2, consumers=2, placement="spread").task_managers()
    assert spread == [TaskManager(1), TaskManager(1)]


def test_a_record_takes_the_same_bytes_as_with_flinknet() -> None:
    from flinknet.job.load.payload import OVERHEAD_BYTES

    assert Exchange(value_bytes=100).wire_bytes == 100 + OVERHEAD_BYTES


def test_a_task_manager_binds_where_it_is_asked_to() -> None:
    plain = TaskManager(2).options("tm-0")
    assert plain["taskmanager.numberOfTaskSlots"] == "2"
    assert "taskmanager.data.bind-port" not in plain
    apart = TaskManager(1, data_port=7001, bind_port=7101, resources=("sink",)).options("tm-1")
    assert apart["taskmanager.data.port"] == "7001"
    assert apart["taskmanager.data.bind-port"] == "7101"
    assert apart["external-resources"] == "sink"
    assert apart["external-resource.sink.amount"] == "1"
