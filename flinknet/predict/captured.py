"""Traces of messages captured between processes: what can be known of records and costs that nobody
timed.

A tap or a packet capture has no instants of records and does not see buffers consumed. It has the
instants of buffers with how many records each holds, and of the credit that comes back when a
buffer was read. From these follow, with assumptions that are named: when records came, how long
a buffer took to its reader and through it, and the beat of the flusher. What they leave open is in
`fit.unseen`, from which a range of predictions is drawn.

No record waits longer than a beat for its flush. So where the timeout is known and nothing held a
buffer back, its records came within one beat before it left, however long the channel was silent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray
from flinknet.config import BUFFER_TIMEOUT_NEVER_NS, NetworkConfig
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.histogram import LogLinearHistogram
from flinknet.options import effective_flink_keys
from flinknet.trace import RunManifest, TraceFile, TraceReader
from flinknet.trace.event_block import EventColumns, is_data
from flinknet.trace.recordings import RunPlace, open_recordings
from flinknet.units import format_duration_ns

from .exchange import recorded_channels, recorded_network, recorded_partitioner
from .fit.arrivals import Seen, fit_pattern
from .fit.bursts import find_bursts
from .fit.busy import busy_ns_per_record
from .fit.costs import CostFit
from .fit.flusher import beat_ns as beat_of
from .fit.flusher import flush_overhead_ns, flusher_late_ns
from .fit.queued import queued
from .fit.round_trips import fit_captured, with_busy_tasks
from .fit.unseen import Unseen
from .fit.window_rows import joined_rows, places_by_channel
from .local_channels import counts_of, planned_edge, with_local_channels
from .recorded import RecordedExchange

SINCE_BUFFER_BEFORE = "assumed: the records of a buffer came after the buffer before it had left"
"""Where nothing limits how long they may have waited."""

WITHIN_TIMEOUT = f"{SINCE_BUFFER_BEFORE}, at most one buffer timeout before their own left"
"""The same where the timeout is known: the flusher takes what has waited for so long."""

FLUSHER_LATE_NS = 100_000
"""How much later than its usual beat the flusher may come."""

RELEASED_NS = 1_000_000
"""A buffer that leaves this soon after its channel may send again had waited for that."""

STARVED_WORTH_NOTING = 0.02

FILLED_IN = (
    "filled in by Flink's counters: what passed on local channels, as it came on the recorded ones"
)

NOT_FILLED_IN = (
    "what passes on local channels is unknown without Flink's counters, and no figure includes it"
)

METRICS_AROUND_NS = 5_000_000_000
"""Before and after a window, what Flink said of its tasks counts, too."""

SETTINGS_ROWS = 200_000
"""Rows that the settings of the cluster are guessed from, where nobody stated them."""

_NONE = np.zeros(0, np.int64)

_TIMEOUT_KEY = "execution.buffer-timeout.interval"
_SEGMENT_KEY = "taskmanager.memory.segment-size"
_EXCLUSIVE_KEY = "taskmanager.network.memory.buffers-per-channel"

_COLUMNS = (
    "at_ns",
    "channel",
    "point",
    "kind",
    "data_type",
    "reason",
    "sequence_number",
    "payload_bytes",
    "records",
    "backlog_buffers",
    "credit_after",
    "value",
)


_PASSED = ("at_ns", "point", "kind", "data_type")


@dataclass(frozen=True, slots=True)
class CapturedRows:
    """Rows of one exchange as a tap writes them; columns as in the trace, channels >= 0.

    Attributes:
        sent: data buffers, `at_ns` when they passed.
        credit: AddCredits, the same.
        initial_credit: of each PartitionRequest.
        resumed: ResumeConsumptions, which end that a barrier blocks a channel.
    """

    sent: EventColumns
    credit: EventColumns
    initial_credit: IntArray
    resumed: EventColumns


def load_captured(
    place: RunPlace, from_ns: int, to_ns: int, *, edge: int | None = None, is_filled: bool = False
) -> tuple[RecordedExchange, CostFit]:
    """An exchange from messages captured between processes; see `exchange.load_exchange`.

    Args:
        is_filled: with the channels within TaskManagers, as far as Flink's plan and counters tell;
            all tasks of the edge are there then.
    """
    run = open_recordings(place)
    manifest = run.manifest
    assert manifest is not None, "runs without a manifest are refused by open_recorded_run"
    own = None
    if edge is not None:
        manifest = manifest.of_edge(edge)
        own = [each.index for each in manifest.channels]
    manifest, assumed, is_timeout_known = with_settings(manifest, run.files)
    network = recorded_network(manifest)
    rows = _read(run.files, from_ns, to_ns + 2 * max(network.buffer_timeout_ns, 0), channels=own)
    producers = 1 + max((each.producer for each in manifest.channels), default=0)
    consumers = 1 + max((each.consumer for each in manifest.channels), default=0)
    around = from_ns - METRICS_AROUND_NS, to_ns + METRICS_AROUND_NS
    planned = planned_edge(manifest, edge) if is_filled and edge is not None else None
    counts = None
    if planned is not None:
        producers, consumers = planned.wiring.producers, planned.wiring.consumers
        counts = counts_of(place, manifest, planned.index, *around)
    numbers = {each.edge for each in manifest.channels}
    busy_ns = busy_ns_per_record(
        place,
        manifest,
        numbers.pop() if len(numbers) == 1 else None,
        *around,
        is_all_seen=planned is not None,
    )
    found = fit_captured(
        rows.sent,
        rows.credit,
        {each.index: each.consumer for each in manifest.channels},
        consumers,
        {each.index: each.consumer_process for each in manifest.channels},
        {each.index: each.producer for each in manifest.channels},
        None if edge is None else _passed_ns(run.files, from_ns, to_ns),
        busy_ns,
    )
    found = with_busy_tasks(found, busy_ns, _records_per_message(rows.sent))
    share = starved_share(rows, to_ns - from_ns)
    overhead_ns = flush_overhead_ns(rows.sent, network.buffer_timeout_ns)
    wait_max_ns = _wait_max_ns(rows, network, is_timeout_known)
    since = SINCE_BUFFER_BEFORE if wait_max_ns is None else WITHIN_TIMEOUT
    producer_of = {each.index: each.producer for each in manifest.channels}
    seen = seen_between(rows, from_ns, wait_max_ns, producer_of)
    beat_ns = None if wait_max_ns is None else wait_max_ns - FLUSHER_LATE_NS
    bursts = find_bursts(seen, {each.index: each.producer for each in manifest.channels}, beat_ns)
    pattern = fit_pattern(seen, beat_ns, is_on_off=bursts is not None)
    if bursts is not None:
        seen = bursts.within(seen)
    unseen = Unseen(seen, pattern, from_ns, to_ns, found.round_trip)
    notes = [f"{since}; {pattern.in_words}", *assumed, found.note]
    if found.wakeups is not None:
        notes.append(found.wakeups.in_words)
    if share >= STARVED_WORTH_NOTING:
        notes.append(
            f"data waited for credit {share:.0%} of the channels' time; then the timeout has no"
            " effect, and the trace does not show when the records came"
        )
    uncounted = int((rows.sent["records"] < 0).sum())
    if uncounted:
        notes.append(f"{uncounted} buffers hold records that could not be counted")
    exchange = RecordedExchange(
        producers=producers,
        consumers=consumers,
        channels=recorded_channels(
            manifest,
            unseen.arrivals(manifest.seed),
            _wire_bytes(rows.sent),
        ),
        network=network,
        is_max_rate=False,
        measured_from_ns=from_ns,
        measured_to_ns=to_ns,
        seed=manifest.seed,
        costs=found.costs,
        partitioner=recorded_partitioner(manifest),
        flush_overhead_ns=overhead_ns,
        wakeups=found.wakeups,
        has_instants=False,
    )
    if planned is not None and counts is not None and planned.local:
        filled = with_local_channels(exchange, unseen, planned, counts)
        if filled is not None:
            exchange, unseen = filled
        notes.append(NOT_FILLED_IN if filled is None else FILLED_IN)
    return exchange, CostFit(
        found.costs,
        tuple(notes),
        found.delays,
        queued=queued(rows.sent, to_ns),
        unseen=unseen,
    )


def _records_per_message(sent: EventColumns) -> float:
    records = sent["records"][sent["records"] > 0]
    return float(records.mean()) if len(records) else 1.0


def with_settings(
    manifest: RunManifest, files: Iterable[TraceFile]
) -> tuple[RunManifest, tuple[str, ...], bool]:
    """The manifest with the settings that the messages show, where nobody stated them; what was
    assumed; and whether the buffer timeout is known, by a statement or by the beat of the messages.
    """
    own = [each.index for each in manifest.channels]
    rows = _read(files, None, None, channels=own, rows_max=SETTINGS_ROWS)
    keys: dict[str, Any] = dict(manifest.flink_keys)
    notes = []
    is_timeout_known = True
    if _TIMEOUT_KEY not in keys:
        found_ns = beat_of(rows.sent)
        is_timeout_known = found_ns is not None
        timeout_ns = NetworkConfig().buffer_timeout_ns if found_ns is None else _round(found_ns)
        keys[_TIMEOUT_KEY] = format_duration_ns(timeout_ns, separator=" ")
        why = "Flink's default" if found_ns is None else "by the beat of the messages"
        notes.append(f"assumed: {_TIMEOUT_KEY} {keys[_TIMEOUT_KEY]}, {why}")
    if _EXCLUSIVE_KEY not in keys and len(rows.initial_credit):
        keys[_EXCLUSIVE_KEY] = int(rows.initial_credit.min())
    if _SEGMENT_KEY not in keys and len(rows.sent["payload_bytes"]):
        largest_bytes = int(rows.sent["payload_bytes"].max())
        if largest_bytes > NetworkConfig().segment_size_bytes:
            keys[_SEGMENT_KEY] = f"{largest_bytes} bytes"
    network = recorded_network(replace(manifest, flink_keys=keys))
    manifest = replace(manifest, flink_keys=dict(effective_flink_keys(network)))
    return manifest, tuple(notes), is_timeout_known


def waits_at_most(
    place: RunPlace, from_ns: int, to_ns: int, *, edge: int | None = None
) -> LogLinearHistogram:
    """How long each record of a part of a trace may have waited before its buffer passed: from when
    it came at the earliest.

    Args:
        edge: of several; None for the only one.
    """
    run = open_recordings(place)
    manifest = run.manifest
    assert manifest is not None
    own = None
    if edge is not None:
        manifest = manifest.of_edge(edge)
        own = [each.index for each in manifest.channels]
    manifest, _, is_timeout_known = with_settings(manifest, run.files)
    network = recorded_network(manifest)
    rows = _read(run.files, from_ns, to_ns, channels=own)
    histogram = LogLinearHistogram()
    for seen in seen_between(rows, from_ns, _wait_max_ns(rows, network, is_timeout_known)).values():
        histogram.add_weighted(seen.at_ns - seen.since_ns, seen.records)
    return histogram


def _wait_max_ns(rows: CapturedRows, network: NetworkConfig, is_timeout_known: bool) -> int | None:
    """How long a record may wait for its flush; None where that is unknown, or has no end."""
    if not is_timeout_known or network.buffer_timeout_ns == BUFFER_TIMEOUT_NEVER_NS:
        return None
    overhead_ns = flush_overhead_ns(rows.sent, network.buffer_timeout_ns)
    return network.buffer_timeout_ns + overhead_ns + FLUSHER_LATE_NS


def seen_between(
    rows: CapturedRows,
    from_ns: int,
    wait_max_ns: int | None = None,
    producer_of: Mapping[int, int] | None = None,
) -> dict[int, Seen]:
    """Between which instants the records of each buffer came, by channel.

    Buffers in which no record ends belong to the next one that has an end. What came before
    `from_ns` counts from there.

    Args:
        wait_max_ns: how long a record may have waited for its flush; those of a buffer that was
            held back may be older. None where that is unknown, or has no end.
    """
    found: dict[int, Seen] = {}
    causes_ns = [
        {channel: each["at_ns"][places] for channel, places in places_by_channel(each).items()}
        for each in (rows.credit, rows.resumed)
    ]
    late_ns = np.zeros(len(rows.sent["at_ns"]), np.int64)
    if wait_max_ns is not None and producer_of is not None:
        late_ns = flusher_late_ns(rows.sent, producer_of, wait_max_ns - FLUSHER_LATE_NS)
    for channel, own in places_by_channel(rows.sent).items():
        own = own[np.lexsort((rows.sent["sequence_number"][own], rows.sent["at_ns"][own]))]
        last = np.flatnonzero(rows.sent["records"][own] > 0)
        if len(last):
            sent_ns = rows.sent["at_ns"][own].astype(np.int64)
            at_ns, records = sent_ns[last], rows.sent["records"][own[last]].astype(np.int64)
            since_ns = np.r_[min(from_ns, int(at_ns[0])), at_ns[:-1]]
            first = np.r_[0, last[:-1] + 1]
            fed_ns, resumed_ns = (each.get(channel, _NONE) for each in causes_ns)
            is_held = _is_held(rows, own, fed_ns, resumed_ns)[first]
            if wait_max_ns is not None:
                earliest_ns = np.maximum(
                    since_ns, sent_ns[first] - wait_max_ns - late_ns[own[first]]
                )
                since_ns = np.where(is_held, since_ns, earliest_ns)
            is_flush = rows.sent["reason"][own[last]] == FlushReason.FLUSH
            found[channel] = Seen(records, since_ns, at_ns, is_flush)
    return found


def _is_held(
    rows: CapturedRows, own: IntArray, fed_ns: IntArray, resumed_ns: IntArray
) -> npt.NDArray[np.bool_]:
    """Whether each buffer of a channel may have been ready to leave for longer than it took: the
    one before it left others behind, or it left as soon as credit came where there was none, or as
    soon as the channel was resumed.

    Args:
        own: rows of the channel's buffers, in their order.
        fed_ns: when credit came.
        resumed_ns: when the channel was resumed.
    """
    at_ns = rows.sent["at_ns"][own]
    is_behind = np.r_[False, rows.sent["backlog_buffers"][own[:-1]] > 0]
    had_credit = np.r_[True, rows.sent["credit_after"][own[:-1]] > 0]
    is_held: npt.NDArray[np.bool_] = (
        is_behind | ~had_credit & _follows(at_ns, fed_ns) | _follows(at_ns, resumed_ns)
    )
    return is_held


def _follows(at_ns: IntArray, causes_ns: IntArray) -> npt.NDArray[np.bool_]:
    """Whether each instant comes right after one of the others."""
    causes_ns = np.sort(causes_ns)
    before, long_before = (
        np.searchsorted(causes_ns, each, side="right") for each in (at_ns, at_ns - RELEASED_NS)
    )
    found: npt.NDArray[np.bool_] = before > long_before
    return found


def starved_share(rows: CapturedRows, duration_ns: int) -> float:
    """Share of the channels' time in which a producer had used up its credit and said that more
    waited: pressure, in which no timeout acts.
    """
    starved_ns = 0
    sent, credited = places_by_channel(rows.sent), places_by_channel(rows.credit)
    for channel, data in sent.items():
        credit = credited.get(channel, _NONE)
        at_ns = np.concatenate([rows.sent["at_ns"][data], rows.credit["at_ns"][credit]])
        waits = np.concatenate(
            [
                (rows.sent["credit_after"][data] == 0) & (rows.sent["backlog_buffers"][data] > 0),
                np.zeros(len(credit), bool),
            ]
        )
        order = np.argsort(at_ns, kind="stable")
        gaps_ns = np.diff(at_ns[order])
        starved_ns += int(gaps_ns[waits[order][:-1]].sum())
    return starved_ns / (duration_ns * len(sent)) if sent and duration_ns else 0.0


def _passed_ns(files: Iterable[TraceFile], from_ns: int, to_ns: int) -> IntArray:
    """When the data buffers of all exchanges passed, ascending."""
    found = [_NONE]
    for file in files:
        with TraceReader(file) as reader:
            for block in reader.events(_PASSED, None, from_ns, to_ns):
                found.append(block["at_ns"][is_data(block, TracePoint.SENT)].astype(np.int64))
    return np.sort(np.concatenate(found))


def _read(
    files: Iterable[TraceFile],
    from_ns: int | None,
    to_ns: int | None,
    *,
    channels: Sequence[int] | None = None,
    rows_max: int | None = None,
) -> CapturedRows:
    sent: list[EventColumns] = []
    credit: list[EventColumns] = []
    resumed: list[EventColumns] = []
    initial_credit: list[IntArray] = []
    seen = 0
    for file in files:
        with TraceReader(file) as reader:
            for block in reader.events(_COLUMNS, channels, from_ns, to_ns):
                is_known = block["channel"] >= 0
                data = is_data(block, TracePoint.SENT) & is_known
                added = (block["kind"] == MessageKind.ADD_CREDIT) & is_known
                resumes = (block["kind"] == MessageKind.RESUME_CONSUMPTION) & is_known
                asked = (block["kind"] == MessageKind.PARTITION_REQUEST) & is_known
                sent.append({name: values[data] for name, values in block.items()})
                credit.append({name: values[added] for name, values in block.items()})
                resumed.append({name: values[resumes] for name, values in block.items()})
                initial_credit.append(block["value"][asked])
                seen += len(block["at_ns"])
                if rows_max is not None and seen >= rows_max:
                    break
        if rows_max is not None and seen >= rows_max:
            break
    return CapturedRows(
        joined_rows(sent, _COLUMNS),
        joined_rows(credit, _COLUMNS),
        np.concatenate([*initial_credit, np.zeros(0, np.int64)]),
        joined_rows(resumed, _COLUMNS),
    )


def _wire_bytes(sent: EventColumns) -> dict[int, float]:
    """Mean bytes of a record of each channel."""
    return {
        channel: float(
            sent["payload_bytes"][own].sum() / max(sent["records"][own].clip(0).sum(), 1)
        )
        for channel, own in places_by_channel(sent).items()
    }


def _round(beat_ns: int) -> int:
    """The timeout behind a beat, which is a little longer."""
    for unit_ns in (1_000_000, 100_000):
        timeout_ns = beat_ns // unit_ns * unit_ns
        if timeout_ns and beat_ns - timeout_ns <= max(0.05 * beat_ns, 200_000):
            return timeout_ns
    return beat_ns
