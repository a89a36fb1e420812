"""A small run that keeps every rule, made without sockets, for tests to look into and to break."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.trace import ClockInfo, ProcessInfo, RunManifest, TraceWriter
from flinknet.trace.schema import COLUMN_NAMES, ROW_DTYPE
from tests import recorded_run

START_NS = 1_000_000_000_000
STEP_NS = 10_000
TRANSIT_NS = 3_000
INITIAL_CREDIT = 2
GRANT = 2
"""Credit of every AddCredit; one follows every second data buffer."""

Rows = np.ndarray


def event(**values: int) -> tuple[int, ...]:
    """An event; what is not named does not apply."""
    return recorded_run.event(**{"records": 0} | values)


def rows(events: list[tuple[int, ...]]) -> Rows:
    """Events as the rows of a block, in their order."""
    return np.array(events, dtype=ROW_DTYPE)


def exchange(channel: int, data_buffers: int) -> tuple[list[tuple[int, ...]], ...]:
    """Events of one channel at its producer and at its consumer.

    Each step sends one buffer; after every second one the consumer gives two credits back; the end
    is an EndOfPartition. Every fifth buffer leaves by the beat and is half full.
    """
    producer: list[tuple[int, ...]] = []
    consumer: list[tuple[int, ...]] = []

    def both(at_ns: int, sent_by: list[tuple[int, ...]], **values: int) -> None:
        received_by = consumer if sent_by is producer else producer
        sent_by.append(event(at_ns=at_ns, channel=channel, point=TracePoint.SENT, **values))
        received_by.append(
            event(
                at_ns=at_ns + TRANSIT_NS,
                channel=channel,
                point=TracePoint.RECEIVED,
                **values,
            )
        )

    def with_credit(side: list[tuple[int, ...]], before: int, after: int) -> None:
        side[-1] = _with(side[-1], credit_before=before, credit_after=after)

    credit, free = INITIAL_CREDIT, INITIAL_CREDIT
    at_ns = START_NS + channel * 100
    both(at_ns, consumer, kind=MessageKind.PARTITION_REQUEST, value=INITIAL_CREDIT)
    with_credit(producer, 0, INITIAL_CREDIT)
    for number in range(data_buffers):
        at_ns += STEP_NS
        is_full = number % 5 != 4
        both(
            at_ns,
            producer,
            kind=MessageKind.BUFFER_RESPONSE,
            data_type=DataType.DATA_BUFFER,
            sequence_number=number,
            payload_bytes=1_000 if is_full else 500,
            backlog_buffers=number % 3,
        )
        producer[-1] = _with(
            producer[-1],
            reason=FlushReason.FULL if is_full else FlushReason.FLUSH,
            records=10 if is_full else 5,
            first_record_ns=at_ns - STEP_NS,
            last_record_ns=at_ns - STEP_NS // 10,
        )
        with_credit(producer, credit, credit - 1)
        with_credit(consumer, free, free - 1)
        consumer.append(
            event(
                at_ns=at_ns + 2 * TRANSIT_NS,
                channel=channel,
                point=TracePoint.CONSUMED,
                kind=MessageKind.BUFFER_RESPONSE,
                data_type=DataType.DATA_BUFFER,
                sequence_number=number,
                payload_bytes=1_000 if is_full else 500,
            )
        )
        credit, free = credit - 1, free - 1
        if number % 2:
            both(at_ns + STEP_NS // 2, consumer, kind=MessageKind.ADD_CREDIT, value=GRANT)
            with_credit(consumer, GRANT, 0)
            with_credit(producer, credit, credit + GRANT)
            credit, free = credit + GRANT, free + GRANT
    both(
        at_ns + STEP_NS,
        producer,
        kind=MessageKind.BUFFER_RESPONSE,
        data_type=DataType.END_OF_PARTITION,
        sequence_number=data_buffers,
        payload_bytes=4,
        backlog_buffers=0,
    )
    with_credit(producer, credit, credit)
    with_credit(consumer, free, free)
    return producer, consumer


def interleaved(channels: int, data_buffers: int) -> tuple[Rows, Rows]:
    """Rows of all channels at the producers' process and at the consumers', by instant."""
    sides = [exchange(channel, data_buffers) for channel in range(channels)]
    producer, consumer = (
        sorted((each for side in sides for each in side[end]), key=lambda each: each[0])
        for end in (0, 1)
    )
    return rows(producer), rows(consumer)


def manifest(channels: int = 2) -> RunManifest:
    """The manifest of such a run."""
    return recorded_run.manifest_of(
        (ProcessInfo("tm-0", "tm-0.fnt", 100), ProcessInfo("tm-1", "tm-1.fnt", 101)),
        (
            replace(
                recorded_run.channel_info(
                    each, each, process="tm-1", upstream="tm-0", partition=f"{each:040x}"
                ),
                subpartition=0,
            )
            for each in range(channels)
        ),
        START_NS,
        START_NS + 1_000_000_000,
        scenario={"workload": {"producers": channels, "consumers": channels}},
        flink_keys={"execution.buffer-timeout.interval": "100 ms"},
        host={"cores": 2},
        versions={"flinknet": "0.1.0"},
        seed=7,
        clock=ClockInfo(host_id="test"),
    )


def write_trace(path: Path, process: ProcessInfo, events: Rows, block_events: int = 40) -> Path:
    """Write rows as a trace file of small blocks, with one description."""
    with TraceWriter(path, process) as writer:
        writer.write_meta({"about": process.name})
        for start in range(0, len(events), block_events):
            writer.write_events(events[start : start + block_events])
    return path


def write_run(
    directory: Path,
    channels: int = 2,
    data_buffers: int = 50,
    producer_rows: Rows | None = None,
    consumer_rows: Rows | None = None,
) -> Path:
    """Write a run directory; rows given replace those of that side."""
    directory.mkdir(parents=True, exist_ok=True)
    producer, consumer = interleaved(channels, data_buffers)
    sides = (
        producer if producer_rows is None else producer_rows,
        consumer if consumer_rows is None else consumer_rows,
    )
    about = manifest(channels)
    for process, side in zip(about.processes, sides, strict=True):
        write_trace(directory / process.file, process, side)
    about.save(directory)
    return directory


def _with(row: tuple[int, ...], **values: int) -> tuple[int, ...]:
    changed = list(row)
    for name, value in values.items():
        changed[COLUMN_NAMES.index(name)] = value
    return tuple(changed)
