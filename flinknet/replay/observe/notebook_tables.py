"""Tables with more detail than the summary of a run needs: each buffer with its life, credit window
by window, the sizes that debloating announced. Each reads the traces when it is read itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from flinknet.core.probe import MessageKind
from flinknet.trace.buffers import paired_buffers
from flinknet.trace.event_block import EventColumns

from ..read import RecordedRun
from ..spark.frames import Columns, in_order
from ..spark.units import Asked, WorkUnit, ask, is_measured, work_units
from .channel_events import ChannelEvents
from .page_details import channel_windows
from .time_slices import TimeSlice, ask_time_slices, time_slices_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PAIRED = (
    *("sequence_number", "first_record_ns", "sent_ns", "received_ns", "consumed_ns"),
    *("records", "payload_bytes", "reason"),
)
_SIZE_COLUMNS = ("at_ns", "channel", "point", "kind", "value")


@dataclass(frozen=True, slots=True)
class BufferRow:
    """A data buffer; instants of the trace's clock, `reason` as in the trace.

    Attributes:
        first_record_ns: None where it was not recorded.
    """

    run: int
    channel: int
    sequence_number: int
    first_record_ns: int | None
    sent_ns: int
    received_ns: int
    consumed_ns: int
    records: int
    payload_bytes: int
    reason: int


@dataclass(frozen=True, slots=True)
class BufferSizeRow:
    """A buffer size that a consumer announced; `at_ns` counts from the start of the measured part,
    `point` is where it was recorded."""

    run: int
    channel: int
    at_ns: int
    point: int
    size_bytes: int


def buffers(
    spark: SparkSession, runs: Sequence[RecordedRun], split: int | None = None
) -> DataFrame:
    """Each data buffer sent in the measured part, its producer's and its consumer's events brought
    together by channel and sequence number. One whose consumer was not done with it when the
    recording ended is left out, and so is every one that was recorded between processes.

    Args:
        split: slices of time that each run is cut into; None for as many as suit its size.

    Returns: rows of BufferRow.
    """
    from pyspark.sql import functions as f

    own = [run for run in runs if not run.manifest.is_from_between]
    units = time_slices_of(own, split)
    found = ask_time_slices(spark, units, _paired, BufferRow)
    came = f.col("first_record_ns")
    return found.withColumn("first_record_ns", f.when(came >= 0, came))


def credit(spark: SparkSession, runs: Sequence[RecordedRun]) -> DataFrame:
    """The producer's credit of each channel, window by window from the measured part on; it shows
    between processes, too. Windows in which it did not change are left out.

    Returns: run, channel, from_ns (of the window, counted from the start of the measured part),
    changes (of the credit), credit_mean and credit_min over them.
    """
    from pyspark.sql import functions as f

    units = work_units(runs)
    return (
        channel_windows(spark, units)
        .where("credits > 0")
        .select(
            *("run", "channel", "from_ns"),
            f.col("credits").alias("changes"),
            (f.col("credit_sum") / f.col("credits")).alias("credit_mean"),
            "credit_min",
        )
    )


def buffer_sizes(spark: SparkSession, runs: Sequence[RecordedRun]) -> DataFrame:
    """The buffer sizes that consumers announced in the measured part; none without debloating.

    Returns: rows of BufferSizeRow.
    """
    units = work_units(runs)
    found = ask(spark, units, Asked(_announced, _SIZE_COLUMNS, BufferSizeRow))
    return in_order(found, "run", "channel", "at_ns", "point")


def _paired(unit: TimeSlice, events: ChannelEvents) -> Iterator[Columns]:
    for channel in unit.channels:
        found = paired_buffers(events[channel])
        keep = (found.sent_ns >= unit.from_ns) & (found.sent_ns < unit.to_ns)
        count = int(keep.sum())
        yield {
            "run": np.full(count, unit.run),
            "channel": np.full(count, channel),
            **{name: getattr(found, name)[keep] for name in _PAIRED},
        }


def _announced(unit: WorkUnit, blocks: Iterator[EventColumns]) -> Iterator[Columns]:
    for block in blocks:
        keep = (block["kind"] == MessageKind.NEW_BUFFER_SIZE) & (block["channel"] >= 0)
        keep &= is_measured(unit, block["at_ns"])
        yield {
            "run": np.full(int(keep.sum()), unit.run),
            "channel": block["channel"][keep],
            "at_ns": block["at_ns"][keep] - unit.from_ns,
            "point": block["point"][keep],
            "size_bytes": block["value"][keep],
        }
