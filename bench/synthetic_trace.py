"""Traces with known answers, of any length, made without recording anything (synthetic_channel has
the law).

    python bench/synthetic_trace.py --events 10000000 --buffer-timeout-ms 1 --out big
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.synthetic_channel import ANNOUNCE_NS, WAY_NS, ChannelLaw, SyntheticChannel
from flinknet import __version__
from flinknet.arrays import EventColumns, IntArray
from flinknet.config import NetworkConfig, Scenario, WorkloadConfig
from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.core.wire.records import OVERHEAD_BYTES
from flinknet.job.load.plan import LoadPlan, load_plan_of
from flinknet.options import effective_flink_keys
from flinknet.runtime.cluster.collected import channel_infos
from flinknet.trace import ClockInfo, ProcessInfo, RunManifest, TraceWriter
from flinknet.trace.run_directory import seal_run
from flinknet.trace.schema import ROW_DTYPE

Rows = npt.NDArray[np.void]

BLOCK_EVENTS = 1 << 16
SLICE_EVENTS, SLICE_EVENTS_PER_CHANNEL, SLICE_EVENTS_MAX = 1 << 19, 4_000, 1 << 22
"""Events of all files that are made at once: about, at least for each channel, and at most."""

THREADS_MAX = 8
"""Threads that make channels and write files at the same time; most of their work is numpy's."""

START_NS = 1_000_000_000_000
"""Instant at which a synthetic run begins, on its clock."""

FLUSH_OVERHEAD_NS = 100_000
"""Time by which the flusher's period is longer than the buffer timeout, as in Flink."""

OPENING_NS = 1_000_000
"""Time from the requests for partitions to the first records."""

EVENTS_PER_BUFFER = 5
"""Events of a buffer: sent, received, consumed; credit announced and received."""

_ABSENT = dict.fromkeys((name for name, _ in ROW_DTYPE), -1) | {
    **{"data_type": 0, "reason": 0, "payload_bytes": 0, "records": 0}
}
_DATA = {"kind": MessageKind.BUFFER_RESPONSE, "data_type": DataType.DATA_BUFFER}
_END = {"kind": MessageKind.BUFFER_RESPONSE, "data_type": DataType.END_OF_PARTITION}
_CREDIT = {"kind": MessageKind.ADD_CREDIT, "value": 1}
_NUMBERS = ("sequence_number", "payload_bytes")
_RECORDS = ("records", "first_record_ns", "last_record_ns")
_END_BYTES = 4


class _ChannelEvents:
    """The events of a channel, those of its producer and those of its consumer, with the buffers in
    the pools of partition and gate. What a slice sets off beyond its end waits for the next one."""

    def __init__(self, law: ChannelLaw, pools: tuple[int, int]) -> None:
        self._law, self._pools, self._credit = law, pools, law.credit
        self._channel = SyntheticChannel(law)
        request = {"kind": MessageKind.PARTITION_REQUEST, "value": law.credit}
        at_ns, credit = np.array([START_NS]), {"credit_before": 0, "credit_after": law.credit}
        self._later = [
            self._rows(at_ns + WAY_NS, TracePoint.RECEIVED, **request, **credit),
            self._rows(at_ns, TracePoint.SENT, **request),
        ]

    def until(self, until_ns: int, *, is_end: bool) -> list[Rows]:
        """The events before an instant at both ends; at the end of the run all that are left."""
        buffers = self._channel.until(until_ns, is_end=is_end)
        made = [self._of_producer(buffers), self._of_consumer(buffers)]
        if is_end:
            made = [[*rows, *last] for rows, last in zip(made, self._ending(until_ns), strict=True)]
        found = []
        for place, parts in enumerate(made):
            rows = _in_order([self._later[place], *parts])
            count = len(rows) if is_end else int(np.searchsorted(rows["at_ns"], until_ns))
            self._later[place] = rows[count:]
            found.append(rows[:count])
        self._account(found[0])
        return found

    def _account(self, rows: Rows) -> None:
        """The producer's credit before and after each of its messages."""
        is_buffer = rows["kind"] == MessageKind.BUFFER_RESPONSE
        is_data = is_buffer & (rows["data_type"] == DataType.DATA_BUFFER)
        is_credit = rows["kind"] == MessageKind.ADD_CREDIT
        change = is_credit.astype(np.int64) - is_data
        after = self._credit + np.cumsum(change)
        changes = is_buffer | is_credit
        rows["credit_before"][changes] = (after - change)[changes]
        rows["credit_after"][changes] = after[changes]
        if len(after):
            self._credit = int(after[-1])

    def _of_producer(self, buffers: EventColumns) -> list[Rows]:
        """Credit first: with it comes what waited for it."""
        backlog, size = buffers["backlog_buffers"], self._pools[0]
        sent = self._rows(
            buffers["sent_ns"],
            TracePoint.SENT,
            **_columns(buffers, *_NUMBERS, *_RECORDS),
            pool_size_buffers=size,
            pool_available_buffers=np.maximum(size - 1 - backlog, 0),
            reason=buffers["reason"],
            backlog_buffers=backlog,
        )
        return [self._rows(buffers["credit_received_ns"], TracePoint.RECEIVED, **_CREDIT), sent]

    def _of_consumer(self, buffers: EventColumns) -> list[Rows]:
        received = self._rows(
            buffers["received_ns"],
            TracePoint.RECEIVED,
            **_columns(buffers, *_NUMBERS),
            records=-1,
            backlog_buffers=buffers["backlog_buffers"],
            credit_before=buffers["free_buffers"],
            credit_after=buffers["free_buffers"] - 1,
            pool_size_buffers=self._pools[1],
            pool_available_buffers=self._pools[1],
        )
        own, credit = _columns(buffers, *_NUMBERS, *_RECORDS), {"credit_before": 1}
        return [
            received,
            self._rows(buffers["consumed_ns"], TracePoint.CONSUMED, **own),
            self._rows(buffers["credit_ns"], TracePoint.SENT, **_CREDIT, **credit, credit_after=0),
        ]

    def _ending(self, end_ns: int) -> list[list[Rows]]:
        """The end of the partition goes behind the last buffer."""
        channel = self._channel
        end = {**_END, "payload_bytes": _END_BYTES, "sequence_number": channel.buffers}
        sent_ns = np.array([max(channel.sent_ns, end_ns)])
        received_ns = np.maximum(sent_ns + WAY_NS, channel.received_ns)
        consumed_ns = np.maximum(received_ns, channel.consumed_ns) + ANNOUNCE_NS
        how, seen = {"reason": FlushReason.END, "backlog_buffers": 0}, {"records": -1}
        received = self._rows(received_ns, TracePoint.RECEIVED, **end, **seen, backlog_buffers=0)
        consumed = self._rows(consumed_ns, TracePoint.CONSUMED, **end)
        return [[self._rows(sent_ns, TracePoint.SENT, **end, **how)], [received, consumed]]

    def _rows(self, at_ns: IntArray, point: TracePoint, **values: IntArray | int) -> Rows:
        rows = np.empty(len(at_ns), ROW_DTYPE)
        given = _ABSENT | {"at_ns": at_ns, "channel": self._law.channel, "point": point} | values
        for name, value in given.items():
            rows[name] = value
        return rows


def _columns(buffers: EventColumns, *names: str) -> dict[str, IntArray | int]:
    return {**_DATA, **{name: buffers[name] for name in names}}


def make_run(
    directory: Path, scenario: Scenario, *, skew: float = 0.0, events: int | None = None
) -> int:
    """Make a run directory. Returns: its number of events.

    Args:
        scenario: one pipelined exchange of records of one size at a constant rate; its duration
            counts if `events` is None.
        skew: subtask i of the consumers gets a share of each producer's records in proportion to
            (i + 1) ** -skew.
        events: approximate number, without the up to 10 events of the ends of each channel.

    Raises: ValueError for a channel that cannot keep up with its rate.
    """
    directory.mkdir(parents=True)
    load = load_plan_of(scenario)
    laws = _laws(scenario, load, skew)
    events_per_s = EVENTS_PER_BUFFER * sum(law.buffers_per_s for law in laws)
    if events is not None:
        warmup_ns, length_ns = scenario.workload.warmup_ns, round(events / events_per_s * 1e9)
        warmup_ns = min(warmup_ns, length_ns // 10)
        workload = replace(
            scenario.workload, warmup_ns=warmup_ns, duration_ns=max(length_ns - warmup_ns, 1)
        )
        scenario = replace(scenario, workload=workload)
    manifest = _manifest(scenario, load)
    end_ns = manifest.measured_to_ns
    assert end_ns is not None
    slice_events = min(max(SLICE_EVENTS, SLICE_EVENTS_PER_CHANNEL * len(laws)), SLICE_EVENTS_MAX)
    slice_ns = max(1, round(slice_events / max(events_per_s, 1e-9) * 1e9))
    channels, ends = [], []
    for law, channel in zip(laws, load.channels, strict=True):
        partition = load.sources[channel.producer].outputs[0].pool.max_buffers
        gate = load.sinks[channel.consumer].inputs[0].buffers.pool.max_buffers
        channels.append(_ChannelEvents(law, (partition, gate)))
        ends.append((channel.producer_task_manager, channel.consumer_task_manager))
    manifest.save(directory)
    with ExitStack() as stack:
        writers = [
            stack.enter_context(TraceWriter(directory / process.file, process))
            for process in manifest.processes
        ]
        pool = stack.enter_context(ThreadPoolExecutor(THREADS_MAX))
        until_ns = START_NS + OPENING_NS
        while until_ns < end_ns:
            until_ns = min(until_ns + slice_ns, end_ns)
            made = partial(_ChannelEvents.until, until_ns=until_ns, is_end=until_ns >= end_ns)
            parts: list[list[Rows]] = [[] for _ in writers]
            for pair, both in zip(ends, pool.map(made, channels), strict=True):
                for task_manager, rows in zip(pair, both, strict=True):
                    parts[task_manager].append(rows)
            list(pool.map(_write, writers, parts))
    seal_run(directory)
    return sum(writer.events for writer in writers)


def _write(writer: TraceWriter, parts: Sequence[Rows]) -> None:
    rows = _in_order(parts)
    for start in range(0, len(rows), BLOCK_EVENTS):
        writer.write_events(rows[start : start + BLOCK_EVENTS])


def _in_order(parts: Sequence[Rows]) -> Rows:
    rows = np.concatenate(parts) if parts else np.empty(0, ROW_DTYPE)
    return rows.take(np.argsort(rows["at_ns"], kind="stable"))


def _laws(scenario: Scenario, load: LoadPlan, skew: float) -> list[ChannelLaw]:
    network, workload = scenario.network, scenario.workload
    first_ns = START_NS + OPENING_NS
    period_ns = max(network.buffer_timeout_ns, 0) + FLUSH_OVERHEAD_NS
    record_gap_ns = 1e9 / workload.rate_per_s
    laws = []
    for channel in load.channels:
        own = load.tasks[channel.producer].outputs[0].channels
        weights = (np.array([load.channels[each].consumer for each in own]) + 1.0) ** -skew
        share = float((channel.consumer + 1.0) ** -skew / weights.sum())
        phase = _phase(scenario.seed, channel.producer)
        laws.append(
            ChannelLaw(
                channel=channel.index,
                seed=scenario.seed,
                first_ns=first_ns + record_gap_ns * (phase + channel.subpartition),
                gap_ns=1e9 / (workload.rate_per_s * share),
                record_bytes=workload.record_size.low_bytes + OVERHEAD_BYTES,
                segment_bytes=network.segment_size_bytes,
                timeout_ns=network.buffer_timeout_ns,
                beat_ns=first_ns + round(period_ns * _phase(~scenario.seed, channel.producer)),
                period_ns=period_ns,
                credit=network.exclusive_buffers,
            )
        )
    return laws


def _phase(seed: int, producer: int) -> float:
    """A share of a period; golden-ratio steps keep producers apart."""
    return (seed * 0.754877666 + (producer + 1) * 0.618033989) % 1.0


def _manifest(scenario: Scenario, load: LoadPlan) -> RunManifest:
    """The manifest of the run; nothing in it depends on when and where it was made."""
    assert scenario.workload.duration_ns is not None
    measured_from_ns = START_NS + OPENING_NS + scenario.workload.warmup_ns
    return RunManifest(
        scenario=scenario.to_dict(),
        flink_keys=dict(effective_flink_keys(scenario.network)),
        host={},
        versions={"flinknet": __version__},
        seed=scenario.seed,
        clock=ClockInfo(name="synthetic"),
        started_at="1970-01-01T00:00:00+00:00",
        measured_from_ns=measured_from_ns,
        measured_to_ns=measured_from_ns + scenario.workload.duration_ns,
        processes=tuple(
            ProcessInfo(f"tm-{number}", f"tm-{number}.fnt", 0)
            for number in range(load.task_managers)
        ),
        channels=tuple(channel_infos(load.tasks)),
    )


def main() -> None:
    """Make a trace."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="new directory for the trace")
    parser.add_argument("--events", type=int, required=True, help="about so many")
    parser.add_argument("--rate", type=float, default=20_000.0, help="records/s of a producer")
    parser.add_argument("--producers", type=int, default=2)
    parser.add_argument("--consumers", type=int, default=2)
    parser.add_argument("--task-managers", type=int, default=2)
    parser.add_argument("--buffer-timeout-ms", type=int, default=100)
    parser.add_argument("--skew", type=float, default=0.0, help="consumer i: (i + 1) ** -SKEW")
    given = parser.parse_args()
    if given.out.exists():
        parser.error(f"--out: {given.out} is there already; give a new directory")
    workload = WorkloadConfig(
        producers=given.producers, consumers=given.consumers, rate_per_s=given.rate, duration_ns=1
    )
    network = NetworkConfig(buffer_timeout_ns=given.buffer_timeout_ms * 1_000_000)
    scenario = Scenario(network, workload, task_managers=given.task_managers)
    print(make_run(given.out, scenario, skew=given.skew, events=given.events))


if __name__ == "__main__":
    main()
