"""Messages captured between processes, as rows of one exchange."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from flinknet.arrays import IntArray
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.trace import TraceFile, TraceReader
from flinknet.trace.event_block import EventColumns, is_data

from .fit.window_rows import joined_rows, places_by_channel

_NONE = np.zeros(0, np.int64)

_COLUMNS = (
    "at_ns",
    "channel",
    "point",
    "kind",
    "data_type",
    "reason",
    "sequence_number",
    "payload_bytes",
    "records",
    "backlog_buffers",
    "credit_after",
    "value",
)


_PASSED = ("at_ns", "point", "kind", "data_type")


@dataclass(frozen=True, slots=True)
class CapturedRows:
    """Rows of one exchange as a tap writes them; columns as in the trace, channels >= 0.

    Attributes:
        sent: data buffers, `at_ns` when they passed.
        credit: AddCredits, the same.
        initial_credit: of each PartitionRequest.
        resumed: ResumeConsumptions, which end that a barrier blocks a channel.
    """

    sent: EventColumns
    credit: EventColumns
    initial_credit: IntArray
    resumed: EventColumns


def read_captured(
    files: Iterable[TraceFile],
    from_ns: int | None,
    to_ns: int | None,
    *,
    channels: Sequence[int] | None = None,
    rows_max: int | None = None,
) -> CapturedRows:
    sent: list[EventColumns] = []
    credit: list[EventColumns] = []
    resumed: list[EventColumns] = []
    initial_credit: list[IntArray] = []
    seen = 0
    for file in files:
        with TraceReader(file) as reader:
            for block in reader.events(_COLUMNS, channels, from_ns, to_ns):
                is_known = block["channel"] >= 0
                data = is_data(block, TracePoint.SENT) & is_known
                added = (block["kind"] == MessageKind.ADD_CREDIT) & is_known
                resumes = (block["kind"] == MessageKind.RESUME_CONSUMPTION) & is_known
                asked = (block["kind"] == MessageKind.PARTITION_REQUEST) & is_known
                sent.append({name: values[data] for name, values in block.items()})
                credit.append({name: values[added] for name, values in block.items()})
                resumed.append({name: values[resumes] for name, values in block.items()})
                initial_credit.append(block["value"][asked])
                seen += len(block["at_ns"])
                if rows_max is not None and seen >= rows_max:
                    break
        if rows_max is not None and seen >= rows_max:
            break
    return CapturedRows(
        joined_rows(sent, _COLUMNS),
        joined_rows(credit, _COLUMNS),
        np.concatenate([*initial_credit, np.zeros(0, np.int64)]),
        joined_rows(resumed, _COLUMNS),
    )


def with_uncounted(sent: EventColumns) -> tuple[EventColumns, float]:
    """Data buffers with as many records in those that could not be counted as their bytes had in
    the others: of their channel, or of all where a channel has no others. Buffers stay without
    records if none are known. Second, the share of the bytes that this is about."""
    is_unknown, size = sent["records"] < 0, sent["payload_bytes"].astype(np.int64)
    unknown_bytes = int(size[is_unknown].sum())
    if not unknown_bytes:
        return sent, 0.0
    records = np.where(is_unknown, 0, sent["records"]).astype(np.int64)
    known = np.where(is_unknown, 0, size)
    of_all = records.sum() / max(int(known.sum()), 1)
    for own in places_by_channel(sent).values():
        own_records = records[own].sum()
        ratio = own_records / known[own].sum() if own_records else of_all
        reached = np.rint(np.cumsum(size[own] * is_unknown[own]) * ratio).astype(np.int64)
        records[own] += np.diff(reached, prepend=0)
    return {**sent, "records": records}, unknown_bytes / int(size.sum())


def passed_ns(files: Iterable[TraceFile], from_ns: int, to_ns: int) -> IntArray:
    """When the data buffers of all exchanges passed, ascending."""
    found = [_NONE]
    for file in files:
        with TraceReader(file) as reader:
            for block in reader.events(_PASSED, None, from_ns, to_ns):
                found.append(block["at_ns"][is_data(block, TracePoint.SENT)].astype(np.int64))
    return np.sort(np.concatenate(found))


def wire_bytes(sent: EventColumns) -> dict[int, float]:
    """Mean bytes of a record of each channel."""
    return {
        channel: float(
            sent["payload_bytes"][own].sum() / max(sent["records"][own].clip(0).sum(), 1)
        )
        for channel, own in places_by_channel(sent).items()
    }


def starved_share(rows: CapturedRows, duration_ns: int) -> float:
    """Share of the channels' time in which a producer had used up its credit and said that more
    waited: pressure, in which no timeout acts.
    """
    starved_ns = 0
    sent, credited = places_by_channel(rows.sent), places_by_channel(rows.credit)
    for channel, data in sent.items():
        credit = credited.get(channel, _NONE)
        at_ns = np.concatenate([rows.sent["at_ns"][data], rows.credit["at_ns"][credit]])
        waits = np.concatenate(
            [
                (rows.sent["credit_after"][data] == 0) & (rows.sent["backlog_buffers"][data] > 0),
                np.zeros(len(credit), bool),
            ]
        )
        order = np.argsort(at_ns, kind="stable")
        gaps_ns = np.diff(at_ns[order])
        starved_ns += int(gaps_ns[waits[order][:-1]].sum())
    return starved_ns / (duration_ns * len(sent)) if sent and duration_ns else 0.0
