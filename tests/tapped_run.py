"""Run directories as a tap leaves them: each message once, and no instants of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from flinknet.config import NetworkConfig
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.core.wire.records import NO_TIME, SAMPLES
from flinknet.options import effective_flink_keys
from flinknet.predict.kernel_edge import KernelEdge
from flinknet.predict.ramps import Ramps
from flinknet.predict.recorded import RecordedChannel, RecordedExchange, places_of
from flinknet.predict.what_if import channels_of, plans_of
from flinknet.simulator.cluster import TYPICAL_COSTS, Cluster
from flinknet.trace import ClockInfo, ProcessInfo, TraceWriter
from flinknet.trace.blocks import NO_TIMES
from flinknet.trace.blocks import Rows as TimesOfRows
from flinknet.trace.schema import ROW_DTYPE, TIMES_DTYPE
from tests.recorded_run import RECORD_BYTES, START_NS, channel_info, manifest_of, rows_of
from tests.simulation import Row, Rows

CHANNELS = 2
EPOCH_NS = -1_000_000_000_000_000
"""Instant of the trace at which the wall clock was 0."""

_FROM_CONSUMERS = (MessageKind.PARTITION_REQUEST, MessageKind.ADD_CREDIT)


def save_tapped(
    directory: Path,
    events: list[tuple[int, ...]],
    *,
    to_ns: int,
    keys: Mapping[str, str],
    channels: int = CHANNELS,
    times: TimesOfRows = NO_TIMES,
) -> Path:
    """A run directory of a tap with these rows, measured from START_NS on. Its wall clock is
    EPOCH_NS behind.
    """
    directory.mkdir()
    process = ProcessInfo("tap", "tap-0001.fnt", 1)
    with TraceWriter(directory / process.file, process) as writer:
        for _ in writer.events_in_steps(rows_of(events), times):
            pass
    manifest_of(
        (process,),
        map(channel_info, range(channels)),
        START_NS,
        to_ns,
        flink_keys=dict(keys),
        clock=ClockInfo(epoch_ns=EPOCH_NS),
        started_at="2024-01-01T00:00:00+00:00",
        origin="tap",
    ).save(directory)
    return directory


def exchange_of(
    arrivals_ns: Sequence[np.ndarray],
    network: NetworkConfig,
    *,
    duration_ns: int,
    consume_ns_per_record: float = 100.0,
) -> RecordedExchange:
    """One producer, and for each channel the instants of its records, counted from START_NS."""
    return RecordedExchange(
        producers=1,
        consumers=len(arrivals_ns),
        channels=tuple(
            RecordedChannel(index, 0, index, 0, Ramps.of(START_NS + each), RECORD_BYTES)
            for index, each in enumerate(arrivals_ns)
        ),
        network=network,
        is_max_rate=False,
        measured_from_ns=START_NS,
        measured_to_ns=START_NS + duration_ns,
        seed=7,
        costs=replace(
            TYPICAL_COSTS, consume_ns_per_record=(consume_ns_per_record,) * len(arrivals_ns)
        ),
        flush_overhead_ns=100_000,
    )


def write_tapped_exchange(
    directory: Path, exchange: RecordedExchange, *, has_timestamps: bool = False
) -> Path:
    """What a tap at the producer records of a simulated exchange.

    Args:
        has_timestamps: records carry the instants at which they came.
    """
    rows = Rows()
    edge = KernelEdge.of(exchange, exchange.network)
    exchange = edge.exchange
    cluster = Cluster.of_exchange(
        edge.scenario,
        places_of(exchange),
        channels_of(exchange),
        plans_of(exchange, exchange.network),
        exchange.costs,
        start_ns=START_NS,
        probes=(rows,) * len(edge.buffers),
        flush_overhead_ns=exchange.flush_overhead_ns,
    )
    cluster.run_until_idle()
    assert cluster.error is None
    keys = effective_flink_keys(exchange.network)
    passed = [each for row in rows.rows for each in in_passing(row)]
    return save_tapped(
        directory,
        passed,
        to_ns=exchange.measured_to_ns,
        keys=keys,
        channels=len(exchange.channels),
        times=_times_of(passed, exchange) if has_timestamps else NO_TIMES,
    )


def _times_of(events: list[tuple[int, ...]], exchange: RecordedExchange) -> TimesOfRows:
    """The timestamps of the records of each buffer, in ms; the first ones if there are many."""
    came_ns = {each.channel: each.arrivals_ns.tolist() for each in exchange.channels}
    place = {name: number for number, (name, _) in enumerate(ROW_DTYPE)}
    rows = []
    for number, event in enumerate(events):
        if (count := event[place["records"]]) > 0:
            own = came_ns[event[place["channel"]]]
            stamps = [(each - EPOCH_NS) // 1_000_000 for each in own[:count]][:SAMPLES]
            del own[:count]
            absent = [NO_TIME] * (SAMPLES - len(stamps))
            rows.append((number, NO_TIME, NO_TIME, *stamps, *absent))
    return np.array(rows, TIMES_DTYPE)


def in_passing(row: Row) -> list[tuple[int, ...]]:
    if row.kind == MessageKind.BUFFER_RESPONSE and row.point == TracePoint.SENT:
        return [tuple(row._replace(first_record_ns=-1, last_record_ns=-1))]
    if row.kind in _FROM_CONSUMERS and row.point == TracePoint.RECEIVED:
        return [tuple(row)]
    return []
