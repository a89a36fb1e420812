"""A trace for Perfetto (ui.perfetto.dev) in Chrome's JSON trace format.

Each channel is a process. Its tracks have a slice for each buffer, from its first record until it
was consumed, divided into the times before it was sent, on the way, and in the receiver's queue;
buffers that overlap use several tracks. Further tracks have the counters `credit` and `backlog` at
the producer, and the times at which the record writer waited for a buffer.

A run recorded between the processes (by a tap or a capture) has an instant for each buffer instead,
at which it passed; its waiting times are unknown.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from flinknet.arrays import EventColumns, IntArray
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.storage import AnyPath
from flinknet.trace import ChannelInfo
from flinknet.trace.buffers import ChannelBuffers
from flinknet.trace.event_block import is_data

from .selection import Selection, begun_ns, channel_titles, channels_read, whole_text_file
from .tables import OnRows

PHASES = ("waiting to leave", "in the socket", "in the receiver's queue")

FLUSH_REASONS = {
    FlushReason.FULL: "full",
    FlushReason.FLUSH: "buffer timeout",
    FlushReason.EVENT: "event",
    FlushReason.END: "end of data",
}

_GAP_NS = 2
"""Time by which slices are cut short, and after which a track is free again, in ns: importers use
floating-point microseconds, and drop slices that overlap by a nanosecond."""

_TRACKS_PER_CHANNEL = 10_000
_RUN_PROCESS = 1
_FIRST_CHANNEL_PROCESS = 2


def write_perfetto(selection: Selection, path: AnyPath, on_rows: OnRows = lambda _: None) -> int:
    """Write the trace. Returns: the number of buffers in it.

    Instants count from the start of the selection. The memory needed grows with the events of the
    busiest channel.
    """
    zero_ns = selection.first_ns if selection.from_ns is None else selection.from_ns
    buffers, titles = 0, channel_titles(selection)
    channels = channels_read(selection, ("backlog_buffers", "credit_after"))
    manifest = selection.run.manifest
    is_from_between = manifest is not None and manifest.is_from_between
    encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
    with whole_text_file(path) as file:
        head, *events_of_run = _run_events(selection, zero_ns)
        file.write(f'{{"displayTimeUnit":"ns","traceEvents":[\n{encode(head)}')
        file.writelines(f",\n{encode(each)}" for each in events_of_run)
        for info, events, paired in channels:
            process = _process(info)
            parts = [
                [_metadata(process, "process_name", name=titles[info.index])],
                [_metadata(process, "process_sort_index", sort_index=process)],
                _slices(info, paired, zero_ns),
                _writer_waits(info, events, zero_ns),
                _counters(info, events, zero_ns),
            ]
            buffers += len(paired.sequence_number)
            if is_from_between:
                parts.append(_instants(info, events, zero_ns))
                buffers += int(np.count_nonzero(is_data(events, TracePoint.SENT)))
            file.writelines(f",\n{encode(each)}" for part in parts for each in part)
            on_rows(buffers)
        file.write("\n]}\n")
    return buffers


def _run_events(selection: Selection, zero_ns: int) -> Iterator[dict[str, Any]]:
    """The parts of the run, as slices of a separate process."""
    manifest = selection.run.manifest
    yield _metadata(_RUN_PROCESS, "process_name", name="run")
    yield _metadata(_RUN_PROCESS, "process_sort_index", sort_index=0)
    if manifest is None or manifest.measured_from_ns is None or manifest.measured_to_ns is None:
        return
    yield _metadata(_RUN_PROCESS, "thread_name", tid=_RUN_PROCESS, name="part")
    measured = manifest.measured_from_ns, manifest.measured_to_ns
    edges = selection.first_ns, *measured, selection.last_ns
    end_ns = selection.last_ns if selection.to_ns is None else selection.to_ns
    for name, low_ns, high_ns in zip(
        ("warm-up", "measured", "drain"), edges, edges[1:], strict=False
    ):
        low_ns, high_ns = max(low_ns, zero_ns), min(high_ns, end_ns)
        if low_ns < high_ns:
            yield _slice(_RUN_PROCESS, _RUN_PROCESS, name, low_ns - zero_ns, high_ns - low_ns)


def _slices(info: ChannelInfo, buffers: ChannelBuffers, zero_ns: int) -> Iterator[dict[str, Any]]:
    """A slice for each buffer, with a slice within it for each phase that took time."""
    process = _process(info)
    edges = np.maximum.accumulate(
        [begun_ns(buffers), buffers.sent_ns, buffers.received_ns, buffers.consumed_ns]
    )
    edges = np.maximum(edges - zero_ns, 0)
    tracks = tracks_of(edges[0], edges[-1])
    in_order = np.argsort(edges[0], kind="stable").tolist()
    for track in range(max(tracks, default=-1) + 1):
        name = f"buffers, {track + 1}" if track else "buffers"
        yield _metadata(process, "thread_name", tid=_thread(process, track + 1), name=name)
    names = "sequence_number", "payload_bytes", "records", "reason"
    columns = [getattr(buffers, name).tolist() for name in names]
    spans = edges.T.tolist()
    for index in in_order:
        number, size, records, reason = (values[index] for values in columns)
        begun, sent, received, consumed = spans[index]
        thread = _thread(process, tracks[index] + 1)
        yield _slice(process, thread, f"buffer {number}", begun, consumed - begun) | {
            "args": {"bytes": size, "records": records, "left": FLUSH_REASONS.get(reason, "?")}
        }
        for name, low, high in zip(
            PHASES, (begun, sent, received), (sent, received, consumed), strict=True
        ):
            if high - low > _GAP_NS:
                yield _slice(process, thread, name, low, high - low - _GAP_NS)


def _instants(info: ChannelInfo, events: EventColumns, zero_ns: int) -> Iterator[dict[str, Any]]:
    process = _process(info)
    thread = _thread(process, 1)
    yield _metadata(process, "thread_name", tid=thread, name="buffers that passed")
    keep = is_data(events, TracePoint.SENT)
    names = ("at_ns", "sequence_number", "payload_bytes", "records")
    columns = (events[name][keep].tolist() for name in names)
    for at_ns, number, size, records in zip(*columns, strict=True):
        yield {
            "ph": "i",
            "s": "t",
            "pid": process,
            "tid": thread,
            "name": f"buffer {number}",
            "ts": _microseconds(max(at_ns - zero_ns, 0)),
            "args": {"bytes": size, "records": records if records >= 0 else None},
        }


def tracks_of(starts_ns: IntArray, ends_ns: IntArray) -> list[int]:
    """The track of each slice: the lowest free one, so that slices of a track do not overlap."""
    tracks = [0] * len(starts_ns)
    free: list[int] = []
    taken: list[tuple[int, int]] = []  # end of the slice, track
    starts, ends = starts_ns.tolist(), ends_ns.tolist()
    for index in np.argsort(starts_ns, kind="stable").tolist():
        while taken and taken[0][0] <= starts[index]:
            heapq.heappush(free, heapq.heappop(taken)[1])
        track = heapq.heappop(free) if free else len(taken)
        tracks[index] = track
        heapq.heappush(taken, (max(ends[index], starts[index]) + _GAP_NS, track))
    return tracks


def _writer_waits(
    info: ChannelInfo, events: EventColumns, zero_ns: int
) -> Iterator[dict[str, Any]]:
    """Slices for the times at which the writer waited for a buffer, on one of its channels."""
    is_switch = np.isin(events["point"], (TracePoint.WRITER_WAITS, TracePoint.WRITER_RESUMES))
    if not is_switch.any():
        return
    process = _process(info)
    thread = _thread(process, 0)
    yield _metadata(process, "thread_name", tid=thread, name="record writer")
    waits_ns = None
    for at_ns, point in zip(
        events["at_ns"][is_switch].tolist(), events["point"][is_switch].tolist(), strict=True
    ):
        if point == TracePoint.WRITER_WAITS:
            waits_ns = at_ns if waits_ns is None else waits_ns
        elif waits_ns is not None:
            name, length_ns = "waits for a buffer", at_ns - waits_ns - _GAP_NS
            yield _slice(process, thread, name, waits_ns - zero_ns, length_ns)
            waits_ns = None


def _counters(info: ChannelInfo, events: EventColumns, zero_ns: int) -> Iterator[dict[str, Any]]:
    kind, point = events["kind"], events["point"]
    is_sent = (kind == MessageKind.BUFFER_RESPONSE) & (point == TracePoint.SENT)
    is_credit = (kind == MessageKind.ADD_CREDIT) & (point == TracePoint.RECEIVED)
    for name, column, keep in (
        ("credit", "credit_after", is_sent | is_credit),
        ("backlog", "backlog_buffers", is_sent),
    ):
        keep = keep & (events[column] >= 0)
        at_ns, values = events["at_ns"][keep], events[column][keep]
        changed = np.r_[True, values[1:] != values[:-1]] if len(values) else keep[:0]
        for instant, value in zip(at_ns[changed].tolist(), values[changed].tolist(), strict=True):
            yield {
                "ph": "C",
                "pid": _process(info),
                "name": name,
                "ts": _microseconds(instant - zero_ns),
                "args": {"buffers": value},
            }


def _process(info: ChannelInfo) -> int:
    return _FIRST_CHANNEL_PROCESS + info.index


def _thread(process: int, track: int) -> int:
    return process * _TRACKS_PER_CHANNEL + track


def _slice(process: int, thread: int, name: str, from_ns: int, length_ns: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "pid": process,
        "tid": thread,
        "name": name,
        "ts": _microseconds(max(from_ns, 0)),
        "dur": _microseconds(max(length_ns, 0)),
    }


def _metadata(process: int, what: str, tid: int | None = None, **args: Any) -> dict[str, Any]:
    event = {"ph": "M", "pid": process, "name": what, "args": args}
    return event if tid is None else event | {"tid": tid}


def _microseconds(ns: int) -> float:
    return ns / 1000
