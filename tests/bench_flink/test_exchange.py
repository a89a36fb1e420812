"""What the subtasks of the Java job write, put together; what TaskManagers are told."""

from __future__ import annotations

from typing import Any

import pytest

from bench.flink.cluster import TaskManager
from bench.flink.exchange import Exchange, Stage, outcome, sums


def source(records: int, **more: int) -> dict[str, Any]:
    instants = {"epoch_ns": 80, "measured_from_ns": 100, "ended_ns": 900}
    return {"records": records, "latest_ns": 5} | instants | more


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
        Exchange(),
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
    assert not outcome([source(3)], [received], {}, Exchange()).is_complete


def test_a_sink_that_got_nothing_does_not_spoil_the_others() -> None:
    empty = {"total": 0, "min": None, "max": None, "buckets": {}}
    idle = sink([], latency_ns=empty, uncorrected_ns=empty, first_arrival_ns=0)
    done = outcome([source(3)], [sink([0, 1, 2]), idle], {}, Exchange())
    assert (done.latency.count, done.first_arrival_ns) == (3, 50)


def test_sums_of_rest_lose_the_scope_of_their_names() -> None:
    answer = [
        {"id": "numBytesOut", "sum": 3.15e6},
        {"id": "Shuffle.Netty.Input.numBuffersInRemote", "sum": 75.0},
    ]
    assert sums(answer) == {"numBytesOut": 3_150_000, "numBuffersInRemote": 75}


def test_a_broadcast_makes_copies_and_relays_let_records_overtake_each_other() -> None:
    relay = Stage(2, "broadcast")
    exchange = Exchange(relays=(relay,))
    sinks = [sink([0, 1, 2], out_of_order=1), sink([2, 1, 0])]
    assert outcome([source(3)], sinks, {}, exchange).is_complete
    assert not outcome([source(3)], sinks[:1], {}, exchange).is_complete


def test_split_keeps_each_stage_apart_from_the_one_before_it() -> None:
    exchange = Exchange(producers=3, consumers=2, relays=(Stage(4), Stage(5)))
    even, odd = exchange.task_managers()
    assert (even.slots, list(even.resources)) == (5, ["even"])
    assert (odd.slots, list(odd.resources)) == (4, ["odd"])


def test_stages_are_passed_on_as_the_job_reads_them() -> None:
    relay = Stage(2, "hash", service_ns=5, slow_subtask=1, hot_share=0.4)
    exchange = Exchange(consumers=3, partitioner="forward", relays=(relay,))
    assert exchange.arguments()["stages"] == "2:hash:5:1:0.4:false:0;3:forward:0:-1:0.0:false:0"


def test_spread_has_one_slot_on_each_for_a_source_and_a_sink() -> None:
    spread = Exchange(producers=2, consumers=2, placement="spread").task_managers()
    assert spread == [TaskManager(1), TaskManager(1)]


def test_a_record_takes_the_same_bytes_as_with_flinknet() -> None:
    from flinknet.core.wire.records import OVERHEAD_BYTES

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
