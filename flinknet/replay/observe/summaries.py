"""Observations of a run as the parts of its answer: messages by kind, channels, windows of time,
shares of regimes, the distribution of the latency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from itertools import pairwise
from typing import TypeVar

import numpy as np

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.histogram import LogLinearHistogram, bucket_bounds_ns
from flinknet.results import (
    ChannelMeasured,
    LatencyDistribution,
    MessageCount,
    ReplayedChannel,
    WindowMeasured,
)
from flinknet.trace.job_names import channel_names

from .measured import backlog_summary, channels_of
from .observed_run import ObservedRows, ObservedRun
from .question import sum_by_group
from .regimes import REGIMES
from .traffic import WINDOWS_MAX, BacklogWindow, MessagesRow, ThroughputWindow, window_width_ns

_BETWEEN = frozenset({TracePoint.SENT, TracePoint.RECEIVED})
"""Points of messages recorded between processes: those that leave producers and those that reach
them."""

RANGES_PER_OCTAVE = 8
"""Ranges of the latency distribution in each power of two, equally wide on a logarithmic axis."""

PERCENTILES = (
    *(0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95),
    *(0.975, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999, 0.99995, 0.99999),
)

_Window = TypeVar("_Window", BacklogWindow, ThroughputWindow)


def message_counts(observed: ObservedRun) -> tuple[MessageCount, ...]:
    """Messages by kind, buffers and events by data type, counted where they were sent or, between
    processes, recorded."""
    messages: Counter[str] = Counter()
    payload_bytes: Counter[str] = Counter()
    for row in _counted(observed, observed.rows.messages):
        kind = kind_name(row.kind, row.data_type)
        messages[kind] += row.messages
        payload_bytes[kind] += row.payload_bytes
    return tuple(
        MessageCount(kind, count, payload_bytes[kind]) for kind, count in messages.most_common()
    )


def replayed_channels(observed: ObservedRun) -> tuple[ReplayedChannel, ...]:
    """The shown channels that carried something."""
    rows, duration_ns = observed.rows, observed.measured.duration_ns
    channels, manifest = channels_of(observed), observed.run.manifest
    shown = np.array([each.channel for each in channels], np.int64)
    known = {each.channel for each in channels}
    own = tuple(info for info in manifest.channels if info.index in known)
    names = channel_names(replace(manifest, channels=own))
    starved = {}
    if observed.run.is_credit_known:
        starved = {row.channel: row.ns for row in rows.credit_starved.among(shown)}
    messages: dict[int, Counter[str]] = {}
    for row in _counted(observed, rows.messages_by_channel):
        kind = kind_name(row.kind, row.data_type)
        messages.setdefault(row.channel, Counter())[kind] += row.messages
    spent = {
        row.channel: {name: getattr(row, name) for name in REGIMES}
        for row in rows.regimes.among(shown)
    }
    if observed.run.counted_at == TracePoint.SENT:
        own_rows = rows.throughput_by_channel.among(shown)
        passed = dict(zip(own_rows["channel"].tolist(), own_rows["records"].tolist(), strict=True))
        has_records = observed.measured.records > 0
        channels = [
            replace(
                each,
                records=passed.get(each.channel, 0),
                throughput_records_per_s=passed.get(each.channel, 0) * 1e9 / duration_ns
                if has_records
                else None,
            )
            for each in channels
        ]
    return tuple(
        ReplayedChannel(
            **{field.name: getattr(each, field.name) for field in fields(ChannelMeasured)},
            starved_ns=starved.get(each.channel),
            regimes=_shares(spent.get(each.channel, {})),
            messages=dict(messages.get(each.channel, Counter()).most_common()),
            name=names.get(each.channel),
        )
        for each in channels
    )


def over_time(observed: ObservedRun) -> tuple[WindowMeasured, ...]:
    """Throughput and backlog of each window until the last record of the measured part is consumed.

    The last window may be shorter; if less than half were left, it is longer. Where the drain is
    long, several windows of the rows make one.
    """
    rows, duration_ns = observed.rows, observed.measured.duration_ns
    narrow_ns = window_width_ns(observed.run.duration_ns)
    width_ns = narrow_ns * max(-(-duration_ns // (narrow_ns * WINDOWS_MAX)), 1)
    sampled, taken = _by_window(rows.backlog, width_ns), _by_window(rows.throughput, width_ns)
    starts_ns = list(range(0, duration_ns, width_ns))
    if len(starts_ns) > 1 and 2 * (duration_ns - starts_ns[-1]) < width_ns:
        rest_ns = starts_ns.pop()
        sampled.setdefault(starts_ns[-1], []).extend(sampled.get(rest_ns, ()))
        taken.setdefault(starts_ns[-1], []).extend(taken.get(rest_ns, ()))
    return tuple(
        WindowMeasured(
            from_ns,
            to_ns - from_ns,
            sum(row.records for row in taken.get(from_ns, ())) * 1e9 / (to_ns - from_ns),
            backlog_summary(sampled.get(from_ns, ())),
        )
        for from_ns, to_ns in pairwise([*starts_ns, duration_ns])
    )


def regime_shares(rows: ObservedRows) -> dict[str, float] | None:
    """Share of each regime in the time of all channels; None if unknown, as between processes."""
    return _shares(spent_ns(rows))


def spent_ns(rows: ObservedRows) -> dict[str, int]:
    """Time in each regime, of all channels together."""
    return {name: int(rows.regimes[name].sum()) for name in REGIMES}


def latency_distribution(rows: ObservedRows) -> LatencyDistribution:
    """Latency distribution of all records; empty without any."""
    total = rows.total_latency
    return distribution(
        LogLinearHistogram.from_bytes(total.histogram) if total else LogLinearHistogram()
    )


def distribution(histogram: LogLinearHistogram) -> LatencyDistribution:
    """Non-empty ranges, and the percentiles that enough samples support."""
    bounds = np.array(
        [bucket_bounds_ns(index) for index in np.flatnonzero(histogram.counts).tolist()]
    )
    middles_ns = np.maximum((bounds.reshape(-1, 2).sum(axis=1) - 1) / 2, 1)
    number, inverse = np.unique(
        np.floor(np.log2(middles_ns) * RANGES_PER_OCTAVE), return_inverse=True
    )
    counts = histogram.counts[histogram.counts > 0]
    return LatencyDistribution(
        low_ns=tuple(np.exp2(number / RANGES_PER_OCTAVE).round(1).tolist()),
        high_ns=tuple(np.exp2((number + 1) / RANGES_PER_OCTAVE).round(1).tolist()),
        records=tuple(sum_by_group(inverse, counts, len(number)).tolist()),
        percentiles=tuple(
            (q, value)
            for q in PERCENTILES
            if (value := histogram.supported_percentile(q)) is not None
        ),
    )


def kind_name(kind: int, data_type: int) -> str:
    """Name of the kind of a message; of a BufferResponse, the name of its data type."""
    try:
        if kind == MessageKind.BUFFER_RESPONSE:
            return DataType(data_type).name
        return MessageKind(kind).name
    except ValueError:
        return f"kind {kind}, data type {data_type}"


def _counted(observed: ObservedRun, rows: Iterable[MessagesRow]) -> Iterable[MessagesRow]:
    points = _BETWEEN if observed.run.counted_at == TracePoint.SENT else {TracePoint.SENT}
    return (row for row in rows if row.point in points)


def _by_window(rows: Iterable[_Window], width_ns: int) -> dict[int, list[_Window]]:
    windows: dict[int, list[_Window]] = {}
    for row in rows:
        windows.setdefault(row.from_ns // width_ns * width_ns, []).append(row)
    return windows


def _shares(spent: Mapping[str, int]) -> dict[str, float] | None:
    total = sum(spent.values())
    return {name: ns / total for name, ns in spent.items()} if total else None
