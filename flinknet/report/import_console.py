"""Findings of `trace import` in a capture. Takes plain data only."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from shlex import quote
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flinknet.units import MISSING, counted, human_bytes, human_duration

from .console import console_for
from .number_table import print_table

_CONNECTIONS_SHOWN = 32

_MISSING_DIRECTIONS = {
    "data": "nothing that the producer sent is in the capture: buffers and records are unknown",
    "credit": "nothing that the consumer sent is in the capture: its requests and credit are"
    " unknown, and so what waited for credit",
}

Plain = Mapping[str, Any]


def print_import(imported: Plain, console: Console | None = None) -> None:
    """Print the connections with what TCP did to them, and what the capture lacks."""
    console = console or console_for(sys.stdout)
    packets = imported["packets"]
    connections = imported["connections"]
    copies = packets["duplicates"]
    copied = f" and {counted(copies, 'copy', 'copies')}, left out" if copies else ""
    console.print(
        f"{counted(packets['tcp_segments'], 'TCP segment')}{copied}; Flink's are"
        f" {len(connections)} of {counted(imported['tcp_connections'], 'connection')}",
        soft_wrap=True,
    )
    print_table(console, _table(connections[:_CONNECTIONS_SHOWN]))
    hidden = len(connections) - _CONNECTIONS_SHOWN
    if hidden > 0:
        console.print(f"… and {hidden:,} more connections (--json shows all)")
    for line in _warnings(imported):
        console.print(f"[yellow]![/yellow] {escape(line)}", soft_wrap=True)
    run = imported["run"]
    console.print(f"trace: {escape(run)}", soft_wrap=True)
    is_two_way = any(each["missing_direction"] is None for each in connections)
    if is_two_way and not packets["timeless_packets"]:
        console.print(f"next:  flinknet trace replay {escape(quote(run))}", soft_wrap=True)


def _table(connections: list[Plain]) -> Table:
    table = Table("connection", box=None, pad_edge=False, header_style="bold")
    for name in ("layout", "channels", "buffers", "credits", "repeated", "no room", "missing"):
        table.add_column(name, justify="right")
    for each in connections:
        messages, data, credit = each["messages"], each["tcp"]["data"], each["tcp"]["credit"]
        missing_bytes = data["missing_bytes"] + credit["missing_bytes"]
        repeated_bytes = data["retransmitted_bytes"] + credit["retransmitted_bytes"]
        table.add_row(
            escape(each["connection"]),
            each["layout"] or MISSING,
            str(each["channels"]),
            f"{messages.get('BUFFER_RESPONSE', 0):,}",
            f"{messages.get('ADD_CREDIT', 0):,}",
            human_bytes(repeated_bytes) if repeated_bytes else "0",
            human_duration(data["zero_window_ns"]) if data["zero_windows"] else "0",
            human_bytes(missing_bytes) if missing_bytes else "0",
        )
    return table


def _warnings(imported: Plain) -> list[str]:
    lines = []
    for name in imported["truncated_files"]:
        lines.append(f"{name}: the file ends in the middle of a packet; all before it was read")
    lines += imported["clock"]
    packets = imported["packets"]
    if count := packets["cut_segments"]:
        lines.append(f"{counted(count, 'packet')} cut short; capture whole packets with `-s 0`")
    if packets["fragments"]:
        lines.append(f"{packets['fragments']:,} fragments of IP packets were ignored")
    if count := packets["unread_blocks"]:
        lines.append(f"{counted(count, 'block')} of unknown kinds: packets in them are missing")
    if count := packets["timeless_packets"]:
        lines.append(
            f"{counted(count, 'packet')} state no instant (Simple Packet Blocks): what was sent is"
            " known, when it was is not, so there can be no replay"
        )
    if packets["unknown_link_types"]:
        kinds = ", ".join(map(str, packets["unknown_link_types"]))
        lines.append(f"packets of the unknown link type {kinds} were ignored")
    for each in imported["connections"]:
        name = each["connection"]
        for direction, carried in (("data", "buffers"), ("credit", "credit messages")):
            tcp = each["tcp"][direction]
            if tcp["gaps"]:
                lines.append(
                    f"{name}: {human_bytes(tcp['missing_bytes'])} of {carried} are not in the"
                    f" capture, in {counted(tcp['gaps'], 'gap')}"
                )
        if missing := each["missing_direction"]:
            lines.append(f"{name}: {_MISSING_DIRECTIONS[missing]}; capture both directions")
        elif unknown := each["credit_unknown_channels"]:
            lines.append(
                f"{name}: the credit of {counted(unknown, 'channel')} is unknown: the capture began"
                " after it was opened, or bytes are missing"
            )
        if each["undecodable"]:
            lines.append(f"{name}: {counted(each['undecodable'], 'message')} could not be read")
        notes = list(dict.fromkeys(each["notes"]))[:3]
        lines += [f"{name}: {text}" for text in (*each["errors"], *notes)]
    return lines
