"""A small run on disk whose answers are computed by hand: a buffer of ten records at each beat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flinknet.config import NetworkConfig, Scenario, WorkloadConfig
from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.options import effective_flink_keys
from flinknet.trace import ChannelInfo, ClockInfo, ProcessInfo, RunManifest, TraceWriter
from flinknet.trace.schema import COLUMN_NAMES, ROW_DTYPE

MS = 1_000_000
START_NS = 1_000_000 * MS
RECORDS_PER_BUFFER = 10
RECORD_BYTES = 105
TRANSIT_NS = 20_000
CONSUME_NS = 50_000


def event(**values: int) -> tuple[int, ...]:
    """A row of a trace; what is not named does not apply."""
    row = dict.fromkeys(COLUMN_NAMES, -1) | {"data_type": 0, "reason": 0, "payload_bytes": 0}
    return tuple((row | values)[name] for name in COLUMN_NAMES)


def rows_of(events: list[tuple[int, ...]]) -> np.ndarray:
    """Rows in the order of their instants."""
    return np.array(sorted(events, key=lambda each: each[0]), dtype=ROW_DTYPE)


def channel_info(
    index: int,
    producer: int = 0,
    consumer: int | None = None,
    process: str = "b",
    *,
    upstream: str = "a",
    partition: str = "",
    receiver: int | None = None,
    edge: int = 0,
) -> ChannelInfo:
    """A channel from a process to another; without a consumer, to the one of its own number."""
    consumer = index if consumer is None else consumer
    receiver = index if receiver is None else receiver
    ends = producer, consumer, upstream, process, f"{upstream}->{process}"
    return ChannelInfo(index, f"{receiver:032x}", *ends, consumer, partition, False, edge)


def manifest_of(
    processes: Sequence[ProcessInfo],
    channels: Iterable[ChannelInfo],
    from_ns: int,
    to_ns: int,
    **more: Any,
) -> RunManifest:
    """The manifest of a run with a measured part from one instant to another."""
    known = {
        **{"scenario": {}, "flink_keys": {}, "host": {}, "versions": {}, "seed": 0},
        **{"clock": ClockInfo(), "started_at": "2030-01-01T00:00:00+00:00"},
    }
    return RunManifest(
        **known | more,
        measured_from_ns=from_ns,
        measured_to_ns=to_ns,
        processes=tuple(processes),
        channels=tuple(channels),
    )


def sawtooth_events(
    channel: int, buffers: int, period_ns: int, idle: range = range(0)
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Producer and consumer rows of a channel that sends a buffer of ten records at each beat.

    Records of beat k come evenly from k periods on; the last one comes one step before the beat.
    Every fourth buffer leaves with the last credit and a backlog of 3; the next credit comes half a
    period later. Nothing comes in the idle beats.
    """
    sent, received = [], []
    beats = [beat for beat in range(buffers) if beat not in idle]
    for number, beat in enumerate(beats):
        first_ns = START_NS + beat * period_ns
        last_ns = first_ns + period_ns * (RECORDS_PER_BUFFER - 1) // RECORDS_PER_BUFFER
        sent_ns = first_ns + period_ns
        is_last_credit = number % 4 == 3
        common = {
            "channel": channel,
            "kind": MessageKind.BUFFER_RESPONSE,
            "data_type": DataType.DATA_BUFFER,
            "sequence_number": number,
            "payload_bytes": RECORDS_PER_BUFFER * RECORD_BYTES,
        }
        records = {
            "records": RECORDS_PER_BUFFER,
            "first_record_ns": first_ns,
            "last_record_ns": last_ns,
        }
        sent.append(
            event(
                **common,
                **records,
                at_ns=sent_ns,
                point=TracePoint.SENT,
                reason=FlushReason.FLUSH if number % 2 else FlushReason.FULL,
                backlog_buffers=3 if is_last_credit else 0,
                credit_before=1 if is_last_credit else 2,
                credit_after=0 if is_last_credit else 1,
            )
        )
        received_ns = sent_ns + TRANSIT_NS
        received.append(event(**common, at_ns=received_ns, point=TracePoint.RECEIVED))
        consumed = {"at_ns": received_ns + CONSUME_NS, "point": TracePoint.CONSUMED}
        received.append(event(**common, **records, **consumed))
        credit = {"channel": channel, "kind": MessageKind.ADD_CREDIT, "value": 2}
        credit_ns = sent_ns + period_ns // 2
        received.append(event(**credit, at_ns=credit_ns, point=TracePoint.SENT))
        arrives = {"point": TracePoint.RECEIVED, "credit_before": 0, "credit_after": 2}
        sent.append(event(**credit, **arrives, at_ns=credit_ns + TRANSIT_NS))
    end = {
        "channel": channel,
        "kind": MessageKind.BUFFER_RESPONSE,
        "data_type": DataType.END_OF_PARTITION,
        "reason": FlushReason.END,
        "sequence_number": len(beats),
        "payload_bytes": 4,
        "point": TracePoint.SENT,
        "backlog_buffers": 0,
    }
    sent.append(event(**end, at_ns=START_NS + (buffers + 1) * period_ns))
    return sent, received


def write_run(
    directory: Path,
    *,
    period_ns: int = 10 * MS,
    buffers: int = 100,
    channels: int = 2,
    block_events: int = 64,
    window_ns: tuple[int, int] | None = None,
    rate_per_s: float | None = None,
    waits_ns: Sequence[tuple[int, int]] = (),
    host: Mapping[str, Any] | None = None,
    idle: range = range(0),
) -> Path:
    """A run directory with two TaskManagers; all channels go from the first to the second.

    Args:
        window_ns: measured part; all beats for None.
        rate_per_s: that the manifest states; the true one for None, 0 for the highest.
        waits_ns: when the producer waited for buffers, from and to.
        host: facts about it.
        idle: beats without a buffer on the last channel.
    """
    directory.mkdir(parents=True)
    files: dict[str, list[tuple[int, ...]]] = {"tm-0": [], "tm-1": []}
    for channel in range(channels):
        own_idle = idle if channel == channels - 1 else range(0)
        sent, received = sawtooth_events(channel, buffers, period_ns, own_idle)
        files["tm-0"] += sent
        files["tm-1"] += received
    for from_ns, to_ns in waits_ns:
        files["tm-0"].append(event(at_ns=from_ns, channel=0, point=TracePoint.WRITER_WAITS, kind=0))
        files["tm-0"].append(event(at_ns=to_ns, channel=0, point=TracePoint.WRITER_RESUMES, kind=0))
    processes = tuple(ProcessInfo(name, f"{name}.fnt", 1 + int(name[-1])) for name in files)
    for process in processes:
        rows = rows_of(files[process.name])
        with TraceWriter(directory / process.file, process) as writer:
            for start in range(0, len(rows), block_events):
                writer.write_events(rows[start : start + block_events])
    network = NetworkConfig(buffer_timeout_ns=period_ns)
    if rate_per_s is None:
        rate_per_s = channels * RECORDS_PER_BUFFER / period_ns * 1e9
    workload = WorkloadConfig(producers=1, consumers=channels, rate_per_s=rate_per_s)
    from_ns, to_ns = window_ns or (START_NS, START_NS + buffers * period_ns)
    manifest_of(
        processes,
        (
            channel_info(each, process="tm-1", upstream="tm-0", partition="00")
            for each in range(channels)
        ),
        from_ns,
        to_ns,
        scenario=Scenario(network=network, workload=workload, seed=7).to_dict(),
        flink_keys=dict(effective_flink_keys(network)),
        host=dict(host or {}),
        seed=7,
        started_at="2024-01-01T00:00:00+00:00",
    ).save(directory)
    return directory
