"""What tests of the simulator share: scenarios in a line, a probe that keeps rows, figures."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from flinknet.config import NetworkConfig, RecordSize, Scenario, WorkloadConfig
from flinknet.core.probe import MessageKind, Probe, TracePoint
from flinknet.histogram import LogLinearHistogram
from flinknet.simulator.cluster import Cluster
from flinknet.simulator.cost_model import CostModel
from tests.campaign.draw import Draw
from tests.campaign.drawn_exchange import drawn_exchange
from tests.campaign.exchange import run_exchange
from tests.faults import FaultPlan

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


PLAIN = dict.fromkeys(
    (
        *("partition type", "flow control", "placement", "relays", "checkpoints", "debloating"),
        *("neighbour", "end", "clocks", "first number", "encrypted", "capacity bytes"),
        *("late partitions", "tick", "strangers", "more TaskManagers"),
    ),
    0,
)
"""Choices of a campaign's trial that leave one sound job, its load, its links and its memory."""


def disturbed_scenario(seed: int) -> tuple[Scenario, FaultPlan]:
    """A small scenario and what goes wrong in it, of which records survive."""
    exchange = drawn_exchange(Draw(seed, pinned=PLAIN))
    return exchange.load.scenario, exchange.faults


def run_disturbed(seed: int, probe: Probe | None = None) -> Cluster:
    """Run such a scenario with all checks."""
    return run_exchange(Draw(seed, pinned=PLAIN), Counter(), probe)
