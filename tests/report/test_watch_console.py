"""The panel of `trace watch`."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from flinknet.report.export import watch_document
from flinknet.report.trace_console import EDGES_SHOWN, WatchView, watch_view
from flinknet.results import BacklogSummary, LatencyBounds, WatchedEdge, WatchLook
from tests.report.printing import printed

MS = 1_000_000

OWN = WatchedEdge(
    run="run-0001",
    edge_number=1,
    edge="Source → Sink",
    from_ns=0,
    to_ns=60_000 * MS,
    channels=4,
    records=60_000,
    records_per_s=1000.0,
    bytes_per_s=100_000.0,
    latency=LatencyBounds("consumed", 60_000, 5.0 * MS, 5.0 * MS, 9.0 * MS, 9.0 * MS),
    backlog_buffers=BacklogSummary(0.25, 3),
    regimes={"waiting_for_flush": 0.75, "idle": 0.25},
    starved=0.0,
    blocked=None,
    verdict="buffer-timeout",
    share=0.75,
    why="flush-limited: 75% of the time",
    is_bottleneck=None,
)
TAPPED = replace(
    OWN,
    run="tap",
    edge=None,
    latency=LatencyBounds("recorded", 60_000, None, 2.0 * MS, None, None),
    regimes=None,
    starved=0.5,
    verdict="slow-tasks",
)


def shown(look: WatchLook, waited_s: int = 0) -> str:
    return printed(watch_view(look, "runs", waited_s), width=150)


def test_each_edge_has_its_figures_and_what_limits_it() -> None:
    look = WatchLook(12_345, (OWN, TAPPED), {"run-0001": "the buffer timeout"}, {"new": "empty"})
    text = shown(look, waited_s=7)
    first = "watching   runs; the last 60.0 s; no new event for 7 s; 12,345 events read"
    assert text.startswith(first)
    (own,) = [
        line for line in text.splitlines() if line.startswith("run-0001, 1 Source → Sink  buffer")
    ]
    assert own.split()[5:] == [
        *("buffer-timeout", "1.00", "k", "97.7", "KiB/s", "5.00", "ms", "9.00", "ms"),
        *("0.25", "3", "0%"),
    ]
    (tapped,) = [line for line in text.splitlines() if line.startswith("tap  ")]
    assert "<=2.00 ms" in tapped
    assert "unknown" in tapped
    assert "at most (<=), until a record passed the tap" in text
    assert "waiting for flush" in text
    assert "verdict    healthy: run-0001: the buffer timeout" in text
    assert "new: empty" in text


def test_of_many_edges_some_are_shown() -> None:
    edges = tuple(replace(OWN, edge=f"edge {number}") for number in range(EDGES_SHOWN + 5))
    text = shown(WatchLook(1, edges, {}, {}))
    assert "and 5 more edges" in text


def test_off_a_terminal_each_look_is_printed_once() -> None:
    console = Console(file=io.StringIO(), width=150)
    with WatchView(console, "runs") as view:
        view.update(WatchLook(0, (OWN,), {}, {}))
        view.wait(1)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.count("watching   runs") == 1


def test_what_is_unknown_is_null_in_json() -> None:
    document = watch_document(WatchLook(0, (TAPPED,), {}, {}))
    (edge,) = document["edges"]
    assert edge["latency"]["p99_max_ns"] is None
    assert edge["regimes"] is None
    assert document["schema_version"] == 2


def test_a_part_that_ends_before_the_newest_event_says_by_how_much() -> None:
    late = replace(OWN, to_ns=500 * MS, behind_ns=2_500 * MS, local_channels=2)
    text = shown(WatchLook(1, (OWN,), {}, {}, has_ended=True))
    assert text.startswith("ended      runs; the last 60.0 s; 1 events read")
    text = shown(WatchLook(1, (late,), {}, {}))
    assert "the last 3.00 s; all but records/s is known of its first 500 ms so far" in text
    assert "records/s: with those of 2 local channels, by Flink's counters" in text
    assert "without what passes on 3 local channels" in shown(
        WatchLook(1, (replace(TAPPED, uncounted_channels=3),), {}, {})
    )
