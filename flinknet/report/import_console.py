"""Findings of `trace import` in a capture. Takes plain data only."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Any

from flinknet.units import MISSING, counted, human_bytes, human_duration, human_share

from .page_parts import Lines, Row, Sentence, Table, View, heads
from .tap_console import channel_parts, graded, kept, waits

_CONNECTIONS_SHOWN = 32

_MISSING_DIRECTIONS = {
    "data": "nothing that the producer sent is in the capture: buffers and records are unknown",
    "credit": "nothing that the consumer sent is in the capture: its requests and credit are"
    " unknown, and so what waited for credit",
}

Plain = Mapping[str, Any]


def import_view(imported: Plain) -> View:
    """The connections with what TCP did to them, and what the capture lacks."""
    packets, connections = imported["packets"], imported["connections"]
    copies = packets["duplicates"]
    copied = f" and {counted(copies, 'copy', 'copies')}, left out" if copies else ""
    every = counted(imported["tcp_connections"], "connection")
    flink = f"{imported['flink_connections']:,} of {every}"
    run, doubts = imported["run"], _warnings(imported)
    is_two_way = any(each["missing_direction"] is None for each in connections)
    can_replay = is_two_way and not packets["timeless_packets"]
    following = f"flinknet trace replay {quote(run)}"
    if not can_replay:
        following = "capture whole packets of both directions, then import again"
    more = ["--details shows all doubts"] if len(doubts) > 1 else []
    missed, known = imported["missed_buffers"], imported["buffers"] + imported["events"]
    missing = missed / (missed + known or 1) if can_replay else 1.0
    trust = graded(doubts, missing, "no buffer is missing" if not missed else "")
    return View(
        [
            Sentence(
                "imported",
                [
                    run,
                    f"{counted(packets['tcp_segments'], 'TCP segment')}{copied}",
                    f"Flink's are {flink}",
                ],
                "; ",
            ),
            Sentence("verdict", [*waits(imported), *_lost(connections)], "; "),
            Sentence("trust", trust, "; ", takes_rest=True),
            Sentence("next", [following, *more], "; "),
        ],
        [_table(connections)],
        [Lines(doubts, is_doubt=True), *channel_parts(imported["channels"]), *kept(imported)],
    )


def _lost(connections: list[Plain]) -> list[str]:
    """What TCP did, summed over connections."""
    repeated = sum(
        each["tcp"][way]["retransmitted_bytes"]
        for each in connections
        for way in ("data", "credit")
    )
    windows_ns = sum(each["tcp"]["data"]["zero_window_ns"] for each in connections)
    found = [f"{human_bytes(repeated)} were sent again"] if repeated else []
    if windows_ns:
        found.append(f"receivers had no room for {human_duration(windows_ns)}")
    return found or ["TCP lost nothing, and receivers had room"]


def _table(connections: list[Plain]) -> Table:
    rows = []
    for each in connections[:_CONNECTIONS_SHOWN]:
        messages, data, credit = each["messages"], each["tcp"]["data"], each["tcp"]["credit"]
        missing_bytes = data["missing_bytes"] + credit["missing_bytes"]
        repeated_bytes = data["retransmitted_bytes"] + credit["retransmitted_bytes"]
        cells = [
            each["connection"],
            each["layout"] or MISSING,
            str(each["channels"]),
            f"{messages.get('BUFFER_RESPONSE', 0):,}",
            f"{messages.get('ADD_CREDIT', 0):,}",
            human_bytes(repeated_bytes) if repeated_bytes else "0",
            human_duration(data["zero_window_ns"]) if data["zero_windows"] else "0",
            human_bytes(missing_bytes) if missing_bytes else "0",
        ]
        rows.append(Row(cells))
    hidden = len(connections) - _CONNECTIONS_SHOWN
    names = ("layout", "channels", "buffers", "credits", "repeated", "no room", "missing")
    return Table(
        heads("connection", *names),
        rows,
        notes=[f"… and {hidden:,} more connections (--json shows all)"] if hidden > 0 else [],
    )


def _warnings(imported: Plain) -> list[str]:
    lines = [*imported["warnings"]]
    for name in imported["truncated_files"]:
        lines.append(f"{name}: the file ends in the middle of a packet; all before it was read")
    lines += imported["clock"]
    packets = imported["packets"]
    if count := packets["cut_segments"]:
        lines.append(f"{counted(count, 'packet')} cut short; capture whole packets with `-s 0`")
    if count := packets["dropped_packets"]:
        lines.append(f"{counted(count, 'packet')} dropped before the capture program got them")
    if missed := imported["missed_buffers"]:
        share = missed / (missed + imported["buffers"] + imported["events"])
        lines.append(
            f"{counted(missed, 'buffer or event', 'buffers and events')} missing"
            f" ({human_share(share)}), by their sequence numbers"
        )
    if silent := imported["silent_connections"]:
        lines.append(f"{counted(silent, 'connection')} long silent, so taken for ended")
    if placed := imported["placed_channels"]:
        text = f"{counted(placed, 'channel')} named by where tasks run, as they were open before"
        if unsure := imported["uncertain_channels"]:
            text += f"; for {unsure:,} of them several tasks of one TaskManager are possible"
        lines.append(text)
    rest = imported["rest"]
    if rest is not None and (
        why := rest["error"] or (not rest["jobs"] and "the cluster ran no job")
    ):
        lines.append(f"--rest: {why}")
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
