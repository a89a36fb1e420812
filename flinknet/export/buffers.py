"""The buffers of a selection, channel by channel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from flinknet.arrays import IntArray
from flinknet.trace import ChannelInfo
from flinknet.trace.buffers import (
    BUFFER_COLUMNS,
    ChannelBuffers,
    paired_buffers,
    read_channel,
)
from flinknet.trace.event_block import EventColumns
from flinknet.trace.job_names import edges_in_flow

from .selection import Selection


def channels_read(
    selection: Selection, columns: Sequence[str] = ()
) -> Iterator[tuple[ChannelInfo, EventColumns, ChannelBuffers]]:
    """Yield each wanted channel with its events and its buffers, one channel in memory at a time.

    Buffers that were sent or consumed outside the selection are left out.

    Args:
        columns: columns of the trace to read in addition to those of buffers.
    """
    run = selection.run
    for info in selection.channel_infos:
        wanted = (*BUFFER_COLUMNS, *columns)
        within = selection.from_ns, selection.to_ns
        events = read_channel(run.files, info.index, wanted, *within)
        yield info, events, paired_buffers(events)


def begun_ns(buffers: ChannelBuffers) -> IntArray:
    """Begin of each buffer's life, in ns: its first record, or SENT if the trace lacks instants of
    records."""
    begun: IntArray = np.where(
        buffers.first_record_ns >= 0,
        np.minimum(buffers.first_record_ns, buffers.sent_ns),
        buffers.sent_ns,
    )
    return begun


def channel_titles(selection: Selection) -> dict[int, str]:
    """Title of each wanted channel, with its two ends and, if there are several edges, its edge."""
    manifest = selection.run.manifest
    edges = () if manifest is None else edges_in_flow(manifest)
    titles = {each.index: f"edge {each.title}, " for each in edges} if len(edges) > 1 else {}
    found = {}
    for info in selection.channel_infos:
        where = "local" if info.is_local else info.connection
        ends = f"channel {info.index}: {info.producer} → {info.consumer} ({where})"
        found[info.index] = titles.get(info.edge, "") + ends
    return found
