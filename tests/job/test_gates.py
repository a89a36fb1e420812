"""Gates: one for each edge that a task reads, with the channels of its descriptor."""

from __future__ import annotations

import pytest

from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.consumer import UnionInputGate
from flinknet.errors import InsufficientBuffersError
from flinknet.job import descriptors_of
from flinknet.job.gates import input_of
from tests.graph.programs import environment, plan_of, same
from tests.load_tasks import gates_of


@pytest.mark.row("S040")
def test_a_consumer_with_two_inputs_has_a_gate_for_each_with_a_channel_for_each_producer() -> None:
    env = environment()
    three = env.from_sequence(1, 9).set_parallelism(3).rebalance()
    two = env.from_sequence(1, 9).set_parallelism(2).disable_chaining().forward()
    three.union(two).map(same).set_parallelism(2).discard().set_parallelism(2)
    plan = plan_of(env.execute(), 2, 4)
    reader = next(each for own in descriptors_of(plan) for each in own if len(each.inputs) == 2)
    memory = NetworkBufferPool(100, 16)
    gates = gates_of(reader, memory)
    assert [len(gate.channels) for gate in gates] == [3, 1]
    for gate, described in zip(gates, reader.inputs, strict=True):
        assert [(c.partition_id, c.subpartition, c.is_local) for c in gate.channels] == [
            (each.partition_id, each.subpartition, each.is_local) for each in described.channels
        ]
    assert [c.subpartition for c in gates[0].channels] == [reader.subtask] * 3
    assert [c.subpartition for c in gates[1].channels] == [0]
    both = input_of(gates)
    assert isinstance(both, UnionInputGate)
    assert len(both.channels) == 4


def test_gates_that_do_not_fit_give_back_what_they_had() -> None:
    env = environment()
    env.from_sequence(1, 9).rebalance().map(same).set_parallelism(2).rebalance().discard()
    plan = plan_of(env.execute(), 1, 4)
    reader = next(each for own in descriptors_of(plan) for each in own if each.inputs)
    memory = NetworkBufferPool(0, 16)
    with pytest.raises(InsufficientBuffersError):
        gates_of(reader, memory)
    assert not memory.pools
