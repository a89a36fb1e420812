"""Credit-starved time: how long a producer had buffers queued for a channel and no credit to send
them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from flinknet.core.probe import MessageKind, TracePoint

from .units import Answer, Asked, EventBlock, IntArray, WorkUnit, ask, in_order

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
    return merge_starved(ask(units, STARVED))


def merge_starved(parts: DataFrame) -> DataFrame:
    """`credit_starved` from the answers to STARVED."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    by_time = Window.partitionBy("run", "channel").orderBy("begun_ns")
    next_ns = f.coalesce(f.lead("first_ns").over(by_time), "window_to_ns")
    gap_ns = f.when(f.col("ends_starved"), next_ns - f.col("last_ns")).otherwise(0)
    whole_ns = f.sum(f.col("starved_ns") + f.col("gap_ns")).alias("starved_ns")
    merged = parts.withColumn("gap_ns", gap_ns).groupBy("run", "channel").agg(whole_ns)
    return in_order(merged, "run", "channel")


def _starved_within(unit: WorkUnit, blocks: Iterator[EventBlock]) -> Iterator[Answer]:
    for block in blocks:
        is_sent = (block["kind"] == MessageKind.BUFFER_RESPONSE) & (
            block["point"] == TracePoint.SENT
        )
        is_credit = (block["kind"] == MessageKind.ADD_CREDIT) & (
            block["point"] == TracePoint.RECEIVED
        )
        keep = (is_sent | is_credit) & (block["credit_after"] >= 0) & (block["channel"] >= 0)
        kept = np.flatnonzero(keep)
        if not len(kept):
            continue
        is_starved = is_sent & (block["credit_after"] == 0) & (block["backlog_buffers"] > 0)
        rows = _by_instant(block, kept)
        channel = block["channel"].take(rows).astype(np.int64)
        begun_ns = block["at_ns"].take(rows)
        at_ns = np.clip(begun_ns, unit.from_ns, unit.to_ns)
        is_starved = is_starved.take(rows)
        starts = np.flatnonzero(np.r_[True, channel[1:] != channel[:-1]])
        ends = np.r_[starts[1:], len(channel)] - 1
        until_next_ns = np.r_[np.diff(at_ns), 0]
        until_next_ns[ends] = 0
        yield {
            "run": np.full(len(starts), unit.run),
            "channel": channel[starts],
            "window_to_ns": np.full(len(starts), unit.to_ns),
            "begun_ns": begun_ns[starts],
            "starved_ns": np.add.reduceat(np.where(is_starved, until_next_ns, 0), starts),
            "first_ns": at_ns[starts],
            "last_ns": at_ns[ends],
            "ends_starved": is_starved[ends],
        }


def _by_instant(block: EventBlock, rows: IntArray) -> IntArray:
    """Some rows by channel, instant and order of recording, which mostly agree."""
    channel, order = block["channel"].take(rows), block["order"].take(rows)
    by_order = np.argsort(channel * np.int64(1 << 32) + order, kind="stable")
    at_ns = block["at_ns"].take(rows)
    goes_back = (np.diff(at_ns.take(by_order)) < 0) & (np.diff(channel.take(by_order)) == 0)
    if goes_back.any():
        by_order = np.lexsort((order, at_ns, channel))
    return rows.take(by_order)


STARVED = Asked(_starved_within, _COLUMNS, _SCHEMA)
