"""What a run at the highest rate is made of: the batches of its sources, and when its processes are
kept from work.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray
from flinknet.job.load.payload import MAX_RATE_BATCH_BYTES
from flinknet.job.load.plan import LoadPlan
from flinknet.simulator.cost_model import Preemptions

from .ramps import Ramps
from .recorded import RecordedChannel, RecordedExchange


def emission_order(
    channels: Sequence[RecordedChannel],
) -> tuple[IntArray, npt.NDArray[np.int32]]:
    """The instants of all records that a producer emits, ascending, and the subpartition of each.

    Args:
        channels: of the producer, in the order of its subpartitions.
    """
    instants_ns = np.concatenate([channel.arrivals_ns for channel in channels])
    counts = [channel.records for channel in channels]
    subpartitions = np.repeat(np.arange(len(channels), dtype=np.int32), counts)
    order = np.argsort(instants_ns, kind="stable")
    return instants_ns[order], subpartitions[order]


def batches_of(exchange: RecordedExchange, record_bytes: int) -> list[IntArray]:
    """The batches that each producer writes, one after the other: in each row how many records go
    to each of its subpartitions.
    """
    batch_records = max(1, MAX_RATE_BATCH_BYTES // record_bytes)
    found = []
    for producer in range(exchange.producers):
        own = [channel for channel in exchange.channels if channel.producer == producer]
        total = sum(channel.records for channel in own)
        ends = np.append(np.arange(batch_records, total, batch_records), total)
        found.append(np.diff(_records_before(own, ends), axis=0, prepend=0))
    return found


def _records_before(channels: Sequence[RecordedChannel], counts: IntArray) -> IntArray:
    """How many of so many records that were emitted first go to each of some channels: for each
    count a row. What `emission_order` comes to, in the time of their stretches, not of records.
    """
    if len(channels) == 1:
        return counts[:, np.newaxis]
    arrivals = [_one_after_another(channel.arrivals) for channel in channels]
    low_ns = np.full(len(counts), min(int(each.first_ns[0]) for each in arrivals) - 1)
    high_ns = np.full(len(counts), max(int(each.ends_ns[-1]) for each in arrivals))
    while (high_ns - low_ns > 1).any():  # too few have come at low_ns, enough at high_ns
        middle_ns = (low_ns + high_ns) >> 1
        has_come = np.sum([each.until(middle_ns) for each in arrivals], axis=0) >= counts
        low_ns = np.where(has_come, low_ns, middle_ns)
        high_ns = np.where(has_come, middle_ns, high_ns)
    before = np.stack([each.until(high_ns - 1) for each in arrivals], axis=1)
    until = np.stack([each.until(high_ns) for each in arrivals], axis=1)
    left = counts - before.sum(axis=1)  # those of the last instant, of the first channels first
    for place in range(len(channels)):
        taken = np.minimum(until[:, place] - before[:, place], left)
        before[:, place] += taken
        left -= taken
    return before


def _one_after_another(arrivals: Ramps) -> Ramps:
    """The same records in stretches that do not overlap."""
    if (arrivals.first_ns[1:] >= arrivals.ends_ns[:-1]).all():  # as good as always
        return arrivals
    return Ramps.of(np.sort(arrivals.instants()[1]))


def preemptions_of(exchange: RecordedExchange, load: LoadPlan) -> dict[int, Preemptions]:
    """The preemptions of each TaskManager: those of the process of its first task."""
    found: dict[int, Preemptions] = {}
    for of_tasks, tasks in zip(exchange.preemptions, (load.sources, load.sinks), strict=True):
        for each, task in zip(of_tasks, tasks, strict=False):
            found.setdefault(task.task_manager, each)
    return found
