"""Where the time of each channel of a run went, for `diagnose`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flinknet.arrays import FloatArray, IntArray
from flinknet.predict.exchange import recorded_network
from flinknet.trace import RunManifest

from ..observe.observed_run import ObservedRun
from ..observe.regimes import REGIMES
from .diagnose import ChannelTimes, in_groups


def channel_times(observed: ObservedRun) -> ChannelTimes:
    """The channels of a run with their time by regime."""
    run, rows = observed.run, observed.rows
    channel, producer, consumer = channel_ends(run.manifest)
    waiting = producer[np.isin(channel, rows.waited["channel"])]
    return ChannelTimes(
        edge=run.ends.name,
        channel=channel,
        producer=producer,
        consumer=consumer,
        records=rows.consumed.of(channel, "count"),
        spent_ns={name: rows.regimes.of(channel, name) for name in REGIMES},
        is_held_up=np.isin(producer, waiting),
    )


def times_between(observed: ObservedRun) -> ChannelTimes:
    """The channels of a run that was recorded between processes, with the time that shows there.

    A channel of a task that was restarted goes on as that of its next attempt.
    """
    run, rows = observed.run, observed.rows
    channel, producer, consumer = channel_ends(run.manifest)
    is_known = (producer >= 0) & (consumer >= 0)
    pair = producer * (1 << 32) + consumer
    _, place = in_groups(np.where(is_known, pair, -1 - channel))
    attempts = int(place.max(initial=-1)) + 1

    def summed(values: IntArray) -> IntArray:
        found = np.zeros(attempts, np.int64)
        np.add.at(found, place, values)
        return found

    blocked_ns = np.minimum(summed(rows.blocked.of(channel, "ns")), run.duration_ns)
    # Behind a barrier it is not credit that is waited for.
    starved_ns = summed(rows.credit_starved.of(channel, "ns"))
    starved_ns = np.minimum(starved_ns, run.duration_ns - blocked_ns)
    first = np.full(attempts, len(channel))
    np.minimum.at(first, place, np.arange(len(channel)))
    return ChannelTimes(
        edge=run.ends.name,
        channel=channel[first],
        producer=producer[first],
        consumer=consumer[first],
        records=summed(rows.throughput_by_channel.of(channel, "records")),
        spent_ns={
            "waiting_for_credit": starved_ns,
            "blocked_by_alignment": blocked_ns,
            "unknown": run.duration_ns - starved_ns - blocked_ns,
        },
        is_held_up=np.zeros(attempts, bool),
        without_credit=_without_credit(observed, summed),
        is_credit_known=run.is_credit_known,
    )


def _without_credit(
    observed: ObservedRun, summed: Callable[[IntArray], IntArray]
) -> FloatArray | None:
    """Share of the time of each channel without credit; None where it has none to begin with."""
    run = observed.run
    if recorded_network(run.manifest).exclusive_buffers == 0:
        return None
    channel = channel_ends(run.manifest)[0]
    without_ns = summed(observed.rows.without_credit.of(channel, "ns"))
    return np.minimum(without_ns / run.duration_ns, 1.0)


def channel_ends(manifest: RunManifest) -> tuple[IntArray, IntArray, IntArray]:
    """The channels of a manifest with the subtasks at their ends: index, producer, consumer."""
    channels = manifest.channels
    index, producer, consumer = (
        np.fromiter((getattr(each, name) for each in channels), np.int64, len(channels))
        for name in ("index", "producer", "consumer")
    )
    return index, producer, consumer
