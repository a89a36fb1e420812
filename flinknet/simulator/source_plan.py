"""SourcePlan: all records of a source, so that virtual time need not stop for each record.

A record written into an open buffer has no effect until the flusher's next beat, until the segment
is full, or until anything else happens in its TaskManager. The records that open a segment follow
from the length of records alone. So the source is stepped at known instants, and the messages are
equal to those of a step for each record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flinknet.arrays import IntArray
from flinknet.config import RecordSize
from flinknet.core.producer.channel_selector import murmur_hash
from flinknet.core.wire.records import OVERHEAD_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class SourcePlan:
    """The records of a source.

    Attributes:
        subpartitions: subpartition of each record; None if all go to `only`, or to all (BROADCAST).
        instants_ns: intended instants, ascending; None at the highest rate.
        end_ns: end of the data, not before the last instant; unused at the highest rate.
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


def beat_phase_ns(seed: int, producer: int, timeout_ns: int) -> int:
    """Phase of a producer's flusher at the start of a run, in ns; drawn by the seed."""
    if timeout_ns <= 0:
        return 0
    drawn = int(murmur_hash(np.array([seed * 7919 + producer]))[0])
    return drawn * timeout_ns >> 31
