"""Slices of long runs as work of executors: what comes in each slice is found bucket by bucket of
the channels, brought together slice by slice, and simulated there. It never passes through the
driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from .observe.arrivals import SliceLoad, Slicing, loads_of
from .observe.tree import rows_in
from .outcome import Candidate
from .slices import SlicePart, SlicePlan, SliceUnit, simulate_slice
from .spark.checkpoint import Checkpoint
from .spark.frames import columns_of, mapped, record_batches, rows_of, schema_of
from .spark.worker import freeze_what_is_loaded, return_free_memory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITIONS_MAX = 1_000
"""Of a table that is brought together by slices or candidates."""

SLICES_PER_PARTITION = 2
"""About. Slices fall into partitions by their hash: with as many of both, a third of all tasks
would find nothing to do."""


def slice_plans(
    candidates: Sequence[Candidate], slicings: Mapping[int, Slicing]
) -> dict[int, SlicePlan]:
    """What is simulated of each run: each slice with all candidates, so it is read once."""
    plans = {}
    for number in sorted({each.run.run for each in candidates}):
        own = [each for each in candidates if each.run.run == number]
        run, to_ns, slicing = own[0].run, own[0].to_ns, slicings[number]
        plans[number] = SlicePlan(
            run=number,
            place=run.place,
            candidates=[candidate.number for candidate in own],
            settings=[candidate.setting for candidate in own],
            from_ns=run.from_ns,
            to_ns=to_ns,
            slices={each.number: each for each in slicing.slices if each.to_ns <= to_ns},
            latest_ns=slicing.latest_ns,
        )
    return plans


def simulated_slices(
    arrivals: DataFrame, plans: Mapping[int, SlicePlan], checkpoint: Checkpoint | None = None
) -> DataFrame:
    """The parts that slices add to the outcomes of candidates.

    Args:
        arrivals: rows of NamedTable that hold ArrivalsRow.
        plans: by number of the run.
        checkpoint: where the parts are kept; None: nowhere.

    Returns: rows of SlicePart.
    """
    count = sum(len(plan.slices) for plan in plans.values())
    wanted = {run: sorted(plan.slices) for run, plan in plans.items()}
    loads = mapped(arrivals, partial(_loads, wanted=wanted), SliceLoad)
    keys = ("run", "slice")
    loads = loads.repartition(
        max(1, min(-(-count // SLICES_PER_PARTITION), PARTITIONS_MAX)), *keys
    ).sortWithinPartitions(*keys)
    return mapped(loads, partial(_simulated, plans=plans, checkpoint=checkpoint), SlicePart)


def _loads(
    batches: Iterator[pa.RecordBatch], *, wanted: Mapping[int, Sequence[int]]
) -> Iterator[pa.RecordBatch]:
    schema = schema_of(SliceLoad)
    for batch in batches:
        for run, data in zip(batch["run"].to_pylist(), batch["rows"], strict=True):
            for load in loads_of(rows_in(data.as_py()), wanted.get(run, ())):
                yield from record_batches([columns_of(SliceLoad, [load])], schema)


def _simulated(
    batches: Iterator[pa.RecordBatch],
    *,
    plans: Mapping[int, SlicePlan],
    checkpoint: Checkpoint | None,
) -> Iterator[pa.RecordBatch]:
    schema = schema_of(SlicePart)
    loads = (load for batch in batches for load in rows_of(SliceLoad, batch))
    for (run, _), own in groupby(loads, key=lambda each: (each.run, each.slice)):
        unit = plans[run].unit(sorted(own, key=lambda each: each.channels))
        parts = _parts_of(unit, checkpoint)
        yield from record_batches([columns_of(SlicePart, parts)], schema)
        return_free_memory()
    freeze_what_is_loaded()


def _parts_of(unit: SliceUnit, checkpoint: Checkpoint | None) -> list[SlicePart]:
    def simulate() -> list[SlicePart]:
        return list(simulate_slice(unit))

    if checkpoint is None:
        return simulate()
    return checkpoint.rows(unit, "", SlicePart, simulate)
