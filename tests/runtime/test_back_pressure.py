"""Pressure over real sockets: who holds up whom, what waits where, and what waiting costs."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace

import psutil
import pytest

from flinknet.config import CREDIT, TCP, NetworkConfig, RecordSize, Scenario, SlowConsumer
from flinknet.results import Progress
from flinknet.runtime.cluster.launcher import run_scenario
from tests.node import SEGMENT_BYTES, Node
from tests.runtime.processes import task_managers
from tests.runtime.runs import MS, run, scenario_of

pytestmark = [pytest.mark.socket, pytest.mark.slow("real processes, for rules tested without")]

MIB = 1 << 20


def scenario(**workload: object) -> Scenario:
    """One producer, one consumer, in processes of their own."""
    network = NetworkConfig(segment_size_bytes=4096)
    asked = {"producers": 1, "consumers": 1, "warmup_ns": 0} | workload
    return scenario_of(network=network, timeout_ns=100 * MS, **asked)  # type: ignore[arg-type]


def neighbours_share(flow_control: str) -> float:
    """What a task takes next to one that pauses, of what it takes alone."""
    rates = []
    for pairs in (1, 2):
        asked = scenario(
            producers=pairs,
            consumers=pairs,
            partitioner="forward",
            rate_per_s=500.0,
            record_size=RecordSize(8000, 8000),
            duration_ns=1500 * MS,
            slow_consumers=(SlowConsumer(1, -1, slow_ns=1500 * MS),) if pairs == 2 else (),
        )
        network = NetworkConfig(segment_size_bytes=8192, send_receive_buffer_bytes=16384)
        asked = replace(asked, flow_control=flow_control, network=network)
        result = run(asked)
        rates.append(result.channels[0].taken_records_per_s or 0.0)
    alone, beside = rates
    return beside / alone


@pytest.mark.row("S107")
def test_without_credit_a_paused_task_takes_the_rate_of_its_neighbour() -> None:
    assert neighbours_share(TCP) < 0.1


@pytest.mark.quick
@pytest.mark.row("S108")
def test_with_credit_a_paused_task_leaves_its_neighbour_alone() -> None:
    # what else runs on this machine can only lower it
    assert any(neighbours_share(CREDIT) > 0.9 for _ in range(3))


class Processes:
    """Processor time and memory of the TaskManagers, whenever a run reports where it stands."""

    def __init__(self) -> None:
        self.samples: list[tuple[Progress, float, list[float], list[int]]] = []

    def __call__(self, progress: Progress) -> None:
        try:
            found = list(task_managers().values())
            cpu_s = [sum(each.cpu_times()[:2]) for each in found]
            sizes = [each.memory_info().rss for each in found]
        except psutil.NoSuchProcess:
            return
        if len(found) == 2 and progress.phase == "measuring":
            self.samples.append((progress, time.monotonic(), cpu_s, sizes))

    def busy_share(self, from_fraction: float, to_fraction: float) -> float:
        """What part of a processor both used, in a part of the run."""
        chosen = [
            each for each in self.samples if from_fraction <= (each[0].fraction or 0) <= to_fraction
        ]
        assert len(chosen) > 1, "too few samples of the processes"
        (_, first_s, first, _), (_, last_s, last, _) = chosen[0], chosen[-1]
        return (sum(last) - sum(first)) / (last_s - first_s)


@pytest.mark.row("S039")
def test_a_writer_that_waits_uses_no_processor_and_goes_on_when_it_can() -> None:
    processes = Processes()
    paused_ns, whole_ns = 2000 * MS, 4000 * MS
    pause = SlowConsumer(0, -1, slow_ns=paused_ns)
    result = run_scenario(
        scenario(duration_ns=whole_ns, slow_consumers=(pause,)),
        out_dir=None,
        trace=False,
        on_progress=processes,
    )
    assert processes.busy_share(0.1, 0.45) < 0.05
    assert result.measured.records > 10_000  # it was woken
    metrics = result.metrics.tasks["source 0"]
    waited_ms = metrics["accumulateBackPressuredTimeMs"]
    assert isinstance(waited_ms, float | int)
    assert waited_ms > 0.8 * paused_ns / MS


@pytest.mark.row("S014")
def test_memory_stays_as_it_is_while_a_producer_is_much_too_fast() -> None:
    processes = Processes()
    slow = (SlowConsumer(0, 1 * MS),)
    run_scenario(
        scenario(
            duration_ns=4000 * MS, record_size=RecordSize(10_000, 10_000), slow_consumers=slow
        ),
        out_dir=None,
        trace=False,
        on_progress=processes,
    )
    early = [sizes for progress, *_, sizes in processes.samples if (progress.fraction or 0) > 0.25]
    assert early, "no sample of the processes"
    grown = [last - first for first, last in zip(early[0], early[-1], strict=True)]
    assert max(grown) < 2 * MIB  # of some 10 MB/s that the consumer takes


def bytes_kept(nodes: Sequence[Node], buffers: int) -> int:
    """Bytes of Python objects that sending and receiving so many buffers leaves behind."""
    one, other = nodes
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    received = 0
    for _ in range(buffers):
        one.write(0, bytes(SEGMENT_BYTES))
        while not (taken := len(other.read())):
            one.turn()
            other.turn()
        received += taken
    assert received == buffers
    gc.collect()
    return tracemalloc.get_traced_memory()[0] - before


@pytest.mark.quick
@pytest.mark.row("S014")
def test_a_buffer_that_was_sent_and_received_leaves_nothing_behind(
    node: Callable[[], Node],
) -> None:
    nodes = [node(), node()]
    nodes[1].read_from(nodes[0], 0)
    tracemalloc.start()
    try:
        bytes_kept(nodes, 1000)  # all segments of the pools were used once
        assert bytes_kept(nodes, 2000) < 2000 * 8  # a reference for each would be 8 bytes
    finally:
        tracemalloc.stop()


@pytest.mark.row("S030")
def test_a_longer_timeout_costs_latency_and_saves_messages() -> None:
    medians, messages, rates = [], [], []
    for timeout_ns in (0, 50 * MS, 200 * MS):
        asked = scenario(rate_per_s=200.0, records=200, arrivals="poisson")
        network = replace(asked.network, buffer_timeout_ns=timeout_ns, segment_size_bytes=32_768)
        measured = run(replace(asked, network=network)).measured
        medians.append(measured.latency_ns.p50 or 0)
        messages.append(measured.buffers)
        rates.append(measured.records)
    assert medians == sorted(medians)
    assert medians[2] > 50 * MS  # half of its timeout, about
    assert messages[0] > 1.5 * messages[1] > 2 * messages[2]
    assert rates == [200] * 3  # none of them limits the throughput


@pytest.mark.row("S029")
def test_slow_records_leave_by_the_timeout_and_fast_ones_in_full_buffers() -> None:
    slow = run(scenario(rate_per_s=50.0, records=20)).measured.flushes
    assert (slow.full, slow.timeout > 0) == (0, True)
    fast = run(scenario(records=50_000)).measured.flushes
    assert fast.full > 0.9 * (fast.full + fast.timeout + fast.event)


@pytest.mark.row("S053")
def test_polling_answers_at_once_and_who_waits_sleeps_until_a_buffer_is_there(
    node: Callable[[], Node],
) -> None:
    one, other = node(), node()
    other.read_from(one, 0)
    while not one.accepted or not one.accepted[0].queue.readers:
        one.turn()
        other.turn()
    assert other.gate.poll() is None
    written_at_ns = time.monotonic_ns() + 100 * MS

    def write() -> None:
        one.write(0, b"at last")
        one.turn()

    other.loop.call_at(written_at_ns, write)
    turns = 0
    while not other.gate.is_available:  # the blocking read: turns of the loop, without a deadline
        other.loop.run_once()
        turns += 1
    assert time.monotonic_ns() >= written_at_ns
    assert turns < 10
    assert other.read() == [(0, b"at last")]
