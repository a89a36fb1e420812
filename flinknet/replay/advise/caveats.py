"""Caveats: why to doubt the numbers of a run, and which is which where two look alike."""

from __future__ import annotations

import numpy as np

from flinknet.core.probe import TracePoint
from flinknet.predict.exchange import has_own_timeout, recorded_network
from flinknet.results import EdgeShare, Measured, clock_warnings
from flinknet.trace.metrics import number_of
from flinknet.units import counted, human_count, human_duration

from ..edges import channel_ends
from ..observe.checkpoints import BARRIER_TYPES
from ..observe.measured import ObservedRows, ObservedRun
from ..read import RecordedRun, result_of, stated_warnings

NOT_SEALED = "not sealed: changes of manifest.json, or files of another run, are not detected"

PRODUCERS_NAMED = 8

CONSUMERS_UNSEEN = (
    "its consumers were not recorded, because they ran elsewhere: latency was not observed, what"
    " consumers take for a record is assumed, and predicted latencies are those until they read it"
)

SET_BY_OPERATOR = (
    "the job's code sets the buffer timeout of {}: change it there (set_buffer_timeout);"
    " execution.buffer-timeout.interval does not act on it"
)


def warnings_of(run: RecordedRun) -> list[str]:
    """What the run itself said to doubt it; nothing without a result."""
    if len(run.recordings) > 1:  # a tap has no warnings of a run
        return []
    texts = [each.text for each in clock_warnings(run.manifest.clock.error_ns)]
    texts += [str(each["text"]) for each in stated_warnings(run) if "text" in each]
    return list(dict.fromkeys(texts))


def caveats(observed: ObservedRun, share: EdgeShare | None = None) -> tuple[str, ...]:
    """Lines for a person, the weightiest first, with the share of the edge that was recorded."""
    run, rows, measured = observed.run, observed.rows, observed.measured
    # `bench produce` records the producers only
    is_one_end = run.counted_at == TracePoint.SENT and not run.manifest.is_from_between
    found = [
        *run.notes,
        None if run.manifest.is_sealed else NOT_SEALED,
        SET_BY_OPERATOR.format("this edge") if has_own_timeout(run.manifest) else None,
        CONSUMERS_UNSEEN if is_one_end else None,
        _of_channels(run, share),
        _of_missing_producers(run),
        _of_barriers(run, rows),
        _of_count(run, measured),
        _of_credit(run, rows, measured),
    ]
    return tuple(each for each in found if each)


def _of_channels(run: RecordedRun, share: EdgeShare | None) -> str | None:
    """What was not recorded: of the channels that Flink says there are, else as numbers show it."""
    if share is None or share.channels is None or share.local_channels is None:
        return _of_local_channels(run)
    counters = "how many records they carry is unknown, and no figure here includes them"
    if share.recorded_share is not None:
        counters = (
            f"the trace has {share.recorded_share:.0%} of the edge's"
            f" {human_count(share.records_per_s)} records/s by Flink's counters, and what was"
            " observed of the edge is of that part"
        )
    if not share.local_channels:
        # counters differ in their instants
        return None if (share.recorded_share or 1.0) > 0.95 else counters
    local = f"{share.local_channels:,} of {share.channels:,} channels"
    part = f"{share.local_channels / share.channels:.0%}"
    return f"{local} ({part}) are local, never on the wire: {counters}"


def _of_local_channels(run: RecordedRun) -> str | None:
    """Channels that were not recorded, as far as numbers of producers and consumers show it."""
    if not run.manifest.is_from_between:
        return None
    _, producer, consumer = channel_ends(run.manifest)
    is_known = (producer >= 0) & (consumer >= 0)
    producers = 1 + int(producer[is_known].max(initial=-1))
    consumers = 1 + int(consumer[is_known].max(initial=-1))
    pairs = len(np.unique(producer[is_known] * consumers + consumer[is_known]))
    every = producers * consumers
    if pairs == every:
        return (
            "channels within a TaskManager do not pass here; if there are any, no figure here"
            " includes them"
        )
    return (
        f"at least {every - pairs} of {every} channels ({1 - pairs / every:.0%}) did not"
        f" pass here, most likely local ones, and no figure here includes them: inferred from"
        f" {producers} producers and {consumers} consumers, if each sends to each"
    )


def _of_missing_producers(run: RecordedRun) -> str | None:
    """Producers of which none of several recordings has a channel: perhaps one is missing."""
    known = {info.producer for info in run.manifest.channels}
    missing = [each for each in range(max(known, default=-1)) if each not in known]
    if len(run.recordings) < 2 or not missing:
        return None
    noun = "producer" if len(missing) == 1 else "producers"
    some = ", ".join(map(str, missing[:PRODUCERS_NAMED]))
    more = f" and {len(missing) - PRODUCERS_NAMED} more" if len(missing) > PRODUCERS_NAMED else ""
    return (
        f"no recording has a channel of {noun} {some}{more}: the recording of their TaskManager is"
        " missing, or all of their channels are local"
    )


def _of_barriers(run: RecordedRun, rows: ObservedRows) -> str | None:
    barriers = sum(
        row.messages
        for row in rows.messages
        if row.point == TracePoint.SENT and row.data_type in BARRIER_TYPES
    )
    if not barriers:
        return None
    said = f"{counted(barriers, 'checkpoint barrier')}, which may end buffers early, passed"
    if recorded_network(run.manifest).checkpoint_interval_ns is not None:
        return f"{said}; predictions have checkpoints at the recorded interval"
    return (
        f"{said}; predictions are of a run without checkpoints, and the model's error includes"
        " that: --alignment and --checkpoint-interval predict with them"
    )


def _of_count(run: RecordedRun, measured: Measured) -> str | None:
    """Why bench and its trace count differently; only where both are of the same part."""
    if run.edge is not None or run.notes or run.manifest.is_from_between:
        return None
    stated = result_of(run).get("measured")
    recorded = stated if isinstance(stated, dict) else {}
    counted, per_s = recorded.get("records"), number_of(recorded.get("throughput_records_per_s"))
    if not isinstance(counted, int) or not counted:
        return None
    if abs(measured.records - counted) < 0.005 * counted:
        return None
    rate = "" if per_s is None else f", {human_count(per_s)}/s"
    return (
        f"the run itself counted {counted:,} records{rate}: it knew the instant of each; a trace"
        " knows those of the first and the last record of a buffer, and takes those between as"
        " evenly spread, also over the edges of the measured part"
    )


def _of_credit(run: RecordedRun, rows: ObservedRows, measured: Measured) -> str | None:
    starved_ns = measured.credits.starved_ns or 0
    whole_ns = run.duration_ns * max(len(run.manifest.channels), 1)
    if run.manifest.is_from_between or starved_ns < 0.05 * whole_ns:
        return None
    waiting_ns = int(rows.regimes["waiting_for_credit"].sum())
    starved, waiting = human_duration(starved_ns), human_duration(waiting_ns)
    return (
        "'starved' is not 'waiting for credit': over all channels, producers had buffers queued and"
        f" no credit for {starved}; the oldest record of a channel was among them for {waiting},"
        " and only that time counts as waiting for credit"
    )
