"""What a tap shows of checkpoints: how long barriers kept channels blocked, and when barriers and
ends passed. The runs that recorded themselves have regimes instead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flinknet.arrays import IntArray
from flinknet.core.buffers.data_type import IS_BLOCKING_UPSTREAM, DataType
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.trace.event_block import EventBlock

from ..spark.frames import Columns
from ..spark.units import Asked, WorkUnit, of_all_channels
from .credit import JoinedSwitches, SwitchedRow, merge_switched, switched_within

CHECKPOINTS_PER_BLOCK = 4
"""Checkpoints of a block whose barriers are looked at: a few suffice for the order of the edges."""

_COLUMNS = ("at_ns", "channel", "point", "kind", "data_type", "order")
_BLOCKING = sorted(IS_BLOCKING_UPSTREAM)
_BARRIERS = (
    DataType.ALIGNED_CHECKPOINT_BARRIER,
    DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER,
    DataType.PRIORITIZED_EVENT_BUFFER,
)
_ENDS = (DataType.END_OF_DATA, DataType.END_OF_PARTITION)
_MILESTONE_KEYS = ["run", "channel", "data_type", "value"]


@dataclass(frozen=True, slots=True)
class BlockedRow:
    """Time from blocking events until the consumer said to go on, or the producer did: its word was
    missed then, for a blocked channel sends nothing.
    """

    run: int
    channel: int
    blocked_ns: int


@dataclass(frozen=True, slots=True)
class MilestoneRow:
    """When a checkpoint's barrier (`value` is its number) or an end first passed."""

    run: int
    channel: int
    data_type: int
    value: int
    at_ns: int


def merge_blocked(parts: pa.Table) -> pa.Table:
    """BlockedRows from the answers to BLOCKED."""
    return merge_switched(parts, "blocked_ns")


def merge_milestones(parts: pa.Table) -> pa.Table:
    """The first instant of each."""
    found = parts.group_by(_MILESTONE_KEYS, use_threads=False).aggregate([("at_ns", "min")])
    found = found.rename_columns([*_MILESTONE_KEYS, "at_ns"])
    return found.sort_by([(name, "ascending") for name in _MILESTONE_KEYS])


def first_milestones(milestones: pa.Table) -> pa.Table:
    """The first instant of each on any channel."""
    return merge_milestones(of_all_channels(milestones))


def _blocked(unit: WorkUnit, blocks: Iterator[EventBlock]) -> Iterator[Columns]:
    if unit.counted_at != TracePoint.SENT:
        return
    for block in blocks:
        is_blocking = _is_event(block) & np.isin(block["data_type"], _BLOCKING)
        goes_on = block["kind"] == MessageKind.RESUME_CONSUMPTION
        goes_on &= block["point"] == TracePoint.RECEIVED
        is_known = block["channel"] >= 0
        switching = np.flatnonzero((is_blocking | goes_on) & is_known)
        kept = np.union1d(switching, _going_on(block, is_blocking & is_known))
        if len(kept):
            yield switched_within(unit, block, kept, is_blocking)


def _going_on(block: EventBlock, is_blocking: npt.NDArray[np.bool_]) -> IntArray:
    """The first responses of each channel in a block, and those right behind blocking ones."""
    sent = block.spans.of(MessageKind.BUFFER_RESPONSE, TracePoint.SENT)
    behind = np.flatnonzero(is_blocking) + 1
    found: IntArray = np.union1d(sent.starts[sent.channel >= 0], np.setdiff1d(behind, sent.ends))
    return found


def _milestones(unit: WorkUnit, blocks: Iterator[EventBlock]) -> Iterator[Columns]:
    if unit.counted_at != TracePoint.SENT:
        return
    for block in blocks:
        is_event = _is_event(block) & (block["channel"] >= 0)
        is_barrier = is_event & np.isin(block["data_type"], _BARRIERS) & (block["value"] >= 0)
        checkpoints = np.unique(block["value"][is_barrier])[:CHECKPOINTS_PER_BLOCK]
        is_barrier &= np.isin(block["value"], checkpoints)
        rows = np.flatnonzero(is_barrier | (is_event & np.isin(block["data_type"], _ENDS)))
        # A barrier is one milestone, whichever type it has got on its way.
        data_type = np.where(is_barrier[rows], _BARRIERS[0], block["data_type"][rows])
        yield {
            "run": np.full(len(rows), unit.run),
            "channel": block["channel"][rows].astype(np.int64),
            "data_type": data_type.astype(np.int64),
            "value": np.where(is_barrier[rows], block["value"][rows], -1).astype(np.int64),
            "at_ns": block["at_ns"][rows],
        }


def _is_event(block: EventBlock) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = block["kind"] == MessageKind.BUFFER_RESPONSE
    found &= block["point"] == TracePoint.SENT
    return found


BLOCKED = Asked(_blocked, _COLUMNS, SwitchedRow, JoinedSwitches)
MILESTONES = Asked(_milestones, (*_COLUMNS[:-1], "value"), MilestoneRow)
