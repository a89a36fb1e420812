"""What tests of the simulator share: scenarios in a line, a probe that keeps rows, figures."""

from __future__ import annotations

import random
from typing import NamedTuple

from flinknet.config import NetworkConfig, RecordSize, Scenario, WorkloadConfig
from flinknet.core.probe import MessageKind, Probe, TracePoint
from flinknet.histogram import LogLinearHistogram
from flinknet.simulator.checkers import ProtocolChecker, run_checked
from flinknet.simulator.cluster import START_NS, Cluster
from flinknet.simulator.cost_model import CostModel
from flinknet.simulator.faults import FaultPlan

US = 1_000
MS = 1_000_000
S = 1_000_000_000
NEVER = -1

FREE = CostModel(0.0, 0.0, 0.0, 0.0, 0.0, ())
"""Nothing takes time: what is left of a latency is waiting."""


class Row(NamedTuple):
    """One event, as `core.probe.Probe.record` takes it."""

    at_ns: int
    channel: int
    point: int
    kind: int
    data_type: int
    reason: int
    sequence_number: int
    payload_bytes: int
    records: int
    first_record_ns: int
    last_record_ns: int
    backlog_buffers: int
    credit_before: int
    credit_after: int
    pool_available_buffers: int
    pool_size_buffers: int
    value: int


class Rows:
    """A Probe that keeps every event."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def record(self, *values: int) -> None:
        self.rows.append(Row(*values))

    def buffers(self, point: TracePoint = TracePoint.SENT) -> list[Row]:
        """The data buffers at a point."""
        return [
            row
            for row in self.rows
            if row.point == point and row.kind == MessageKind.BUFFER_RESPONSE and row.data_type == 1
        ]


def scenario(
    timeout_ns: int = 100 * MS,
    *,
    rate_per_s: float = 0.0,
    records: int = 10_000,
    size_bytes: int = 100,
    seed: int = 1,
    network: NetworkConfig = NetworkConfig(),  # noqa: B008 - frozen
    **workload: object,
) -> Scenario:
    """A scenario; records are those of each producer."""
    return Scenario(
        network=NetworkConfig(
            segment_size_bytes=network.segment_size_bytes,
            exclusive_buffers=network.exclusive_buffers,
            floating_buffers=network.floating_buffers,
            buffer_timeout_ns=timeout_ns,
        ),
        workload=WorkloadConfig(
            rate_per_s=rate_per_s,
            records=records,
            record_size=RecordSize(size_bytes, size_bytes),
            **workload,  # type: ignore[arg-type]
        ),
        seed=seed,
    )


def finished(cluster: Cluster) -> Cluster:
    """Run to the end; no error happened."""
    cluster.run_until_idle()
    assert cluster.error is None
    return cluster


def latency_of(cluster: Cluster, consumer: int | None = None) -> LogLinearHistogram:
    """Latency of all records, or of one consumer's."""
    latency = LogLinearHistogram()
    for task in cluster.sinks:
        for sink in task.receivers:
            sink.settle()
            if consumer in (None, task.index):
                latency.merge(sink.latency)
    return latency


def received_records(cluster: Cluster, consumer: int) -> int:
    """Records that a consumer has taken."""
    return sum(sink.records for sink in cluster.sinks[consumer].receivers)


def disturbed_scenario(seed: int) -> tuple[Scenario, FaultPlan]:
    """Anything: a small scenario and what goes wrong in it. The meaning of a seed must stay."""
    chance = random.Random(seed)
    producers, consumers = chance.choice([(1, 1), (1, 2), (2, 1), (2, 2), (3, 2)])
    partitioners = ["rebalance", "hash", "broadcast"]
    if producers == consumers:
        partitioners.append("forward")
    task_managers = chance.choice([2, 2, 3, 4])
    links = (task_managers + 1) // 2 * (task_managers // 2)
    faults = FaultPlan.draw(
        seed,
        links=min(links, producers, consumers),
        consumers=consumers,
        task_managers=2,
        duration_ns=20 * MS,
    )
    segment_size_bytes = chance.choice([64, 256, 1024, 4096])
    low_bytes = chance.choice([8, 20, 100, 300])
    high_bytes = low_bytes if chance.random() < 0.5 else low_bytes + chance.randrange(200)
    network = NetworkConfig(
        segment_size_bytes=segment_size_bytes,
        network_memory_bytes=segment_size_bytes * 10_000,
        exclusive_buffers=chance.choice([0, 1, 2, 2, 4]),
        floating_buffers=chance.choice([1, 4, 8]),
        max_buffers_per_channel=chance.choice([3, 10]),
        max_overdraft_buffers=chance.choice([0, 5, 20]),
        buffer_timeout_ns=chance.choice([0, MS, 5 * MS, NEVER]),
    )
    workload = WorkloadConfig(
        producers=producers,
        consumers=consumers,
        partitioner=chance.choice(partitioners),
        rate_per_s=chance.choice([0.0, 10_000.0, 50_000.0]),
        records=chance.choice([0, 1, 20, 300]),
        record_size=RecordSize(low_bytes, high_bytes),
        arrivals=chance.choice(["constant", "poisson", "bursts"]),
        slow_consumers=faults.slow_consumers,
    )
    return Scenario(network, workload, task_managers, seed), faults


def run_disturbed(seed: int, probe: Probe | None = None) -> Cluster:
    """Run a disturbed scenario with all checks.

    To repeat a seed: python -c 'from tests.simulation import run_disturbed as r; r(SEED)'
    """
    drawn, faults = disturbed_scenario(seed)
    checker = ProtocolChecker(seed, probe)
    cluster = Cluster.of_scenario(drawn, probes=(checker,) * drawn.task_managers, faults=faults)
    run_checked(cluster, checker)
    return cluster


__all__ = [
    "FREE",
    "MS",
    "NEVER",
    "START_NS",
    "US",
    "Row",
    "Rows",
    "S",
    "disturbed_scenario",
    "finished",
    "latency_of",
    "received_records",
    "run_disturbed",
    "scenario",
]
