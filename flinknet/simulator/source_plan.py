"""SourcePlan: all records of a source, so that virtual time need not stop for each record.

A record written into an open buffer has no effect until the flusher's next beat, until the segment
is full, or until anything else happens in its TaskManager. The records that open a segment follow
from the length of records alone. So the instants at which the source must be stepped are known in
advance. At each step it emits all records due until then, and the messages are equal to those of a
step for each record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flinknet.arrays import IntArray
from flinknet.config import RecordSize
from flinknet.core.producer.channel_selector import murmur_hash
from flinknet.core.wire.records import OVERHEAD_BYTES
from flinknet.errors import ConfigError
from flinknet.job.load.arrivals import ScheduledArrivals
from flinknet.job.load.load_tasks import key_draws
from flinknet.job.load.plan import LoadPlan
from flinknet.job.selectors import create_selector


@dataclass(frozen=True, slots=True, eq=False)
class SourcePlan:
    """The records of a source.

    Attributes:
        subpartitions: subpartition of each record; None if all go to `only`.
        instants_ns: intended instants, ascending; None at the highest rate.
        records: number of records.
        end_ns: end of the data, not before the last instant; at the highest rate the data ends with
            the last record.
        only: subpartition of all records, or BROADCAST, if `subpartitions` is None.
    """

    subpartitions: NDArray[np.int32] | None
    instants_ns: IntArray | None
    records: int
    end_ns: int = 0
    only: int = 0

    def segment_instants(self, size: RecordSize, segment_bytes: int) -> list[int] | None:
        """Instants at which a record opens a new segment on any channel, ascending; None if they
        cannot be computed, so that the source must be stepped for each record.
        """
        instants_ns = self.instants_ns
        if instants_ns is None or not size.is_constant:
            return None
        record_bytes = size.low_bytes + OVERHEAD_BYTES
        if record_bytes > segment_bytes:
            return None
        if self.subpartitions is None:
            streams = [instants_ns]
        else:
            streams = [
                instants_ns[self.subpartitions == subpartition]
                for subpartition in range(int(self.subpartitions.max(initial=-1)) + 1)
            ]
        opened = []
        for stream in streams:
            segments = len(stream) * record_bytes // segment_bytes
            first_records = np.arange(segments + 1) * segment_bytes // record_bytes
            opened.append(stream[first_records[first_records < len(stream)]])
        return np.sort(np.concatenate(opened)).tolist() if opened else []


def plan_sources(load: LoadPlan, *, start_ns: int) -> list[SourcePlan]:
    """Plans of the sources of a scenario, by producer, without warm-up.

    The keys of hash partitioning differ from the runtime's: unless they are skewed, they are
    successive hashed numbers here, not drawn.

    Raises: ConfigError for a scenario without a number of records.
    """
    scenario = load.scenario
    workload, seed = scenario.workload, scenario.seed
    plans = []
    for source in load.sources:
        producer, output = source.subtask, source.outputs[0]
        instants_ns = None
        records = workload.records
        if records is None and workload.duration_ns is not None and not workload.is_max_rate:
            records = round(workload.duration_ns / 1e9 * workload.rate_per_s)
        if records is None:
            raise ConfigError("a simulated run needs a number of records, or a rate and a duration")
        if not workload.is_max_rate:
            arrivals = ScheduledArrivals(
                workload.arrivals,
                workload.rate_per_s,
                start_ns=start_ns,
                records=records,
                seed=seed * 1_000_003 + producer,
            )
            instants_ns = _all_of(arrivals)
        selector = create_selector(output.partitioner, output.subpartitions, seed + producer)
        keys = None
        if selector.needs_keys and workload.key_skew:
            keys = key_draws(scenario, producer).take(records)
        elif selector.needs_keys:
            keys = murmur_hash(np.arange(records) + (seed * 7919 + producer) * records)
        routes = selector.split(records, keys)
        subpartitions = np.empty(records, np.int32)
        for subpartition, indices in routes:
            subpartitions[indices] = subpartition
        end_ns = start_ns if instants_ns is None or not records else int(instants_ns[-1])
        is_alone = len(routes) == 1
        plans.append(
            SourcePlan(
                None if is_alone else subpartitions,
                instants_ns,
                records,
                end_ns,
                routes[0][0] if is_alone else 0,
            )
        )
    return plans


def beat_phase_ns(seed: int, producer: int, timeout_ns: int) -> int:
    """Phase of a producer's flusher at the start of a run, in ns; drawn by the seed."""
    if timeout_ns <= 0:
        return 0
    drawn = int(murmur_hash(np.array([seed * 7919 + producer]))[0])
    return drawn * timeout_ns >> 31


def _all_of(arrivals: ScheduledArrivals) -> IntArray:
    chunks = []
    while arrivals.next_ns() is not None:
        chunks.append(arrivals.take(2**63 - 1, 1 << 20))
    return np.concatenate(chunks) if chunks else np.empty(0, np.int64)
