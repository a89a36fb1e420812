"""Timeouts task by task: the cheapest ones that keep a limit of a job from end to end."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from flinknet.graph import StreamExecutionEnvironment
from flinknet.predict.grid import Grid
from flinknet.replay.advise.targets import MARGIN_MIN, Target
from flinknet.replay.pipeline import replay_runs
from flinknet.replay.read import open_runs
from flinknet.replay.task_timeouts import (
    SETTINGS_TRIED_MAX,
    Timeouts,
    Tried,
    best_of,
    to_try,
)
from tests.page_answer import print_replays
from tests.simulated_job import MS, S
from tests.traced_run import trace_job

Record = tuple[int, bytes]


def searched(
    buffers: Sequence[float], limit_ms: float, waits: Sequence[float] | None = None
) -> dict[Timeouts, Tried]:
    """All that the search tries of a job with latency in proportion to the sum of the timeouts, and
    at each task as many buffers per second as its beats send."""

    def outcome(timeouts: Timeouts) -> Tried:
        ms = [each / MS for each in timeouts]
        latency_ms = sum(w * t for w, t in zip(waits or [1.0] * len(ms), ms, strict=True))
        sent = sum(n * 1000 / max(t, 0.5) for n, t in zip(buffers, ms, strict=True))
        return Tried((limit_ms - latency_ms) / limit_ms, sent)

    best_ms = int(limit_ms / sum(waits or [1.0] * len(buffers)))
    for_all = [(ms * MS,) * len(buffers) for ms in (1, best_ms, 100)]
    tried = {each: outcome(each) for each in for_all}
    while found := to_try(tried, 100 * MS):
        assert not set(found) & set(tried)
        tried |= {each: outcome(each) for each in found}
    return tried


@pytest.mark.parametrize(
    ("buffers", "limit_ms"),
    [((1, 1, 1), 20), ((1, 9, 1), 20), ((16, 4, 1, 1), 40), ((1, 100), 12), ((5,) * 6, 90)],
)
def test_no_timeout_can_be_doubled_and_none_for_all_tasks_is_cheaper(
    buffers: Sequence[float], limit_ms: float
) -> None:
    tried = searched(buffers, limit_ms)
    best = best_of(tried)
    assert tried[best].holds
    assert len(tried) <= SETTINGS_TRIED_MAX
    for n, each in enumerate(best):
        doubled = tried[(*best[:n], 2 * each, *best[n + 1 :])]
        assert not doubled.holds
    for_all = [own for own in tried if len(set(own)) == 1 and tried[own].holds]
    assert all(tried[best].costs(tried[each]) <= 1 for each in for_all)
    assert tried == searched(buffers, limit_ms)  # no draw decides


def test_many_buffers_get_the_long_timeout() -> None:
    """Of the least sum of n/t under a limit for the sum of t, t goes with the root of n."""
    best = best_of(tried := searched((1, 16), 25))
    assert best[1] > 3 * best[0]
    assert tried[best].costs(Tried(0.0, 1000 * (1 / 5 + 16 / 20))) < 1.1


def test_a_task_whose_timeout_has_no_effect_gets_the_longest_one_at_once() -> None:
    """Where buffers are full before, neither latency nor cost depends on it."""
    tried = searched((1, 0), 20, waits=(1, 0))
    best = best_of(tried)
    assert best[1] == 100 * MS
    assert len(tried) < 30


def test_nothing_is_tried_where_nothing_holds() -> None:
    assert to_try({(MS, MS): Tried(-0.1, 9.0), (5 * MS, 5 * MS): Tried(None, None)}, MS) == []


def as_it_is(record: Record) -> Record:
    return record


def tenth(record: Record) -> bool:
    return record[0] % 10 == 0


def five(record: Record) -> list[Record]:
    return [record] * 5


def growing(env: StreamExecutionEnvironment) -> None:
    split = env.generate(rate="100/s").rebalance().flat_map(five, output_type=Record).name("Split")
    split.rebalance().map(as_it_is).name("Enrich").rebalance().measure_latency()


def forked(env: StreamExecutionEnvironment) -> None:
    """Both edges behind one task have its timeout."""
    parsed = env.generate(rate="300/s").rebalance().map(as_it_is).name("Parse")
    parsed.rebalance().measure_latency().name("All")
    parsed.filter(tenth).rebalance().map(as_it_is).name("Few").rebalance().measure_latency()


def slow_last(env: StreamExecutionEnvironment) -> None:
    """As bench/jobs/slow_last_stage.py, with a sink that keeps up."""
    enriched = env.generate(rate="300/s").rebalance().map(as_it_is).name("Enrich")
    enriched.rebalance().measure_latency().delay("200us")


@pytest.mark.spark
@pytest.mark.slow("three jobs with some 40 settings each", first=True)
@pytest.mark.parametrize("program", [slow_last, growing, forked])
def test_the_timeouts_of_a_job_keep_its_limit_and_none_can_be_doubled(
    spark: Any, tmp_path: Path, program: Callable[[StreamExecutionEnvironment], None]
) -> None:
    env = StreamExecutionEnvironment()
    env.set_parallelism(2)
    env.set_buffer_timeout("20ms")
    program(env)
    env.execute(program.__name__)
    run = trace_job(tmp_path, env.get_stream_graph(), end_ns=S)
    grid, target = Grid(buffer_timeouts_ns=[MS, 4 * MS, 100 * MS]), Target.parse("p99<=25ms")
    replay = replay_runs(spark, open_runs([run]), grid, targets=[target], refine=True)
    (job,) = replay.jobs
    found, for_all = job.by_task, job.choice
    assert found.settings <= SETTINGS_TRIED_MAX
    best = job.points[found.choice.point]
    assert len(best.timeouts_ns) == len(job.edges)
    reserve = target.reserve(job.model_error) if found.choice.is_safe else 0.0
    assert (target.margin(best) or 0.0) >= reserve >= MARGIN_MIN * found.choice.is_safe
    for longer in found.longer:
        place, margin = longer
        assert margin == target.margin(job.points[place])
        assert margin < reserve
    saved = 1 - (best.buffers_per_s or 0) / (job.points[for_all.point].buffers_per_s or 1)
    assert found.saved == pytest.approx(saved)
    assert found.saved >= 0
    stream = io.StringIO()
    print_replays(replay.jobs, Console(file=stream, width=100))
    if found.saved >= 0.05:
        text = stream.getvalue()
        assert f'set_buffer_timeout("{found.timeouts_ns[0] // MS}ms")' in text
        assert "# or one timeout for all tasks:" in text
        assert "flinknet bench again" in text
        rows = [line for line in text.splitlines() if "←" in line]
        assert [("choice" in rows[0]), "one for all" in rows[1]] == [True, True]
