"""What a tap shows: lines to set, the live panel, the summary with its doubts."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from flinknet.report import tap_console
from tests.report.printing import printed


def look(**changes: Any) -> dict[str, Any]:
    """What the live view is told."""
    channel = {
        "channel": 3,
        "records_per_s": 12_345.0,
        "bytes_per_s": 2_000_000.0,
        "backlog_buffers": 4,
        "credits_available": None,
        "starved_share": 0.62,
        "no_credit_share": 0.7,
        "blocked_share": 0.0,
        "fill": 0.25,
    }
    return {
        "elapsed_ns": 12_000_000_000,
        "connections": 2,
        "accepted": 5,
        "incidents": 0,
        "last_incident": None,
        "channels_open": 20,
        "bytes_per_s": 4e6,
        "records_per_s": None,
        "delay_ns_p50": 41_000.0,
        "delay_ns_p99": 900_000.0,
        "channels": [channel],
        "trace_bytes": 1 << 20,
        "triggers": 0,
        **changes,
    }


def result(**changes: Any) -> dict[str, Any]:
    """The result of a tap that saw one channel and nothing odd."""
    channel = {
        **dict.fromkeys(("channel", "no_credit_ns", "starved_ns", "blocked_ns"), 0),
        **{"buffers": 10, "data_bytes": 4000, "records": 100, "events": 3, "mean_fill": 0.5},
    }
    return {
        "duration_ns": 61_000_000_000,
        "connections": 1,
        "listening": ["127.0.0.1:7001"],
        "tap": {"pairs": [{"listen": "127.0.0.1:7001", "upstream": "127.0.0.1:7101"}]},
        "connections_cut": 0,
        "layouts": ["2.x"],
        "messages": {"BUFFER_RESPONSE": 13, "ADD_CREDIT": 9},
        "buffers": 10,
        "data_bytes": 4000,
        "records": 100,
        "uncounted_buffers": 0,
        "events": 3,
        "added_delay_ns": {"p50": 41_000.0, "p99": 900_000.0},
        "chunks": 22,
        "trace_bytes": 2048,
        "files": ["tap-0001.fnt"],
        "channels": [channel],
        "per_connection": [],
        "incidents": [],
        "incident_count": 0,
        "triggers": [],
        "recording_error": None,
        **dict.fromkeys(
            (
                *("credit_unknown_channels", "skipped_bytes", "losses", "undecodable"),
                *("observer_failures", "sequence_gaps", "unpaid_buffers", "channels_refused"),
            ),
            0,
        ),
        **changes,
    }


def test_the_two_lines_of_each_pair() -> None:
    lines = tap_console.setting_lines([(("127.0.0.1", 7001), ("10.0.0.7", 7101))])
    assert [line.strip() for line in lines[1:]] == [
        "taskmanager.data.port: 7001",
        "taskmanager.data.bind-port: 7101",
    ]
    assert lines[0].startswith("127.0.0.1:7001 -> 10.0.0.7:7101")


def test_the_panel_has_rates_delay_and_the_pressed_channels() -> None:
    text = printed(tap_console.panel(look()))
    for actual in ("2 connections open (5 in all)", "41.0 us", "900 us", "12.3 k", "62%", "25%"):
        assert actual in text
    assert "and 19 more channels" in text
    assert "incidents" not in text
    assert "2 incidents, last: refused" in printed(
        tap_console.panel(look(incidents=2, last_incident="refused"))
    )
    assert "fired 1 time" in printed(tap_console.panel(look(triggers=1)))


def test_off_a_terminal_there_is_a_line_each_minute_and_when_consumers_come_or_go() -> None:
    file = io.StringIO()
    with tap_console.TapView(Console(file=file), ["127.0.0.1:7001"]) as view:
        for second in range(80):
            count = 0 if second < 15 else 2
            now_ns = second * 1_000_000_000
            rates = {"records_per_s": 40_000.0, "delay_ns_p99": None}
            view.update(look(elapsed_ns=now_ns, accepted=count, connections=count, **rates))
        gone = {"connections": 0, "incidents": 1, "last_incident": "refused"}
        view.update(look(elapsed_ns=80_000_000_000, **gone))
    rates = "40.0 k records/s, 3.81 MiB/s, added delay p99 –, 1.00 MiB of trace"
    assert file.getvalue().splitlines() == [
        "tap, 10 s: no consumer has connected to 127.0.0.1:7001",
        f"tap, 15 s: 2 connections open (2 in all), 20 channels, {rates}",
        f"tap, 75 s: 2 connections open (2 in all), 20 channels, {rates}",
        "tap, 80 s: 0 connections open (5 in all), 20 channels, – records/s, 3.81 MiB/s,"
        " added delay p99 900 us, 1.00 MiB of trace, 1 incident, last: refused",
    ]


@pytest.mark.parametrize(
    ("duration_ns", "ring_ns", "trigger", "line"),
    [
        (None, None, "", "recording into tapped until Ctrl-C"),
        (60 * 10**9, None, "", "recording into tapped for 1 min"),
        (
            None,
            10**10,
            "",
            "recording into tapped until Ctrl-C; only the last 10 s are kept (--ring)",
        ),
        (
            *(None, 10**10, "no_credit>50%"),
            "recording into tapped until Ctrl-C; kept are 10 s before each time that no_credit>50%"
            " and 5 s after it, or the last 10 s if that never happens",
        ),
    ],
)
def test_a_tap_says_where_it_records_and_what_it_keeps(
    duration_ns: int | None, ring_ns: int | None, trigger: str, line: str
) -> None:
    assert (
        tap_console.recording_line(
            "tapped", duration_ns=duration_ns, ring_ns=ring_ns, trigger=trigger
        )
        == line
    )


def test_a_rest_api_that_is_waited_for_has_one_line_and_one_when_it_answers() -> None:
    file = io.StringIO()
    with tap_console.TapView(Console(file=file), ["127.0.0.1:7001"]) as view:
        for second in range(12):
            error = "--rest: http://x does not answer" if 2 <= second < 11 else None
            nobody = {"accepted": 0, "connections": 0}
            view.update(look(elapsed_ns=second * 10**9, rest_error=error, **nobody))
    assert file.getvalue().splitlines() == [
        "tap, 2 s: --rest: http://x does not answer",
        "tap, 10 s: no consumer has connected to 127.0.0.1:7001",
        "tap, 11 s: --rest: the JobManager answers",
    ]


NOTHING: dict[str, Any] = {"messages": {}, "channels": [], "buffers": 0, "connections": 0}
LOCAL = {"id": "1", "name": "one", "channels": 8, "local_channels": 8}
REST: dict[str, Any] = {"has_answered": True, "error": None, "edges": [], "jobs": [LOCAL]}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "No consumer connected to 127.0.0.1:7001. Check that taskmanager.data.port"),
        ({"rest": REST}, "No message can pass here: all channels of one are within TaskManagers."),
        (
            {"rest": REST | {"jobs": [LOCAL, LOCAL | {"local_channels": None}]}},
            "No consumer connected",
        ),
        (
            {"tap": {"pairs": [{"listen": "127.0.0.1:7001", "upstream": "redirected"}]}},
            "No connection was redirected to 127.0.0.1:7001",
        ),
        (
            {"tls_connections": 2, "connections": 2, "skipped_bytes": 999, "losses": 4},
            "No message of Flink could be read.",
        ),
        (
            {"connections": 1, "incident_count": 1}
            | {"incidents": [{"connection": "7001", "text": "upstream refused"}]},
            "Check that --upstream is where the TaskManager listens",
        ),
    ],
)
def test_a_tap_that_no_message_passed_says_what_to_check(
    changes: dict[str, Any], said: str
) -> None:
    given = result(**NOTHING | changes)
    assert said in tap_console.what_to_check(given)
    text = " ".join(printed(tap_console.tap_view(given, "tapped")).split())
    assert "no message verdict unknown." in text
    assert ("upstream refused" in text) == ("incidents" in changes)
    assert tap_console.doubts(given) == []
    assert "p50" not in text
    assert "next " not in text


def test_the_summary_ends_with_the_next_command() -> None:
    fired = result(triggers=[{"why": "blocked is 60% (blocked>50%)"}])
    text = printed(tap_console.tap_view(fired, "tapped"))
    assert "tapped: 61.0 s; 1 connection, 1 channel (2.x); 100 records in 10 buffers" in text
    assert "22: BUFFER_RESPONSE 13, ADD_CREDIT 9" in text
    assert "at most p50 41.0 us, p99 900 us, over 22 chunks" in text
    assert "kept: blocked is 60%" in text
    following = "next       flinknet trace replay tapped; flinknet trace verify tapped"
    assert following in text.splitlines()
    assert "!" not in text


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"credit_unknown_channels": 2}, "credit unknown of 2 channels"),
        ({"losses": 1, "skipped_bytes": 300}, "300 bytes could not be read as messages"),
        (
            {"undecodable": 1, "per_connection": [{"notes": ("message id 63",)}]},
            "only forwarded: message id 63",
        ),
        ({"observer_failures": 1}, "1 connection forwarded unobserved"),
        ({"sequence_gaps": 1}, "1 gap in sequence numbers, 0 buffers without credit"),
        ({"channels_refused": 9}, "too many channels"),
        ({"recording_error": "no space left"}, "no space left"),
        ({"connections_cut": 3}, "3 connections closed by the tap at its end"),
        (
            {"incidents": [{"connection": "a through b", "text": "refused"}], "incident_count": 1},
            "a through b: refused",
        ),
        ({"incident_count": 50}, "45 incidents before them"),
    ],
)
def test_what_is_not_whole_is_said(changes: dict[str, Any], says: str) -> None:
    (line,) = [*tap_console.doubts(result(**changes)), *tap_console.happened(result(**changes))]
    assert says in line


def test_names_and_local_channels_are_shown_where_the_job_manager_answered() -> None:
    edges = [
        {"number": 1, "name": "A → B", "channels": 6, "local_channels": 4},
        {"number": 2, "name": "B → C", "channels": None, "local_channels": None},
    ]
    rest = {
        "has_answered": True,
        "error": None,
        "jobs": [{"id": "1", "name": "one"}],
        "edges": edges,
    }
    rest["settings"] = [
        {"key": "execution.buffer-timeout.interval", "value": "20 ms", "from": "JobManager"},
        {"key": "taskmanager.memory.segment-size", "value": "32 kb", "from": "TaskManagers"},
    ]
    assert tap_console.rest_rows(rest) == [
        ("job", "one"),
        ("setting", "execution.buffer-timeout.interval: 20 ms (JobManager)"),
        ("edge", "1 A → B: 4 of 6 channels local, never on the wire"),
        ("edge", "2 B → C: local channels: unknown"),
    ]
    assert tap_console.rest_rows(None) == []


def test_a_warning_is_printed_once_when_it_comes_and_again_in_the_summary() -> None:
    file = io.StringIO()
    with tap_console.TapView(Console(file=file), ["127.0.0.1:7001"]) as view:
        for second in range(5, 9):
            warnings = ["recording stopped: no space"] if second > 6 else []
            nobody = {"accepted": 0, "connections": 0}
            view.update(look(elapsed_ns=second * 10**9, warnings=warnings, **nobody))
    assert file.getvalue() == "tap, 7 s: recording stopped: no space\n"
    assert "recording stopped: no space" in printed(tap_console.panel(look(warnings=warnings)))
    assert tap_console.doubts(result(warnings=warnings)) == warnings


def test_the_last_attempt_comes_first_in_the_summary() -> None:
    channels = [
        {**result()["channels"][0], "channel": number, "later_attempts": int(number < 30)}
        for number in range(50)
    ]
    lines = printed(tap_console.tap_view(result(channels=channels), "tapped")).splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("channel"))
    assert lines[first + 1].split()[0] == "30"
    assert (
        "  … and 4 more channels and 30 channels of earlier attempts (result.json has all)" in lines
    )


@pytest.mark.parametrize(
    ("changes", "verdict", "trust"),
    [
        ({}, "healthy: the network holds nothing up", "good: the tap added"),
        ({"starved_ns": 30 * 10**9}, "unknown: slow consumers or few buffers; channel 0", "good: "),
        ({"blocked_ns": 30 * 10**9}, "held: barriers block channels; channel 0", "good: "),
        ({"credit_unknown_channels": 1}, "unknown: the credit of no channel", "fair: credit"),
        ({"skipped_bytes": 4000, "losses": 2}, "healthy: ", "poor: 4,000 bytes"),
        ({"connections_cut": 3}, "healthy: ", "good: 3 connections closed by the tap"),
    ],
)
def test_a_tap_ends_with_a_word_and_a_grade(
    changes: dict[str, int], verdict: str, trust: str
) -> None:
    given = result()
    given["channels"][0] |= {k: n for k, n in changes.items() if k in given["channels"][0]}
    given |= {k: n for k, n in changes.items() if k in given}
    text = " ".join(printed(tap_console.tap_view(given, "tapped")).split())
    assert f"verdict {verdict}" in text
    assert f"trust {trust}" in text
