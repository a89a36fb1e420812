"""Rows of a window of a recorded run, or of a tap: arrivals of records, and the rows that costs are
fitted to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from flinknet.arrays import EventColumns, IntArray
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.trace import TraceFile, TraceReader, file_index
from flinknet.trace.event_block import EventBlock, is_data, lazy_block

from ..intervals import BoolArray, Intervals, from_switches
from ..ramps import ChannelRamps, Ramps, run_starts

_WAIT_COLUMNS = ("at_ns", "channel", "point")
_ROW_COLUMNS = (
    *(*_WAIT_COLUMNS, "kind", "data_type", "reason", "sequence_number", "payload_bytes"),
    *("records", "value"),
)
_COLUMNS = (*_ROW_COLUMNS, "first_record_ns", "last_record_ns")
_TAP_COLUMNS = (*_ROW_COLUMNS, "backlog_buffers", "credit_after")
_ARRIVAL_COLUMNS = ("channel", "records", "first_record_ns", "last_record_ns")

_SHIFTS_MAX = 8
"""Most credit messages under way when the window begins."""


def _no_rows() -> EventColumns:
    return {name: np.zeros(0, np.int64) for name in _WAIT_COLUMNS}


@dataclass(frozen=True, slots=True, eq=False)
class ExchangeRows:
    """Rows of one exchange; columns as in the trace. A tap sees data buffers sent, when they
    passed, and credit received."""

    sent: EventColumns  # data buffers at these points
    received: EventColumns
    consumed: EventColumns
    credit_sent: EventColumns  # credit messages at these points
    credit_received: EventColumns
    waits: EventColumns  # beginnings and ends of writers' waits for buffers
    resumed: EventColumns = field(default_factory=_no_rows)  # ResumeConsumptions, behind barriers
    requests: EventColumns = field(default_factory=_no_rows)  # PartitionRequests, with their credit

    def within(self, from_ns: int, to_ns: int) -> ExchangeRows:
        """Rows in [from_ns, to_ns), with 64-bit columns."""

        def cut(rows: EventColumns) -> EventColumns:
            keep = (rows["at_ns"] >= from_ns) & (rows["at_ns"] < to_ns)
            return {name: values.astype(np.int64) for name, values in where(rows, keep).items()}

        return ExchangeRows(*(cut(getattr(self, each.name)) for each in fields(self)))

    def of(self, channels: Sequence[int]) -> ExchangeRows:

        def own(rows: EventColumns) -> EventColumns:
            return where(rows, np.isin(rows["channel"], channels))

        return ExchangeRows(*(own(getattr(self, each.name)) for each in fields(self)))

    def waited_ns(self, from_ns: int, to_ns: int) -> int:
        """Time that writers waited for buffers, summed over producers."""
        waits = switches(self.waits, TracePoint.WRITER_WAITS, from_ns, to_ns)
        return sum(each.total_ns for each in waits)


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Content of a window: arrivals and mean bytes of a record in a buffer, by channel; rows from
    its start, up to a number, and the instant up to which they are complete."""

    arrivals: dict[int, Ramps]
    record_wire_bytes: dict[int, float]
    rows: ExchangeRows
    rows_to_ns: int


def read_window(
    files: Iterable[TraceFile],
    channels: Sequence[int] | None,
    from_ns: int,
    to_ns: int,
    *,
    until_ns: int | None,
    rows_max: int,
    rows_to_ns: int,
    with_arrivals: bool,
) -> Window:
    """Read the window [from_ns, to_ns) of some channels; None for all.

    Args:
        until_ns: latest instant at which records of the window left; None if unknown.
        rows_max: most rows from each file; `rows_to_ns` is their end if there are no more.
        with_arrivals: whether to read the arrivals, too, after enough rows.
    """
    arrivals = _Arrivals(from_ns, to_ns)
    parts = _Parts(_COLUMNS)
    for file in files:
        count = 0
        with TraceReader(file) as reader:
            for block in reader.events(_COLUMNS, channels, from_ns, until_ns):
                arrivals.add(EventBlock(block).data_at(TracePoint.SENT))
                parts.add_waits(block)
                if count < rows_max:
                    own, at_ns = block, block["at_ns"]
                    if len(at_ns) > rows_max:
                        last_ns = np.partition(at_ns, rows_max - 1)[rows_max - 1]
                        own = where(block, at_ns <= last_ns)
                    parts.add(own)
                    count += len(block["at_ns"])
                    if count >= rows_max:
                        rows_to_ns = min(rows_to_ns, int(own["at_ns"].max()))
                        if not with_arrivals:
                            break
    return Window(
        arrivals.whole().within(from_ns, to_ns).by_channel() if with_arrivals else {},
        {channel: size / count for channel, (size, count) in arrivals.sizes.items()},
        parts.joined(),
        rows_to_ns,
    )


def read_tap(
    files: Iterable[TraceFile],
    from_ns: int | None,
    to_ns: int | None,
    *,
    channels: Sequence[int] | None = None,
    rows_max: int | None = None,
    columns: Sequence[str] = (),
) -> ExchangeRows:
    """Read the rows that a tap or a capture has of some channels; None for all, and for no limit of
    rows."""
    columns = (*_TAP_COLUMNS, *columns)
    parts, count = _Parts(columns), 0
    for file in files:
        with TraceReader(file) as reader:
            for block in reader.events(columns, channels, from_ns, to_ns):
                parts.add(block)
                count += len(block["at_ns"])
                if rows_max is not None and count >= rows_max:
                    return parts.joined()
    return parts.joined()


def read_arrivals(
    files: Sequence[TraceFile], from_ns: int, to_ns: int, until_ns: int
) -> ChannelRamps:
    """Arrivals of each channel in [from_ns, to_ns) that were sent before until_ns; ramps at the
    edges are not cut."""
    arrivals = _Arrivals(from_ns, to_ns)
    for file in files:
        with TraceReader(file, file_index(file).within(from_ns, until_ns)) as reader:
            for index, entry in enumerate(reader.blocks()):
                sent = lazy_block(reader, index).data_at(TracePoint.SENT)
                if len(sent["channel"]) and (entry.first_ns < from_ns or entry.last_ns >= until_ns):
                    keep = (sent["at_ns"] >= from_ns) & (sent["at_ns"] < until_ns)
                    sent = {name: sent[name][keep] for name in _ARRIVAL_COLUMNS}
                arrivals.add(sent, with_sizes=False)
    return arrivals.whole()


def of_channels(rows: EventColumns, channels: Iterable[int]) -> EventColumns:
    """The rows of some channels, by their instants."""
    own = np.flatnonzero(np.isin(rows["channel"], [*channels]))
    own = own[np.argsort(rows["at_ns"][own], kind="stable")]
    return {name: values[own] for name, values in rows.items()}


def switches(waits: EventColumns, point: TracePoint, from_ns: int, to_ns: int) -> list[Intervals]:
    """When writers waited (WRITER_WAITS) or wrote (WRITER_RESUMES) in [from_ns, to_ns): one set for
    each producer that ever waited, which records its waits on one channel."""
    found = []
    for channel in np.unique(waits["channel"]).tolist():
        own = of_channels(waits, [channel])
        at_ns, is_on = own["at_ns"], own["point"] == point
        if not is_on[0]:
            at_ns, is_on = np.r_[from_ns, at_ns], np.r_[True, is_on]
        found.append(from_switches(at_ns, is_on, to_ns).clipped(from_ns, to_ns))
    return found


def of_each(rows: EventColumns, values: Mapping[int, int]) -> IntArray:
    """For each row the value of its channel."""
    return np.array([values[each] for each in rows["channel"].tolist()], np.int64)


def same_credit(sent: EventColumns, received: EventColumns) -> tuple[IntArray, IntArray]:
    """Indices of the same credit messages of one channel in both. The first ones received may have
    been sent before the window."""
    best: tuple[float, int] = (-1.0, 0)
    for shift in range(min(_SHIFTS_MAX, len(received["at_ns"]))):
        count = min(len(sent["at_ns"]), len(received["at_ns"]) - shift)
        if not count:
            break
        later = received["at_ns"][shift : shift + count] - sent["at_ns"][:count]
        equal = received["value"][shift : shift + count] == sent["value"][:count]
        best = max(best, (float((equal & (later >= 0)).mean()), -shift))
    shift = -best[1]
    count = min(len(sent["at_ns"]), len(received["at_ns"]) - shift)
    return np.arange(count), np.arange(shift, shift + count)


class _Arrivals:
    """Collects the arrivals in a window from sent buffers, block by block."""

    def __init__(self, from_ns: int, to_ns: int) -> None:
        self._from_ns, self._to_ns = from_ns, to_ns
        self._parts: list[tuple[IntArray, Ramps]] = []  # channels of ramps, and ramps
        self.sizes: dict[int, list[int]] = {}  # of each channel: bytes, records

    def add(self, sent: EventColumns, *, with_sizes: bool = True) -> None:
        """Add the sent buffers of a block; rows are sorted by channel."""
        if not len(sent["channel"]):  # then no other column of the block is read
            return
        keep = (sent["channel"] >= 0) & (sent["records"] > 0) & (sent["first_record_ns"] >= 0)
        keep &= sent["first_record_ns"] < self._to_ns
        keep &= sent["last_record_ns"] >= self._from_ns
        if not keep.any():
            return
        names = (*_ARRIVAL_COLUMNS, "payload_bytes") if with_sizes else _ARRIVAL_COLUMNS
        own = {name: sent[name] for name in names}
        if not keep.all():  # otherwise no copy is made
            own = where(own, keep)
        channel, *columns = (own[name].astype(np.int64, copy=False) for name in _ARRIVAL_COLUMNS)
        self._parts.append((channel, Ramps(*columns)))
        if not with_sizes:
            return
        records = columns[0]
        starts = run_starts(channel)
        payload_bytes = own["payload_bytes"].astype(np.int64)
        sums = (np.add.reduceat(each, starts).tolist() for each in (payload_bytes, records))
        for number, added_bytes, added in zip(channel[starts].tolist(), *sums, strict=True):
            size = self.sizes.setdefault(number, [0, 0])
            size[0] += added_bytes
            size[1] += added

    def whole(self) -> ChannelRamps:
        """The arrivals of each channel, with whole ramps at the edges of the window."""
        parts, self._parts = self._parts, []
        return ChannelRamps.of(parts).in_order()


class _Parts:
    """Collects the rows of an exchange, block by block."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._rows: dict[str, list[EventColumns]] = {each.name: [] for each in fields(ExchangeRows)}

    def add(self, block: EventColumns) -> None:
        kind, point = block["kind"], block["point"]
        is_credit = kind == MessageKind.ADD_CREDIT
        for name, keep in (
            ("sent", is_data(block, TracePoint.SENT)),
            ("received", is_data(block, TracePoint.RECEIVED)),
            ("consumed", is_data(block, TracePoint.CONSUMED)),
            ("credit_sent", is_credit & (point == TracePoint.SENT)),
            ("credit_received", is_credit & (point == TracePoint.RECEIVED)),
            ("resumed", kind == MessageKind.RESUME_CONSUMPTION),
            ("requests", kind == MessageKind.PARTITION_REQUEST),
        ):
            self._rows[name].append(where(block, keep))

    def add_waits(self, block: EventColumns) -> None:
        """Add the beginnings and ends of writers' waits in a block."""
        point = block["point"]
        is_wait = (point == TracePoint.WRITER_WAITS) | (point == TracePoint.WRITER_RESUMES)
        self._rows["waits"].append({name: block[name][is_wait] for name in _WAIT_COLUMNS})

    def joined(self) -> ExchangeRows:
        found, none = {}, [np.zeros(0, np.int64)]
        for name, parts in self._rows.items():
            columns = _WAIT_COLUMNS if name == "waits" else self._columns
            found[name] = {x: np.concatenate([each[x] for each in parts] or none) for x in columns}
        return ExchangeRows(**found)


def where(rows: EventColumns, keep: BoolArray) -> EventColumns:
    return {name: values[keep] for name, values in rows.items()}


def places_by_channel(rows: EventColumns) -> dict[int, IntArray]:
    """Indices of the rows of each channel, in order."""
    order = np.argsort(rows["channel"], kind="stable")
    channels, starts = np.unique(rows["channel"][order], return_index=True)
    return dict(zip(channels.tolist(), np.split(order, starts[1:]), strict=False))
