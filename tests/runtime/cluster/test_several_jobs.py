"""Several jobs on one cluster, without processes: slots, numbers of channels, connections, and what
a JobManager says to its clients.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.errors import ConfigError
from flinknet.graph import execution_graph_of, job_graph_of
from flinknet.graph.execution_graph import ExecutionState
from flinknet.graph.slots import SharedSlot
from flinknet.job.scheduling import PartitionState, RequestPartitionState
from flinknet.results import ClusterStatus, ConnectionStatus, JobStatus
from flinknet.runtime.cluster import control_messages as messages
from flinknet.runtime.cluster.cluster_process import JobManagerSpec, TaskManagerProcess
from flinknet.runtime.cluster.job_files import CONTACT_NAME, Contact, joined_settings
from flinknet.runtime.cluster.job_master import JobMaster
from flinknet.runtime.cluster.job_process import JobManagerProcess
from flinknet.runtime.cluster.job_state import JobState
from flinknet.runtime.cluster.placement import ConnectionUses, SharedCluster, SlotPool
from flinknet.runtime.cluster.reports import UsedConnection
from flinknet.runtime.cluster.submitted_job import SubmittedJob
from tests.runtime.cluster.live_job import Child
from tests.runtime.cluster.programs import PIPELINE, joined

S = 1_000_000_000
_E = ExecutionState
SEVERAL_CONNECTIONS = {"taskmanager.network.max-num-tcp-connections": "2"}


class Session:
    """Two TaskManagers of so many slots, and the masters of jobs on them."""

    def __init__(self, slots: int = 2) -> None:
        self.shared = SharedCluster(slots)

    def submit(
        self,
        parallelism: int,
        run: str,
        settings: dict[str, str] | None = None,
        *,
        ready: tuple[int, ...] = (0, 1),
    ) -> JobMaster:
        graph = execution_graph_of(job_graph_of(joined(parallelism, settings)), run)
        master = JobMaster(graph, 2, self.shared, now_ns=0, is_joining=True)
        for index in ready:
            master.register(index, now_ns=0)
        return master

    @property
    def in_use(self) -> list[int]:
        return [self.shared.slots_in_use(index) for index in range(2)]


def places(master: JobMaster) -> set[tuple[int, int]]:
    return {
        (task.task_manager, task.slot)
        for deployment in master.deployments
        for task in deployment.tasks
    }


def channels(master: JobMaster) -> list[Any]:
    return [
        channel
        for deployment in master.deployments
        for task in deployment.tasks
        for gate in task.inputs
        for channel in gate.channels
    ]


def say(master: JobMaster, attempt: ExecutionAttemptID, state: ExecutionState) -> None:
    master.update_state(messages.TaskStateChanged(attempt, state), now_ns=0)


def end(master: JobMaster) -> None:
    for state in (_E.INITIALIZING, _E.RUNNING, _E.FINISHED):
        for subtask in master.graph.subtasks():
            say(master, subtask.current.attempt_id, state)
    assert master.state is JobState.FINISHED


@pytest.mark.row("S150")
def test_two_jobs_have_slots_of_their_own() -> None:
    session = Session()
    one, two = session.submit(2, "one"), session.submit(2, "two")
    assert places(one) == {(0, 0), (0, 1)}
    assert places(two) == {(1, 0), (1, 1)}
    assert session.in_use == [2, 2]


@pytest.mark.row("S150")
def test_who_finds_too_few_slots_waits_until_another_job_ends() -> None:
    session = Session()
    one, two = session.submit(3, "one"), session.submit(2, "two")
    assert not two.deployments
    assert two.shortage() == (
        "the job needs 2 slots; available: 1 (2 TaskManagers with 2 each, 3 of them other jobs');"
        " end another job, or give more TaskManagers, more slots, or a lower parallelism; waits"
        " 5min for them (slot.request.timeout)"
    )
    end(one)
    two.slots_changed(now_ns=S)
    assert not two.deployments  # they are given back when the job has ended on every TaskManager
    one.release_slots()
    two.slots_changed(now_ns=S)
    assert places(two) == {(0, 0), (0, 1)}
    assert session.in_use == [2, 0]


@pytest.mark.row("S150")
def test_a_job_that_has_ended_takes_no_slots_when_a_task_manager_is_lost() -> None:
    session = Session()
    one = session.submit(4, "one")
    end(one)
    one.release_slots()
    two = session.submit(2, "two")
    assert places(two) == {(0, 0), (0, 1)}
    one.lose(1, "tm-1 is gone", now_ns=S)
    assert session.shared.free_for(two._pool, 0) == [0, 1]
    two.lose(1, "tm-1 is gone", now_ns=S)
    two.release_slots()
    assert session.in_use == [0, 0]


@pytest.mark.row("S150")
def test_who_waits_for_slots_in_vain_fails_and_leaves_the_other_alone() -> None:
    session = Session()
    one = session.submit(4, "one")
    two = session.submit(1, "two", {"slot.request.timeout": "500ms"})
    two.handle_deadline(now_ns=S // 2 - 1)
    assert two.state is JobState.CREATED
    two.handle_deadline(now_ns=S // 2)
    assert two.state is JobState.FAILED
    assert "available: 0 (2 TaskManagers with 2 each, 4 of them other jobs')" in two.reason
    assert "waited for 500ms" in two.reason
    assert one.state is JobState.RUNNING
    assert session.in_use == [2, 2]


@pytest.mark.row("S150")
def test_a_job_restarts_beside_the_other_in_its_own_slots() -> None:
    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1s"}
    session = Session(slots=3)
    one, two = session.submit(2, "one", restarts), session.submit(3, "two")
    assert places(two) == {(0, 2), (1, 0), (1, 1)}
    one.deployments.clear()
    failed = next(iter(one.graph.subtasks())).current.attempt_id
    say(one, failed, _E.FAILED)
    for subtask in one.graph.subtasks():
        say(one, subtask.current.attempt_id, _E.CANCELED)
    one.handle_deadline(now_ns=S)
    assert places(one) == {(0, 0), (0, 1)}


@pytest.mark.row("S151")
def test_a_lost_task_manager_fails_the_jobs_that_had_tasks_there_only() -> None:
    session = Session()
    one, two = session.submit(2, "one"), session.submit(2, "two")
    waiting = session.submit(1, "three")
    for master in (one, two, waiting):
        master.lose(1, "tm-1 is gone", now_ns=S)
    assert one.state is JobState.RUNNING
    assert two.state is JobState.FAILED or two.state is JobState.FAILING
    assert "tm-1 is gone" in two.reason
    assert waiting.state is JobState.CREATED
    assert "available: 0 (1 TaskManager with 2 each, 2 of them other jobs')" in waiting.shortage()


def test_a_job_does_not_wait_for_a_task_manager_that_is_lost_before_it_is_ready() -> None:
    session = Session()
    one = session.submit(2, "one", ready=(0,))
    assert not one.deployments
    one.lose(1, "tm-1 is gone", now_ns=S)
    assert places(one) == {(0, 0), (0, 1)}


def test_no_two_channels_of_a_cluster_have_the_same_number_or_id() -> None:
    session = Session()
    found = [*channels(session.submit(2, "one")), *channels(session.submit(2, "two"))]
    assert sorted(each.index for each in found) == list(range(8))
    assert len({each.receiver_id for each in found}) == 8
    assert len({each.partition_id for each in found}) == 4


@pytest.mark.row("S079")
def test_data_sets_of_several_jobs_take_turns_on_connections() -> None:
    session = Session()
    turns = [
        {each.connection_index for each in channels(session.submit(1, run, settings))}
        for run, settings in (("1", SEVERAL_CONNECTIONS), ("2", SEVERAL_CONNECTIONS), ("3", {}))
    ]
    assert turns == [{0}, {1}, {0}]


@pytest.mark.parametrize(
    ("mode", "expected"), [("NONE", [(0, 1), (0, 2)]), ("SLOTS", [(1, 0), (0, 1)])]
)
def test_slots_of_others_count_for_the_load_of_a_task_manager(
    mode: str, expected: list[tuple[int, int]]
) -> None:
    cluster = SharedCluster(3)
    pools = [SlotPool([SharedSlot("default", 0)] * count, cluster, mode) for count in (1, 2)]
    for pool in pools:
        for task_manager in range(2):
            pool.add(task_manager)
        assert pool.allocate()
    assert [(each.task_manager, each.slot) for each in pools[1].placed()] == expected


@pytest.mark.row("S079")
def test_a_connection_is_told_with_all_jobs_that_use_it() -> None:
    uses = ConnectionUses()
    uses.begin("1", "One")
    uses.begin("2", "Two")
    uses.update("1", 1, [UsedConnection(0, 0, 4)])
    uses.update("2", 1, [UsedConnection(0, 0, 2), UsedConnection(0, 1, 3)])
    uses.update("2", 0, [UsedConnection(1, 0, 2)])
    shared = ConnectionStatus("tm-0->tm-1", 4, ("Two",))
    assert uses.of("1") == (shared,)
    assert uses.of("2") == (
        ConnectionStatus("tm-0->tm-1", 2, ("One",)),
        ConnectionStatus("tm-0->tm-1#1", 3),
        ConnectionStatus("tm-1->tm-0", 2),
    )
    uses.update("2", 1, [])
    uses.end("2")
    assert uses.of("1") == (ConnectionStatus("tm-0->tm-1", 4, (), 1),)
    uses.lose(0)
    assert uses.of("1") == ()


def test_keys_of_the_cluster_are_not_a_jobs_to_change() -> None:
    cluster = {"taskmanager.numberOfTaskSlots": "2", "execution.buffer-timeout.interval": "5ms"}
    assert joined_settings(cluster, {"execution.buffer-timeout.interval": "1ms"}) == {
        "taskmanager.numberOfTaskSlots": "2",
        "execution.buffer-timeout.interval": "1ms",
    }
    assert joined_settings(cluster, {"taskmanager.numberOfTaskSlots": "2"}) == cluster
    with pytest.raises(ConfigError, match=r"numberOfTaskSlots: the cluster has 2, and a job that"):
        joined_settings(cluster, {"taskmanager.numberOfTaskSlots": "3"})
    with pytest.raises(ConfigError, match=r"heartbeat\.timeout: the cluster has its default"):
        joined_settings(cluster, {"heartbeat.timeout": "3s"})


class Client:
    """The JobManager's end of a connection to a client."""

    heard_ns = 0

    def __init__(self, process: JobManagerProcess) -> None:
        self.process = process
        self.said: list[Any] = []
        self.is_closed = False

    def send(self, message: Any) -> None:
        self.said.append(message)

    def close(self) -> None:
        self.is_closed = True

    def says(self, message: Any) -> Any:
        self.process._receive(self, message, 0)  # type: ignore[arg-type]
        return self.said[-1] if self.said else None


class Dispatcher:
    """The process of a JobManager that has started no TaskManager."""

    def __init__(self, directory: Path, *, is_session: bool) -> None:
        self.directory = directory
        self.spec = JobManagerSpec("secret", str(directory / "c"), 0, 2, {}, is_session)
        self.process = JobManagerProcess(self.spec)
        (directory / "c").mkdir()

    def client(self) -> Client:
        return Client(self.process)

    def job(
        self, name: str, *, source: str = PIPELINE, is_attached: bool = False
    ) -> messages.SubmitJob:
        run_dir = self.directory / name
        run_dir.mkdir(exist_ok=True)
        source = source.replace('"Pipeline"', f'"{name}"')
        path = str(self.directory / "program.py")
        return messages.SubmitJob(path, source, (), {}, is_attached, None, 0, 1, str(run_dir))

    def register(self) -> Client:
        """One more TaskManager. Returns: the JobManager's end of the connection to it."""
        known, connection = self.process._manager.task_managers, self.client()
        started = TaskManagerProcess(len(known), Child())  # type: ignore[arg-type]
        known._known.append(started)
        self.hear(connection, messages.RegisterTaskManager(started.index, 1, 2, "127.0.0.1", 1))
        return connection

    def hear(self, task_manager: Client, message: Any) -> None:
        self.process._manager._receive(task_manager, message, 0)  # type: ignore[arg-type]

    def run(self, name: str, *task_managers: Client) -> SubmittedJob:
        """Submit a job that is deployed as soon as these are ready for it."""
        accepted = self.client().says(self.job(name))
        job = self.process._jobs[accepted.job_id]
        for each in task_managers:
            self.hear(each, messages.JobInitialized(job.id))
        return job

    def turn(self) -> None:
        self.process._turn(0)


@pytest.fixture
def session(tmp_path: Path) -> Any:
    dispatcher = Dispatcher(tmp_path, is_session=True)
    yield dispatcher
    dispatcher.process._manager.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Any:
    dispatcher = Dispatcher(tmp_path, is_session=False)
    yield dispatcher
    dispatcher.process._manager.close()


@pytest.mark.socket
@pytest.mark.row("S037")
def test_a_task_manager_is_told_the_state_of_a_producer_of_its_job(session: Dispatcher) -> None:
    task_manager = session.register()
    session.run("one", task_manager)
    master = session.run("two", task_manager).master
    (result,) = master.graph.results.values()
    partition = result.partitions[0].result_partition_id
    reader = list(master.graph.subtasks())[-1].current.attempt_id
    session.hear(task_manager, RequestPartitionState(reader, partition))
    assert task_manager.said[-1] == PartitionState(reader, partition, _E.CREATED)


@pytest.mark.socket
def test_connections_to_a_task_manager_that_a_job_ends_are_told_no_more(
    session: Dispatcher,
) -> None:
    task_managers = [session.register() for _ in range(2)]
    one, two = (session.run(name, *task_managers) for name in ("one", "two"))
    session.process._manager.shared.connections.update(one.job_id, 1, [UsedConnection(0, 0, 4)])
    client = session.client()
    (used,) = client.says(messages.JobRequest(messages.STATUS, one.job_id)).connections
    assert used.name == "tm-0->tm-1"
    for _ in range(2):  # of its tasks
        two.master.to_end.append((1, "it did not end within 3min"))
    session.turn()
    session.turn()
    status = client.says(messages.JobRequest(messages.STATUS, one.job_id))
    assert status.connections == ()
    assert [each.state for each in status.task_managers] == ["ready", "lost"]


@pytest.mark.socket
def test_each_job_of_a_cluster_has_its_clients_directory_and_end(
    cluster: Dispatcher, tmp_path: Path
) -> None:
    one, two, asking = (cluster.client() for _ in range(3))
    accepted = one.says(cluster.job("c"))
    assert one.says(messages.JobRequest(messages.STATUS)).name == "c"
    log = tmp_path / "c" / "tm-0.log"
    log.touch()
    assert two.says(cluster.job("other")).name == "other"
    for name in ("c", "other"):
        contact = Contact.load(tmp_path / name)
        assert contact is not None
        assert (contact.name, contact.cluster_dir) == (name, str(tmp_path / "c"))
    status = asking.says(messages.JobRequest(messages.STATUS, accepted.job_id))
    assert isinstance(status, JobStatus)
    assert [(each.name, each.run_dir) for each in status.other_jobs] == [
        ("other", str(tmp_path / "other"))
    ]
    asking.says(messages.JobRequest(messages.CANCEL, accepted.job_id))
    cluster.turn()
    assert one.said[-1] == asking.said[-1] == messages.JobEnded("CANCELED", "it was canceled", 1)
    assert not any(isinstance(each, messages.JobEnded) for each in two.said)
    assert not (tmp_path / "c" / CONTACT_NAME).exists()
    assert (tmp_path / "c" / "result.json").exists()
    assert not cluster.process._is_over  # for the other goes on
    assert log.exists()  # and so do the processes
    (other,) = two.says(messages.RequestCluster()).jobs
    two.says(messages.JobRequest(messages.CANCEL))
    cluster.turn()
    assert cluster.process._is_over
    assert other.name == "other"


@pytest.mark.socket
def test_a_cluster_that_ends_with_a_client_takes_no_other_job(cluster: Dispatcher) -> None:
    cluster.client().says(cluster.job("c", is_attached=True))
    other = cluster.client()
    refused = other.says(cluster.job("other"))
    assert isinstance(refused, messages.Refused)
    assert "its cluster ends with the client of c" in refused.reason
    assert other.is_closed


@pytest.mark.socket
def test_a_session_goes_on_without_jobs_until_it_is_stopped(session: Dispatcher) -> None:
    bad, one, stopper = (session.client() for _ in range(3))
    ended = bad.says(session.job("bad", source="def main(env):\n    env.nothing()\n"))
    assert (ended.state, ended.exit_code) == ("FAILED", 2)
    session.turn()
    assert not session.process._is_over
    one.says(session.job("one"))
    status = stopper.says(messages.RequestCluster())
    assert isinstance(status, ClusterStatus)
    assert [(each.name, each.state) for each in status.jobs] == [("one", "CREATED")]
    stopper.says(messages.StopCluster())
    late = session.client()
    assert late.says(session.job("late")) == messages.Refused("its cluster ends")
    session.turn()
    assert one.said[-1] == messages.JobEnded("CANCELED", "its cluster was stopped", 1)
    assert session.process._is_over


@pytest.mark.socket
def test_a_job_that_is_not_there_is_not_told_of(session: Dispatcher) -> None:
    client = session.client()
    assert client.says(messages.JobRequest(messages.STATUS, "abc")) == messages.Refused(
        "it has no job abc"
    )


@pytest.mark.socket
def test_a_cluster_of_a_job_is_not_stopped_as_a_session_is(cluster: Dispatcher) -> None:
    client = cluster.client()
    refused = client.says(messages.StopCluster())
    assert refused == messages.Refused("its cluster ends with its jobs; cancel those")
