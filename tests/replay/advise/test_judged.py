"""Verdicts on the edges of a job: the rules of the job, asked of each edge alone; tapped jobs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from flinknet.replay.advise.judged import JudgedEdge, judged, judged_ledger
from flinknet.replay.ledger import in_order
from flinknet.replay.observe.observed import observe_here
from flinknet.replay.read import open_runs
from flinknet.results import Cause
from flinknet.results import ledger as cells
from tests.replay.advise.test_between import pressed
from tests.replay.advise.test_verdict import ledger, source, vertex
from tests.tapped_job import MS, SECOND, SOURCE, THIRD, TappedChannel, write_tapped_job

CONSUMERS = cells.VertexTime("consumers", [cells.TaskTime("one"), cells.TaskTime("other")])


def test_the_edge_to_the_cause_has_the_verdict_on_the_job_and_those_before_it_are_pressed() -> None:
    """Edges without recorded channels, such as local ones, lie behind others, too."""
    job = ledger(source(0.9), vertex("Map", [0.2, 0.2], waits=0.9), vertex("Sink", [1.0, 0.1]))
    first, last = judged_ledger(in_order(job))
    assert (last.is_bottleneck, last.diagnosis[0]) == (True, last.bottleneck)
    assert first.is_bottleneck is False
    assert first.diagnosis[0].text == (
        "pressed from behind: records wait 90% of the time; the cause is further downstream, on"
        " Map → Sink"
    )
    assert first.diagnosis[0].tasks == ("Sink (1/2)",)


def test_a_consumer_that_waits_for_its_own_output_lacks_no_buffers() -> None:
    job = ledger(source(0.9), vertex("Map", [0.2, 0.2], waits=0.9), vertex("Sink", [0.3, 0.3]))
    first, _ = judged_ledger(job)
    assert "output 90% of the time, for a reason further downstream" in first.diagnosis[0].text
    assert Cause.FEW_BUFFERS not in {each.cause for each in first.diagnosis}


def test_where_no_order_shows_each_pressed_edge_names_the_others() -> None:
    edges = [pressed(0, 0.9, unsure=frozenset({1})), pressed(1, 0.9, unsure=frozenset({0}))]
    found = judged_ledger(cells.Ledger({1: CONSUMERS, 3: CONSUMERS}, edges))
    assert [each.is_bottleneck for each in found] == [None, None]
    assert all("is pressed as well; messages" in each.diagnosis[0].text for each in found)


@pytest.mark.parametrize(
    ("taken", "sent", "text"),
    [
        ((10, 70), {}, "skew: other took 88% of the records"),
        ((40, 40), {0: 70, 1: 10}, "skew: producer 0 of 2 sent 88% of the records"),
    ],
)
def test_many_more_records_than_a_sibling_has_are_skew_that_holds_nothing_up(
    taken: tuple[int, int], sent: dict[int, int], text: str
) -> None:
    inputs = [cells.InputTime(place, "tm", 1, count) for place, count in enumerate(taken)]
    (found,) = judged_ledger(
        cells.Ledger({1: CONSUMERS}, [cells.EdgeTime(0, 1, "A", inputs=inputs, sent=sent)])
    )
    assert [each.cause for each in found.diagnosis] == [Cause.NONE, Cause.SKEW]
    assert found.diagnosis[1].text == text
    assert found.is_bottleneck is False


@pytest.mark.parametrize(
    ("counters", "seen_by", "texts"),
    [
        ((191.0, 168.0, 177.0), cells.SeenBy.FLINK, []),
        ((10.0, 10.0, 100.0), cells.SeenBy.FLINK, ["skew: Sink (3/3) took 83% of the records"]),
        (
            (None, None, None),
            cells.SeenBy.TAP,
            [
                "skew: Sink (2/3) took 100% of the records on recorded channels",
                "skew: producer 1 of 2 sent 100% of the records on recorded channels",
            ],
        ),
    ],
)
def test_no_skew_of_recorded_channels_contradicts_counters_of_all(
    counters: tuple[float | None, ...], seen_by: cells.SeenBy, texts: list[str]
) -> None:
    """A tap records no local channels, which Flink's counters include."""
    tasks = [cells.TaskTime(f"Sink ({n}/3)", records=known) for n, known in enumerate(counters, 1)]
    inputs = [cells.InputTime(place, "tm", 1, count) for place, count in enumerate((0, 2552, 0))]
    edge = cells.EdgeTime(0, 1, "A", inputs=inputs, sent={0: 0, 1: 2552})
    (found,) = judged_ledger(
        cells.Ledger({1: cells.VertexTime("Sink", tasks)}, [edge], tasks_by=seen_by)
    )
    assert [each.text for each in found.diagnosis if each.cause is Cause.SKEW] == texts


@pytest.mark.parametrize(
    ("counters", "edges", "skews"), [((9.0, 1.0), 1, 1), ((9.0, None), 1, 0), ((9.0, 1.0), 2, 0)]
)
def test_counters_say_nothing_of_skew_if_one_is_missing_or_they_are_of_several_edges(
    counters: tuple[float | None, ...], edges: int, skews: int
) -> None:
    tasks = [cells.TaskTime(f"Join ({n}/2)", records=known) for n, known in enumerate(counters, 1)]
    inputs = [cells.InputTime(place, "tm", 1, 10) for place in range(2)]
    known = [cells.EdgeTime(place, 9, f"{place}", inputs=inputs) for place in range(edges)]
    job = cells.Ledger({9: cells.VertexTime("Join", tasks)}, known, tasks_by=cells.SeenBy.FLINK)
    found = [x for edge in judged_ledger(job) for x in edge.diagnosis if x.cause is Cause.SKEW]
    assert len(found) == skews


def test_what_became_of_checkpoints_is_stated_once() -> None:
    """On the edge that holds the job up; where none does, on the first one."""
    expired = cells.CheckpointCounts(completed=1, expired=3, timeout_ns=1_000_000_000)
    for busy, place in ((1.0, 1), (0.1, 0)):
        vertices = source(busy), vertex("Map", [0.1]), vertex("Sink", [busy])
        found = judged_ledger(ledger(*vertices, checkpoints=expired))
        texts = [[x.text for each in edge.diagnosis for x in each.symptoms] for edge in found]
        assert ["3 of 4" in " ".join(each) for each in texts] == [place == 0, place == 1]


def test_of_a_blocking_exchange_nothing_else_is_said() -> None:
    job = ledger(source(0.9), vertex("Sink", [1.0, 0.1]))
    edges = [replace(job.edges[0], written=0.4)]
    (found,) = judged_ledger(replace(job, edges=edges))
    assert [each.cause for each in found.diagnosis] == [Cause.BLOCKING]
    assert "which took 40% of the time" in found.diagnosis[0].text
    assert found.is_bottleneck is False


CHOSEN = "f362c87ffabe89c8a91fa7d0a523ba6c"
ALSO_CHOSEN = "3c850bebb6e5cb3c3c905250ec7460fb"
"""Ids that follow from uids."""


def edges_of(directory: Path, channels: list[TappedChannel]) -> list[JudgedEdge]:
    return judged(observe_here(open_runs([write_tapped_job(directory / "run", channels)])))


def all_to_all(vertex: str, starved: dict[int, float], **given: Any) -> list[TappedChannel]:
    """Two producers and three consumers; the channels to some wait."""
    return [
        TappedChannel(vertex, producer, consumer, starved.get(consumer, 0.0), **given)
        for producer, consumer in product(range(2), range(3))
    ]


def verdicts_of(edge: JudgedEdge) -> list[tuple[str, bool | None]]:
    return [(each.cause.value, edge.is_bottleneck) for each in edge.diagnosis]


EVERY = dict.fromkeys(range(3), 0.8)


def test_the_last_pressed_edge_holds_the_job_up_and_its_slow_consumer_is_named(
    tmp_path: Path,
) -> None:
    channels = [
        *all_to_all(SOURCE, EVERY),
        *all_to_all(SECOND, {1: 0.96}),
        *all_to_all(THIRD, {}),
    ]
    first, second, third = edges_of(tmp_path, channels)
    assert verdicts_of(first) == [("slow-subtask", False)]
    text = first.diagnosis[0].text
    assert "the cause is further downstream, on data set 2 of vertex 0a448493" in text
    assert verdicts_of(second) == [("slow-subtask", True)]
    (verdict,) = second.diagnosis
    assert verdict.share == pytest.approx(0.96, abs=0.01)
    assert verdict.tasks == ("consumer 1 of 3",)
    assert "consumer 1 of 3 does not keep up: 96% of the time" in verdict.text
    assert verdicts_of(third) == [("none", False)]
    assert third.diagnosis[0].text.startswith("the network holds nothing up")


@pytest.mark.parametrize(("barriers_ns", "is_last"), [((2 * MS, 5 * MS), True), ((0, 0), None)])
def test_barriers_rule_out_an_order_that_ids_do_not_show(
    tmp_path: Path, barriers_ns: tuple[int, int], is_last: bool | None
) -> None:
    channels = [
        channel
        for vertex, at_ns in zip((CHOSEN, ALSO_CHOSEN), barriers_ns, strict=True)
        for channel in all_to_all(vertex, EVERY, barrier_ns=at_ns or None)
    ]
    first, second = edges_of(tmp_path, channels)
    assert verdicts_of(first) == [("slow-tasks", None)]
    assert "do not show which of them is further downstream" in first.diagnosis[0].text
    assert verdicts_of(second) == [("slow-tasks", is_last)]
