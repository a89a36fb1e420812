"""What was recorded: the recordings of a run, and data they are known to lack; the answer of `trace
import` on a capture; and what it shares with that of a tap, from plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

from flinknet import results
from flinknet.results.bottleneck import PRESSED_FROM
from flinknet.results.recordings import ASSUMED, MESSAGES, SAME_CLOCK, WALL_CLOCKS
from flinknet.units import counted, human_bytes, human_duration, human_share

from .page_parts import Column, Lines, Part, Sentence, View, left_out, table_of

CHANNELS_SHOWN = 16
INCIDENTS_SHOWN = 5
LOSSES_SHOWN = 8
NAMES_SHOWN = 5
RECORDINGS_SHOWN = 40

SHORTER_FROM = 0.05
"""Share of the run that a recording lacks at an end, from which on that is stated."""

_BASES = {
    MESSAGES: "by messages that both recorded",
    WALL_CLOCKS: "by the hosts' wall clocks",
    ASSUMED: "assumed: as if their data had begun at the same time",
}


def recording_lines(trace: results.TraceDescription) -> list[str]:
    """Losses, and the recordings where they are several."""
    labels = {each.path: each.label for each in trace.recordings}
    lines = [loss_line(each, labels.get(each.path)) for each in trace.losses[:LOSSES_SHOWN]]
    lines += left_out(trace.losses, LOSSES_SHOWN, "and {} more losses (--json has all)")
    if not trace.recordings:
        return lines
    lines.append(set_line(trace.recordings))
    if unused := [each.label for each in trace.recordings if not each.channels_counted]:
        lines.append(f"not used, other recordings have all of its channels: {named(unused)}")
    lines += _short_lines(trace)
    return [*lines, *clock_lines(trace.recordings)]


def loss_line(loss: results.TraceLoss, label: str | None = None) -> str:
    where = label or loss.path
    return f"{where}{f'/{loss.file}' if loss.file else ''}: {loss.text}"


def set_line(recordings: Sequence[results.ReplayedRecording], of_what: str = "") -> str:
    """Sentence on the recordings of a run, and the channels that count; `of_what` stands behind
    these."""
    names = named([each.label for each in recordings])
    channels = sum(each.channels_counted for each in recordings)
    twice = sum(each.channels - each.channels_counted for each in recordings)
    line = f"one run of {len(recordings):,} recordings ({names}): {counted(channels, 'channel')}"
    left = [(each.channels - each.channels_counted, each.label) for each in recordings]
    unused = named([f"{count:,} of {label}" for count, label in left if count])
    again = f", {twice:,} recorded twice and counted once (left out: {unused})" if twice else ""
    return f"{line}{of_what}{again}"


def _short_lines(trace: results.TraceDescription) -> list[str]:
    whole_ns, short = trace.part.whole_ns, []
    for each in trace.recordings:
        ends_ns = (each.from_ns, each.to_ns)
        first, last = (human_duration(min(max(at_ns or 0, 0), whole_ns)) for at_ns in ends_ns)
        if each.from_ns is None or each.to_ns is None:
            short.append(f"{each.label} has no data")
        elif max(each.from_ns, whole_ns - each.to_ns) > SHORTER_FROM * whole_ns:
            short.append(f"{each.label} has data from {first} to {last}")
    whole = f"not all recordings cover the {human_duration(whole_ns)} of the run"
    return [f"{whole}: {named(short)}"] if short else []


def clock_lines(recordings: Sequence[results.ReplayedRecording]) -> list[str]:
    """How their clocks are related; nothing where they have one."""
    others = [each for each in recordings if each.clock.basis != SAME_CLOCK]
    related = named([f"{each.label} {clock_text(each.clock)}" for each in others], separator="; ")
    if not others:
        return []
    return [
        f"clocks of other hosts than {recordings[0].label}'s: {related}. Figures of a channel need"
        " one clock only; sums over time and the part of the run that is used need all"
    ]


def clock_text(clock: results.ClockRelation) -> str:
    if clock.basis == SAME_CLOCK:
        return "same clock"
    most = "unknown" if clock.error_ns is None else f"at most {human_duration(clock.error_ns)}"
    sign = "-" if clock.offset_ns < 0 else "+"
    return f"{sign}{human_duration(abs(clock.offset_ns))}, error {most} ({_BASES[clock.basis]})"


def named(names: Sequence[str], separator: str = ", ") -> str:
    """The first of some names, and how many more there are."""
    more = left_out(names, NAMES_SHOWN, "{} more")
    return " and ".join([separator.join(names[:NAMES_SHOWN]), *more])


def set_view(found: results.RecordingSet) -> View:
    """The recordings of a run, the part of each that counts, the relation of their clocks, and
    losses."""
    exchanges = "1 exchange" if found.edges == 1 else f"{found.edges:,} exchanges"
    labels = {each.path: each.label for each in found.recordings}
    lost = [loss_line(each, labels.get(each.path)) for each in found.losses]
    columns: Mapping[str, Column] = {
        **{"recording": "label", "channels": "channels", "counted": "channels_counted"},
        **{"data from": "from_ns", "to": "to_ns"},
        "clock": lambda recording: clock_text(recording.clock),
        "started at": "started_at",
    }
    table = table_of(
        found.recordings[:RECORDINGS_SHOWN],
        columns,
        notes=left_out(
            found.recordings, RECORDINGS_SHOWN, "… and {} more recordings (--json shows all)"
        ),
        texts=["clock", "started at"],
    )
    one = quote(found.recordings[0].path)
    return View(
        parts=[
            Lines([found.path, set_line(found.recordings, f" of {exchanges}")], is_headed=True),
            Lines([*lost, *clock_lines(found.recordings)], is_doubt=True),
            table,
            Lines([f"flinknet trace info {one} shows one of them"]),
        ]
    )


Plain = Mapping[str, Any]

MISSING_POOR = 0.05
"""Share of what passed that is missing above which a recording is poor."""


def graded(found: Sequence[str], missing: float, good: str, more: Sequence[str] = ()) -> list[str]:
    """How far to rely on a recording, as clauses that begin with a grade: good without doubts, poor
    where a large share of what passed is missing. `more` are clauses that are no doubts, `good` is
    the last one."""
    grade = "poor" if missing > MISSING_POOR else "fair" if found else "good"
    first, *others = [*found, *more, *([good] if good else [])]
    return [f"{grade}: {first}", *others]


def waits(result: Plain, unseen: str = "") -> list[str]:
    """The verdict as far as messages show it, in a word; the job, and the channels that waited
    longest for credit and behind a barrier, unless something `unseen` leaves all that unknown."""
    found, shares = [], []
    for what, field in (("for credit with data", "starved_ns"), ("behind a barrier", "blocked_ns")):
        most = max(result["channels"], key=lambda each: each[field], default=None)
        waited_ns = most[field] if most is not None else 0
        shares.append(waited_ns / max(result["duration_ns"], 1))
        if most is not None and waited_ns:
            name = most.get("name") or f"channel {most['channel']}"
            found.append(f"{name} waited longest {what}: {human_duration(waited_ns)}")
    jobs = (result.get("rest") or {}).get("jobs") or ()
    names = [f"job {', '.join(each['name'] for each in jobs)}"] if jobs else []
    if unseen:
        return [f"unknown: {unseen}", *names]
    word = "healthy: the network holds nothing up"
    if shares[1] >= PRESSED_FROM:
        word = "held: barriers block channels"
    elif shares[0] >= PRESSED_FROM:
        word = "unknown: slow consumers or few buffers"
    elif result["credit_unknown_channels"] >= len(result["channels"]):
        word = "unknown: the credit of no channel is known"
    return [word, *names, *(found or ["no channel waited for credit or a barrier"])]


def kept(result: Plain) -> Lines:
    return Lines([f"kept: {each['why']}" for each in result["triggers"][:INCIDENTS_SHOWN]])


def channel_parts(channels: Sequence[Plain]) -> list[Part]:
    last = [each for each in channels if not each.get("later_attempts")]
    hidden, earlier = len(last[CHANNELS_SHOWN:]), len(channels) - len(last)
    more = [f"{hidden:,} more channels"] if hidden else []
    more += [f"{counted(earlier, 'channel')} of earlier attempts"] if earlier else []
    notes = [f"… and {' and '.join(more)} (result.json has all)"] if more else []
    columns: Mapping[str, Column] = {
        "channel": lambda row: row.get("name") or row["channel"],
        **{"buffers": "buffers", "bytes": "data_bytes", "records": "records", "events": "events"},
        "fill": lambda row: human_share(row["mean_fill"]),
        **{"no credit": "no_credit_ns", "starved": "starved_ns", "blocked": "blocked_ns"},
    }
    return [table_of(last[:CHANNELS_SHOWN], columns, notes=notes)] if channels else []


_CONNECTIONS_SHOWN = 32
_WAYS = ("data", "credit")
_NOTHING_LOST = "TCP lost nothing, and receivers had room"

_MISSING_DIRECTIONS = {
    "data": "nothing that the producer sent is in the capture: buffers and records are unknown",
    "credit": "nothing that the consumer sent is in the capture: its requests and credit are"
    " unknown, and so what waited for credit",
}


def import_view(imported: Plain) -> View:
    """The connections with what TCP did to them, and what the capture lacks."""
    packets, connections = imported["packets"], imported["connections"]
    copies = packets["duplicates"]
    copied = f" and {counted(copies, 'copy', 'copies')}, left out" if copies else ""
    every = counted(imported["tcp_connections"], "connection")
    flink = f"{imported['flink_connections']:,} of {every}"
    run, doubts = imported["run"], _warnings(imported)
    two_way = [each for each in connections if each["missing_direction"] is None]
    one_way = counted(len(connections) - len(two_way), "connection")
    whole = [each for each in two_way if not each["tcp"]["credit"]["gaps"]]
    judged = {each["connection"] for each in whole}
    seen = {
        "channels": [each for each in imported["channels"] if each["connection"] in judged],
        "credit_unknown_channels": sum(each["credit_unknown_channels"] for each in whole),
    }
    lacking = f"credit messages of {counted(len(two_way) - len(whole), 'connection')} are missing"
    unseen = "only one direction was captured" * (not two_way)
    verdict = waits({**imported, **seen}, unseen or lacking * (not whole))
    following = f"flinknet trace replay {quote(run)}"
    if unseen:
        following = "capture whole packets of both directions, then import again"
    elif verdict[0].startswith("healthy") and len(whole) < len(connections):
        of_some = f"only one direction of {one_way} was captured"
        verdict[0] = f"unknown: {lacking if len(two_way) == len(connections) else of_some}"
    more = ["--details shows all doubts"] if len(doubts) > 1 else []
    missed, known = imported["missed_buffers"], imported["buffers"] + imported["events"]
    missing = missed / (missed + known or 1) if not unseen else 1.0
    is_complete = not missed and all(x["missing_direction"] != "data" for x in connections)
    trust = graded(doubts, missing, "no buffer is missing" if is_complete else "")
    resent = sum(each["tcp"][way]["retransmitted_bytes"] for each in connections for way in _WAYS)
    windows_ns = sum(each["tcp"]["data"]["zero_window_ns"] for each in connections)
    lost = [f"{human_bytes(resent)} were sent again"] if resent else []
    if windows_ns:
        lost.append(f"receivers had no room for {human_duration(windows_ns)}")
    is_whole = len(whole) == len(connections) and not any(x["tcp"]["data"]["gaps"] for x in whole)
    lost = lost or [_NOTHING_LOST] * is_whole  # what receivers say of it is in what they sent
    columns: dict[str, Column] = {
        **{"connection": "connection", "layout": "layout", "channels": "channels"},
        "buffers": lambda row: row["messages"].get("BUFFER_RESPONSE", 0),
        "credits": lambda row: row["messages"].get("ADD_CREDIT", 0),
        "repeated": lambda row: _sum_of(row, "retransmitted_bytes"),
        "no room": lambda row: human_duration(row["tcp"]["data"]["zero_window_ns"] or 0),
        "missing": lambda row: _sum_of(row, "missing_bytes"),
    }
    more_of_them = "… and {} more connections (--json shows all)"
    notes = left_out(connections, _CONNECTIONS_SHOWN, more_of_them)
    segments = f"{counted(packets['tcp_segments'], 'TCP segment')}{copied}"
    return View(
        [
            Sentence("imported", [run, segments, f"Flink's are {flink}"]),
            Sentence("verdict", [*verdict, *lost]),
            Sentence("trust", trust, takes_rest=True),
            Sentence("next", [following, *more]),
        ],
        [table_of(connections[:_CONNECTIONS_SHOWN], columns, notes=notes)],
        [Lines(doubts, is_doubt=True), *channel_parts(imported["channels"]), kept(imported)],
    )


def _sum_of(connection: Plain, field: str) -> str:
    return human_bytes(sum(connection["tcp"][way][field] for way in _WAYS))


def _warnings(imported: Plain) -> list[str]:
    packets, missed = imported["packets"], imported["missed_buffers"]
    share = missed / (missed + imported["buffers"] + imported["events"] or 1)
    unsure, rest = imported["uncertain_channels"], imported["rest"] or {}
    several = f"; for {unsure:,} of them several tasks of one TaskManager are possible"
    kinds = ", ".join(map(str, packets["unknown_link_types"]))
    cut = "the file ends in the middle of a packet; all before it was read"
    counts = (
        (packets["cut_segments"], "packet", "cut short; capture whole packets with `-s 0`"),
        (packets["dropped_packets"], "packet", "dropped before the capture program got them"),
        (missed, "buffer or event",
         f"missing ({human_share(share)}), by their sequence numbers"),
        (imported["silent_connections"], "connection", "long silent, so taken for ended"),
        (imported["placed_channels"], "channel",
         f"named by where tasks run, as they were open before{several * bool(unsure)}"),
        (packets["unread_blocks"], "block",
         "of unknown kinds, or of packets without an instant, were not read"),
        (packets["fragments"], "fragment", "of IP packets were ignored"),
    )  # fmt: skip
    plurals = {"buffer or event": "buffers and events"}
    why = rest and (rest["error"] or ("" if rest["jobs"] else "the cluster ran no job"))
    lines = [
        *imported["warnings"],
        *(f"{name}: {cut}" for name in imported["truncated_files"]),
        *imported["clock"],
        *(f"{counted(n, noun, plurals.get(noun, ''))} {what}" for n, noun, what in counts if n),
        *([f"--rest: {why}"] if why else []),
        *([f"packets of the unknown link type {kinds} were ignored"] if kinds else []),
    ]
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
