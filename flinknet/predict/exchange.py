"""A recorded run as the simulator wants it: who sends to whom, when records came, what the steps
cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from flinknet.config import BLOCKING, BUFFER_TIMEOUT_NEVER_NS, CREDIT, RATE_MAX, NetworkConfig
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.options import canonical, network_config
from flinknet.simulator.cost_model import Outages
from flinknet.trace import Run, RunManifest, TraceReader, open_run
from flinknet.trace.event_block import EventBlock, EventColumns, is_data, lazy_block

from .costs import ASSUMED_RECEIVE_NS_PER_MESSAGE, CostFit, DataRows, fit_costs, saturated_costs
from .delays import fit_delays
from .machine import bystanders, may_poll, places, receivers
from .measured_part import measured_part
from .recorded import Ramps, RecordedChannel, RecordedExchange, Setting
from .saturated_rows import SaturatedRows
from .saturation import Saturation, fit_saturation
from .wakes import TOO_FEW, Wakes, fit_wakes

COST_ROWS_PER_FILE = 200_000
"""Rows that the costs are fitted from at most, from the start of the window."""

MAX_RATE_ROWS_PER_FILE = 1_000_000
"""The same at the highest rate, some five seconds of it: a shared machine is faster now and slower
then, by a fifth from one second to the next."""

LATEST_ARRIVAL_NS = 10_000_000_000
"""How long after its intended instant a record is looked for among the buffers sent, beside the
buffer timeout."""

OUTAGES_FOR_WINDOWS = 5

ASSUMED_FLUSH_OVERHEAD_NS = 100_000
"""As in Flink."""

PERIODS_MIN = 10
"""Periods of the flusher that tell how long it is."""

HELD_UP_SHARE = 0.01
"""Of the time of writers: what they waited for buffers if that is what delayed messages. Less is an
incident, such as a pause of 40 ms of one process in 10 s, and a delay as others are."""

BLOCKING_IS_NO_MODEL = (
    "the exchange was blocking: it was read only when all of it was written, and the model knows"
    " only exchanges that are read meanwhile"
)
"""Why nothing is predicted of such an exchange."""

QUEUES_START_EMPTY = (
    "writers had to wait for buffers: the simulation starts with empty queues, the measured part"
    " of the recorded run perhaps with full ones"
)

CONSUMER_STARTS_BEHIND = (
    "a consumer was {:.0f} ms behind when the measured part of the run began: the simulation starts"
    " with empty queues"
)

BEHIND_WORTH_TELLING_NS = 5_000_000

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
    "first_record_ns",
    "last_record_ns",
    "value",
)
_ARRIVAL_COLUMNS = ("channel", "records", "first_record_ns", "last_record_ns")
_WAIT_COLUMNS = ("at_ns", "channel", "point")


def recorded_network(manifest: RunManifest) -> NetworkConfig:
    """The network settings of a run."""
    stated: Any = manifest.scenario.get("network")
    if isinstance(stated, dict) and set(stated) == {each.name for each in fields(NetworkConfig)}:
        return NetworkConfig(**stated)
    return network_config(
        canonical({key: str(value) for key, value in manifest.flink_keys.items()})
    )[0]


def recorded_setting(manifest: RunManifest) -> Setting:
    """The setting of a run."""
    return Setting(recorded_network(manifest), manifest.scenario.get("flow_control", CREDIT))


def is_blocking(manifest: RunManifest) -> bool:
    """Whether consumers read only when producers had ended, which no model here knows."""
    return bool(manifest.scenario.get("workload", {}).get("partition_type") == BLOCKING)


def is_max_rate(manifest: RunManifest) -> bool:
    """Whether the producers of a run emitted as fast as they could."""
    return bool(manifest.scenario.get("workload", {}).get("rate_per_s") == RATE_MAX)


def load_exchange(
    path: Path,
    from_ns: int,
    to_ns: int,
    *,
    edge: int | None = None,
    with_arrivals: bool = True,
) -> tuple[RecordedExchange, CostFit]:
    """Read the arrivals of a window, and fit the costs to its start. Runs in an executor.

    Args:
        path: run directory.
        from_ns: start of the window.
        to_ns: end of the window; records count by their intended instant.
        edge: of a run with several exchanges, which one.
        with_arrivals: whether to read on when the costs are known; if not, there are no channels.
    """
    run = open_run(path)
    manifest = run.manifest
    assert manifest is not None, "runs without a manifest are refused by open_recorded_run"
    own = None
    if edge is not None:
        manifest = manifest.of_edge(edge)
        own = [each.index for each in manifest.channels]
    network = recorded_network(manifest)
    until_ns = None
    if network.buffer_timeout_ns != BUFFER_TIMEOUT_NEVER_NS:
        until_ns = to_ns + 2 * network.buffer_timeout_ns + LATEST_ARRIVAL_NS
    arrivals: dict[int, list[Ramps]] = {}
    sizes: dict[int, list[int]] = {}
    cost_rows: dict[int, list[EventColumns]] = {point: [] for point in (0, 1, 2)}
    credit_rows: dict[int, list[EventColumns]] = {point: [] for point in (0, 1)}
    waits: list[EventColumns] = []
    fitted_to_ns, rows_max = to_ns, COST_ROWS_PER_FILE
    if is_max_rate(manifest):  # its costs change from moment to moment: the more the better
        rows_max = MAX_RATE_ROWS_PER_FILE
        fitted_to_ns = max(to_ns, measured_part(run).to_ns)
    for file in run.files:
        seen = 0
        with TraceReader(file) as reader:
            for block in reader.events(_COLUMNS, own, from_ns, until_ns):
                sent = EventBlock(block).data_at(TracePoint.SENT)
                _add_arrivals(sent, from_ns, to_ns, arrivals, sizes)
                is_wait = (block["point"] == TracePoint.WRITER_WAITS) | (
                    block["point"] == TracePoint.WRITER_RESUMES
                )
                waits.append({name: block[name][is_wait] for name in _WAIT_COLUMNS})
                if seen < rows_max:
                    for point, parts in cost_rows.items():
                        keep = is_data(block, point)
                        parts.append({name: values[keep] for name, values in block.items()})
                    for point, parts in credit_rows.items():
                        is_credit = (block["kind"] == MessageKind.ADD_CREDIT) & (
                            block["point"] == point
                        )
                        parts.append({name: values[is_credit] for name, values in block.items()})
                    seen += len(block["at_ns"])
                    if seen >= rows_max:
                        fitted_to_ns = min(fitted_to_ns, int(block["at_ns"].max()))
                        if not with_arrivals:
                            break
    rows = {point: _joined(parts) for point, parts in cost_rows.items()}
    infos = {each.index: each for each in manifest.channels}
    remote = [each.index for each in manifest.channels if not each.is_local]
    if remote:  # what goes through memory tells nothing of sending and of the way
        for point in (TracePoint.SENT, TracePoint.RECEIVED):
            is_remote = np.isin(rows[point]["channel"], remote)
            rows[point] = {name: values[is_remote] for name, values in rows[point].items()}
    producers = 1 + max((each.producer for each in manifest.channels), default=0)
    consumers = 1 + max((each.consumer for each in manifest.channels), default=0)
    ramps = {
        channel: _in_order(parts).within(from_ns, to_ns)
        for channel, parts in arrivals.items()
        if with_arrivals
    }
    records = sum(each.total_records for each in ramps.values())
    consumer_of = {index: each.consumer for index, each in infos.items()}
    busy_ns_per_record, saturation, wakes = None, None, None
    if is_max_rate(manifest) and records:
        busy_ns = (to_ns - from_ns) * producers - _waited_ns(waits, from_ns, to_ns)
        busy_ns_per_record = max(busy_ns, 0) / records
        saturation = _saturation(rows, credit_rows, waits, manifest, from_ns, fitted_to_ns)
        if saturation.busy_ns_per_record:
            busy_ns_per_record = float(np.mean([*saturation.busy_ns_per_record.values()]))
    fit = fit_costs(
        DataRows(rows[TracePoint.SENT], rows[TracePoint.RECEIVED], rows[TracePoint.CONSUMED]),
        consumer_of,
        consumers,
        busy_ns_per_record,
    )
    if not is_max_rate(manifest):
        waited_ns = _waited_ns(waits, from_ns, to_ns)
        if waited_ns > HELD_UP_SHARE * (to_ns - from_ns) * producers:
            fit = replace(fit, notes=(*fit.notes, QUEUES_START_EMPTY))
        else:
            receiver_of = receivers(manifest)
            wakes = fit_wakes(
                rows[TracePoint.SENT],
                rows[TracePoint.RECEIVED],
                receiver_of,
                {index: each.producer for index, each in infos.items()},
                min(ASSUMED_RECEIVE_NS_PER_MESSAGE, fit.costs.receive_ns_per_message),
                may_poll=may_poll(manifest),
            )
            if wakes is None and remote:
                fit = replace(fit, notes=(*fit.notes, TOO_FEW))
            fit = _with_delays(fit, rows, network, consumer_of, receiver_of, wakes, manifest)
    if saturation is not None:
        fit = saturated_costs(fit, rows[TracePoint.CONSUMED], saturation, manifest)
    exchange = RecordedExchange(
        producers=producers,
        consumers=consumers,
        channels=recorded_channels(
            manifest, ramps, {channel: size / count for channel, (size, count) in sizes.items()}
        ),
        network=network,
        is_max_rate=is_max_rate(manifest),
        measured_from_ns=from_ns,
        measured_to_ns=to_ns,
        seed=manifest.seed,
        costs=fit.costs,
        flow_control=manifest.scenario.get("flow_control", CREDIT),
        task_managers=places(manifest),
        flush_overhead_ns=flush_overhead_ns(rows[TracePoint.SENT], network.buffer_timeout_ns),
        buffer_size_bytes=_announced_bytes(run, from_ns) if network.debloating_enabled else None,
        outages=_outages(saturation, manifest, fitted_to_ns - from_ns, to_ns - from_ns),
        wakes=wakes,
        ends_its_data=not manifest.is_from_between and to_ns == manifest.measured_to_ns,
    )
    return exchange, fit


def recorded_channels(
    manifest: RunManifest, arrivals: Mapping[int, Ramps], record_wire_bytes: Mapping[int, float]
) -> tuple[RecordedChannel, ...]:
    """The channels that carried records."""
    infos = {each.index: each for each in manifest.channels}
    connections = sorted({each.connection for each in manifest.channels})
    return tuple(
        RecordedChannel(
            channel=channel,
            producer=infos[channel].producer,
            consumer=infos[channel].consumer,
            connection=-1
            if infos[channel].is_local
            else connections.index(infos[channel].connection),
            arrivals=arrivals[channel],
            record_wire_bytes=record_wire_bytes[channel],
        )
        for channel in sorted(arrivals)
    )


def read_arrivals(
    files: Sequence[Path], from_ns: int, to_ns: int, until_ns: int
) -> dict[int, Ramps]:
    """The instants of the records of each channel that came in [from_ns, to_ns) and were sent
    before until_ns; stretches at the edges are whole."""
    arrivals: dict[int, list[Ramps]] = {}
    for file in files:
        with TraceReader(file) as reader:
            for index, entry in enumerate(reader.blocks()):
                if entry.last_ns < from_ns or entry.first_ns >= until_ns:
                    continue
                sent = lazy_block(reader, index).data_at(TracePoint.SENT)
                if len(sent["channel"]) and (entry.first_ns < from_ns or entry.last_ns >= until_ns):
                    keep = (sent["at_ns"] >= from_ns) & (sent["at_ns"] < until_ns)
                    sent = {name: sent[name][keep] for name in _ARRIVAL_COLUMNS}
                _add_arrivals(sent, from_ns, to_ns, arrivals)
    return {channel: _in_order(parts) for channel, parts in arrivals.items()}


def _announced_bytes(run: Run, before_ns: int) -> int | None:
    """The buffer size that consumers had announced before an instant; the median over channels."""
    sizes: dict[int, tuple[int, int]] = {}  # of each channel: instant, size
    columns = ("at_ns", "channel", "point", "kind", "value")
    for file in run.files:
        with TraceReader(file) as reader:
            for block in reader.events(columns, to_ns=before_ns):
                keep = (block["kind"] == MessageKind.NEW_BUFFER_SIZE) & (
                    block["point"] == TracePoint.SENT
                )
                found = (block[name][keep].tolist() for name in ("channel", "at_ns", "value"))
                for channel, at_ns, size in zip(*found, strict=True):
                    sizes[channel] = max(sizes.get(channel, (at_ns, size)), (at_ns, size))
    return int(np.median([size for _, size in sizes.values()])) if sizes else None


def flush_overhead_ns(sent: EventColumns, buffer_timeout_ns: int) -> int:
    """What the flusher's period was longer than the timeout: it sleeps anew after each flush.

    ASSUMED_FLUSH_OVERHEAD_NS where the rows of data buffers do not tell.
    """
    if buffer_timeout_ns <= 0:
        return ASSUMED_FLUSH_OVERHEAD_NS
    periods: list[Any] = []
    for channel in np.unique(sent["channel"]).tolist():
        own = (sent["channel"] == channel) & (sent["reason"] == FlushReason.FLUSH)
        gaps_ns = np.diff(np.sort(sent["at_ns"][own]))
        is_next = (gaps_ns > 0.8 * buffer_timeout_ns) & (gaps_ns < 1.5 * buffer_timeout_ns)
        periods.append(gaps_ns[is_next])
    seen_ns = np.concatenate(periods or [np.zeros(0, np.int64)])
    if len(seen_ns) < PERIODS_MIN:
        return ASSUMED_FLUSH_OVERHEAD_NS
    return max(int(np.median(seen_ns)) - buffer_timeout_ns, 0)


def _saturation(
    rows: Mapping[int, EventColumns],
    credit_rows: Mapping[int, list[EventColumns]],
    waits: list[EventColumns],
    manifest: RunManifest,
    from_ns: int,
    to_ns: int,
) -> Saturation:
    def cut(columns: EventColumns) -> EventColumns:
        keep = (columns["at_ns"] >= from_ns) & (columns["at_ns"] < to_ns)
        return {name: values[keep].astype(np.int64) for name, values in columns.items()}

    return fit_saturation(
        SaturatedRows(
            cut(rows[TracePoint.SENT]),
            cut(rows[TracePoint.RECEIVED]),
            cut(rows[TracePoint.CONSUMED]),
            cut(_joined(credit_rows[TracePoint.SENT])),
            cut(_joined(credit_rows[TracePoint.RECEIVED])),
            cut(_joined(waits, _WAIT_COLUMNS)),
        ),
        manifest,
        from_ns,
        to_ns,
    )


def _outages(
    saturation: Saturation | None, manifest: RunManifest, fitted_ns: int, window_ns: int
) -> tuple[tuple[Outages, ...], tuple[Outages, ...]]:
    """Of the process of each producer and each consumer; a sample if they were looked for in more
    than the window, over and over if in less, and for longer than it, for a slower setting needs
    longer.
    """
    if saturation is None:
        return (), ()
    found = dict(saturation.outages)
    if fitted_ns > window_ns > 0:
        found = {name: each.condensed(fitted_ns / window_ns) for name, each in found.items()}
        fitted_ns = window_ns
    times = 1 + OUTAGES_FOR_WINDOWS * window_ns // max(fitted_ns, 1)
    found = {process: each.repeated(times, fitted_ns) for process, each in found.items()}
    producers = {each.producer: each.producer_process for each in manifest.channels}
    consumers = {each.consumer: each.consumer_process for each in manifest.channels}
    return (
        tuple(found[producers[each]] for each in sorted(producers)),
        tuple(found[consumers[each]] for each in sorted(consumers)),
    )


def _add_arrivals(
    sent: EventColumns,
    from_ns: int,
    to_ns: int,
    arrivals: dict[int, list[Ramps]],
    sizes: dict[int, list[int]] | None = None,
) -> None:
    """Add the instants of the records of a block's sent buffers, and their bytes if `sizes` are
    wanted, by channel. Rows of a channel stand together."""
    if not len(sent["channel"]):  # nothing else of the block is read then
        return
    keep = (sent["channel"] >= 0) & (sent["records"] > 0) & (sent["first_record_ns"] >= 0)
    keep &= (sent["first_record_ns"] < to_ns) & (sent["last_record_ns"] >= from_ns)
    kept = np.flatnonzero(keep)
    channels, *columns = (sent[name].take(kept).astype(np.int64) for name in _ARRIVAL_COLUMNS)
    starts = np.flatnonzero(np.diff(channels, prepend=-1))
    for start, end in pairwise([*starts.tolist(), len(kept)]):
        channel = int(channels[start])
        own = Ramps(*(values[start:end] for values in columns))
        arrivals.setdefault(channel, []).append(own)
        if sizes is not None:
            size = sizes.setdefault(channel, [0, 0])
            size[0] += int(sent["payload_bytes"].take(kept[start:end]).sum(dtype=np.int64))
            size[1] += own.total_records


def _in_order(parts: Sequence[Ramps]) -> Ramps:
    first_ns = np.concatenate([each.first_ns for each in parts])
    order = np.argsort(first_ns, kind="stable")
    return Ramps(
        np.concatenate([each.records for each in parts])[order],
        first_ns[order],
        np.concatenate([each.last_ns for each in parts])[order],
    )


def _with_delays(
    fit: CostFit,
    rows: dict[int, EventColumns],
    network: NetworkConfig,
    consumer_of: Mapping[int, int],
    receiver_of: Mapping[int, int],
    wakes: Wakes | None,
    manifest: RunManifest,
) -> CostFit:
    """Add what the machine added to each message, for the simulation itself is always on time.

    Not for runs whose writers had to wait (HELD_UP_SHARE): messages were late because of that, and
    the simulation lets them wait too.
    """
    delays = fit_delays(
        rows[TracePoint.SENT],
        rows[TracePoint.CONSUMED],
        network.buffer_timeout_ns,
        fit.costs,
        consumer_of,
        receiver_of,
        wakes,
    )
    delays = replace(delays, **bystanders(manifest))
    notes = fit.notes if delays.note is None else (*fit.notes, delays.note)
    if delays.queued_at_start_ns > BEHIND_WORTH_TELLING_NS:
        notes = (*notes, CONSUMER_STARTS_BEHIND.format(delays.queued_at_start_ns / 1e6))
    return replace(fit, delays=delays, notes=notes)


def _waited_ns(parts: list[EventColumns], from_ns: int, to_ns: int) -> int:
    """Time that writers waited for buffers, over all producers; each tells it on a channel of its
    own."""
    rows = _joined(parts, _WAIT_COLUMNS)
    waited_ns = 0
    for channel in np.unique(rows["channel"]).tolist():
        own = rows["channel"] == channel
        order = np.argsort(rows["at_ns"][own], kind="stable")
        at_ns = np.clip(rows["at_ns"][own][order], from_ns, to_ns)
        is_waiting = rows["point"][own][order] == TracePoint.WRITER_WAITS
        waited_ns += int(np.diff(np.r_[at_ns, to_ns])[is_waiting].sum())
        if not is_waiting[0]:
            waited_ns += int(at_ns[0]) - from_ns
    return waited_ns


def _joined(parts: list[EventColumns], columns: Sequence[str] = _COLUMNS) -> EventColumns:
    return {
        name: np.concatenate([part[name] for part in parts] or [np.zeros(0, np.int64)])
        for name in columns
    }
