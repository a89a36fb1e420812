"""Buffers in the worst and the best placement that Flink may choose, by trying all placements."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from flinknet.core.wire.ids import JobVertexID
from flinknet.graph import ExecutionGraph, PhysicalPlan, execution_graph_of, physical_plan_of
from flinknet.graph.job_config import job_config
from flinknet.graph.placements import buffers_in_words, placement_bounds, verdict
from flinknet.graph.planning import placed_plan_of, stages_of
from flinknet.graph.running_job import RunningInput, RunningJob, RunningVertex
from flinknet.graph.running_plan import job_graph_of_running
from flinknet.graph.slots import PlacedSlot, share_slots

NETWORK = "taskmanager.memory.network"


def drawn_job(rng: random.Random) -> RunningJob:
    vertices: list[RunningVertex] = []
    for number in range(rng.randint(2, 4)):
        inputs = tuple(
            RunningInput(each.id, rng.choice(["HASH", "HASH", "RESCALE"]), "pipelined_bounded")
            for each in rng.sample(vertices, min(number, rng.choice([1, 1, 2])))
        )
        group, vertex_id = f"group {rng.randrange(2)}", JobVertexID(bytes([number + 1]) * 16)
        vertices.append(
            RunningVertex(vertex_id, f"v{number}", rng.randint(1, 3), 128, inputs, (), group)
        )
    return RunningJob("00", "drawn", "RUNNING", False, 0, tuple(vertices))


def graph_of(job: RunningJob, mode: str = "NONE", **memory: str) -> ExecutionGraph:
    keys = {f"{NETWORK}.{end}": size for end, size in memory.items()}
    config = job_config({"taskmanager.load-balance.mode": mode, **keys})[0]
    return execution_graph_of(job_graph_of_running(job, config))


def all_placements(graph: ExecutionGraph, plan: PhysicalPlan, mode: str) -> Iterator[PhysicalPlan]:
    shared = share_slots(graph, stages_of(graph.job))
    count, slots = plan.task_managers, plan.slots_per_task_manager
    for places in itertools.product(range(count), repeat=len(shared)):
        used = Counter(places)
        in_use = [used[each] for each in range(count)]
        if max(in_use) > slots or (mode == "SLOTS" and max(in_use) - min(in_use) > 1):
            continue
        placed = [PlacedSlot(at, used[at], slot) for at, slot in zip(places, shared, strict=True)]
        yield placed_plan_of(graph, placed, count, slots)


@pytest.mark.parametrize("mode", ["NONE", "SLOTS"])
@pytest.mark.parametrize("seed", range(12))
def test_the_bounds_are_those_of_all_placements(seed: int, mode: str) -> None:
    rng = random.Random(seed)
    graph, slots = graph_of(drawn_job(rng), mode), rng.randint(1, 3)
    plan = physical_plan_of(graph, slots_per_task_manager=slots)
    if plan.task_managers ** len(plan.slots) > 2000:
        plan = physical_plan_of(graph, task_managers=2, slots_per_task_manager=len(plan.slots))
    everywhere = [each.buffers() for each in all_placements(graph, plan, mode)]
    needed = [max(each.needed_buffers for each in buffers) for buffers in everywhere]
    bounds = placement_bounds(plan)
    assert (bounds.worst.needed_buffers, bounds.best_buffers) == (max(needed), min(needed))
    assert bounds.fastest.wanted_buffers == max(
        each.wanted_buffers for buffers in everywhere for each in buffers
    )
    assert bounds.most_buffers == max(
        each.most_buffers for buffers in everywhere for each in buffers
    )


def two_groups(**memory: str) -> PhysicalPlan:
    """Source x 2 and sink x 3 in a slot sharing group, map x 2 between them in another."""
    ids = [JobVertexID(bytes([each]) * 16) for each in (1, 2, 3)]
    source = RunningVertex(ids[0], "source", 2, 128, (), (), "a")
    by_key, rebalanced = (
        RunningInput(of, strategy, "pipelined_bounded")
        for of, strategy in ((ids[0], "HASH"), (ids[1], "REBALANCE"))
    )
    maps = RunningVertex(ids[1], "map", 2, 128, (by_key,), (), "b")
    sink = RunningVertex(ids[2], "sink", 3, 128, (rebalanced,), (), "a")
    job = RunningJob("00", "two groups", "RUNNING", False, 0, (source, maps, sink))
    return physical_plan_of(graph_of(job, **memory), task_managers=2, slots_per_task_manager=3)


def test_a_job_that_fails_in_some_placements_is_not_promised_to_start() -> None:
    # Flink 2.3 ran this job with 18 buffers, and in its next attempt found too few of them.
    plan = two_groups(min="576kb", max="576kb")
    bounds = placement_bounds(plan)
    assert plan.shortage() is None
    assert "needs at least 19 buffers (608 KiB) in the worst placement that Flink may choose" in (
        buffers_in_words(plan, bounds)
    )
    assert verdict(plan, bounds).startswith(
        "the job would start in some placements only: insufficient number of network buffers:"
        " a TaskManager requires 19 (8 exclusive ones of channels and 11 of pools), but has 18"
    )
    enough = two_groups(min="608kb", max="608kb")
    assert verdict(enough, placement_bounds(enough)).startswith("the job would start, but below")
