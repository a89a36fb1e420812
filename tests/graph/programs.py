"""Programs that tests build: the worked examples, and functions for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flinknet.graph import (
    ExecutionGraph,
    JobGraph,
    OperatorChain,
    PhysicalPlan,
    StreamConfig,
    StreamExecutionEnvironment,
    StreamGraph,
    execution_graph_of,
    job_graph_of,
    physical_plan_of,
)
from flinknet.graph.job_graph import JobVertex
from flinknet.graph.operators import OperatorFactory, StreamOperator

BC = "bc764cd8ddf7a0cff126f51c16239658"
"""Id of the first source that is not chained, in every program."""


def same(value: int) -> int:
    return value


def twice(value: int) -> list[int]:
    return [value, value]


def words(line: str) -> list[tuple[str, int]]:
    return [(word, 1) for word in line.split()]


def first(pair: Sequence[Any]) -> Any:
    return pair[0]


def environment(settings: Mapping[str, str] | None = None) -> StreamExecutionEnvironment:
    """An environment with Flink's keys."""
    return StreamExecutionEnvironment(settings)


def word_count() -> StreamGraph:
    """Socket word count: source 1, the others 2."""
    env = environment()
    env.set_parallelism(2)
    lines = env.socket_text_stream("127.0.0.1", 9999)
    lines.flat_map(words).key_by(first).sum(1).add_sink(print)
    return env.execute("Socket Word Count")


def shuffle_example() -> StreamGraph:
    """source(1).flatMap(4).shuffle().filter(4).print(4)."""
    env = environment()
    env.set_parallelism(4)
    source = env.from_sequence(1, 9).set_parallelism(1)
    source.flat_map(twice).shuffle().filter(same).print()
    return env.execute("Shuffle")


def all_to_all(parallelism: int = 4, settings: Mapping[str, str] | None = None) -> StreamGraph:
    """Two tasks of equal parallelism, everybody sends to everybody: the classic figure."""
    env = environment(settings)
    env.set_parallelism(parallelism)
    env.from_sequence(1, 9).name("A").shuffle().print().name("B")
    return env.execute("Figure")


def hashes_of(job: JobGraph) -> dict[str, str]:
    """Id of each operator, by name."""
    return {
        name: operator_id
        for vertex in job.vertices.values()
        for name, (operator_id, _) in zip(vertex.operator_names, vertex.operator_ids, strict=True)
    }


def vertex_named(job: JobGraph, name: str) -> JobVertex:
    (found,) = [each for each in job.vertices.values() if each.name == name]
    return found


def chain_of(env: StreamExecutionEnvironment, vertex: int = 1) -> OperatorChain:
    """The operators of a vertex, sources first, from which nothing leaves."""
    job = job_graph_of(env.execute())
    config = job.sorted_vertices()[vertex].config
    assert config is not None
    return OperatorChain(config, job.factories, {}, create=created)


def created(factory: OperatorFactory, config: StreamConfig) -> StreamOperator:
    return factory.create()


def process(chain: OperatorChain, values: Sequence[Any]) -> None:
    """Pass records to the head of a chain."""
    operator, output = chain.entry(chain.config.operator_id)
    operator.process_batch(values, output)


def emit(chain: OperatorChain, values: Sequence[Any], operator_id: str | None = None) -> None:
    """Emit records as a source of a chain, by default its head."""
    _, output = chain.entry(operator_id or chain.config.operator_id)
    output.collect_batch(values)


def execution_of(graph: StreamGraph) -> ExecutionGraph:
    return execution_graph_of(job_graph_of(graph))


def plan_of(graph: StreamGraph, task_managers: int | None, slots: int) -> PhysicalPlan:
    return physical_plan_of(
        execution_of(graph), task_managers=task_managers, slots_per_task_manager=slots
    )


def two_paths() -> StreamExecutionEnvironment:
    """Two paths that meet again; tests/interop/java/PlanOf.java has the same program."""
    env = environment()
    env.set_parallelism(2)
    numbers = env.from_sequence(1, 9).name("Numbers").set_parallelism(1)
    doubled = numbers.map(same).name("Twice")
    sums = doubled.key_by(same).reduce(added).name("Sums")
    odd = doubled.shuffle().filter(bool).name("Odd").set_parallelism(4)
    both = sums.union(odd).map(same).name("Both").disable_chaining()
    both.print().name("Printed")
    return env


def added(one: int, other: int) -> int:
    return one + other
