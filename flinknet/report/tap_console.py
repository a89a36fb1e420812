"""Output of a tap: the lines to set, the live view, and the summary. Takes plain data only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

from rich.console import Console

from flinknet.units import (
    counted,
    format_address,
    format_duration_ns,
    human_bytes,
    human_count,
    human_duration,
    human_share,
)

from .console import LivePanel
from .page_parts import Column, Lines, Row, Sentence, Table, View, heads, last_part, table_of
from .recordings import CHANNELS_SHOWN, INCIDENTS_SHOWN, channel_parts, graded, kept, waits

Plain = Mapping[str, Any]

SETTINGS_SHOWN = "execution."
"""Settings of jobs that are shown; the trace has all reported ones."""

FIRST_LINE_NS = 10_000_000_000
LINE_EVERY_NS = 60_000_000_000
"""Off a terminal."""


def setting_lines(pairs: Sequence[tuple[tuple[str, int], tuple[str, int] | None]]) -> list[str]:
    """Instructions that bring traffic through the tap: two lines of a TaskManager's configuration
    for each pair; or, without an upstream, the rule that redirects connections."""
    lines = [_redirect(*own) for own, upstream in pairs if upstream is None]
    for own, upstream in pairs:
        if upstream is not None:
            lines += [
                f"{format_address(*own)} -> {format_address(*upstream)}; its TaskManager needs",
                f"    taskmanager.data.port: {own[1]}",
                f"    taskmanager.data.bind-port: {upstream[1]}",
            ]
    return lines


def _redirect(host: str, port: int) -> str:
    """The rule that brings connections to a tap on this address; `::` takes those of both kinds."""
    programs = ["ip6tables"] if ":" in host else ["iptables"]
    if host == "::":
        programs.insert(0, "iptables")
    rules = (
        f"    {program} -t nat -A OUTPUT -p tcp -m owner --uid-owner flink --dport 32768:60999 \\\n"
        f"        -j REDIRECT --to-ports {port}\n"
        for program in programs
    )
    return (
        f"{format_address(host, port)} -> the port that each connection was made to; redirect those"
        f" of Flink's user, for example\n{''.join(rules)}"
        "    run the tap as another user, and set taskmanager.rpc.port, blob.server.port and\n"
        "    metrics.internal.query-service.port to ports outside this range"
    )


def recording_line(out: str, duration_ns: int | None, ring_ns: int | None, trigger: str) -> str:
    """Destination of the trace, duration of the tap, and the part it keeps: a ring, around each
    time that something triggers."""
    until = "until Ctrl-C" if duration_ns is None else f"for {_exactly(duration_ns)}"
    kept = ""
    if ring_ns is not None:
        ring, after = _exactly(ring_ns), _exactly(ring_ns // 2)
        kept = f"; only the last {ring} are kept (--ring)"
        if trigger:
            kept = f"; kept are {ring} before each time that {trigger} and {after} after it,"
            kept += f" or the last {ring} if that never happens"
    return f"recording into {out} {until}{kept}"


def _exactly(duration_ns: int) -> str:
    return format_duration_ns(duration_ns, separator=" ")


class TapView(LivePanel):
    """A live panel of a tap or a capture where there is a terminal; else a line each minute, and
    one when the first consumer has connected to an address or the last one has gone."""

    def __init__(self, console: Console, listening: Sequence[str] = ()) -> None:
        super().__init__(console, LINE_EVERY_NS, FIRST_LINE_NS)
        self.listening = listening
        self._has_connections = False
        self._rest_error: str | None = None
        self._warned: set[str] = set()

    def update(self, look: Plain) -> None:
        """Show where the tap stands; off a terminal a warning when it comes, and an error of REST
        when it comes and goes."""
        if self.is_live:
            self.draw(panel(look))
            return
        before, self._rest_error = self._rest_error, look.get("rest_error")
        news = [each for each in look.get("warnings", ()) if each not in self._warned]
        self._warned.update(news)
        if self._rest_error != before:
            news.append(self._rest_error or "--rest: the JobManager answers")
        for each in news:
            self.print(f"{_name(look)}, {look['elapsed_ns'] / 1e9:,.0f} s: {each}")
        has_changed = self._has_connections != bool(look["connections"])
        if self.is_due(look["elapsed_ns"], is_urgent=has_changed):
            self._has_connections = bool(look["connections"])
            self.print(progress_line(look, self.listening))


def progress_line(look: Plain, listening: Sequence[str]) -> str:
    begin = f"{_name(look)}, {look['elapsed_ns'] / 1e9:,.0f} s: "
    if "packets" in look and "channels" not in look:
        return f"{begin}no connection of Flink's among {counted(look['packets'], 'packet')}"
    if not look["accepted"]:
        return f"{begin}no consumer has connected to {', '.join(listening)}"
    line = f"{begin}{_open(look)}, {_rates(look)}"
    if "delay_ns_p99" in look:
        line += f", added delay p99 {human_duration(look['delay_ns_p99'])}"
    line += f", {human_bytes(look['trace_bytes'])} of trace"
    if look["incidents"]:
        line += f", {counted(look['incidents'], 'incident')}, last: {look['last_incident']}"
    return line


def _open(look: Plain) -> str:
    connections, channels = look["connections"], counted(look["channels_open"], "channel")
    return f"{counted(connections, 'connection')} open ({look['accepted']} in all), {channels}"


def _rates(look: Plain) -> str:
    return f"{human_count(look['records_per_s'])} records/s, {human_bytes(look['bytes_per_s'])}/s"


def _name(look: Plain) -> str:
    return "capture" if "packets" in look else "tap"


def panel(look: Plain) -> View:
    """Connections, rates, added delay, and the channels that wait most for credit."""
    if "channels" not in look:
        return View([Sentence(_name(look), [progress_line(look, ()).partition(": ")[2]])])
    tap = (
        f"{look['elapsed_ns'] / 1e9:,.0f} s, {_open(look)},"
        f" {human_bytes(look['trace_bytes'])} of trace"
    )
    rates = _rates(look)
    if "delay_ns_p99" in look:
        rates += f", added delay p50 {human_duration(look['delay_ns_p50'])},"
        rates += f" p99 {human_duration(look['delay_ns_p99'])}"
    columns: Mapping[str, Column] = {
        "channel": lambda row: row.get("name") or row["channel"],
        **{"rec/s": "records_per_s", "bytes/s": "bytes_per_s"},
        **{"backlog": "backlog_buffers", "credit": "credits_available"},
        **{"no credit": "no_credit_share", "starved": "starved_share", "blocked": "blocked_share"},
        "fill": lambda row: human_share(row["fill"]),
    }
    hidden = look["channels_open"] - min(len(look["channels"]), CHANNELS_SHOWN)
    notes = [f"and {hidden} more channels"] if hidden > 0 else []
    lines = []
    if look["incidents"]:
        lines.append(f"{look['incidents']} incidents, last: {look['last_incident']}")
    if look.get("rest_error"):
        lines.append(look["rest_error"])
    lines += look.get("warnings", ())
    if look["triggers"]:
        lines.append(f"the trigger has fired {counted(look['triggers'], 'time')}")
    return View(
        [Sentence(_name(look), [tap]), Sentence("rates", [rates])],
        [table_of(look["channels"][:CHANNELS_SHOWN], columns, notes=notes)],
        [Lines(lines, is_doubt=True)],
    )


def tap_view(result: Plain, out: str) -> View:
    """The recorded data and its cost, doubts, and the next command; without messages, the checks to
    make."""
    head = [
        f"{last_part(out)}: {result['duration_ns'] / 1e9:,.1f} s",
        f"{counted(result['connections'], 'connection')},"
        f" {counted(len(result['channels']), 'channel')}"
        f" ({', '.join(result['layouts']) or 'layout unknown'})",
    ]
    found = doubts(result)
    if not sum(result["messages"].values()):
        checks = what_to_check(result).split(". ")
        found += happened(result)
        return View(
            [
                Sentence("recorded", [*head, "no message"]),
                Sentence("verdict", ["unknown", *checks], ". ", takes_rest=True),
                Sentence("trust", found),
            ],
            details=[Lines(found, is_doubt=True)] if len(found) > 1 else [],
        )
    records = f"{result['records']:,} records in {result['buffers']:,} buffers"
    added, run, more = f"the tap added {_added(result)}", quote(out), happened(result)
    return View(
        [
            Sentence("recorded", [*head, records]),
            Sentence("verdict", waits(result)),
            Sentence("trust", graded(found, missing_of(result), added, more), takes_rest=True),
            Sentence("next", [f"flinknet trace replay {run}", f"flinknet trace verify {run}"]),
        ],
        channel_parts(result["channels"]),
        [_totals(result), Lines([*found, *more], is_doubt=True), kept(result)],
    )


def _added(result: Plain) -> str:
    p50, p99 = (human_duration(result["added_delay_ns"][each]) for each in ("p50", "p99"))
    return f"at most p50 {p50}, p99 {p99}"


def missing_of(result: Plain) -> float:
    """The share of what passed a tap that its trace lacks."""
    skipped, undecodable = result["skipped_bytes"], result["undecodable"]
    missing: float = max(
        skipped / (skipped + result["data_bytes"] or 1),
        undecodable / (undecodable + sum(result["messages"].values()) or 1),
        result["observer_failures"] / (result["connections"] or 1),
        result["recording_error"] is not None,
    )
    return missing


def _totals(result: Plain) -> Table:
    records = f"{result['records']:,}"
    if result["uncounted_buffers"]:
        records += f", and those in {result['uncounted_buffers']:,} buffers that were not counted"
    messages: Counter[str] = Counter(result["messages"])
    files = counted(len(result["files"]), "file")
    kinds = ", ".join(f"{name} {count:,}" for name, count in messages.most_common(4))
    rows = [
        ("messages", f"{messages.total():,}: {kinds}"),
        ("buffers", f"{result['buffers']:,} with {human_bytes(result['data_bytes'])}"),
        ("records", records),
        ("events", f"{result['events']:,}"),
        ("added delay", f"{_added(result)}, over {result['chunks']:,} chunks"),
        ("trace", f"{human_bytes(result['trace_bytes'])} in {files}"),
        *rest_rows(result.get("rest")),
    ]
    return Table(heads("", "", texts=[""]), [Row(each) for each in rows])


def rest_rows(rest: Plain | None) -> list[tuple[str, str]]:
    """Facts about the jobs from Flink's REST API, as rows; none if it was not asked."""
    if rest is None:
        return []
    rows = [("job", ", ".join(each["name"] for each in rest["jobs"]) or "unknown")]
    rows += [
        ("setting", f"{each['key']}: {each['value']} ({each['from']})")
        for each in rest.get("settings") or ()
        if each["key"].startswith(SETTINGS_SHOWN)
    ]
    for edge in rest["edges"]:
        local, channels = edge["local_channels"], edge["channels"]
        where = "local channels: unknown"
        if local is not None:
            where = f"{local:,} of {channels:,} channels local, never on the wire"
        rows.append(("edge", f"{edge['number']} {edge['name']}: {where}"))
    return rows


def what_to_check(result: Plain) -> str:
    """Possible reasons why no message went through a tap."""
    listening = ", ".join(result["listening"])
    upstreams = {pair["upstream"] for pair in result["tap"]["pairs"]}
    if upstreams == {"redirected"} and not result["connections"]:
        return (
            f"No connection was redirected to {listening}. Check with iptables -t nat -L OUTPUT -v"
            " (ip6tables for IPv6) that the rule counts packets: its user must be Flink's and its"
            " ports those that TaskManagers listen on. Connections that were open before the rule"
            " are not redirected."
        )
    jobs = (result.get("rest") or {}).get("jobs") or ()
    if jobs and all(each["channels"] == each["local_channels"] for each in jobs):
        names = ", ".join(each["name"] for each in jobs)
        return (
            f"No message can pass here: all channels of {names} are within TaskManagers. Give the"
            " job more subtasks than a TaskManager has slots, or spread it over TaskManagers"
            " (taskmanager.load-balance.mode: SLOTS)."
        )
    if result.get("tls_connections"):
        return "No message of Flink could be read."
    if result["connections"]:
        return (
            f"No message of Flink passed. Check that --upstream is where the TaskManager listens"
            " (its taskmanager.data.bind-port), and that what connected to"
            f" {listening} was a TaskManager."
        )
    return (
        f"No consumer connected to {listening}. Check that taskmanager.data.port of the"
        " TaskManager behind the tap is that port, that consumers can reach the address, that the"
        " job has consumers in another TaskManager, and that it started after the tap."
    )


def doubts(result: Plain) -> list[str]:
    """Missing or damaged parts, in sentences."""
    notes = (text for each in result["per_connection"] for text in each["notes"])
    is_tls = bool(result.get("tls_connections"))  # which has its warning
    known = (
        (result["credit_unknown_channels"],
         f"credit unknown of {counted(result['credit_unknown_channels'], 'channel')}: opened"
         " before the tap began, or it missed bytes; all else is known from the next message on"),
        (not is_tls and result["skipped_bytes"] + result["losses"],
         f"{result['skipped_bytes']:,} bytes could not be read as messages, in"
         f" {counted(result['losses'], 'place')}; all bytes were forwarded"),
        (result["undecodable"],
         f"{counted(result['undecodable'], 'message')} could not be decoded, only forwarded:"
         f" {next(notes, '?')}"),
        (result["observer_failures"],
         f"{counted(result['observer_failures'], 'connection')} forwarded unobserved"),
        (result["sequence_gaps"] + result["unpaid_buffers"],
         f"{counted(result['sequence_gaps'], 'gap')} in sequence numbers,"
         f" {counted(result['unpaid_buffers'], 'buffer')} without credit"),
        (result["channels_refused"], "there were too many channels to list each of them"),
        (result["recording_error"], result["recording_error"]),
    )  # fmt: skip
    lines = [*result.get("warnings", ()), *(line for is_so, line in known if is_so)]
    rest = result.get("rest")
    if rest and not rest["jobs"]:
        why = rest["error"] or "the cluster ran no job"
        lines.append(f"no names and no metrics of Flink: {why}")
    elif rest and rest["error"]:
        lines.append(f"Flink's metrics end before the trace: {rest['error']}")
    return lines


def happened(result: Plain) -> list[str]:
    """Connections that the tap closed at its end, and incidents, in sentences."""
    lines = []
    if result["connections_cut"]:
        lines.append(
            f"{counted(result['connections_cut'], 'connection')} closed by the tap at its end"
        )
    for incident in result["incidents"][-INCIDENTS_SHOWN:]:
        lines.append(f"{incident['connection']}: {incident['text']}".lstrip(": "))
    if (hidden := result["incident_count"] - INCIDENTS_SHOWN) > 0:
        lines.append(f"and {hidden} incidents before them (result.json has more)")
    return lines
