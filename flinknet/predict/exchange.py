"""Exchanges from the trace of a run that recorded itself: channels, arrivals, and costs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

import numpy as np

from flinknet.config import BLOCKING, BUFFER_TIMEOUT_NEVER_NS, CREDIT, RATE_MAX, NetworkConfig
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.options import canonical, network_config
from flinknet.options.what_if import Setting
from flinknet.simulator.cost_model import TYPICAL_COSTS
from flinknet.storage import path_of
from flinknet.trace import Run, RunManifest, TraceReader
from flinknet.trace.event_block import same_message
from flinknet.trace.manifest import RESULT_NAME
from flinknet.trace.plain_text import read_document
from flinknet.trace.recordings import RunPlace, open_recordings

from .fit.costs import RATE_IS_FITTED, at_recorded_rate, fit_costs, fit_saturation
from .fit.delays import fit_delays
from .fit.flusher import flush_overhead_ns
from .fit.wakeups import TOO_FEW, fit_wakeups, gaps_of, may_poll, places
from .fit.window_rows import ExchangeRows, Window, read_window
from .measured_part import measured_part
from .ramps import Ramps
from .recorded import RecordedChannel, RecordedExchange

COST_ROWS_PER_FILE = 200_000
"""Rows that the costs are fitted from at most, from the start of the window."""

MAX_RATE_ROWS_PER_FILE = 1_000_000
"""Rows that the costs are fitted from at the highest rate, some five seconds: the speed of a shared
machine varies by a fifth from one second to the next."""

COST_ROWS_MAX = 2_000_000
"""Rows of all files together, as far as that leaves COST_ROWS_PER_FILE_MIN of each."""

COST_ROWS_PER_FILE_MIN = 10_000

LATEST_ARRIVAL_NS = 10_000_000_000
"""Time after its intended instant and the buffer timeout in which a record is looked for among the
buffers sent."""

PREEMPTIONS_FOR_WINDOWS = 5

HELD_UP_SHARE = 0.01
"""Share of the time of writers that they wait for buffers if these waits delay messages. Less is an
incident, such as a pause of 40 ms of one process in 10 s, and counts as other delays."""

BLOCKING_IS_NO_MODEL = (
    "the exchange was blocking: it was read only when all of it was written, and the model knows"
    " only exchanges that are read meanwhile"
)
"""Why nothing is predicted of such an exchange."""

QUEUES_START_EMPTY = (
    "writers had to wait for buffers: the simulation starts with empty queues, at most 5 s before"
    " the part that counts"
)

CONSUMER_STARTS_BEHIND = (
    "a consumer was {:.0f} ms behind when the measured part of the run began: the simulation starts"
    " with empty queues, at most 5 s before"
)

BEHIND_WORTH_NOTING_NS = 5_000_000


def manifest_of(place: RunPlace) -> RunManifest:
    """The manifest of a run that was opened for a replay."""
    manifest = open_recordings(place).manifest
    assert manifest is not None, "runs without a manifest are refused by open_recorded_run"
    return manifest


def recorded_network(manifest: RunManifest) -> NetworkConfig:
    """The network settings of a run; of a single edge, with the buffer timeout of its operator if
    the manifest has one."""
    stated: Any = manifest.scenario.get("network")
    if isinstance(stated, dict) and set(stated) == {each.name for each in fields(NetworkConfig)}:
        network = NetworkConfig(**stated)
    else:
        keys = {key: str(value) for key, value in manifest.flink_keys.items()}
        network = network_config(canonical(keys))[0]
    timeout_ns = _job_edge(manifest).get("buffer_timeout_ns")
    return network if timeout_ns is None else replace(network, buffer_timeout_ns=timeout_ns)


def has_own_timeout(manifest: RunManifest) -> bool:
    """Whether the operator of a single edge has a buffer timeout other than that of its job."""
    of_job = recorded_network(replace(manifest, channels=()))
    return recorded_network(manifest).buffer_timeout_ns != of_job.buffer_timeout_ns


def _job_edge(manifest: RunManifest) -> Mapping[str, Any]:
    """The description, in the job of a manifest, of the only edge that its channels belong to;
    empty without one."""
    numbers = {each.edge for each in manifest.channels}
    job: Any = manifest.scenario.get("job") or {}
    return next((each for each in job.get("edges", ()) if numbers == {each["index"]}), {})


def recorded_setting(manifest: RunManifest) -> Setting:
    return Setting(recorded_network(manifest), manifest.scenario.get("flow_control", CREDIT))


def is_blocking(manifest: RunManifest) -> bool:
    """Whether consumers read only when producers had ended, which no model here knows."""
    return bool(manifest.scenario.get("workload", {}).get("partition_type") == BLOCKING)


def is_max_rate(manifest: RunManifest) -> bool:
    return bool(manifest.scenario.get("workload", {}).get("rate_per_s") == RATE_MAX)


def stated_exchange(manifest: RunManifest, from_ns: int, to_ns: int) -> RecordedExchange:
    """An exchange in a window as its manifest states it, without channels and with typical costs.
    Where no partitioner is stated, it is that of Flink's between stages of unlike parallelism."""
    workload: Any = manifest.scenario.get("workload") or {}
    stated = None if workload.get("relays") else workload.get("partitioner")
    partitioner = _job_edge(manifest).get("partitioner")
    return RecordedExchange(
        producers=1 + max((each.producer for each in manifest.channels), default=0),
        consumers=1 + max((each.consumer for each in manifest.channels), default=0),
        channels=(),
        network=recorded_network(manifest),
        is_max_rate=is_max_rate(manifest),
        measured_from_ns=from_ns,
        measured_to_ns=to_ns,
        seed=manifest.seed,
        costs=TYPICAL_COSTS,
        flow_control=manifest.scenario.get("flow_control", CREDIT),
        has_instants=not manifest.is_from_between,
        partitioner=str(stated or "rebalance") if partitioner is None else str(partitioner).lower(),
    )


def timed_exchange(
    place: RunPlace, from_ns: int, to_ns: int, edge: int | None, *, with_arrivals: bool
) -> RecordedExchange:
    """An exchange of a run that recorded itself: its arrivals, and costs fitted to the start of
    the window; see `loading.load_exchange`."""
    run, whole = open_recordings(place), manifest_of(place)
    manifest = whole if edge is None else whole.of_edge(edge)
    exchange = stated_exchange(manifest, from_ns, to_ns)
    network, is_capped = exchange.network, exchange.is_max_rate
    rows_max = MAX_RATE_ROWS_PER_FILE if is_capped else COST_ROWS_PER_FILE
    each_max = max(COST_ROWS_MAX // max(len(run.files), 1), COST_ROWS_PER_FILE_MIN)
    until_ns = None
    if network.buffer_timeout_ns != BUFFER_TIMEOUT_NEVER_NS:
        until_ns = to_ns + 2 * network.buffer_timeout_ns + LATEST_ARRIVAL_NS
    window = read_window(
        run.files,
        None if edge is None else [each.index for each in manifest.channels],
        from_ns,
        to_ns,
        until_ns=until_ns,
        rows_max=min(rows_max, each_max),
        rows_to_ns=max(to_ns, measured_part(run).to_ns) if is_capped else to_ns,
        with_arrivals=with_arrivals,
    )
    remote = [each.index for each in manifest.channels if not each.is_local]
    if remote:  # what stays within a process shows neither sending nor the way
        over = window.rows.of(remote)
        rows = replace(window.rows, sent=over.sent, received=over.received)
        window = replace(window, rows=rows)
    busy_ns, records = None, sum(each.total_records for each in window.arrivals.values())
    if is_capped and records:  # of producers, less what they waited for buffers
        waited_ns = window.rows.waited_ns(from_ns, to_ns)
        busy_ns = max((to_ns - from_ns) * exchange.producers - waited_ns, 0) / records
    ratio = work_ratio(run, manifest) if is_capped and not edge else None
    costs, notes = fit_costs(window.rows, manifest, busy_ns, ratio)
    exchange = replace(
        exchange,
        channels=recorded_channels(manifest, window.arrivals, window.record_wire_bytes, whole),
        costs=costs,
        task_managers=places(manifest),
        flush_overhead_ns=flush_overhead_ns(window.rows.sent, network.buffer_timeout_ns),
        buffer_size_bytes=_announced_bytes(run, from_ns) if network.debloating_enabled else None,
        ends_its_data=not manifest.is_from_between and to_ns == manifest.measured_to_ns,
        notes=tuple(notes),
    )
    if is_capped and exchange.records:
        return _saturated(exchange, window, manifest, is_alone=not edge)
    return exchange if is_capped else _with_delays(exchange, window.rows, manifest)


def work_ratio(run: Run, manifest: RunManifest) -> float | None:
    """CPU time of the TaskManagers with producers, for that of those with consumers, by the result
    of the run; None where that does not say, and where a TaskManager has both."""
    worked: dict[str, float] = {}
    for directory in {path_of(each.path).parent for each in run.files}:
        found: Any = read_document(directory / RESULT_NAME).get("processors")
        with suppress(AttributeError, KeyError, TypeError):
            busy, lacked = found["busy_share"], found["lacked_share"]
            worked |= {name: float(share - lacked[name]) for name, share in busy.items()}
    producing = {each.producer_process for each in manifest.channels}
    consuming = {each.consumer_process for each in manifest.channels}
    if producing & consuming or not all(0 < worked.get(x, 0) <= 1 for x in producing | consuming):
        return None
    return sum(worked[each] for each in producing) / sum(worked[each] for each in consuming)


def recorded_channels(
    manifest: RunManifest,
    arrivals: Mapping[int, Ramps],
    record_wire_bytes: Mapping[int, float],
    whole: RunManifest | None = None,
) -> tuple[RecordedChannel, ...]:
    """The channels that carried records; those of all edges of the run (`whole`) may share their
    connections."""
    names = sorted({each.connection for each in (whole or manifest).channels})
    connections = {name: number for number, name in enumerate(names)}
    infos = {each.index: each for each in manifest.channels}
    found = []
    for channel in sorted(arrivals):
        info, own = infos[channel], (arrivals[channel], record_wire_bytes[channel])
        connection = -1 if info.is_local else connections[info.connection]
        ends = info.producer, info.consumer
        found.append(RecordedChannel(channel, *ends, connection, *own))
    return tuple(found)


def _announced_bytes(run: Run, before_ns: int) -> int | None:
    """The buffer size that consumers had announced before an instant; the median over channels."""
    sizes: dict[int, tuple[int, int]] = {}  # of each channel: instant, size
    columns = ("at_ns", "channel", "point", "kind", "value")
    for file in run.files:
        with TraceReader(file) as reader:
            for block in reader.events(columns, to_ns=before_ns):
                keep = block["kind"] == MessageKind.NEW_BUFFER_SIZE
                keep &= block["point"] == TracePoint.SENT
                found = (block[name][keep].tolist() for name in ("channel", "at_ns", "value"))
                for channel, at_ns, size in zip(*found, strict=True):
                    sizes[channel] = max(sizes.get(channel, (at_ns, size)), (at_ns, size))
    return int(np.median([size for _, size in sizes.values()])) if sizes else None


def _with_delays(
    exchange: RecordedExchange, rows: ExchangeRows, manifest: RunManifest
) -> RecordedExchange:
    """The exchange with the delays of the machine; those of a run whose writers waited do not
    show."""
    waited_ns = rows.waited_ns(exchange.measured_from_ns, exchange.measured_to_ns)
    if waited_ns > HELD_UP_SHARE * exchange.duration_ns * exchange.producers:
        return replace(exchange, notes=(*exchange.notes, QUEUES_START_EMPTY))
    costs, channels, notes = exchange.costs, manifest.channels, list(exchange.notes)
    there, here = same_message(rows.sent, rows.received)
    wakeups = fit_wakeups(
        gaps_of(rows.sent, channels)[there],
        rows.received["at_ns"][here] - rows.sent["at_ns"][there],
        rows.sent,
        channels,
        min(TYPICAL_COSTS.receive_ns_per_message, costs.receive_ns_per_message),
        may_poll=may_poll(manifest),
    )
    if wakeups is None and any(not each.is_local for each in channels):
        notes.append(TOO_FEW)
    timeout_ns = exchange.network.buffer_timeout_ns
    delays = fit_delays(rows.sent, rows.consumed, channels, timeout_ns, costs, wakeups)
    if delays.note is not None:
        notes.append(delays.note)
    if delays.queued_at_start_ns > BEHIND_WORTH_NOTING_NS:
        notes.append(CONSUMER_STARTS_BEHIND.format(delays.queued_at_start_ns / 1e6))
    return replace(exchange, delays=delays, notes=tuple(notes), wakeups=wakeups)


def _saturated(
    exchange: RecordedExchange, window: Window, manifest: RunManifest, *, is_alone: bool
) -> RecordedExchange:
    """The exchange of a run at the highest rate, with its preemptions, and at its rate unless slow
    consumers give that. Of preemptions there is a sample if they were found in more than the
    window; they are repeated if in less, and for longer than the window, as a slower setting needs
    longer."""
    from .what_if import simulate

    fitted_ns, window_ns = window.rows_to_ns - exchange.measured_from_ns, exchange.duration_ns
    found = fit_saturation(window.rows, manifest, exchange.measured_from_ns, window.rows_to_ns)
    kept = dict(found.preemptions)
    if fitted_ns > window_ns > 0:
        kept = {name: each.condensed(fitted_ns / window_ns) for name, each in kept.items()}
        fitted_ns = window_ns
    times = 1 + PREEMPTIONS_FOR_WINDOWS * window_ns // max(fitted_ns, 1)
    kept = {process: each.repeated(times, fitted_ns) for process, each in kept.items()}
    producers = {each.producer: each.producer_process for each in manifest.channels}
    consumers = {each.consumer: each.consumer_process for each in manifest.channels}
    exchange = replace(
        exchange,
        costs=replace(exchange.costs, transit_ns=max(found.transit_ns, 0.0)),
        notes=(*exchange.notes, *found.notes),
        preemptions=(
            tuple(kept[producers[each]] for each in sorted(producers)),
            tuple(kept[consumers[each]] for each in sorted(consumers)),
        ),
    )
    if found.slow_consumers or not is_alone:
        return exchange
    scaled = at_recorded_rate(
        exchange, lambda each: simulate(each, each.network).throughput_records_per_s
    )
    return exchange if scaled is None else replace(scaled, notes=(*scaled.notes, RATE_IS_FITTED))
