"""Simulated jobs as a tap between their TaskManagers records them: what of the bottleneck shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flinknet.core.probe import MessageKind, TracePoint
from flinknet.replay.ledger import ledger_of, typical_ns
from flinknet.replay.observe.checkpoints import BarrierRow
from flinknet.replay.observe.observed import observe_here
from flinknet.replay.read import AskedPart, open_runs
from flinknet.results import Bottleneck, Cause
from flinknet.results.ledger import (
    BARRIER,
    CREDIT,
    UNANSWERED,
    EdgeTime,
    InputTime,
    Ledger,
    SeenBy,
    TaskTime,
    VertexTime,
)
from flinknet.results.verdict import verdict
from flinknet.trace import ProcessInfo, RunManifest, TraceReader, TraceWriter
from flinknet.trace.format import MAX_BLOCK_EVENTS
from flinknet.trace.schema import COLUMN_NAMES, ROW_DTYPE
from tests.replay.advise.test_bottleneck import CASES
from tests.replay.advise.test_verdict import ledger, source, vertex
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
    return verdict(ledger_of(observe_here(runs)))


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
    found = bottleneck(tapped(case.make(tmp_path / "run", lambda _: None), tmp_path / "tap"))
    assert found.cause is cause, found.text
    runs = open_runs([tmp_path / "tap"])
    names = {each.edge or 0: each.ends.name for each in runs}
    assert found.edge == (None if edge is None else names[edge])


def pressed(place: int, share: float, **more: frozenset[int]) -> EdgeTime:
    """An edge to two consumers that data waits for."""
    inputs = [InputTime(each, f"{each}:1", 1, 5, most={CREDIT: share}) for each in range(2)]
    return EdgeTime(2 * place, 2 * place + 1, "AB"[place], inputs=inputs, **more)  # type: ignore[arg-type]


def test_where_nothing_was_reported_an_unknown_order_names_nobody() -> None:
    tasks = VertexTime("consumers", [TaskTime("one"), TaskTime("other")])
    vertices = {1: tasks, 3: tasks}
    unsure = [pressed(0, 0.9, unsure=frozenset({1})), pressed(1, 0.9, unsure=frozenset({0}))]
    assert verdict(Ledger(vertices, unsure)) is None
    sure = verdict(Ledger(vertices, [pressed(0, 0.9, behind=frozenset({1})), pressed(1, 0.8)]))
    assert (sure.cause, sure.edge) == (Cause.SLOW_TASKS, "B")


def silent(a: float, b: float, *, busy: float = 0.1) -> Bottleneck:
    """The verdict where nobody is pressed, and buffers to the TaskManagers wait so long."""
    tasks = [
        TaskTime(f"A ({n}/2)", f"tm{n}", busy, waits_for_output=0.0, stood_still=share)
        for n, share in ((1, a), (2, b))
    ]
    inputs = [InputTime(each, f"tm{each + 1}", 1, 5) for each in range(2)]
    edges = [EdgeTime(0, 1, "A", inputs=inputs)]
    found = verdict(Ledger({1: VertexTime("A", tasks)}, edges, tasks_by=SeenBy.FLINK))
    return found


def test_a_task_manager_that_answers_nobody_at_times_stands_still() -> None:
    found = silent(0.2, 0.01)
    assert (found.cause, found.place, found.tasks) == (Cause.SLOW_HOST, "tm1", ("A (1/2)",))
    assert "tm1 stops at times: 20% of the time it answers on no channel" in found.text
    assert silent(0.01, 0.2).place == "tm2"
    assert "when tm1 stands still" in (found.why_unpredictable or "")
    assert silent(0.2, 0.15).why_unpredictable is None


@pytest.mark.parametrize(("behind", "is_named"), [(0.08, True), (0.0, False)])
def test_a_task_behind_another_of_its_task_manager_gets_nothing_to_answer_while_it_stands_still(
    behind: float, is_named: bool
) -> None:
    shares = {"A": (0.39, 0.001), "B": (behind, 0.001)}
    vertices = {
        place: VertexTime(
            name,
            [
                TaskTime(f"{name} ({n}/2)", f"tm{n}", 0.1, waits_for_output=0.0, stood_still=share)
                for n, share in enumerate(both, start=1)
            ],
        )
        for place, (name, both) in enumerate(shares.items(), start=1)
    }
    inputs = [InputTime(each, f"tm{each + 1}", 1, 5) for each in range(2)]
    edges = [EdgeTime(each, each + 1, "AB"[each], inputs=inputs) for each in range(2)]
    found = verdict(Ledger(vertices, edges, tasks_by=SeenBy.FLINK))
    assert found.cause is (Cause.SLOW_HOST if is_named else Cause.NONE)
    assert ("tm1 stops at times: 39%" in found.text) is is_named


def test_where_all_are_silent_or_the_tasks_are_busy_no_task_manager_is_named() -> None:
    assert silent(0.2, 0.15).cause is Cause.NONE
    assert silent(0.2, 0.0, busy=0.6).cause is Cause.NONE
    assert silent(0.05, 0.0).cause is Cause.NONE  # start-up of a JVM


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
    assert found.cause is cause


def test_metrics_of_tasks_speak_before_the_barriers_that_queue_for_them() -> None:
    for busy, blocked, waits, cause in (
        (0.97, 0.9, 0.9, Cause.SLOW_TASKS),
        (0.3, 0.9, 0.9, Cause.ALIGNMENT),
        (0.3, 0.9, 0.0, Cause.ALIGNMENT),
        (0.3, 0.2, 0.2, Cause.ALIGNMENT),
        (0.3, 0.2, 0.0, Cause.NONE),
        (0.3, 0.0, 0.0, Cause.NONE),
    ):
        job = ledger(source(waits), vertex("B", [busy, busy]))
        inputs = [InputTime(0, "tm0", 1, 5, most={BARRIER: blocked})]
        found = verdict(replace(job, edges=[replace(job.edges[0], inputs=inputs)]))
        assert found.cause is cause


@pytest.mark.parametrize("waits", [0.9, 0.0])
def test_buffers_that_are_long_on_their_way_to_idle_tasks_are_the_network(waits: float) -> None:
    job = ledger(source(waits), vertex("B", [0.1, 0.1]))
    inputs = [InputTime(each, f"tm{each}", 1, 5, most={UNANSWERED: 0.8}) for each in range(2)]
    found = verdict(replace(job, edges=[replace(job.edges[0], inputs=inputs)]))
    assert found.cause is (Cause.NETWORK if waits else Cause.NONE)


def test_few_buffers_are_told_with_the_number_that_would_do() -> None:
    job = ledger(source(0.75), vertex("B", [0.1, 0.1]))
    found = verdict(replace(job, edges=[replace(job.edges[0], buffers=1.5)]))
    assert found.cause is Cause.FEW_BUFFERS
    assert "6 buffers for each channel instead of 1.5 to B" in found.text


@pytest.mark.parametrize(
    ("took_ms", "typical_ms"),
    [([1000, 10, 20, 10], 40), ([300, 200, 300], 500), ([900, 900], 5000)],
)
def test_one_checkpoint_that_waits_for_tasks_that_start_is_no_alignment(
    took_ms: list[int], typical_ms: int
) -> None:
    rows = [BarrierRow(0, 0, n, n, 0, each * MS, 0) for n, each in enumerate(took_ms)]
    assert typical_ns([*rows, BarrierRow(0, 1, 0, 0, 0, -1, 0)], 5000 * MS) == typical_ms * MS
