"""SourcePlan: all that one source will emit, so that virtual time need not stop for each record.

A record that is written into an open buffer wakes nobody: it matters when the buffer timeout's
beat comes, when the segment is full, or when anything else happens in its TaskManager. Which
record opens the next segment of a channel follows from the record's length alone. So the plan
knows the instants at which a source must be stepped, and at each step it emits all that was due
until then: the same bytes in the same messages as with a stop for each record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flinknet.arrays import IntArray
from flinknet.config import RecordSize
from flinknet.core.producer.key_groups import murmur_hash
from flinknet.errors import ConfigError
from flinknet.job.load.arrivals import ScheduledArrivals
from flinknet.job.load.load_tasks import key_draws
from flinknet.job.load.payload import OVERHEAD_BYTES
from flinknet.job.load.plan import LoadPlan
from flinknet.job.selectors import create_selector


@dataclass(frozen=True, slots=True, eq=False)
class SourcePlan:
    """What a source emits.

    Attributes:
        subpartitions: for each record, the subpartition it goes to; None if all go to `only`.
        instants_ns: intended instants, ascending; None for the highest rate.
        records: number of records.
        end_ns: when the data ends; not before the last instant. At the highest rate it ends with
            the last record.
        only: where `subpartitions` is None, the subpartition of all records, or BROADCAST.
    """

    subpartitions: NDArray[np.int32] | None
    instants_ns: IntArray | None
    records: int
    end_ns: int = 0
    only: int = 0

    def segment_instants(self, size: RecordSize, segment_bytes: int) -> list[int] | None:
        """When a record opens another segment, on any channel, ascending.

        None where every record must be looked at.
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
    """What the sources of a scenario emit, by producer; without warm-up.

    Differs from the runtime in the keys of hash partitioning, which are counted and hashed here,
    not drawn, unless they are skewed.

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
    """Where in its period the flusher of a producer stands when the run begins.

    Anywhere, by the seed.
    """
    if timeout_ns <= 0:
        return 0
    drawn = int(murmur_hash(np.array([seed * 7919 + producer]))[0])
    return drawn * timeout_ns >> 31


def _all_of(arrivals: ScheduledArrivals) -> IntArray:
    chunks = []
    while arrivals.next_ns() is not None:
        chunks.append(arrivals.take(2**63 - 1, 1 << 20))
    return np.concatenate(chunks) if chunks else np.empty(0, np.int64)
