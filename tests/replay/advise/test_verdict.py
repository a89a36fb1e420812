"""Verdicts that follow from the time of tasks: which task, and why it in particular."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from flinknet.results import Bottleneck, Cause, Remedy, state_of
from flinknet.results import ledger as cells
from flinknet.results.slow_tasks import saturated
from flinknet.results.verdict import healthy, starved, verdict

S = 1_000_000_000


def vertex(
    name: str,
    busy: Sequence[float | None],
    *,
    waits: float = 0.0,
    records: Sequence[float | None] | None = None,
    places: Sequence[str | None] | None = None,
    queued: float | None = None,
) -> cells.VertexTime:
    """Subtasks that are busy for these shares of the time and wait for their output for `waits`."""
    count = len(busy)
    return cells.VertexTime(
        name,
        [
            cells.TaskTime(
                f"{name} ({subtask + 1}/{count})",
                place,
                working=share,
                waits_for_output=waits,
                records=taken,
                queued_buffers=queued,
            )
            for subtask, (share, taken, place) in enumerate(
                zip(
                    busy,
                    records or [100.0] * count,
                    places or [f"tm{n}" for n in range(count)],
                    strict=True,
                )
            )
        ],
    )


def ledger(
    *vertices: cells.VertexTime, checkpoints: cells.CheckpointCounts | None = None
) -> cells.Ledger:
    """Vertices in a row."""
    edges = [
        cells.EdgeTime(number, number + 1, f"{one.name} → {other.name}")
        for number, (one, other) in enumerate(pairwise(vertices))
    ]
    return cells.Ledger(dict(enumerate(vertices)), edges, checkpoints or cells.CheckpointCounts())


def source(waits: float = 0.0) -> cells.VertexTime:
    """Flink reports no busy time of sources."""
    return vertex("Source", [None, None], waits=waits)


def of(*vertices: cells.VertexTime, **more: cells.CheckpointCounts) -> Bottleneck:
    found = saturated(ledger(*vertices, **more))
    return found


def test_a_job_is_not_called_healthy_where_a_task_waits_for_one_that_was_not_seen() -> None:
    def is_healthy(waits: float, *busy: float | None) -> bool:
        found = ledger(source(), vertex("Map", [0.0, 0.0], waits=waits), vertex("Sink", busy))
        by_flink = replace(found, tasks_by=cells.SeenBy.FLINK)
        assert healthy(found) is not None  # of flinknet's own runs a task that ended may be unknown
        return healthy(by_flink) is not None

    assert is_healthy(1.0, 0.3, 0.2)
    assert not is_healthy(1.0, 0.3, None)
    assert is_healthy(0.0, 0.3, None)


@pytest.mark.parametrize(
    ("by", "starved", "state", "why"),
    [
        pytest.param(cells.SeenBy.TAP, 0.05, "healthy", "the network holds nothing up", id="tap"),
        pytest.param(cells.SeenBy.TAP, 0.23, "unknown", "slow consumers or few", id="starved"),
        pytest.param(cells.SeenBy.FLINK, 0.0, "unknown", "Flink's metrics have too few", id="rest"),
    ],
)
def test_a_job_is_unknown_where_data_waits_and_nobody_saw_the_tasks(
    by: cells.SeenBy, starved: float, state: str, why: str
) -> None:
    found = ledger(source(), vertex("Sink", [None]))
    (edge,) = found.edges
    inputs = [cells.InputTime(0, "tm-0", 1, 10, {cells.CREDIT: starved})]
    said = verdict(replace(found, edges=[replace(edge, inputs=inputs)], tasks_by=by))
    assert said is not None
    assert state_of(said.cause) == state
    assert said.text.startswith(why)
    assert said.is_healthy  # predictions are worth a look


def test_a_job_of_which_one_vertex_has_no_sample_is_unknown() -> None:
    found = ledger(source(), vertex("Map", [0.3]), vertex("Sink", [None, None]))
    said = verdict(replace(found, tasks_by=cells.SeenBy.FLINK))
    assert said is not None
    assert said.cause is Cause.UNKNOWN
    assert said.text.endswith("how busy Sink was")


SLOW: Mapping[str, tuple[Bottleneck, Cause, tuple[str, ...], str]] = {
    "one of several, others idle": (
        of(source(1.0), vertex("Map", [0.1, 0.1], waits=0.9), vertex("Sink", [1.0, 0.0, 0.0])),
        Cause.SLOW_SUBTASK,
        ("Sink (1/3)",),
        "Sink (1/3) is busy 100% of the time, its siblings 0%, with about as many records",
    ),
    "all alike": (
        of(source(0.9), vertex("Map", [0.99, 0.93])),
        Cause.SLOW_TASKS,
        ("Map (1/2)", "Map (2/2)"),
        "all 2 subtasks of Map are busy 93 to 99% of the time",
    ),
    "all of three, none of them left out": (
        of(source(0.9), vertex("Map", [0.97, 0.95, 0.96])),
        Cause.SLOW_TASKS,
        ("Map (1/3)", "Map (3/3)", "Map (2/3)"),
        "all 3 subtasks of Map",
    ),
    "one subtask alone": (
        of(source(0.9), vertex("Map", [0.99])),
        Cause.SLOW_TASKS,
        ("Map (1/1)",),
        "Map (1/1) is busy 99% of the time",
    ),
    "more records": (
        of(source(0.9), vertex("Sink", [0.97, 0.3, 0.3], records=[300.0, 100.0, 100.0])),
        Cause.SKEW,
        ("Sink (1/3)",),
        "with 60% of the records of Sink",
    ),
    "more time for each record": (
        of(source(0.9), vertex("Sink", [0.96, 0.24], records=[110.0, 100.0])),
        Cause.SLOW_SUBTASK,
        ("Sink (1/2)",),
        "each of which takes 3.6 times as long",
    ),
    "records unknown": (
        of(source(0.9), vertex("Sink", [0.96, 0.24], records=[None, None])),
        Cause.SLOW_SUBTASK,
        ("Sink (1/2)",),
        "its sibling 24%",
    ),
    "a TaskManager at once": (
        of(source(0.9), vertex("Map", [0.6, 0.3], waits=0.2), vertex("Sink", [0.99, 0.4])),
        Cause.SLOW_HOST,
        ("Sink (1/2)",),
        "TaskManager tm0 is slow",
    ),
    "busy behind a busy one": (
        of(source(0.9), vertex("Map", [0.9, 0.9], waits=0.09), vertex("Sink", [0.99, 0.99])),
        Cause.SLOW_TASKS,
        ("Sink (1/2)", "Sink (2/2)"),
        "Back-pressured before it: Source 90%",
    ),
    "a busy one before one that is not": (
        of(source(0.9), vertex("Map", [0.97, 0.97]), vertex("Sink", [0.8, 0.8])),
        Cause.SLOW_TASKS,
        ("Map (1/2)", "Map (2/2)"),
        "Back-pressured before it: Source 90%",
    ),
    "its queue does not reach its producers yet": (
        of(source(), vertex("Map", [0.97, 0.96])),
        Cause.SLOW_TASKS,
        ("Map (1/2)", "Map (2/2)"),
        "network settings do not help",
    ),
}


@pytest.mark.parametrize("case", SLOW)
def test_the_last_task_without_time_left_is_named_with_its_cause(case: str) -> None:
    found, cause, tasks, text = SLOW[case]
    assert (found.cause, found.tasks) == (cause, tasks), found.text
    assert text in found.text


def test_what_waits_for_others_is_not_the_cause() -> None:
    pressed = vertex("Map", [0.1, 0.1], waits=0.9)
    assert saturated(ledger(source(1.0), pressed, vertex("Sink", [0.5, 0.5]))) is None
    nearly = vertex("Map", [0.86, 0.86])
    assert saturated(ledger(source(0.05), nearly)) is None  # the next to saturate
    assert saturated(ledger(source(0.2), nearly)) is not None


def test_checkpoints_that_expire_stand_under_their_cause() -> None:
    counts = cells.CheckpointCounts(completed=2, expired=12, timeout_ns=5 * S)
    found = of(source(1.0), vertex("Sink", [1.0, 0.0], queued=9.0), checkpoints=counts)
    assert found.cause is Cause.SLOW_SUBTASK
    assert found.text.endswith(
        "12 of 14 checkpoints expired after 5.00 s: their barriers wait behind 9 buffers in its"
        " input queues. Back-pressured before it: Source 100%"
    )


def test_a_task_that_waits_while_nobody_behind_it_works_lacks_buffers() -> None:
    found = starved(ledger(source(0.99), vertex("Sink", [0.1, 0.1])))
    assert (found.cause, found.edge) == (Cause.FEW_BUFFERS, "Source → Sink")
    assert found.helps[0] is Remedy.BUFFERS
    assert "while no task behind it is busy for more than 10%; more buffers to Sink" in found.text
    for busy, waits in ((0.1, 0.3), (0.6, 0.99)):
        assert starved(ledger(source(waits), vertex("Sink", [busy, busy]))) is None


def test_where_several_wait_the_last_one_lacks_buffers() -> None:
    middle = vertex("Map", [0.1, 0.1], waits=0.6)
    found = starved(ledger(source(0.99), middle, vertex("Sink", [0.1, 0.1])))
    assert found.edge == "Map → Sink"
    middle = vertex("Map", [0.1, 0.1], waits=0.3)
    found = starved(ledger(source(0.99), middle, vertex("Sink", [0.1, 0.1])))
    assert found.edge == "Source → Map"


def test_a_healthy_job_says_what_would_saturate_next() -> None:
    found = healthy(ledger(source(0.02), vertex("Map", [0.86, 0.5]), vertex("Sink", [0.1, 0.1])))
    assert (found.cause, found.helps) == (Cause.NONE, ())
    assert found.text == (
        "nothing holds the job up; Map (1/2) is busiest, 86%; room for 1.2 times the rate; no task"
        " waits for its output"
    )
    pressed = healthy(ledger(source(0.3), vertex("Map", [0.2, 0.2])))
    assert "Source waits for its output 30% of the time" in pressed.text


@pytest.mark.parametrize(
    ("busy", "text"),
    [
        ((0.52, 0.38), "tm-1 has an event loop that is busy 90% of the time"),
        ((0.52, 0.2), "Sink (1/2) is busy 52% of the time, its sibling 20%"),
    ],
)
def test_an_event_loop_is_as_busy_as_its_tasks_together(
    busy: tuple[float, float], text: str
) -> None:
    """Tasks of a load take turns on it: neither is saturated, and no time is left for both."""
    tasks = [vertex("Source", [None], waits=0.9), vertex("Sink", busy, places=["tm-1", "tm-1"])]
    hosts = {"tm-1": cells.HostTime(busy=0.6)}
    found = verdict(replace(ledger(*tasks), hosts=hosts, is_unpaced=True))
    assert found.evidence[0].startswith(text)
