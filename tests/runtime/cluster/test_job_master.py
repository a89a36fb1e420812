"""The JobMaster, driven by hand with its own clock: its restarts, and its messages in order."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from flinknet.config import Scenario, WorkloadConfig
from flinknet.core.wire.ids import ExecutionAttemptID, ExecutionGraphID
from flinknet.graph import StreamGraph, execution_graph_of, job_graph_of
from flinknet.graph.execution_graph import ExecutionState
from flinknet.graph.job_config import job_config
from flinknet.job.descriptor import TaskDeploymentDescriptor
from flinknet.job.load.plan import load_plan_of, task_name
from flinknet.job.scheduling import RequestPartitionState
from flinknet.runtime.cluster import control_messages as messages
from flinknet.runtime.cluster import resource_manager
from flinknet.runtime.cluster.cluster_process import TaskManagerProcess, TaskManagerProcessSpec
from flinknet.runtime.cluster.control_connection import ControlConnection
from flinknet.runtime.cluster.control_messages import ExpectReaders
from flinknet.runtime.cluster.job_manager import Outbox
from flinknet.runtime.cluster.job_master import JobMaster
from flinknet.runtime.cluster.job_measurements import first_deployed_ns, times_of
from flinknet.runtime.cluster.job_state import (
    INITIAL_NS,
    MAX_NS,
    RESET_NS,
    JobState,
    RestartStrategy,
)
from flinknet.runtime.cluster.placement import FixedPlan, SharedCluster
from flinknet.runtime.cluster.resource_manager import ClusterSpec, ResourceManager
from tests.graph.programs import environment, same
from tests.runtime.cluster.live_job import Child
from tests.runtime.cluster.programs import joined

S = 1_000_000_000
_E = ExecutionState
RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "2",
    "restart-strategy.fixed-delay.delay": "1s",
}


def pipelines(parallelism: int, settings: Mapping[str, str] | None = None) -> StreamGraph:
    """As many pipelines of two tasks as the parallelism, each a region of its own."""
    env = environment(settings)
    env.set_parallelism(parallelism)
    env.disable_operator_chaining()
    env.from_sequence(1, 9).name("A").forward().print().name("B")
    return env.execute("Pipelines")


def batch(settings: Mapping[str, str] | None = None) -> StreamGraph:
    env = environment({"execution.runtime-mode": "BATCH", **(settings or {})})
    env.set_parallelism(1)
    env.from_sequence(1, 9).name("A").rebalance().map(same).name("B").print()
    return env.execute("Batch")


class Cluster:
    """TaskManagers that carry out commands when the test says so."""

    def __init__(
        self,
        program: StreamGraph,
        task_managers: int = 2,
        slots: int = 2,
        *,
        registered: bool = True,
    ) -> None:
        self.now_ns = 0
        self.master = JobMaster(
            execution_graph_of(job_graph_of(program)), task_managers, SharedCluster(slots), now_ns=0
        )
        self.deployed: dict[str, tuple[int, ExecutionAttemptID]] = {}
        self.tasks: list[TaskDeploymentDescriptor] = []
        if registered:
            for index in range(task_managers):
                self.register(index)

    def register(self, index: int) -> None:
        self.master.register(index, now_ns=self.now_ns)
        self.take()

    def take(self) -> None:
        for deployment in self.master.deployments:
            self.tasks += deployment.tasks
            for task in deployment.tasks:
                self.deployed[task.name] = (task.task_manager, task.attempt_id)
        self.master.deployments.clear()

    def say(self, name: str, state: ExecutionState, *why: Any) -> bool:
        return self.say_of(self.deployed[name][1], state, *why)

    def say_of(self, attempt: ExecutionAttemptID, state: ExecutionState, *why: Any) -> bool:
        """Report a state; of a failure its error, and whether it is a consequence."""
        message = messages.TaskStateChanged(attempt, state, *why)
        counted = self.master.update_state(message, now_ns=self.now_ns)
        self.take()
        return counted

    def run_all(self) -> None:
        for name in list(self.deployed):
            for state in (_E.INITIALIZING, _E.RUNNING):
                self.say(name, state)

    def take_canceled(self) -> list[str]:
        """End the canceled tasks. Returns: their names."""
        sent, self.master.to_send[:] = list(self.master.to_send), []
        names = []
        for _, message in sent:
            if isinstance(message, messages.CancelTask):
                subtask = self.master.graph.subtask(message.attempt_id.execution_vertex_id)
                names.append(subtask.name)
                self.say_of(message.attempt_id, _E.CANCELED)
        return names

    def pass_time(self, ns: int) -> None:
        self.now_ns += ns
        self.master.handle_deadline(now_ns=self.now_ns)
        self.take()

    def attempts(self) -> dict[str, int]:
        return {each.name: each.current.attempt_number for each in self.master.graph.subtasks()}


def test_nothing_is_deployed_before_all_task_managers_are_there() -> None:
    cluster = Cluster(joined(4), registered=False)
    cluster.register(1)
    assert not cluster.deployed
    cluster.register(0)
    assert {name: at for name, (at, _) in cluster.deployed.items()} == {
        **dict.fromkeys(("Source: A (1/4)", "Source: A (2/4)"), 0),
        **dict.fromkeys(("Source: A (3/4)", "Source: A (4/4)"), 1),
        **dict.fromkeys(("Sink: B (1/4)", "Sink: B (2/4)"), 0),
        **dict.fromkeys(("Sink: B (3/4)", "Sink: B (4/4)"), 1),
    }


def test_the_job_is_finished_when_every_task_is() -> None:
    cluster = Cluster(joined(1))
    assert not cluster.master.is_running
    cluster.run_all()
    assert cluster.master.is_running
    cluster.say("Source: A (1/1)", _E.FINISHED)
    assert cluster.master.state is JobState.RUNNING
    cluster.say("Sink: B (1/1)", _E.FINISHED)
    assert cluster.master.state is JobState.FINISHED
    assert cluster.master.next_deadline_ns() is None


@pytest.mark.row("S150")
def test_too_few_slots_are_waited_for_and_then_reported() -> None:
    cluster = Cluster(joined(3, {"slot.request.timeout": "10s"}), task_managers=1, slots=2)
    assert not cluster.deployed
    assert cluster.master.shortage().startswith("the job needs 3 slots; ")
    assert cluster.master.next_deadline_ns() == 10 * S
    cluster.pass_time(10 * S - 1)
    assert cluster.master.state is JobState.CREATED
    cluster.pass_time(1)
    assert cluster.master.state is JobState.FAILED
    assert "needs 3 slots" in cluster.master.reason
    assert "available: 2" in cluster.master.reason


def test_slots_that_come_late_are_in_time() -> None:
    cluster = Cluster(joined(2), task_managers=1, slots=1)
    assert not cluster.deployed
    cluster.register(1)
    assert len(cluster.deployed) == 4


def test_without_a_restart_strategy_one_failure_ends_the_job() -> None:
    cluster = Cluster(joined(2))
    cluster.run_all()
    cluster.say("Sink: B (2/2)", _E.FAILED, "ValueError: no")
    assert cluster.master.state is JobState.FAILING
    assert sorted(cluster.take_canceled()) == [
        "Sink: B (1/2)",
        "Source: A (1/2)",
        "Source: A (2/2)",
    ]
    assert cluster.master.state is JobState.FAILED
    assert cluster.master.reason == "Sink: B (2/2) failed in attempt 0: ValueError: no"


@pytest.mark.row("S146")
def test_exactly_the_region_of_a_failed_task_begins_again() -> None:
    cluster = Cluster(pipelines(2, RESTARTS))
    cluster.run_all()
    failed = cluster.deployed["Source: A (2/2)"][1]
    cluster.say("Source: A (2/2)", _E.FAILED, "why")
    assert cluster.master.state is JobState.RESTARTING
    assert cluster.take_canceled() == ["Sink: B (2/2)"]
    cluster.pass_time(S - 1)
    assert cluster.deployed["Source: A (2/2)"][1] == failed
    cluster.pass_time(1)
    assert cluster.master.state is JobState.RUNNING
    assert cluster.attempts() == {
        "Source: A (1/2)": 0,
        "Source: A (2/2)": 1,
        "Sink: B (1/2)": 0,
        "Sink: B (2/2)": 1,
    }
    assert cluster.deployed["Source: A (2/2)"][1].attempt_number == 1


@pytest.mark.row("S145")
def test_what_is_said_of_an_attempt_that_is_over_changes_nothing() -> None:
    cluster = Cluster(joined(1, RESTARTS))
    cluster.run_all()
    old = dict(cluster.deployed)
    cluster.say("Source: A (1/1)", _E.FAILED, "why")
    cluster.take_canceled()
    cluster.pass_time(S)
    states = [each.state for each in cluster.master.graph.subtasks()]
    for _, attempt in old.values():
        for state in (_E.FINISHED, _E.FAILED, _E.RUNNING):
            assert not cluster.say_of(attempt, state)
    assert [each.state for each in cluster.master.graph.subtasks()] == states
    assert cluster.master.state is JobState.RUNNING


def test_who_asks_for_a_producer_learns_its_state_or_that_another_took_its_place() -> None:
    cluster = Cluster(joined(1, RESTARTS))
    (result,) = cluster.master.graph.results.values()
    asked = RequestPartitionState(
        cluster.deployed["Sink: B (1/1)"][1], result.partitions[0].result_partition_id
    )
    found = []
    for state in (_E.INITIALIZING, _E.RUNNING, _E.FAILED):
        cluster.say("Source: A (1/1)", state, "why")
        found.append(cluster.master.partition_state(asked).state)
    assert found == [_E.INITIALIZING, _E.RUNNING, _E.FAILED]
    cluster.take_canceled()
    cluster.pass_time(S)
    answer = cluster.master.partition_state(asked)
    assert (answer.state, answer.error) == (None, "")
    other = replace(
        asked.partition_id,
        partition_id=replace(asked.partition_id.partition_id, partition_number=1),
    )
    answer = cluster.master.partition_state(replace(asked, partition_id=other))
    assert answer.error.startswith("the job has no partition ")


def test_a_consumer_that_gave_up_by_itself_begins_again() -> None:
    cluster = Cluster(joined(1, RESTARTS))
    cluster.run_all()
    assert cluster.say("Sink: B (1/1)", _E.CANCELED)
    cluster.take_canceled()
    cluster.pass_time(S)
    assert set(cluster.attempts().values()) == {1}
    assert cluster.master.state is JobState.RUNNING


def test_restarts_are_counted_and_then_the_job_fails() -> None:
    cluster = Cluster(joined(1, RESTARTS))
    for _ in range(2):
        cluster.run_all()
        cluster.say("Sink: B (1/1)", _E.FAILED, "again")
        cluster.take_canceled()
        cluster.pass_time(S)
    cluster.run_all()
    cluster.say("Sink: B (1/1)", _E.FAILED, "again")
    cluster.take_canceled()
    assert cluster.master.state is JobState.FAILED
    assert cluster.master.reason == "Sink: B (1/1) failed in attempt 2: again"


def test_a_region_begins_again_only_when_all_of_it_has_ended() -> None:
    cluster = Cluster(joined(1, RESTARTS))
    cluster.run_all()
    cluster.say("Source: A (1/1)", _E.FAILED, "why")
    cluster.pass_time(5 * S)
    assert cluster.attempts() == {"Source: A (1/1)": 0, "Sink: B (1/1)": 0}
    cluster.take_canceled()
    assert cluster.attempts() == {"Source: A (1/1)": 1, "Sink: B (1/1)": 1}


def test_the_reason_is_where_it_began_not_what_followed() -> None:
    cluster = Cluster(joined(1))
    cluster.run_all()
    cluster.say("Sink: B (1/1)", _E.FAILED, "the producer failed", True)
    cluster.say("Source: A (1/1)", _E.FAILED, "ZeroDivisionError")
    assert cluster.master.state is JobState.FAILED
    assert cluster.master.reason == "Source: A (1/1) failed in attempt 0: ZeroDivisionError"


@pytest.mark.row("S151")
def test_tasks_of_a_lost_task_manager_go_to_slots_that_remain() -> None:
    cluster = Cluster(joined(2, RESTARTS), task_managers=2, slots=2)
    assert {at for at, _ in cluster.deployed.values()} == {0}
    cluster.run_all()
    cluster.master.lose(0, "tm-0 is lost", now_ns=cluster.now_ns)
    assert cluster.master.state is JobState.RESTARTING
    assert cluster.take_canceled() == []
    cluster.pass_time(S)
    assert {at for at, _ in cluster.deployed.values()} == {1}
    assert set(cluster.attempts().values()) == {1}


@pytest.mark.row("S151")
def test_a_lost_task_manager_without_slots_elsewhere_ends_the_job_with_both_reasons() -> None:
    settings = {**RESTARTS, "slot.request.timeout": "20s"}
    cluster = Cluster(joined(4, settings), task_managers=2, slots=2)
    cluster.run_all()
    cluster.master.lose(1, "tm-1 is lost", now_ns=cluster.now_ns)
    cluster.take_canceled()
    cluster.pass_time(S)
    assert cluster.master.shortage()
    assert "tm-1 is lost" in cluster.master.reason
    cluster.pass_time(20 * S)
    assert cluster.master.state is JobState.FAILED
    assert "needs 4 slots" in cluster.master.reason


def test_a_task_manager_that_dies_before_the_job_began_ends_it() -> None:
    cluster = Cluster(joined(1), registered=False)
    cluster.master.lose(0, "tm-0 ended", now_ns=0)
    assert cluster.master.state is JobState.FAILED
    assert cluster.master.reason == "tm-0 ended"


def test_a_cancelled_job_waits_for_its_tasks() -> None:
    cluster = Cluster(joined(1))
    cluster.run_all()
    cluster.master.cancel("by the client", now_ns=0)
    assert cluster.master.state is JobState.CANCELLING
    cluster.take_canceled()
    assert cluster.master.state is JobState.CANCELED


def test_a_task_that_does_not_end_costs_its_task_manager() -> None:
    cluster = Cluster(joined(1, {"task.cancellation.timeout": "5s"}))
    cluster.run_all()
    cluster.master.cancel("by the client", now_ns=0)
    cluster.say("Sink: B (1/1)", _E.CANCELED)
    assert cluster.master.next_deadline_ns() == 5 * S
    cluster.pass_time(5 * S)
    assert cluster.master.to_end == [(0, "Source: A (1/1) did not end within 5s")]
    cluster.master.lose(0, "ended", now_ns=cluster.now_ns)
    assert cluster.master.state is JobState.CANCELED


def test_a_task_that_finishes_while_it_is_cancelled_counts_as_cancelled() -> None:
    cluster = Cluster(joined(1))
    cluster.run_all()
    cluster.master.cancel("by the client", now_ns=0)
    cluster.say("Source: A (1/1)", _E.FINISHED)
    cluster.say("Sink: B (1/1)", _E.CANCELED)
    assert {each.state for each in cluster.master.graph.subtasks()} == {_E.CANCELED}


def test_a_region_that_reads_a_blocking_result_begins_when_it_is_complete() -> None:
    cluster = Cluster(batch(), slots=1)
    assert set(cluster.deployed) == {"Source: A (1/1)"}
    cluster.run_all()
    cluster.say("Source: A (1/1)", _E.FINISHED)
    assert len(cluster.deployed) == 2
    name = next(each for each in cluster.deployed if each != "Source: A (1/1)")
    assert cluster.deployed[name][0] == 0  # the same slot
    for state in (_E.INITIALIZING, _E.RUNNING, _E.FINISHED):
        cluster.say(name, state)
    assert cluster.master.state is JobState.FINISHED
    released = [each for _, each in cluster.master.to_send]
    assert released == [messages.ReleasePartitions((cluster.deployed["Source: A (1/1)"][1],))]


def test_a_blocking_result_that_is_lost_is_written_again() -> None:
    cluster = Cluster(batch(RESTARTS), slots=1)
    cluster.run_all()
    cluster.say("Source: A (1/1)", _E.FINISHED)
    cluster.master.lose(0, "tm-0 is lost", now_ns=cluster.now_ns)
    cluster.pass_time(S)
    assert cluster.deployed["Source: A (1/1)"][0] == 1
    assert cluster.attempts()["Source: A (1/1)"] == 1


def fixed(*, is_staged: bool) -> JobMaster:
    """A load of two stages on two TaskManagers that is planned already."""
    load = load_plan_of(Scenario(workload=WorkloadConfig(producers=2, consumers=2)))
    stage_of = {each.vertex.id: each.index * is_staged for each in load.plan.vertices}
    return JobMaster(
        load.plan.graph,
        load.task_managers,
        SharedCluster(load.plan.slots_per_task_manager),
        now_ns=0,
        fixed=FixedPlan(load.plan, load.tasks, stage_of),
    )


def deployed_by(master: JobMaster) -> list[tuple[str, int]]:
    found = [task for each in master.deployments for task in each.tasks]
    master.deployments.clear()
    for task in found:
        for state in (_E.INITIALIZING, _E.RUNNING):
            master.update_state(messages.TaskStateChanged(task.attempt_id, state), now_ns=0)
    return [(task_name(task), task.task_manager) for task in found]


def test_a_plan_that_is_fixed_is_deployed_where_it_says_when_all_are_there() -> None:
    master = fixed(is_staged=False)
    master.register(0, now_ns=0)
    assert deployed_by(master) == []
    master.register(1, now_ns=0)
    assert deployed_by(master) == [("source 0", 0), ("source 1", 0), ("sink 0", 1), ("sink 1", 1)]


@pytest.mark.row("S018")
def test_who_waits_for_the_first_output_begins_with_that_of_one_producer() -> None:
    master = fixed(is_staged=True)
    for index in range(2):
        master.register(index, now_ns=0)
    sources = [task.attempt_id for task in master.deployments[0].tasks]
    assert deployed_by(master) == [("source 0", 0), ("source 1", 0)]
    master.schedule_consumers(sources[1], 0, now_ns=5)
    assert deployed_by(master) == [("sink 0", 1), ("sink 1", 1)]
    since_ns = first_deployed_ns(master.graph)
    source, sink = (times_of(each, since_ns) for each in master.graph.vertices.values())
    assert (source.deployed_ns, source.first_output_ns, sink.deployed_ns) == (0, 5, 5)
    master.schedule_consumers(sources[0], 0, now_ns=6)
    assert deployed_by(master) == []


def two_results(constraint: str) -> StreamGraph:
    """A task that reads two blocking results, of two partitions and of one."""
    env = environment({"execution.runtime-mode": "BATCH"})
    env.set_default_input_dependency_constraint(constraint)
    one = env.from_sequence(1, 9).set_parallelism(2).name("A").rebalance()
    other = env.from_sequence(1, 9).set_parallelism(1).name("B").rebalance()
    one.union(other).map(same).name("C").set_parallelism(1).discard().set_parallelism(1)
    return env.execute("Two results")


READER = "C -> Sink: Discard (1/1)"


@pytest.mark.row("S020")
@pytest.mark.parametrize(
    ("constraint", "begun_after"), [("ALL", "B"), ("any", "A")], ids=["all", "any"]
)
def test_a_task_begins_with_all_its_inputs_or_with_any(constraint: str, begun_after: str) -> None:
    cluster = Cluster(two_results(constraint), task_managers=1, slots=4)
    assert READER not in cluster.deployed
    cluster.run_all()
    begun: list[str] = []
    for name in ("Source: A (1/2)", "Source: A (2/2)", "Source: B (1/1)"):
        cluster.say(name, _E.FINISHED)
        if READER in cluster.deployed:
            begun.append(name)
    assert begun[0] == {"A": "Source: A (2/2)", "B": "Source: B (1/1)"}[begun_after]


@pytest.mark.row("S020")
def test_what_was_not_complete_when_a_task_began_is_requested_when_it_is() -> None:
    cluster = Cluster(two_results("ANY"), task_managers=1, slots=4)
    cluster.run_all()
    cluster.say("Source: B (1/1)", _E.FINISHED)
    (reader,) = (each for each in cluster.tasks if each.name == READER)
    assert [each.is_consumable for each in reader.inputs] == [False, True]
    cluster.say("Source: A (1/2)", _E.FINISHED)
    assert cluster.master.to_send == []
    cluster.say("Source: A (2/2)", _E.FINISHED)
    update = messages.UpdatePartitions(reader.attempt_id, (reader.inputs[0].edge,))
    assert cluster.master.to_send == [(reader.task_manager, update)]


@pytest.mark.row("S020")
def test_a_task_that_began_with_one_input_begins_again_with_the_producer_of_the_other() -> None:
    program = two_results("ANY")
    program.config.restart_strategy, program.config.restart_delay_ns = "fixed-delay", 0
    cluster = Cluster(program, task_managers=1, slots=4)
    cluster.run_all()
    cluster.say("Source: B (1/1)", _E.FINISHED)
    cluster.say(READER, _E.INITIALIZING)
    cluster.say("Source: A (1/2)", _E.FAILED, "broken")
    assert cluster.take_canceled() == [READER]
    assert cluster.attempts()[READER] == 1
    reader = cluster.tasks[-1]
    assert (reader.name, reader.attempt_id.attempt_number) == (READER, 1)
    assert [each.is_consumable for each in reader.inputs] == [False, True]


def test_channels_of_a_later_attempt_have_numbers_of_their_own() -> None:
    cluster = Cluster(joined(2, RESTARTS), registered=False)
    master = cluster.master
    seen: list[set[int]] = []

    def channels() -> set[int]:
        return {
            channel.index
            for deployment in master.deployments
            for task in deployment.tasks
            for gate in task.inputs
            for channel in gate.channels
        }

    master.register(0, now_ns=0)
    master.register(1, now_ns=0)
    seen.append(channels())
    cluster.take()
    cluster.run_all()
    cluster.say("Sink: B (1/2)", _E.FAILED, "why")
    cluster.take_canceled()
    cluster.now_ns += S
    master.handle_deadline(now_ns=cluster.now_ns)
    seen.append(channels())
    assert seen == [{0, 1, 2, 3}, {4, 5, 6, 7}]


@pytest.mark.row("S151")
def test_who_does_not_answer_is_lost_after_the_timeout() -> None:
    common = TaskManagerProcessSpec("secret", 2, 1, Scenario().network, "credit", 50)
    manager = ResourceManager(ClusterSpec(common, 10, None))
    for index in range(2):
        started = TaskManagerProcess(index, Child())  # type: ignore[arg-type]
        manager._known.append(started)
        connection = ControlConnection("secret")
        connection.data_to_send(now_ns=0)
        connection.heard_ns = 0
        registration = messages.RegisterTaskManager(index, Child.pid, 1, "127.0.0.1", 1)
        assert manager.register(connection, registration, now_ns=0) is started

    def beat(now_ns: int) -> tuple[list[bool], list[int]]:
        lost = [each.index for each, _ in manager.advance(now_ns=now_ns)]
        asked = []
        for each in manager:
            assert each.connection is not None
            asked.append(bool(each.connection.data_to_send(now_ns=now_ns)))
        for index in lost:
            manager.lose(manager[index])
        manager[1].connection.heard_ns = now_ns  # type: ignore[union-attr]
        return asked, lost

    assert beat(9) == ([False, False], [])
    assert beat(10) == ([True, True], [])
    assert beat(49) == ([True, True], [])
    assert manager.next_deadline_ns() == 50
    assert beat(50) == ([False, False], [0])
    assert beat(60) == ([False, True], [])


def test_a_task_manager_that_starts_at_a_ctrl_c_is_known_and_so_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start_child(*_: object) -> Child:
        signal.raise_signal(signal.SIGINT)
        return Child()

    monkeypatch.setattr(resource_manager, "start_child", start_child)
    common = TaskManagerProcessSpec("secret", 2, 1, Scenario().network, "credit", 50)
    manager = ResourceManager(ClusterSpec(common, 10, None))
    with pytest.raises(KeyboardInterrupt):
        manager.start(control_port=1)
    assert [each.process.pid for each in manager] == [Child.pid]


def test_with_checkpoints_a_job_begins_again_without_end_and_later_each_time() -> None:
    cluster = Cluster(joined(1, {"execution.checkpointing.interval": "1s"}))
    cluster.run_all()
    for attempt, delay_ns in enumerate((S, 3 * S // 2, 9 * S // 4), start=1):
        cluster.now_ns += 1
        cluster.say("Source: A (1/1)", _E.FAILED)
        assert cluster.take_canceled() == ["Sink: B (1/1)"]
        assert cluster.master.next_deadline_ns() == cluster.now_ns + delay_ns
        cluster.pass_time(delay_ns - 1)
        assert cluster.master.state is JobState.RESTARTING
        cluster.pass_time(1)
        assert set(cluster.attempts().values()) == {attempt}
        cluster.run_all()
    assert cluster.master.restarts == 3


def test_the_delay_grows_by_half_up_to_a_minute_and_begins_anew_after_an_hour() -> None:
    delay = RestartStrategy(job_config({"restart-strategy.type": "exponential-delay"})[0])
    now_ns, waits = 0, []
    for _ in range(13):
        restart_at_ns = delay.restart_at_ns(now_ns=now_ns)
        assert delay.restart_at_ns(now_ns=restart_at_ns) == restart_at_ns  # they share a restart
        waits.append(restart_at_ns - now_ns)
        now_ns = restart_at_ns + 1
    assert waits[:4] == [S, 3 * S // 2, 9 * S // 4, 27 * S // 8]
    assert waits[-2:] == [MAX_NS, MAX_NS]
    late_ns = now_ns - 1 + RESET_NS + MAX_NS
    assert delay.restart_at_ns(now_ns=late_ns) == late_ns + INITIAL_NS


@pytest.mark.parametrize(
    ("name", "may_restart"),
    [
        ("off", False),
        ("exponential-delay", True),
        ("exponentialdelay", True),
        ("failurerate", True),
    ],
)
def test_a_strategy_of_flink_has_the_nearest_of_flinknets(name: str, may_restart: bool) -> None:
    config, warnings = job_config({"restart-strategy.type": name})
    assert RestartStrategy(config).may_restart(1000) is may_restart
    assert len(warnings) == (name == "failurerate")


JOB = ExecutionGraphID(bytes(16))
READERS = {"ab": (0, 1)}


def outbox_and_sent() -> tuple[Outbox, list[tuple[int, Any]]]:
    """An outbox, and what it has sent."""
    sent: list[tuple[int, Any]] = []
    return Outbox(lambda index, message: sent.append((index, message))), sent


def test_what_comes_behind_an_announcement_waits_for_every_answer() -> None:
    outbox, sent = outbox_and_sent()
    outbox.answered(0)  # nobody asked for it
    outbox.send(1, "at once")
    outbox.announce(0, JOB, READERS)
    outbox.announce(2, JOB, READERS)
    outbox.send(1, "submit")
    outbox.send(0, "cancel")
    outbox.answered(2)
    announced = [(0, ExpectReaders(JOB, READERS)), (2, ExpectReaders(JOB, READERS))]
    assert sent == [(1, "at once"), *announced]
    outbox.answered(0)
    assert sent[3:] == [(1, "submit"), (0, "cancel")]


def test_two_announcements_to_one_want_two_answers() -> None:
    outbox, sent = outbox_and_sent()
    outbox.announce(0, JOB, READERS)
    outbox.send(1, "first")
    outbox.announce(0, JOB, READERS)
    outbox.send(1, "second")
    outbox.answered(0)
    assert len(sent) == 2
    outbox.answered(0)
    assert sent[2:] == [(1, "first"), (1, "second")]


def test_nobody_waits_for_one_that_is_gone() -> None:
    outbox, sent = outbox_and_sent()
    outbox.announce(0, JOB, READERS)
    outbox.send(1, "submit")
    outbox.lose(0)
    assert sent[1:] == [(1, "submit")]
    outbox.announce(0, JOB, READERS)
    outbox.send(1, "again")
    assert sent[-1] == (1, "again")
