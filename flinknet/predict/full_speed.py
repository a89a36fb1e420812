"""Batches of the sources of a run at the highest rate, and preemptions of its processes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray
from flinknet.job.load.payload import MAX_RATE_BATCH_BYTES
from flinknet.job.load.plan import LoadPlan
from flinknet.simulator.cost_model import Preemptions

from .kernel.memory import Arrivals, Batches, Ramp
from .kernel.views import KernelMemory
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
        found.append(np.diff(_records_before(own, batch_records), axis=0, prepend=0))
    return found


def _records_before(channels: Sequence[RecordedChannel], batch_records: int) -> IntArray:
    """How many of the records that were emitted up to the end of each batch went to each of some
    channels: for each batch a row.
    """
    total = sum(channel.records for channel in channels)
    if len(channels) == 1:
        return np.append(np.arange(batch_records, total, batch_records), total)[:, np.newaxis]
    from .kernel.times import count_batches

    memory = KernelMemory()
    head = memory.take(Batches.width())
    places = memory.take(Arrivals.width() * len(channels))
    first_ns, last_ns = [], []
    for number, channel in enumerate(channels):
        each = _one_after_another(channel.arrivals)
        first = memory.table_of((each.records, each.first_ns, each.ends_ns))
        end = first + len(each) * Ramp.width()
        memory.put(Arrivals, places + number * Arrivals.width(), ramp=first, end=end)
        first_ns.append(int(each.first_ns[0]))
        last_ns.append(int(each.ends_ns[-1]))
    batches = -(-total // batch_records)
    counts = memory.take(batches * len(channels))
    memory.put(Batches, head, channels_count=len(channels), channels=places, counts=counts)
    words = memory.to_array()
    count_batches(words, batch_records, min(first_ns), max(last_ns))
    return words[counts:].reshape(batches, len(channels))


def _one_after_another(arrivals: Ramps) -> Ramps:
    """Split ramps so that they do not overlap."""
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
