"""A run while it goes on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChannelProgress:
    """One channel while a run goes on; None where the running side does not know."""

    channel: int
    producer: int
    consumer: int
    throughput_records_per_s: float
    backlog_buffers: int | None
    credits_available: int | None
    edge: int = 0
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """One task while a run goes on: what share of its time it was busy, idle and back-pressured,
    and how much of its pools is in use (None for an end that it does not have).
    """

    name: str
    busy: float
    idle: float
    back_pressured: float
    in_pool_usage: float | None
    out_pool_usage: float | None


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands; latencies are of all records measured so far."""

    phase: str  # "starting", "warming up", "measuring", "draining" ("reading"), "finished"
    elapsed_ns: int
    fraction: float | None
    records: int
    throughput_records_per_s: float
    throughput_bytes_per_s: float
    latency_ns_p50: float | None
    latency_ns_p99: float | None
    channels: tuple[ChannelProgress, ...]
    tasks: tuple[TaskProgress, ...] = ()
