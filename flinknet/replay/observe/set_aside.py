"""What regimes need of blocks, set aside channel by channel while the blocks are read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from flinknet.core.probe import MessageKind, TracePoint
from flinknet.trace.buffers import SortedEvents
from flinknet.trace.event_block import EventBlock, EventColumns, Spans

_SET_ASIDE: Mapping[tuple[int, int], tuple[str, ...]] = {
    (MessageKind.BUFFER_RESPONSE, TracePoint.SENT): (
        *("at_ns", "data_type", "reason", "sequence_number", "payload_bytes", "records"),
        *("first_record_ns", "backlog_buffers", "credit_after"),
    ),
    (MessageKind.BUFFER_RESPONSE, TracePoint.RECEIVED): ("at_ns", "data_type", "sequence_number"),
    (MessageKind.BUFFER_RESPONSE, TracePoint.CONSUMED): ("at_ns", "data_type", "sequence_number"),
    (MessageKind.ADD_CREDIT, TracePoint.RECEIVED): ("at_ns",),
    (MessageKind.RESUME_CONSUMPTION, TracePoint.RECEIVED): ("at_ns",),
    (MessageKind.BUFFER_RESPONSE, TracePoint.WRITER_WAITS): ("at_ns",),
    (MessageKind.BUFFER_RESPONSE, TracePoint.WRITER_RESUMES): ("at_ns",),
}
"""What regimes look at, by kind and point."""

_PLACED = frozenset(_SET_ASIDE) - {
    (MessageKind.BUFFER_RESPONSE, TracePoint.RECEIVED),
    (MessageKind.BUFFER_RESPONSE, TracePoint.CONSUMED),
}
"""Of which their order among all is needed."""


class SetAside:
    """The events of some channels, copied out of blocks, each channel within its own bounds."""

    def __init__(self, bounds_ns: Mapping[int, tuple[int, int]], first_place: int = 0) -> None:
        """Nothing yet.

        Args:
            bounds_ns: of each channel: from when, and up to when.
            first_place: in the order of recording, of the first event of the first block.
        """
        self._bounds_ns = bounds_ns
        self._inner_ns = (
            max((low for low, _ in bounds_ns.values()), default=0),
            min((high for _, high in bounds_ns.values()), default=0),
        )
        self._rows = first_place
        self._parts: dict[int, dict[tuple[int, int], list[EventColumns]]] = {
            channel: {} for channel in bounds_ns
        }

    def take(self, block: EventBlock, first_ns: int, last_ns: int) -> None:
        """Set aside what is needed of the next block.

        Args:
            first_ns, last_ns: its first and last instant.
        """
        is_inside = first_ns >= self._inner_ns[0] and last_ns < self._inner_ns[1]
        for key, names in _SET_ASIDE.items():
            self._take(block.spans.of(*key), block, key, names, is_inside=is_inside)
        self._rows += len(block["at_ns"])

    def _take(
        self,
        spans: Spans,
        block: EventBlock,
        key: tuple[int, int],
        names: Sequence[str],
        *,
        is_inside: bool,
    ) -> None:
        places = zip(
            spans.channel.tolist(), spans.starts.tolist(), spans.ends.tolist(), strict=True
        )
        for channel, start, end in places:
            if channel not in self._parts:
                continue
            part = {name: block[name][start:end].copy() for name in names}
            if key in _PLACED:
                part["place"] = self._rows + block["order"][start:end].astype(np.int64)
            if not is_inside:
                from_ns, to_ns = self._bounds_ns[channel]
                keep = (part["at_ns"] >= from_ns) & (part["at_ns"] < to_ns)
                part = {name: values[keep] for name, values in part.items()}
            self._parts[channel].setdefault(key, []).append(part)

    def events(self) -> dict[int, SortedEvents]:
        """The events of each channel; what was set aside is handed over."""
        parts, self._parts = self._parts, {}
        return {channel: _joined(parts.pop(channel)) for channel in self._bounds_ns}


def joined_events(parts: Sequence[SortedEvents]) -> SortedEvents:
    """Events of one channel, those of each part behind those of the one before it."""
    found: dict[tuple[int, int], list[EventColumns]] = {}
    for part in parts:
        for key, rows in part.items():
            found.setdefault(key, []).append(rows)
    return _joined(found)


def _joined(parts: Mapping[tuple[int, int], Sequence[EventColumns]]) -> SortedEvents:
    return SortedEvents(
        {
            key: {name: np.concatenate([part[name] for part in own]) for name in own[0]}
            for key, own in parts.items()
        }
    )
