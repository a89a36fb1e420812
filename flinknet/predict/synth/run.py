"""A synthetic run on disk: its events slice by slice, each file as its process would have recorded
it, and the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flinknet import __version__
from flinknet.arrays import EventColumns, IntArray
from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.options import effective_flink_keys
from flinknet.runtime.cluster.collected import channel_infos
from flinknet.runtime.signals import interrupts_noted
from flinknet.trace import ClockInfo, ProcessInfo, RunManifest, TraceWriter
from flinknet.trace.manifest import SYNTHETIC
from flinknet.trace.run_directory import RunDirectory, seal_run
from flinknet.trace.schema import ROW_DTYPE

from .plan import ANNOUNCE_NS, START_NS, WAY_NS, ChannelLaw, SyntheticChannel, SynthPlan

Rows = npt.NDArray[np.void]

BLOCK_EVENTS = 1 << 16

THREADS_MAX = 8
"""Threads that make channels and write files at the same time; most of their work is numpy's."""

SLICE_EVENTS, SLICE_EVENTS_MAX = 1 << 19, 1 << 22
"""Events of all files that are made at once, about, and at most where there are many channels."""

_SLICE_EVENTS_PER_CHANNEL = 4_000
_MADE_AT = "1970-01-01T00:00:00+00:00"
_ABSENT = dict.fromkeys((name for name, _ in ROW_DTYPE), -1) | {
    **{"data_type": 0, "reason": 0, "payload_bytes": 0, "records": 0}
}
_DATA = {"kind": MessageKind.BUFFER_RESPONSE, "data_type": DataType.DATA_BUFFER}
_END = {"kind": MessageKind.BUFFER_RESPONSE, "data_type": DataType.END_OF_PARTITION}
_CREDIT = {"kind": MessageKind.ADD_CREDIT, "value": 1}
_NUMBERS = ("sequence_number", "payload_bytes")
_RECORDS = ("records", "first_record_ns", "last_record_ns")
_END_BYTES = 4


@dataclass(frozen=True, slots=True)
class Synthesis:
    """A synthetic run that was written, and the signal that ended it early."""

    path: Path
    events: int
    size_bytes: int
    interrupted_by: int | None


def synthesize(
    found: SynthPlan, directory: Path, on_progress: Callable[[int], None] = lambda _: None
) -> Synthesis:
    """Make a run directory; report the number of events written so far after each slice. Ctrl-C,
    SIGTERM and SIGHUP leave whole blocks; the measured part then ends with the last slice.

    Raises: ConfigError for a directory that holds something or that another run writes to,
        TraceError for one that cannot be written to.
    """
    with RunDirectory(directory, must_be_empty=True), interrupts_noted() as interrupts:
        events = 0
        for events, reached_ns in write_slices(found, directory):
            on_progress(events)
            if interrupts and reached_ns < found.end_ns:
                to_ns = max(reached_ns, found.measured_from_ns + 1)
                manifest_of(found, to_ns).save(directory)
                break
        seal_run(directory)
    size_bytes = sum(path.stat().st_size for path in directory.glob("*.fnt"))
    return Synthesis(directory, events, size_bytes, interrupts[0] if interrupts else None)


def write_slices(found: SynthPlan, directory: Path) -> Iterable[tuple[int, int]]:
    """Write the manifest, then all files slice by slice. Yields, after each slice, the
    number of events so far and the instant reached; a caller may stop there with whole files."""
    manifest = manifest_of(found, found.end_ns)
    manifest.save(directory)
    sources, sinks = found.load.sources, found.load.sinks
    channels, ends = [], []
    for law, channel in zip(found.laws, found.load.channels, strict=True):
        partition = sources[channel.producer].outputs[0].pool.max_buffers
        gate = sinks[channel.consumer].inputs[0].buffers.pool.max_buffers
        channels.append(_ChannelEvents(law, (partition, gate)))
        ends.append((channel.producer_task_manager, channel.consumer_task_manager))
    with ExitStack() as stack:
        writers = []
        for process in manifest.processes:
            writer = stack.enter_context(TraceWriter(directory / process.file, process))
            writer.write_meta({"synthetic": True, "seed": found.scenario.seed})
            writers.append(writer)
        pool = stack.enter_context(ThreadPoolExecutor(THREADS_MAX))
        until_ns, slice_ns = found.first_record_ns, _slice_ns(found)
        while until_ns < found.end_ns:
            until_ns = min(until_ns + slice_ns, found.end_ns)
            made = partial(_ChannelEvents.until, until_ns=until_ns, is_end=until_ns >= found.end_ns)
            parts: list[list[Rows]] = [[] for _ in writers]
            for pair, both in zip(ends, pool.map(made, channels), strict=True):
                for task_manager, rows in zip(pair, both, strict=True):
                    parts[task_manager].append(rows)
            list(pool.map(_write, writers, parts))
            yield sum(writer.events for writer in writers), until_ns


def _write(writer: TraceWriter, parts: Sequence[Rows]) -> None:
    rows = _in_order(parts)
    for start in range(0, len(rows), BLOCK_EVENTS):
        writer.write_events(rows[start : start + BLOCK_EVENTS])


def _in_order(parts: Sequence[Rows]) -> Rows:
    rows = np.concatenate(parts) if parts else np.empty(0, ROW_DTYPE)
    return rows.take(np.argsort(rows["at_ns"], kind="stable"))


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


def _slice_ns(found: SynthPlan) -> int:
    wanted = max(SLICE_EVENTS, _SLICE_EVENTS_PER_CHANNEL * len(found.laws))
    return max(1, round(min(wanted, SLICE_EVENTS_MAX) / max(found.events_per_s, 1e-9) * 1e9))


def manifest_of(found: SynthPlan, end_ns: int) -> RunManifest:
    """The manifest of the run; nothing in it depends on when and where it was made."""
    scenario = found.scenario
    return RunManifest(
        scenario=scenario.to_dict(),
        flink_keys=dict(effective_flink_keys(scenario.network)),
        host={SYNTHETIC: True, "skew": found.skew},
        versions={"flinknet": __version__},
        seed=scenario.seed,
        clock=ClockInfo(name="synthetic"),
        started_at=_MADE_AT,
        measured_from_ns=found.measured_from_ns,
        measured_to_ns=end_ns,
        processes=tuple(
            ProcessInfo(f"tm-{number}", f"tm-{number}.fnt", 0)
            for number in range(found.load.task_managers)
        ),
        channels=tuple(channel_infos(found.load.tasks)),
    )
