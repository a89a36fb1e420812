"""Descriptors: what the plan says, for each TaskManager, and the gates that follow from them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flinknet.config import NetworkConfig
from flinknet.core.buffers import DataType, NetworkBufferPool
from flinknet.core.buffers.pool_sizes import PoolSize
from flinknet.core.consumer import UnionInputGate
from flinknet.core.probe import TracePoint
from flinknet.core.wire.events import EndOfInputChannelStateEvent
from flinknet.core.wire.messages import BufferResponse
from flinknet.errors import InsufficientBuffersError
from flinknet.graph import (
    PhysicalPlan,
)
from flinknet.graph.execution_graph import ExecutionState
from flinknet.job import TaskDeploymentDescriptor, descriptors_of
from flinknet.job.barriers import InputCheckpoints
from flinknet.job.gates import input_of
from flinknet.job.network_input import ElementInput
from flinknet.plain_values import from_plain, to_plain
from tests.graph.programs import environment, plan_of, same
from tests.load_tasks import gates_of
from tests.pair import Consumer
from tests.simulation import Rows


def worked_example() -> PhysicalPlan:
    env = environment()
    env.set_parallelism(4)
    env.generate().name("A").shuffle().measure_latency().name("B").set_buffer_timeout("5ms")
    return plan_of(env.execute(), 2, 2)


@pytest.mark.row("S147")
def test_the_worked_example_has_eight_local_and_eight_remote_channels() -> None:
    first, second = descriptors_of(worked_example())
    assert [(each.vertex, each.subtask, each.slot) for each in first] == [
        *((0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 1, 1))
    ]
    assert [each.name for each in second] == [
        *("Source: A (3/4)", "Source: A (4/4)", "Sink: B (3/4)", "Sink: B (4/4)")
    ]
    for own, task in ((0, first[2]), (1, second[2])):
        (gate,) = task.inputs
        assert [each.is_local for each in gate.channels] == [own == 0, own == 0, own == 1, own == 1]
        assert [each.producer for each in gate.channels] == [0, 1, 2, 3]
        assert gate.buffers.exclusive_per_channel == 2
        assert gate.buffers.pool == PoolSize(1, 8)
    (partition,) = first[0].outputs
    assert partition.subpartitions == 4
    assert (partition.pool.required_buffers, partition.pool.max_buffers) == (5, 16)


def test_both_ends_of_a_channel_know_it_by_the_same_index_and_partition() -> None:
    tasks = [each for own in descriptors_of(worked_example()) for each in own]
    written = {
        (partition.partition_id, subpartition): index
        for task in tasks
        for partition in task.outputs
        for subpartition, index in enumerate(partition.channels)
    }
    read = {
        (channel.partition_id, channel.subpartition): channel.index
        for task in tasks
        for gate in task.inputs
        for channel in gate.channels
    }
    assert written == read
    assert sorted(written.values()) == list(range(16))


def test_descriptors_travel_as_json() -> None:
    for task in descriptors_of(worked_example())[1]:
        text = json.dumps(to_plain(task))
        assert from_plain(TaskDeploymentDescriptor, json.loads(text)) == task


def test_what_belongs_to_a_new_attempt_has_other_ids() -> None:
    plan = worked_example()
    old = descriptors_of(plan)
    assert descriptors_of(plan) == old
    restarted = plan.vertices[0].vertex.task_vertices[0]
    restarted.current.switch_to(ExecutionState.FAILED)
    restarted.reset_for_new_execution()
    new = descriptors_of(plan)
    assert new[0][0].attempt_id.attempt_number == 1
    assert new[0][0].attempt_id != old[0][0].attempt_id
    assert new[0][0].outputs[0].partition_id != old[0][0].outputs[0].partition_id
    for before, after in zip(
        old[1][2].inputs[0].channels, new[1][2].inputs[0].channels, strict=True
    ):
        is_same = before.producer != 0
        assert (before.partition_id == after.partition_id) is is_same
        assert (before.receiver_id == after.receiver_id) is is_same


def test_a_region_can_be_deployed_alone() -> None:
    found = descriptors_of(worked_example(), only={(0, 1), (1, 3)})
    assert [[each.key for each in own] for own in found] == [[(0, 1)], [(1, 3)]]


@pytest.mark.parametrize(("producers", "consumers"), [(5, 2), (2, 5), (3, 7), (4, 4), (1, 3)])
def test_channels_of_pointwise_edges_count_through(producers: int, consumers: int) -> None:
    env = environment()
    for partition in ("rescale", "shuffle"):
        source = env.from_sequence(1, 10).set_parallelism(producers)
        getattr(source, partition)().discard().set_parallelism(consumers)
    plan = plan_of(env.execute(), None, 1)
    tasks = [each for own in descriptors_of(plan) for each in own]
    read = {
        (gate.edge, channel.producer, task.subtask): channel.index
        for task in tasks
        for gate in task.inputs
        for channel in gate.channels
    }
    expected = [
        (edge.index, producer, consumer)
        for edge in plan.edges
        for producer, consumer, _ in edge.wiring
    ]
    assert sorted(read, key=lambda each: read[each]) == expected
    assert sorted(read.values()) == list(range(plan.channels_total))


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


def test_the_end_of_recovered_state_that_a_producer_sends_is_read_and_means_nothing() -> None:
    consumer, rows = Consumer(), Rows()
    gate, (channel,) = consumer.gate, consumer.channels
    checkpoints = InputCheckpoints("input", gate, (), NetworkConfig(), lambda _: None, lambda: None)
    receivers: Any = (None,)  # nobody receives records
    network_input = ElementInput(gate, receivers, rows, checkpoints, spills=None)
    gate.finish_read_recovered_state()
    end, kind = EndOfInputChannelStateEvent(), DataType.EVENT_BUFFER
    consumer.receive(BufferResponse(channel.receiver_id, 0, 0, 0, kind, False, end.encode()))
    reached = []
    while (polled := network_input.poll(0)) is not None:
        assert network_input.take_event(*polled, now_ns=0) == end
        consumed = [each for each in rows.rows if each.point == TracePoint.CONSUMED]
        reached.append((gate.is_state_consumed, len(consumed)))
    assert reached == [(True, 0), (True, 1)]
