"""Tapped jobs of several exchanges: which edge and which consumer hold the job up."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from flinknet.replay.advise.judged import JudgedEdge, judged
from flinknet.replay.observe.observed import observe_here
from flinknet.replay.read import open_runs
from tests.tapped_job import MS, SECOND, SOURCE, THIRD, TappedChannel, write_tapped_job

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


def test_barriers_rule_out_an_order_that_ids_do_not_show(tmp_path: Path) -> None:
    channels = [
        *all_to_all(CHOSEN, EVERY, barrier_ns=2 * MS),
        *all_to_all(ALSO_CHOSEN, EVERY, barrier_ns=5 * MS),
    ]
    first, second = edges_of(tmp_path, channels)
    assert verdicts_of(first) == [("slow-tasks", None)]
    assert "do not show which of them is further downstream" in first.diagnosis[0].text
    assert verdicts_of(second) == [("slow-tasks", True)]


def test_where_no_order_shows_no_edge_is_named(tmp_path: Path) -> None:
    channels = [*all_to_all(CHOSEN, EVERY), *all_to_all(ALSO_CHOSEN, EVERY)]
    for answer in edges_of(tmp_path, channels):
        assert verdicts_of(answer) == [("slow-tasks", None)]
