"""A chain travels as plain data and is built again where it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flinknet.errors import ConfigError
from flinknet.graph import OperatorChain, job_graph_of, load_program
from flinknet.plain_values import to_plain
from tests.graph.programs import chain_of, created, emit, environment, process, same

JOB = """
def double(value: int) -> int:
    return value * 2


def halves(value: int) -> list[int]:
    return [value // 2, value - value // 2]


def main(env):
    stream = env.from_sequence(1, 9).rebalance().map(double).name("Double")
    stream.flat_map(halves).name("Halves").filter(bool).name("Some").rebalance().print()
    env.execute()
"""

OTHER_PROCESS = """
import json, sys
from pathlib import Path
from flinknet.graph import OperatorChain, StreamConfig, job_graph_of, load_program
from flinknet.plain_values import from_plain
factories = job_graph_of(load_program(Path(sys.argv[1]), {}).stream_graph).factories
config = from_plain(StreamConfig, json.load(sys.stdin))
left = []
chain = OperatorChain(
    config,
    factories,
    {each.edge_id: left.append for each in config.outputs},
    create=lambda factory, config: factory.create(),
)
operator, output = chain.entry(config.operator_id)
chain.open()
operator.process_batch([3, 0, 1], output)
chain.finish()
chain.close()
print(json.dumps({"kinds": [type(x).__name__ for x in chain.operators.values()], "left": left}))
"""


@pytest.mark.row("S137")
def test_a_chain_is_built_again_in_another_process(tmp_path: Path) -> None:
    job_file = tmp_path / "job.py"
    job_file.write_text(JOB)
    # ids of transformations go on counting here; the other process begins at 1
    for _ in range(2):
        job = job_graph_of(load_program(job_file, {}).stream_graph)
    config = job.sorted_vertices()[1].config
    assert [config.operator_name, *(c.operator_name for c in config.chained.values())] == [
        *("Double", "Halves", "Some")
    ]
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, str(job_file)],
        input=json.dumps(to_plain(config)),
        capture_output=True,
        text=True,
        check=True,
    )
    actual = json.loads(done.stdout)
    assert actual["kinds"] == ["StreamMap", "StreamFlatMap", "StreamFilter"]
    assert actual["left"] == [3, 3, 1, 1]


@pytest.mark.row("S137")
def test_a_record_passes_as_the_same_object_without_any_buffer() -> None:
    env = environment()
    got: list[object] = []
    env.from_sequence(1, 9).rebalance().map(same).filter(lambda value: True).add_sink(got.append)
    chain = chain_of(env)
    assert chain.config.outputs == []  # nothing leaves, so nothing is written
    record = object()
    process(chain, [record])
    assert len(got) == 1
    assert got[0] is record


def test_a_source_emits_into_its_chain() -> None:
    env = environment()
    got: list[int] = []
    env.from_sequence(1, 9).map(lambda value: -value, output_type=int).add_sink(got.append)
    chain = chain_of(env, 0)
    emit(chain, [1])
    emit(chain, [2, 3])
    assert got == [-1, -2, -3]


def test_sources_that_were_taken_in_reach_their_input() -> None:
    env = environment()
    got: list[tuple[int, int]] = []
    streams = [env.from_sequence(1, 9).name(name) for name in ("A", "B")]
    joined = env.multiple_inputs(
        "Join",
        streams,
        lambda value, number: (number, value),
        output_type=tuple,
        chains_sources=True,
    )
    joined.add_sink(got.append)
    chain = chain_of(env, 0)
    ids = {c.operator_name: c.operator_id for c in chain.config.chained.values()}
    emit(chain, [7], ids["Source: B"])
    emit(chain, [8], ids["Source: A"])
    assert got == [(2, 7), (1, 8)]


def test_every_record_goes_to_every_branch_and_out() -> None:
    env = environment()
    mapped = env.from_sequence(1, 9).rebalance().map(same)
    left: list[int] = []
    mapped.add_sink(left.append)
    mapped.rebalance().print()
    mapped.rebalance().discard()
    job = job_graph_of(env.execute())
    config = job.sorted_vertices()[1].config
    written: dict[str, list[int]] = {each.edge_id: [] for each in config.outputs}
    chain = OperatorChain(
        config,
        job.factories,
        {edge_id: values.append for edge_id, values in written.items()},
        create=created,
    )
    process(chain, [1, 2])
    assert left == [1, 2]
    assert list(written.values()) == [[1, 2], [1, 2]]


def test_a_program_that_has_changed_is_noticed() -> None:
    env = environment()
    env.from_sequence(1, 9).rebalance().map(same).print()
    config = job_graph_of(env.execute()).sorted_vertices()[1].config
    assert config is not None
    with pytest.raises(ConfigError, match="the program has no operator Map as the job was"):
        OperatorChain(config, {}, {}, create=created)


def test_all_operators_are_closed_although_one_fails() -> None:
    class Noted:
        def __init__(self) -> None:
            self.closed = 0

        def __call__(self, value: int) -> int:
            return value

        def close(self) -> None:
            self.closed += 1
            raise OSError("disk full")

    one, other = Noted(), Noted()
    env = environment()
    env.from_sequence(1, 9).rebalance().map(one).map(other).discard()
    chain = chain_of(env)
    with pytest.raises(OSError, match="disk full"):
        chain.close()
    assert (one.closed, other.closed) == (1, 1)
