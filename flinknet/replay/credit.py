"""Credit-starved time: how long a producer had buffers queued for a channel and no credit to send
them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from flinknet.core.probe import MessageKind, TracePoint

from .units import Answer, EventColumns, WorkUnit, ask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMNS = (
    "at_ns",
    "channel",
    "point",
    "kind",
    "backlog_buffers",
    "credit_after",
    "order",
)
_SCHEMA = (
    "run bigint, channel bigint, window_to_ns bigint, begun_ns bigint,"
    " starved_ns bigint, first_ns bigint, last_ns bigint, ends_starved boolean"
)


def credit_starved(units: DataFrame) -> DataFrame:
    """Time within the measured window with backlog but no credit, seen at the producer.

    Starts when a buffer leaves with the last credit and announces a backlog, ends with the next
    AddCredit. A backlog that grows while there is no credit is not seen (nothing is sent then), so
    this is a lower bound. Each block gives the time within itself and how it starts and ends; the
    gaps between blocks are closed here.

    Returns: run, channel, starved_ns.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    parts = ask(units, _starved_within, _COLUMNS, _SCHEMA)
    in_order = Window.partitionBy("run", "channel").orderBy("begun_ns")
    next_ns = f.coalesce(f.lead("first_ns").over(in_order), "window_to_ns")
    gap_ns = f.when(f.col("ends_starved"), next_ns - f.col("last_ns")).otherwise(0)
    return (
        parts.withColumn("gap_ns", gap_ns)
        .groupBy("run", "channel")
        .agg(f.sum(f.col("starved_ns") + f.col("gap_ns")).alias("starved_ns"))
        .orderBy("run", "channel")
    )


def _starved_within(unit: WorkUnit, blocks: Iterator[EventColumns]) -> Iterator[Answer]:
    for block in blocks:
        is_sent = (block["kind"] == MessageKind.BUFFER_RESPONSE) & (
            block["point"] == TracePoint.SENT
        )
        is_credit = (block["kind"] == MessageKind.ADD_CREDIT) & (
            block["point"] == TracePoint.RECEIVED
        )
        keep = (is_sent | is_credit) & (block["credit_after"] >= 0) & (block["channel"] >= 0)
        rows = {name: values[keep] for name, values in block.items()}
        if not len(rows["at_ns"]):
            continue
        by_channel = np.lexsort((rows["order"], rows["at_ns"], rows["channel"]))
        channel = rows["channel"][by_channel].astype(np.int64)
        at_ns = np.clip(rows["at_ns"][by_channel], unit.from_ns, unit.to_ns)
        is_starved = (
            (rows["kind"] == MessageKind.BUFFER_RESPONSE)
            & (rows["credit_after"] == 0)
            & (rows["backlog_buffers"] > 0)
        )[by_channel]
        starts = np.flatnonzero(np.r_[True, channel[1:] != channel[:-1]])
        ends = np.r_[starts[1:], len(channel)] - 1
        until_next_ns = np.r_[np.diff(at_ns), 0]
        until_next_ns[ends] = 0
        yield {
            "run": np.full(len(starts), unit.run),
            "channel": channel[starts],
            "window_to_ns": np.full(len(starts), unit.to_ns),
            "begun_ns": rows["at_ns"][by_channel][starts],
            "starved_ns": np.add.reduceat(np.where(is_starved, until_next_ns, 0), starts),
            "first_ns": at_ns[starts],
            "last_ns": at_ns[ends],
            "ends_starved": is_starved[ends],
        }
