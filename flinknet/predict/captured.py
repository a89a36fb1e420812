"""Traces of messages captured between processes: what can be known of records and costs that nobody
timed.

A tap or a packet capture has no instants of records and does not see buffers consumed. It has the
instants of buffers with how many records each holds, and of the credit that comes back when a
buffer was read. From these follow, with assumptions that are named: when records came, how long
a buffer took to its reader and through it, and the beat of the flusher.

No record waits longer than a beat for its flush. So where the timeout is known and nothing held a
buffer back, its records came within one beat before it left, however long the channel was silent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray
from flinknet.config import BUFFER_TIMEOUT_NEVER_NS, NetworkConfig
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.options import effective_flink_keys
from flinknet.simulator.cost_model import TYPICAL_COSTS, CostModel
from flinknet.trace import RunManifest, TraceReader, open_run
from flinknet.trace.event_block import EventColumns, is_data
from flinknet.units import format_duration_ns

from .exchange import recorded_channels, recorded_network
from .fit import SAMPLES_MIN
from .fit.costs import ASSUMED_CONSUME_NS_PER_RECORD, CostFit
from .fit.delays import NO_DELAYS, Delays, spread_of
from .fit.flusher import beat_ns, flush_overhead_ns
from .fit.queued import queued
from .fit.window_rows import joined_rows, places_by_channel
from .recorded import Ramps, RecordedExchange

EVEN_ARRIVALS = "assumed: the records of a buffer came evenly spaced since the buffer before it"
"""The assumption behind the middle of every interval. Its ends: all of them came just before their
buffer left, or just after the one before it had left."""

EVEN_WITHIN_TIMEOUT = f"{EVEN_ARRIVALS}, or within the buffer timeout if that is shorter"
"""The same where the timeout is known: the flusher takes what has waited for so long."""

FLUSHER_LATE_NS = 100_000
"""How much later than its usual beat the flusher may come."""

RELEASED_NS = 1_000_000
"""A buffer that leaves this soon after its channel may send again had waited for that."""

WAY_SHARE = 0.4
"""Network delay in each direction as a share of a buffer's round trip (until its credit is back)
without the time of its records; the rest is handling the buffer."""


QUICK = 0.1
"""Quantile of the times that the machine did not disturb."""

STARVED_WORTH_NOTING = 0.02

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
    path: Path, from_ns: int, to_ns: int, *, edge: int | None = None
) -> tuple[RecordedExchange, CostFit]:
    """An exchange from messages captured between processes; see `exchange.load_exchange`."""
    manifest = open_run(path).manifest
    assert manifest is not None, "runs without a manifest are refused by open_recorded_run"
    manifest, assumed, is_timeout_known = with_settings(manifest, path)
    own = None
    if edge is not None:
        manifest = manifest.of_edge(edge)
        own = [each.index for each in manifest.channels]
    network = recorded_network(manifest)
    rows = _read(path, from_ns, to_ns + 2 * max(network.buffer_timeout_ns, 0), channels=own)
    producers = 1 + max((each.producer for each in manifest.channels), default=0)
    consumers = 1 + max((each.consumer for each in manifest.channels), default=0)
    fit = fit_captured(rows, {each.index: each.consumer for each in manifest.channels}, consumers)
    share = starved_share(rows, to_ns - from_ns)
    overhead_ns = flush_overhead_ns(rows.sent, network.buffer_timeout_ns)
    wait_max_ns = None
    if is_timeout_known and network.buffer_timeout_ns != BUFFER_TIMEOUT_NEVER_NS:
        wait_max_ns = network.buffer_timeout_ns + overhead_ns + FLUSHER_LATE_NS
    even = EVEN_ARRIVALS if wait_max_ns is None else EVEN_WITHIN_TIMEOUT
    notes = [even, *assumed, *fit.notes]
    if share >= STARVED_WORTH_NOTING:
        notes.append(
            f"for {share:.0%} of the channels' time data waited for credit: there no timeout acts,"
            " and when its records came does not show"
        )
    uncounted = int((rows.sent["records"] < 0).sum())
    if uncounted:
        notes.append(f"{uncounted} buffers hold records that could not be counted")
    arrivals = arrivals_between(rows, from_ns, wait_max_ns)
    exchange = RecordedExchange(
        producers=producers,
        consumers=consumers,
        channels=recorded_channels(
            manifest,
            {channel: ramps.within(from_ns, to_ns) for channel, ramps in arrivals.items()},
            _wire_bytes(rows.sent),
        ),
        network=network,
        is_max_rate=False,
        measured_from_ns=from_ns,
        measured_to_ns=to_ns,
        seed=manifest.seed,
        costs=fit.costs,
        flush_overhead_ns=overhead_ns,
        has_instants=False,
    )
    return exchange, replace(fit, notes=tuple(notes), queued=queued(rows.sent, to_ns))


def with_settings(manifest: RunManifest, path: Path) -> tuple[RunManifest, tuple[str, ...], bool]:
    """The manifest with the settings that the messages show, where nobody stated them; what was
    assumed; and whether the buffer timeout is known, by a statement or by the beat of the messages.
    """
    rows = _read(path, None, None, rows_max=SETTINGS_ROWS)
    keys: dict[str, Any] = dict(manifest.flink_keys)
    notes = []
    is_timeout_known = True
    if _TIMEOUT_KEY not in keys:
        found_ns = beat_ns(rows.sent)
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


def arrivals_between(
    rows: CapturedRows, from_ns: int, wait_max_ns: int | None = None
) -> dict[int, Ramps]:
    """When the records of each channel came, spread evenly over the time since the buffer before.

    Buffers in which no record ends belong to the next one that has an end. What came before
    `from_ns` counts from there.

    Args:
        wait_max_ns: how long a record may have waited for its flush; those of a buffer that was
            held back may be older. None where that is unknown, or has no end.
    """
    found: dict[int, Ramps] = {}
    causes_ns = [
        {channel: each["at_ns"][places] for channel, places in places_by_channel(each).items()}
        for each in (rows.credit, rows.resumed)
    ]
    for channel, own in places_by_channel(rows.sent).items():
        own = own[np.lexsort((rows.sent["sequence_number"][own], rows.sent["at_ns"][own]))]
        last = np.flatnonzero(rows.sent["records"][own] > 0)
        if len(last):
            sent_ns = rows.sent["at_ns"][own].astype(np.int64)
            at_ns, records = sent_ns[last], rows.sent["records"][own[last]].astype(np.int64)
            since_ns = np.r_[min(from_ns, int(at_ns[0])), at_ns[:-1]]
            if wait_max_ns is not None:
                first = np.r_[0, last[:-1] + 1]
                earliest_ns = np.maximum(since_ns, sent_ns[first] - wait_max_ns)
                fed_ns, resumed_ns = (each.get(channel, _NONE) for each in causes_ns)
                is_held = _is_held(rows, own, fed_ns, resumed_ns)
                since_ns = np.where(is_held[first], since_ns, earliest_ns)
            half_ns = (at_ns - since_ns) // (2 * records)
            found[channel] = Ramps(records, since_ns + half_ns, at_ns - half_ns)
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


def fit_captured(rows: CapturedRows, consumer_of: Mapping[int, int], consumers: int) -> CostFit:
    """The costs of an exchange, from buffers that were alone on their way: nothing else passed
    between the buffer and its credit, so the time between is its own.
    """
    total_ns, records, consumer = _alone(rows, consumer_of)
    if len(total_ns) < SAMPLES_MIN:
        note = (
            "assumed: what the steps on a buffer's way cost, as measured of flinknet's own stack;"
            " no credit came back that belongs to one buffer alone"
        )
        per_record_ns = (ASSUMED_CONSUME_NS_PER_RECORD,) * consumers
        return CostFit(_costs(TYPICAL_COSTS.transit_ns / WAY_SHARE, per_record_ns), (note,))
    slopes_ns = np.full(consumers, _slope_ns(total_ns, records))
    for each in range(consumers):
        own = consumer == each
        if own.sum() >= SAMPLES_MIN:
            slopes_ns[each] = _slope_ns(total_ns[own], records[own])
    without_records_ns = total_ns - slopes_ns[consumer] * records
    fixed_ns = max(float(np.median(without_records_ns)), 0.0)
    note = (
        f"assumed: {WAY_SHARE:.0%} of the {fixed_ns / 1e3:.0f} us round trip is network delay in"
        " each direction"
    )
    spread_ns = spread_of((without_records_ns - fixed_ns).astype(np.int64), np.maximum(records, 1))
    return CostFit(
        _costs(fixed_ns, tuple(slopes_ns.tolist())),
        (note,),
        Delays(spread_ns) if len(spread_ns) else NO_DELAYS,
    )


def _slope_ns(total_ns: IntArray, records: IntArray) -> float:
    """Time for each record, by the quick ones among buffers with few and with many records: what
    the machine adds now and then would hide it. ASSUMED_CONSUME_NS_PER_RECORD where their numbers
    are alike.
    """
    low, high = np.quantile(records, [0.25, 0.75])
    few, many = records <= low, records >= high
    more = float(np.median(records[many]) - np.median(records[few]))
    if more < np.median(records[few]):
        return ASSUMED_CONSUME_NS_PER_RECORD
    quick_ns = np.quantile(total_ns[many], QUICK) - np.quantile(total_ns[few], QUICK)
    return max(float(quick_ns) / more, 0.0)


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


def _alone(
    rows: CapturedRows, consumer_of: Mapping[int, int]
) -> tuple[IntArray, IntArray, IntArray]:
    """Of each buffer between two credits without company: time to its credit, records, consumer."""
    total_ns, records, consumers = [], [], []
    credited = places_by_channel(rows.credit)
    for channel, own in places_by_channel(rows.sent).items():
        own = own[np.argsort(rows.sent["at_ns"][own], kind="stable")]
        at_ns = rows.sent["at_ns"][own].astype(np.int64)
        credit_ns = np.sort(rows.credit["at_ns"][credited.get(channel, _NONE)])
        before = np.searchsorted(at_ns, credit_ns)  # buffers that passed before each credit
        is_alone = np.diff(before) == 1
        which = before[1:][is_alone] - 1
        total_ns.append(credit_ns[1:][is_alone] - at_ns[which])
        records.append(np.maximum(rows.sent["records"][own][which], 0))
        consumers.append(np.full(len(which), consumer_of[channel]))
    empty = [np.zeros(0, np.int64)]
    return (
        np.concatenate(total_ns or empty).astype(np.int64),
        np.concatenate(records or empty).astype(np.int64),
        np.concatenate(consumers or empty).astype(np.int64),
    )


def _read(
    path: Path,
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
    for file in open_run(path).files:
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


def _costs(fixed_ns: float, consume_ns_per_record: tuple[float, ...]) -> CostModel:
    receive_ns = max((1 - 2 * WAY_SHARE) * fixed_ns, 0.0)
    return replace(
        TYPICAL_COSTS,
        transit_ns=WAY_SHARE * fixed_ns,
        receive_ns_per_message=receive_ns or TYPICAL_COSTS.receive_ns_per_message,
        consume_ns_per_record=consume_ns_per_record,
    )
