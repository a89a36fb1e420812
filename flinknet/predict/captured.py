"""Traces of messages captured between processes: what can be known of records and costs that nobody
timed.

A tap or a packet capture has no instants of records and does not see buffers consumed. It has the
instants of buffers with how many records each holds, and of the credit that comes back when a
buffer was read. From these follow, with assumptions that are named: when records came, how long
a buffer took to its reader and through it, and the beat of the flusher. What they leave open is in
`fit.unseen`, from which a range of predictions is drawn.
"""

from __future__ import annotations

from dataclasses import replace

from flinknet.histogram import LogLinearHistogram
from flinknet.trace.event_block import EventColumns
from flinknet.trace.manifest import IS_PART
from flinknet.trace.recordings import RunPlace, delay_of_tap_ns, open_recordings
from flinknet.units import human_number

from .captured_arrivals import FLUSHER_LATE_NS, seen_between, wait_max_ns_of
from .captured_rows import (
    passed_ns,
    read_captured,
    starved_share,
    wire_bytes,
    with_uncounted,
)
from .captured_settings import with_settings
from .disturbed import disturbed_within
from .exchange import recorded_channels, recorded_network, recorded_partitioner
from .fit.arrivals import find_bursts, fit_pattern
from .fit.costs import CostFit
from .fit.flusher import OWN_SHARE, fit_late_beats, flush_overhead_ns
from .fit.queued import are_idle, busy_ns_per_record, queued
from .fit.round_trips import fit_captured, with_busy_tasks
from .fit.unseen import Unseen
from .local_channels import (
    at_places_of,
    counts_of,
    planned_edge,
    recorded_within,
    with_local_channels,
)
from .recorded import RecordedExchange

SINCE_BUFFER_BEFORE = "assumed: records came after the buffer before theirs had left"
"""Where nothing limits how long they may have waited."""

WITHIN_TIMEOUT = "assumed: records waited for their buffer for one buffer timeout at most"
"""The same where the timeout is known: the flusher takes what has waited for so long."""

STARVED_WORTH_NOTING = 0.02

FILLED_IN = (
    "filled in by Flink's counters: what passed on local channels, as it came on the recorded ones"
)

NOT_FILLED_IN = (
    "what passes on local channels is unknown without Flink's counters, and no figure includes it"
)

METRICS_AROUND_NS = 5_000_000_000
"""Before and after a window, what Flink said of its tasks counts, too."""


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
    if is_filled:
        recorded = recorded_within(run, from_ns, to_ns)
        manifest = at_places_of(manifest, place, from_ns, to_ns, recorded)
    own, whole = None, manifest
    if edge is not None:
        manifest = manifest.of_edge(edge)
        own = [each.index for each in manifest.channels]
    manifest, assumed, is_timeout_known = with_settings(manifest, run.files, whole)
    network = recorded_network(manifest)
    rows_to_ns = to_ns + 2 * max(network.buffer_timeout_ns, 0)
    if manifest.scenario.get(IS_PART):
        rows_to_ns = to_ns
    rows = read_captured(run.files, from_ns, rows_to_ns, channels=own)
    sent, uncounted = with_uncounted(rows.sent)
    rows = replace(rows, sent=sent)
    producers = 1 + max((each.producer for each in manifest.channels), default=0)
    consumers = 1 + max((each.consumer for each in manifest.channels), default=0)
    around = from_ns - METRICS_AROUND_NS, to_ns + METRICS_AROUND_NS
    planned = planned_edge(manifest, edge) if is_filled and edge is not None else None
    counts = None
    if planned is not None:
        producers, consumers = planned.wiring.producers, planned.wiring.consumers
        counts = counts_of(place, manifest, planned.index, *around)
    numbers = {each.edge for each in manifest.channels}
    number = numbers.pop() if len(numbers) == 1 else None
    busy_ns = busy_ns_per_record(place, manifest, number, *around, is_all_seen=planned is not None)
    disturbed = disturbed_within(place, from_ns, rows_to_ns, whole.measured_to_ns)
    found = fit_captured(
        rows.sent,
        rows.credit,
        {each.index: each.consumer for each in manifest.channels},
        consumers,
        {each.index: each.consumer_process for each in manifest.channels},
        {each.index: each.producer for each in manifest.channels},
        None if edge is None else passed_ns(run.files, from_ns, to_ns),
        busy_ns,
        disturbed,
        delay_of_tap_ns(place),
    )
    is_idle = not busy_ns and are_idle(place, manifest, number, *around)
    found = with_busy_tasks(found, busy_ns, _records_per_message(rows.sent), is_idle=is_idle)
    share = starved_share(rows, to_ns - from_ns)
    overhead_ns = flush_overhead_ns(rows.sent, network.buffer_timeout_ns)
    wait_max_ns = wait_max_ns_of(rows, network, is_timeout_known)
    since = SINCE_BUFFER_BEFORE if wait_max_ns is None else WITHIN_TIMEOUT
    producer_of = {each.index: each.producer for each in manifest.channels}
    late_beats = fit_late_beats(
        rows.sent, producer_of, network.buffer_timeout_ns, overhead_ns, disturbed
    )
    begun_ns = manifest.measured_from_ns
    is_later = begun_ns is not None and from_ns > begun_ns
    seen = seen_between(rows, from_ns, wait_max_ns, producer_of, is_later=is_later)
    beat_ns = None if wait_max_ns is None else wait_max_ns - FLUSHER_LATE_NS
    bursts = find_bursts(seen, {each.index: each.producer for each in manifest.channels}, beat_ns)
    pattern = fit_pattern(seen, beat_ns, is_on_off=bursts is not None)
    if bursts is not None:
        seen = bursts.within(seen)
    unseen = Unseen(seen, pattern, from_ns, to_ns, found.round_trip)
    notes = [f"{since}; they came {pattern.in_words}", *assumed, found.note]
    if found.wakeups is not None:
        notes.append(found.wakeups.in_words)
    if share >= STARVED_WORTH_NOTING:
        notes.append(
            f"data waited for credit {share:.0%} of the channels' time; then the timeout has no"
            " effect, and the trace does not show when the records came"
        )
    if uncounted:
        notes.append(
            f"assumed: the {human_number(100 * uncounted)}% of the bytes in which records could not"
            " be counted hold as many as the rest"
        )
    exchange = RecordedExchange(
        producers=producers,
        consumers=consumers,
        channels=recorded_channels(
            manifest,
            unseen.arrivals(manifest.seed),
            wire_bytes(rows.sent),
            run.manifest,
        ),
        network=network,
        is_max_rate=False,
        measured_from_ns=from_ns,
        measured_to_ns=to_ns,
        seed=manifest.seed,
        costs=found.costs,
        partitioner=recorded_partitioner(manifest),
        flush_overhead_ns=overhead_ns,
        late_beats=None if late_beats is None else late_beats.times(OWN_SHARE),
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
    own, whole = None, manifest
    if edge is not None:
        manifest = manifest.of_edge(edge)
        own = [each.index for each in manifest.channels]
    manifest, _, is_timeout_known = with_settings(manifest, run.files, whole)
    network = recorded_network(manifest)
    rows = read_captured(run.files, from_ns, to_ns, channels=own)
    rows = replace(rows, sent=with_uncounted(rows.sent)[0])
    histogram = LogLinearHistogram()
    for seen in seen_between(
        rows, from_ns, wait_max_ns_of(rows, network, is_timeout_known)
    ).values():
        histogram.add_weighted(seen.at_ns - seen.since_ns, seen.records)
    return histogram
