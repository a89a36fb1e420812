"""How long buffers waited for any credit to come back, as a tap sees it: a consumer with floating
buffers to spare returns credit as it receives, so its TaskManager stood still, or its tasks had
taken all buffers. And how long a channel had no credit at all: it could not have sent anything,
though whether something waited does not show, for a producer announces its backlog as it sends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.trace.event_block import EventBlock

from ..spark.frames import Columns
from ..spark.units import Asked, WorkUnit
from .credit import JoinedSwitches, SwitchedRow, merge_switched, switched_within

LONG_NS = 100_000_000
"""Shorter waits do not count."""

_COLUMNS = ("at_ns", "channel", "point", "kind", "data_type", "order")
_DATA = sorted(IS_BUFFER)


@dataclass(frozen=True, slots=True)
class UnansweredRow:
    """Time in long waits from a buffer until the next credit of its channel; recorded between
    processes only."""

    run: int
    channel: int
    unanswered_ns: int


@dataclass(frozen=True, slots=True)
class WithoutCreditRow:
    """Time in which the producer of a channel had used up its credit; recorded between processes
    only."""

    run: int
    channel: int
    without_credit_ns: int


def merge_without_credit(parts: pa.Table) -> pa.Table:
    """WithoutCreditRows from the answers to WITHOUT_CREDIT."""
    return merge_switched(parts, "without_credit_ns")


def merge_unanswered(parts: pa.Table) -> pa.Table:
    """UnansweredRows from the answers to UNANSWERED."""
    return merge_switched(parts, "unanswered_ns")


def _unanswered(unit: WorkUnit, blocks: Iterator[EventBlock]) -> Iterator[Columns]:
    if unit.counted_at != TracePoint.SENT:
        return
    for block in blocks:
        is_sent = (block["kind"] == MessageKind.BUFFER_RESPONSE) & np.isin(
            block["data_type"], _DATA
        )
        is_sent &= block["point"] == TracePoint.SENT
        is_answer = block["kind"] == MessageKind.ADD_CREDIT
        is_answer &= block["point"] == TracePoint.RECEIVED
        kept = np.flatnonzero((is_sent | is_answer) & (block["channel"] >= 0))
        if len(kept):
            yield switched_within(unit, block, kept, is_sent, least_ns=LONG_NS)


def _without_credit(unit: WorkUnit, blocks: Iterator[EventBlock]) -> Iterator[Columns]:
    if unit.counted_at != TracePoint.SENT:
        return
    for block in blocks:
        is_sent = (block["kind"] == MessageKind.BUFFER_RESPONSE) & np.isin(
            block["data_type"], _DATA
        )
        is_sent &= block["point"] == TracePoint.SENT
        is_answer = block["kind"] == MessageKind.ADD_CREDIT
        is_answer &= block["point"] == TracePoint.RECEIVED
        kept = np.flatnonzero((is_sent | is_answer) & (block["channel"] >= 0))
        if len(kept):
            yield switched_within(unit, block, kept, is_sent & (block["credit_after"] == 0))


WITHOUT_CREDIT = Asked(_without_credit, (*_COLUMNS, "credit_after"), SwitchedRow, JoinedSwitches)

UNANSWERED = Asked(_unanswered, _COLUMNS, SwitchedRow, JoinedSwitches)
