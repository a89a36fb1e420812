"""Exchange between flinknet and a TaskManager of Flink, as terminal tables."""

from __future__ import annotations

from collections.abc import Iterator

from flinknet.results import PeerChannel, PeerResult
from flinknet.units import counted, human_bytes, human_count, human_duration, human_number

from .page_parts import Lines, Part, Row, Table, heads
from .warning_lines import doubts_of_runs


def peer_parts(result: PeerResult) -> list[Part]:
    """One line on the whole, a row for each channel, and faults in their records."""
    doubts = doubts_of_runs([("", result.warnings)], is_explained=True)
    return [Lines([_headline(result)]), _channel_table(result), Lines([*_lines(result), *doubts])]


def _headline(result: PeerResult) -> str:
    peer = f"{'producer' if result.role == 'consumer' else 'consumers'} at {result.peer}"
    if result.role == "producer":
        peer = f"listening on {result.peer}"
    layout = f", layout {result.layout}" if result.layout is not None else ""
    seconds = result.elapsed_ns / 1e9
    rate = f" ({human_count(result.records / seconds)}/s)" if seconds > 0 else ""
    return (
        f"{result.role}, {peer}: {counted(result.records, 'record')}, {result.end}{layout},"
        f" {human_duration(result.elapsed_ns)}{rate}"
    )


def _channel_table(result: PeerResult) -> Table:
    rows = [
        Row(
            [
                str(channel.index),
                f"{channel.partition[:8]}…#{_number(channel)} [{channel.subpartition}]",
                str(channel.records),
                human_bytes(channel.value_bytes),
                str(channel.buffers),
                human_bytes(channel.buffer_bytes),
                str(channel.credit),
                str(channel.credit_messages),
                human_number(channel.backlog_max),
            ]
        )
        for channel in result.channels
    ]
    names = ("records", "value bytes", "buffers", "bytes", "credit", "AddCredits", "backlog max")
    return Table(heads("channel", "partition", *names), rows, keys=2)


def _lines(result: PeerResult) -> Iterator[str]:
    for channel in result.channels:
        events = ", ".join(f"{name} {count}" for name, count in channel.events.items())
        yield f"channel {channel.index}: {events or 'no events'}"
        if channel.other_elements:
            yield f"channel {channel.index}: {channel.other_elements} elements that are not records"
        wrong = {
            "lost": channel.lost,
            "repeated": channel.repeated,
            "out of order": channel.reordered,
        }
        faults = ", ".join(f"{count} {name}" for name, count in wrong.items() if count)
        if faults:
            yield f"channel {channel.index}: {faults}"
    is_checked = any(channel.lost is not None for channel in result.channels)
    if is_checked and not any(map(_is_wrong, result.channels)):
        yield "every record that came did so once and in order"


def _is_wrong(channel: PeerChannel) -> bool:
    return bool(channel.lost or channel.repeated or channel.reordered)


def _number(channel: PeerChannel) -> str:
    return channel.partition.partition("#")[2].partition("@")[0]
