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
        records, width = sum(channel.records for channel in own), len(own)
        rows = -(-records // batch_records)
        if width == 1:
            batches = np.full((rows, 1), batch_records, np.int64)
            batches[-1, 0] = records - (rows - 1) * batch_records
        else:
            places = np.arange(records) // batch_records * width + emission_order(own)[1]
            batches = np.bincount(places, minlength=rows * width).reshape(rows, width)
        found.append(batches)
    return found


def preemptions_of(exchange: RecordedExchange, load: LoadPlan) -> dict[int, Preemptions]:
    """The preemptions of each TaskManager: those of the process of its first task."""
    found: dict[int, Preemptions] = {}
    for of_tasks, tasks in zip(exchange.preemptions, (load.sources, load.sinks), strict=True):
        for each, task in zip(of_tasks, tasks, strict=False):
            found.setdefault(task.task_manager, each)
    return found
