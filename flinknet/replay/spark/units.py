"""Work units: the blocks of trace files that an executor reads at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from flinknet.core.probe import TracePoint
from flinknet.predict.measured_part import FOREVER_NS
from flinknet.trace import Extent, TraceFile, file_index

from ..read import RecordedRun

UNITS_MIN = 8
"""Fewest units of a trace that is not small: all executors have work, and a slow unit at the end
keeps the others idle only for a short time. Answers do not depend on it."""

BLOCKS_PER_UNIT_MAX = 64


@dataclass(frozen=True, slots=True)
class WorkUnit:
    """Some blocks of one trace file, and the window of a run that counts.

    Attributes:
        extents: the blocks; nothing else of the file is read.
        channels: channels of the run; empty for all.
        counted_at, until_ns: see RecordedRun.
    """

    run: int
    file: TraceFile
    extents: list[Extent]
    from_ns: int
    to_ns: int
    channels: list[int] = field(default_factory=list)
    counted_at: int = TracePoint.CONSUMED
    until_ns: int = FOREVER_NS


def work_units(runs: Sequence[RecordedRun]) -> list[WorkUnit]:
    """Cut all blocks of all runs into units of about equal size."""
    indexes = [(run, file, file_index(file)) for run in runs for file in run.files]
    total = sum(len(index.blocks) for _, _, index in indexes)
    size = min(max(1, -(-total // UNITS_MIN)), BLOCKS_PER_UNIT_MAX)
    own = {
        run.run: [] if run.edge is None else [info.index for info in run.manifest.channels]
        for run in runs
    }
    return [
        WorkUnit(
            run.run,
            file.absolute(),
            index.extents(np.arange(start, min(start + size, len(index.blocks)))),
            run.from_ns,
            run.to_ns,
            own[run.run],
            run.counted_at,
            run.until_ns,
        )
        for run, file, index in indexes
        for start in range(0, len(index.blocks), size)
    ]
