"""Traces of messages captured between processes: what can be known of records and costs that nobody
timed.

A tap or a packet capture has no instants of records and does not see buffers consumed. It has the
instants of buffers with how many records each holds, and of the credit that comes back when a
buffer was read. From these follow, with assumptions that are named: when records came, how long
a buffer took to its reader and through it, and the beat of the flusher. What they leave open is in
`fit.arrivals`, from which a range of predictions is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from flinknet.config import NetworkConfig
from flinknet.histogram import LogLinearHistogram
from flinknet.options import ADAPTIVE_PARTITIONER, effective_flink_keys
from flinknet.trace import RunManifest, TraceFile
from flinknet.trace.manifest import IS_ADAPTIVE, IS_PART, JOB_MANAGER, SETTINGS_FROM
from flinknet.trace.recordings import RunPlace, delay_of_tap_ns, open_recordings
from flinknet.units import format_duration_ns, human_number

from . import captured_rows, local_channels
from .captured_rows import FLUSHER_LATE_NS, seen_between, wait_max_ns_of, with_uncounted
from .exchange import manifest_of, recorded_channels, recorded_network, stated_exchange
from .fit import flusher, queued
from .fit.arrivals import Unseen, find_bursts, fit_pattern
from .fit.round_trips import fit_captured, with_busy_tasks
from .fit.window_rows import ExchangeRows, read_tap
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

SETTINGS_ROWS = 200_000
"""Rows from which settings of the cluster are derived that nobody stated."""

BEAT_TOLERANCE = 0.1
"""Greatest distance of a beat from a multiple of its timeout, as a share of the timeout."""

DEFAULT = "default"
"""Origin of settings that nobody stated."""

BEAT = "by the beat of the messages"
"""Origin of settings that the messages show to differ from the stated ones."""

_TIMEOUT_KEY = "execution.buffer-timeout.interval"
_ENABLED_KEY = "execution.buffer-timeout.enabled"
_SEGMENT_KEY = "taskmanager.memory.segment-size"
_PREDICTED_BY = ("execution.checkpointing.", "taskmanager.memory.", "taskmanager.network.memory.")
_EXCLUSIVE_KEY = "taskmanager.network.memory.buffers-per-channel"


def captured_exchange(
    place: RunPlace, from_ns: int, to_ns: int, edge: int | None, *, is_filled: bool
) -> RecordedExchange:
    """An exchange from messages captured between processes; see `loading.load_exchange`."""
    run, whole = open_recordings(place), manifest_of(place)
    if is_filled:
        recorded = local_channels.recorded_within(run, from_ns, to_ns)
        whole = local_channels.at_places_of(whole, place, from_ns, to_ns, recorded)
    manifest = whole if edge is None else whole.of_edge(edge)
    manifest, assumed, is_timeout_known = with_settings(manifest, run.files, whole)
    exchange = stated_exchange(manifest, from_ns, to_ns)
    network = exchange.network
    rows_to_ns = to_ns + 2 * max(network.buffer_timeout_ns, 0)
    if manifest.scenario.get(IS_PART):
        rows_to_ns = to_ns
    columns = captured_rows.stamps_in(run.files)
    passed = read_tap(run.files, from_ns, rows_to_ns, columns=columns)
    rows = passed.of([each.index for each in manifest.channels])
    passed = passed.within(from_ns, to_ns)
    sent, uncounted = with_uncounted(rows.sent)
    rows = replace(rows, sent=sent)
    around = from_ns - METRICS_AROUND_NS, to_ns + METRICS_AROUND_NS
    planned = counts = None
    if is_filled and edge is not None:
        planned = local_channels.planned_edge(manifest, edge)
    if planned is not None:
        ends = planned.wiring.producers, planned.wiring.consumers
        exchange = replace(exchange, producers=ends[0], consumers=ends[1])
        counts = local_channels.counts_of(place, manifest, planned.index, *around)
    numbers = {each.edge for each in manifest.channels}
    number = numbers.pop() if len(numbers) == 1 else None
    tasks = queued.consuming_tasks(place, manifest, number, *around)
    busy_ns = queued.busy_ns_per_record(tasks, is_all_seen=planned is not None)
    disturbed = captured_rows.disturbed_within(place, from_ns, rows_to_ns, whole.measured_to_ns)
    found = fit_captured(
        rows.sent,
        rows.credit_received,
        manifest.channels,
        exchange.consumers,
        passed_ns=np.sort(passed.sent["at_ns"]),
        busy_ns=busy_ns,
        disturbed=disturbed,
        tap_ns=delay_of_tap_ns(place),
    )
    is_idle = not busy_ns and queued.are_idle(tasks)
    records = rows.sent["records"][rows.sent["records"] > 0]
    per_message = float(records.mean()) if len(records) else 1.0
    found = with_busy_tasks(found, busy_ns, per_message, is_idle=is_idle)
    share = captured_rows.starved_share(rows, to_ns - from_ns)
    overhead_ns = flusher.flush_overhead_ns(rows.sent, network.buffer_timeout_ns)
    wait_max_ns = wait_max_ns_of(rows, network, is_timeout_known)
    since = SINCE_BUFFER_BEFORE if wait_max_ns is None else WITHIN_TIMEOUT
    producer_of = {each.index: each.producer for each in manifest.channels}
    late_beats = flusher.fit_late_beats(
        rows.sent, producer_of, network.buffer_timeout_ns, overhead_ns, disturbed
    )
    begun_ns = manifest.measured_from_ns
    is_later = begun_ns is not None and from_ns > begun_ns
    beat_ns = None if wait_max_ns is None else wait_max_ns - FLUSHER_LATE_NS
    process_of = {each.index: each.producer_process for each in whole.channels}
    of_process = flusher.fit_pauses(passed.sent, passed.resumed, process_of, beat_ns)
    pauses = {
        each.producer: of_process[each.producer_process]
        for each in manifest.channels
        if each.producer_process in of_process
    }
    seen = seen_between(rows, from_ns, wait_max_ns, producer_of, pauses, is_later=is_later)
    bursts = find_bursts(seen, producer_of, beat_ns)
    pattern = fit_pattern(seen, beat_ns, is_on_off=bursts is not None)
    came = f"{since}; they came {pattern.in_words}"
    by_stamps = captured_rows.stamped(seen, rows.sent, whole.clock.epoch_ns)
    if by_stamps is not None:
        seen, came = by_stamps, captured_rows.BY_TIMESTAMPS
    elif bursts is not None:
        seen = bursts.within(seen)
    unseen = Unseen(seen, pattern, from_ns, to_ns, found.round_trip)
    notes = [came, *assumed, found.note]
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
    arrivals, sizes = unseen.arrivals(manifest.seed), captured_rows.wire_bytes(rows.sent)
    exchange = replace(
        exchange,
        channels=recorded_channels(manifest, arrivals, sizes, run.manifest),
        costs=found.costs,
        flush_overhead_ns=overhead_ns,
        late_beats=None if late_beats is None else late_beats.times(flusher.OWN_SHARE),
        wakeups=found.wakeups,
        delays=found.delays,
        pauses=pauses,
        queued=queued.queued(rows.sent, to_ns),
        unseen=unseen,
    )
    if planned is not None and counts is not None and planned.local:
        filled = local_channels.with_local_channels(exchange, unseen, planned, counts)
        exchange = filled or exchange
        notes.append(NOT_FILLED_IN if filled is None else FILLED_IN)
    return replace(exchange, notes=tuple(notes))


def waits_at_most(
    place: RunPlace, from_ns: int, to_ns: int, *, edge: int | None = None
) -> LogLinearHistogram:
    """How long each record of a part of a trace may have waited before its buffer passed: from when
    it came at the earliest. The edge is None if there is only one."""
    run, manifest = open_recordings(place), manifest_of(place)
    own, whole = None, manifest
    if edge is not None:
        manifest = manifest.of_edge(edge)
        own = [each.index for each in manifest.channels]
    manifest, _, is_timeout_known = with_settings(manifest, run.files, whole)
    rows = read_tap(run.files, from_ns, to_ns, channels=own)
    rows = replace(rows, sent=with_uncounted(rows.sent)[0])
    histogram = LogLinearHistogram()
    wait_max_ns = wait_max_ns_of(rows, recorded_network(manifest), is_timeout_known)
    for seen in seen_between(rows, from_ns, wait_max_ns).values():
        histogram.add_weighted(seen.at_ns - seen.since_ns, seen.records)
    return histogram


def with_settings(
    manifest: RunManifest, files: Iterable[TraceFile], whole: RunManifest | None = None
) -> tuple[RunManifest, tuple[str, ...], bool]:
    """The manifest with the settings that the messages show, where nobody stated them; notes on
    that; and whether the buffer timeout is known, by a statement or by the beat of the messages. If
    those of the manifest show no beat, those of all channels of the trace do (`whole`)."""
    rows = _rows_of(manifest, files)
    keys: dict[str, Any] = dict(manifest.flink_keys)
    beat_ns = flusher.beat_ns(rows.sent)
    if beat_ns is None and whole is not None and len(whole.channels) > len(manifest.channels):
        beat_ns = flusher.beat_ns(_rows_of(whole, files).sent)
    beat_ns = None if beat_ns is None else _round(beat_ns)
    notes = []
    is_timeout_known = True
    is_about_the_job = _origin(manifest) not in (DEFAULT, JOB_MANAGER)
    if _TIMEOUT_KEY not in keys:
        is_timeout_known = beat_ns is not None
        timeout_ns = NetworkConfig().buffer_timeout_ns if beat_ns is None else beat_ns
        keys[_TIMEOUT_KEY] = format_duration_ns(timeout_ns, separator=" ")
        why = "Flink's default" if beat_ns is None else BEAT
        notes.append(f"assumed: {_TIMEOUT_KEY} {keys[_TIMEOUT_KEY]}, {why}")
    elif beat_ns is not None and not _may_be(manifest, beat_ns):
        beats = f"buffers leave every {format_duration_ns(beat_ns, separator=' ')}"
        stated = f"{_TIMEOUT_KEY} is {_in_words(manifest)}"
        if is_about_the_job:
            notes.append(f"{stated}, but {beats}: compare it with the job that was recorded")
        else:
            notes.append(f"the job's code sets the buffer timeout: {beats}, but {stated}")
            keys[_TIMEOUT_KEY] = format_duration_ns(beat_ns, separator=" ")
            keys[_ENABLED_KEY] = "true"
            by_beat = {**(manifest.settings_from or {}), _TIMEOUT_KEY: BEAT}
            scenario = {**manifest.scenario, SETTINGS_FROM: by_beat}
            manifest = replace(manifest, scenario=scenario)
    elif not is_about_the_job and _flushes_sooner(manifest, rows):
        is_timeout_known = False
        notes.append(
            f"the job's code sets the buffer timeout, but to what does not show: buffers leave"
            f" sooner than {_TIMEOUT_KEY} lets them, {_in_words(manifest)}"
        )
    if manifest.scenario.get(IS_ADAPTIVE):
        notes.append(
            f"{ADAPTIVE_PARTITIONER} is true: rebalance and rescale chose idle channels; that is"
            " not followed, in predictions each channel keeps its recorded records"
        )
    if _EXCLUSIVE_KEY not in keys and len(rows.requests["value"]):
        keys[_EXCLUSIVE_KEY] = int(rows.requests["value"].min())
    if _SEGMENT_KEY not in keys and len(rows.sent["payload_bytes"]):
        largest_bytes = int(rows.sent["payload_bytes"].max())
        if largest_bytes > NetworkConfig().segment_size_bytes:
            keys[_SEGMENT_KEY] = f"{largest_bytes} bytes"
    network = recorded_network(replace(manifest, flink_keys=keys))
    manifest = replace(manifest, flink_keys=dict(effective_flink_keys(network)))
    if (origins := manifest.settings_from) is not None:
        defaults = effective_flink_keys(NetworkConfig())
        shown = [f"{_TIMEOUT_KEY} {_in_words(manifest)}"]
        for key, value in manifest.flink_keys.items():  # those that predictions depend on
            is_own = key in origins and value != defaults.get(key)
            if is_own and key.startswith(_PREDICTED_BY):
                shown.append(f"{key} {value} ({origins[key]})")
        notes.append(f"recorded with {', '.join(shown)}")
    return manifest, tuple(notes), is_timeout_known


def _rows_of(manifest: RunManifest, files: Iterable[TraceFile]) -> ExchangeRows:
    channels = [each.index for each in manifest.channels]
    return read_tap(files, None, None, channels=channels, rows_max=SETTINGS_ROWS)


def _may_be(manifest: RunManifest, beat_ns: int) -> bool:
    """Whether a flusher with the stated buffer timeout may beat like that. It never comes sooner
    than its timeout, and beats without records make the time between two flushes a multiple of it.
    A longer time that is no multiple says nothing against a timeout that was set, but where it is
    the default, the job's code may have set another. Debloated buffers may be full at any size, as
    if a flush had sent them."""
    network = recorded_network(manifest)
    timeout_ns = network.buffer_timeout_ns
    if not timeout_ns or network.debloating_enabled:
        return True
    beats = beat_ns / timeout_ns
    if timeout_ns < 0 or beats < 1 - BEAT_TOLERANCE:
        return False
    is_multiple = abs(beats - round(beats)) <= BEAT_TOLERANCE
    return is_multiple or _origin(manifest) != DEFAULT


def _flushes_sooner(manifest: RunManifest, rows: ExchangeRows) -> bool:
    """Whether no flusher with the stated buffer timeout can have sent these buffers."""
    network = recorded_network(manifest)
    timeout_ns = 0 if network.debloating_enabled else network.buffer_timeout_ns
    return timeout_ns > 0 and flusher.sooner_share(rows.sent, timeout_ns) > flusher.SOONER_MAX


def _origin(manifest: RunManifest) -> str | None:
    """Who stated the buffer timeout; None if that is unknown. The JobManager's configuration is
    about all jobs, and the code of a job may set another."""
    origins = manifest.settings_from
    if origins is None:
        return None
    return origins.get(_TIMEOUT_KEY) or origins.get(_ENABLED_KEY) or DEFAULT


def _in_words(manifest: RunManifest) -> str:
    timeout_ns = recorded_network(manifest).buffer_timeout_ns
    value = "off" if timeout_ns < 0 else format_duration_ns(timeout_ns, separator=" ")
    origin = _origin(manifest)
    return value if origin is None else f"{value} ({origin})"


def _round(beat_ns: int) -> int:
    """The timeout behind a beat, which is a little longer."""
    for unit_ns in (1_000_000, 100_000):
        timeout_ns = beat_ns // unit_ns * unit_ns
        if timeout_ns and beat_ns - timeout_ns <= max(0.05 * beat_ns, 200_000):
            return timeout_ns
    return beat_ns
