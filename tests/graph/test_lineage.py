"""Who feeds whom, by the ids of the vertices alone."""

from __future__ import annotations

from flinknet.core.wire.lineage import ancestors
from flinknet.graph import JobGraph, job_graph_of
from tests.graph.programs import environment, same, shuffle_example


def vertices_of(job: JobGraph) -> list[bytes]:
    """The ids of the vertices of a job, the sources first."""
    return [vertex.id.raw for vertex in job.sorted_vertices()]


def test_a_chain_of_vertices_shows_in_any_order() -> None:
    vertices = vertices_of(job_graph_of(shuffle_example()))
    expected = {each: tuple(reversed(vertices[:at])) for at, each in enumerate(vertices)}
    assert ancestors(vertices) == expected
    assert ancestors(reversed(vertices)) == expected


def test_operators_chained_in_between_do_not_hide_who_feeds_whom() -> None:
    env = environment()
    stream = env.from_sequence(1, 9).map(same).map(same).map(same)
    stream.rebalance().map(same).filter(bool).rebalance().print()
    first, second, third = vertices_of(job_graph_of(env.execute()))
    assert ancestors([third, second, first])[third] == (second, first)


def test_branches_of_one_source_are_not_behind_each_other() -> None:
    env = environment()
    source = env.from_sequence(1, 9)
    source.rebalance().map(same).rebalance().print()
    source.rebalance().map(same).rebalance().print()
    vertices = vertices_of(job_graph_of(env.execute()))
    found = ancestors(vertices)
    assert sorted(len(each) for each in found.values()) == [0, 1, 1, 2, 2]
    assert all(each[-1] == vertices[0] for each in found.values() if each)


def test_what_has_two_inputs_shows_no_origin_and_neither_does_what_is_behind_it() -> None:
    env = environment()
    both = env.from_sequence(1, 9).union(env.from_sequence(1, 9))
    both.rebalance().map(same).rebalance().print()
    vertices = vertices_of(job_graph_of(env.execute()))
    assert ancestors(vertices) == {vertices[0]: (), vertices[1]: ()}


def test_a_chosen_uid_shows_no_origin() -> None:
    env = environment()
    env.from_sequence(1, 9).rebalance().map(same).uid("chosen").rebalance().print()
    source, chosen, last = vertices_of(job_graph_of(env.execute()))
    assert ancestors([source, chosen, last]) == {source: ()}
