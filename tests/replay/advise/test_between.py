"""Simulated jobs as a tap between their TaskManagers records them: what of the bottleneck shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flinknet.core.probe import MessageKind, TracePoint
from flinknet.replay.advise.between import CapturedEdge, bottleneck_between, judge_between
from flinknet.replay.advise.diagnose import ChannelTimes, diagnose_captured
from flinknet.replay.observe.observed import observe_here
from flinknet.replay.read import AskedPart, open_runs
from flinknet.results import Bottleneck, Cause, TaskMetrics, Verdict
from flinknet.trace import ProcessInfo, RunManifest, TraceReader, TraceWriter
from flinknet.trace.format import MAX_BLOCK_EVENTS
from flinknet.trace.schema import COLUMN_NAMES, ROW_DTYPE
from tests.replay.advise.test_bottleneck import CASES
from tests.replay.verdict.test_saturated import ledger, source, vertex
from tests.tapped_job import SOURCE, TappedChannel, write_tapped_job

MS = 1_000_000
_FROM_CONSUMERS = (MessageKind.ADD_CREDIT, MessageKind.RESUME_CONSUMPTION)


def tapped(run: Path, directory: Path, block_events: int = MAX_BLOCK_EVENTS) -> Path:
    """What a tap at the producers of a run records: no local channel, nothing inside processes."""
    manifest = RunManifest.load(run)
    remote = [each.index for each in manifest.channels if not each.is_local]
    parts, ids = [], dict[tuple[int, int], int]()
    for process in manifest.processes:
        with TraceReader(run / process.file) as reader:
            for block in reader.events((*COLUMN_NAMES, "order"), remote):
                is_sent = block["kind"] == MessageKind.BUFFER_RESPONSE
                for row in np.flatnonzero(is_sent & (block["value"] >= 0)).tolist():
                    key = int(block["channel"][row]), int(block["sequence_number"][row])
                    ids[key] = int(block["value"][row])
                is_sent &= block["point"] == TracePoint.SENT
                is_answer = np.isin(block["kind"], _FROM_CONSUMERS)
                is_answer &= block["point"] == TracePoint.RECEIVED
                kept = np.flatnonzero(is_sent | is_answer)
                kept = kept[np.argsort(block["order"][kept])]
                rows = np.empty(len(kept), ROW_DTYPE)
                for name in COLUMN_NAMES:
                    rows[name] = block[name][kept]
                rows["first_record_ns"] = rows["last_record_ns"] = -1
                parts.append(rows)
    events = np.concatenate(parts)
    for row in np.flatnonzero(events["kind"] == MessageKind.BUFFER_RESPONSE).tolist():
        key = int(events["channel"][row]), int(events["sequence_number"][row])
        events["value"][row] = ids.get(key, -1)  # on the wire a barrier says its checkpoint
    directory.mkdir()
    process = ProcessInfo("tap", "tap-0001.fnt", 1)
    with TraceWriter(directory / process.file, process) as writer:
        events = events[np.argsort(events["at_ns"], kind="stable")]
        for start in range(0, len(events), block_events):
            writer.write_events(events[start : start + block_events])
    replace(
        manifest,
        scenario={},
        origin="tap",
        processes=(process,),
        channels=tuple(each for each in manifest.channels if not each.is_local),
        files={},
    ).save(directory)
    return directory


def bottleneck(path: Path) -> Bottleneck | None:
    runs = open_runs([path], AskedPart(from_ns=0))
    return bottleneck_between(judge_between(observe_here(runs)))


@pytest.mark.parametrize(
    ("name", "cause", "edge"),
    [
        ("slow first", Cause.SLOW_TASKS, 0),
        ("slow middle", Cause.SLOW_TASKS, 1),
        ("slow last", Cause.SLOW_TASKS, 2),
        ("half busy, then slow", Cause.SLOW_TASKS, 2),
        ("slow, then half busy", Cause.SLOW_TASKS, 0),
        ("four slow ones", Cause.SLOW_TASKS, 1),
        ("skew", Cause.SKEW, 1),
        ("one slow consumer", Cause.SLOW_SUBTASK, 0),
        ("alignment", Cause.ALIGNMENT, 1),
        ("buffer timeout", Cause.NONE, None),
    ],
)
def test_verdicts_between(name: str, cause: Cause, edge: int | None, tmp_path: Path) -> None:
    case = next(each for each in CASES if each.name == name)
    found = bottleneck(tapped(case.make(tmp_path / "run"), tmp_path / "tap"))
    assert found is not None
    assert found.cause is cause, found.text
    runs = open_runs([tmp_path / "tap"])
    names = {each.edge or 0: each.ends.name for each in runs}
    assert found.edge == (None if edge is None else names[edge])


def edge_of(name: str, is_bottleneck: bool | None, share: float) -> CapturedEdge:
    """Two consumers that data waits for."""
    kind = "pressed" if is_bottleneck is None else "credit-starved"
    verdict = Verdict(name, kind, share, "data waits")
    return CapturedEdge(name, is_bottleneck, [verdict], {0: 5, 1: 5}, {0: "a:1", 1: "b:1"})


def test_where_nothing_was_reported_an_unknown_order_names_nobody() -> None:
    assert bottleneck_between([edge_of(name, None, 0.9) for name in "AB"]) is None


def silent(a: float, b: float, *, busy: float = 0.1) -> Bottleneck:
    """The verdict where nobody is pressed, and buffers to the TaskManagers wait so long."""
    tasks = [
        TaskMetrics(f"A ({n}/2)", f"tm{n}", busy, 1 - busy, 0.0, None, None, None, None)
        for n in (1, 2)
    ]
    balanced = [Verdict("A", "balanced", 0.0, "")]
    edge = replace(edge_of("A", True, 0.0), verdicts=balanced, unanswered={0: a, 1: b}, tasks=tasks)
    found = bottleneck_between([edge])
    assert found is not None
    return found


def test_a_task_manager_that_answers_nobody_at_times_stands_still() -> None:
    found = silent(0.2, 0.01)
    assert (found.cause, found.place, found.tasks) == (Cause.SLOW_HOST, "tm1", ("A (1/2)",))
    assert "tm1 stops at times: 20% of the time no credit comes from it" in found.text
    assert silent(0.01, 0.2).place == "tm2"


def test_where_all_are_silent_or_the_tasks_are_busy_no_task_manager_is_named() -> None:
    assert silent(0.2, 0.15).cause is Cause.NONE
    assert silent(0.2, 0.0, busy=0.6).cause is Cause.NONE
    assert silent(0.01, 0.0).cause is Cause.NONE


@pytest.mark.parametrize(
    ("blocked_s", "length_s", "cause"), [(1, 5, Cause.NONE), (11, 30, Cause.ALIGNMENT)]
)
def test_a_first_checkpoint_is_no_alignment_unless_it_blocks_for_long(
    blocked_s: int, length_s: int, cause: Cause, tmp_path: Path
) -> None:
    blocked = TappedChannel(
        SOURCE, barrier_ns=MS, blocked_ns=1_000 * blocked_s * MS, buffers=10 * length_s
    )
    path = write_tapped_job(tmp_path / "tapped", [blocked, TappedChannel(SOURCE, 0, 1)])
    found = bottleneck(path)
    assert found is not None
    assert found.cause is cause


def test_metrics_of_tasks_speak_before_the_barriers_that_queue_for_them() -> None:
    blocked = Verdict("A", "alignment", 0.9, "alignment: barriers block")
    edge = replace(edge_of("A", False, 0.0), verdicts=[blocked])
    for busy, cause in ((0.97, Cause.SLOW_TASKS), (0.3, Cause.ALIGNMENT)):
        job = ledger(source(), vertex("B", [busy, busy]))
        found = bottleneck_between([edge], job)
        assert found is not None
        assert found.cause is cause
    found = bottleneck_between([replace(edge, verdicts=[])], job)
    assert found is not None
    assert found.text.startswith("nothing holds the job up")


def between(without_credit: list[float], starved: list[int]) -> list[Verdict]:
    """The verdicts on two channels, each to a consumer of its own, of a trace of 100 ns."""
    one, none = np.arange(2), np.zeros(2, np.int64)
    waits = np.array(starved)
    return diagnose_captured(
        ChannelTimes(
            "A → B",
            one,
            none,
            one,
            none + 5,
            {
                "waiting_for_credit": waits,
                "blocked_by_alignment": none,
                "unknown": 100 - waits,
            },
            none > 0,
            np.array(without_credit),
        )
    )


def test_a_channel_that_is_mostly_without_credit_is_pressed_though_no_backlog_came() -> None:
    (verdict,) = between([0.8, 0.1], [0, 0])
    assert (verdict.kind, verdict.share, verdict.consumers) == ("credit-starved", 0.8, (0,))
    assert "80% of the time there was no credit for a channel" in verdict.text
    assert [each.kind for each in between([0.4, 0.1], [0, 0])] == ["balanced"]


def test_data_that_is_known_to_wait_says_more_than_missing_credit() -> None:
    (verdict,) = between([0.8, 0.7], [60, 0])
    assert (verdict.share, verdict.consumers) == (0.6, (0,))
