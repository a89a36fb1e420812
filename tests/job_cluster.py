"""The job of a program in virtual time.

A streaming job is deployed at once, a job with blocking exchanges stage by stage, independent of
its input dependency constraint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from flinknet.config import STEPS_PER_TURN
from flinknet.core.consumer import SingleInputGate
from flinknet.core.probe import Probe
from flinknet.core.producer import ResultPartition
from flinknet.graph.job_graph import JobGraph
from flinknet.graph.physical_plan import PhysicalPlan
from flinknet.graph.planning import depths_of
from flinknet.job.barriers import CheckpointResponder
from flinknet.job.descriptor import Start, TaskDeploymentDescriptor, descriptors_of
from flinknet.job.io import FileTextInput, SocketTextInput, TextInput
from flinknet.job.program_tasks import create_task, network_of
from flinknet.job.stream_task import StreamTask
from flinknet.job.task_chain import TaskWorker
from flinknet.simulator.cluster import Cluster
from flinknet.simulator.cost_model import CostModel
from flinknet.simulator.faults import NO_FAULTS, Faults
from flinknet.simulator.simulated_job import SimulatedJob
from flinknet.simulator.task_manager import NEVER_NS, START_NS, SimulatedTaskManager, SteppedTask
from tests.faults import FaultPlan

WorkerFactory = Callable[[SimulatedTaskManager, str], TaskWorker]
"""Makes the worker of a task from its TaskManager, which the worker wakes, and its name."""

TEXT_BYTES = 4096
"""Bytes of a text that are delivered at once."""


class MemoryIO:
    """Keeps all output in memory, for simulations and tests.

    Attributes:
        lines: printed lines, in order.
        files: contents by path.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.files: dict[str, bytes] = {}
        self.open_files: set[str] = set()

    def print_line(self, line: str) -> None:
        self.lines.append(line)

    def open_file(self, path: str) -> None:
        """Create or truncate a file."""
        self.files[path] = b""
        self.open_files.add(path)

    def write_file(self, path: str, data: bytes) -> None:
        self.files[path] += data

    def close_file(self, path: str) -> None:
        self.open_files.remove(path)


class SimulatedStreamTask:
    """Steps a task of a program, delivers its texts, and charges the loop for its work.

    Args:
        texts: contents by path of a file, or by host:port of a socket.
    """

    def __init__(self, task: StreamTask, costs: CostModel, texts: Mapping[str, bytes]) -> None:
        self._task = task
        self._receive_ns = costs.receive_ns_per_message
        self._emit_ns = costs.emit_ns_per_record
        self._texts = texts

    def step(self, now_ns: int) -> tuple[int, int]:
        """Do some work. Returns: the instants of its end, and of the next step."""
        task = self._task
        for text in task.text_inputs:
            self._bring(text)
        next_ns: int | None = now_ns
        for _ in range(STEPS_PER_TURN):
            emitted, processed = task.emitted_records, task.processed_records
            next_ns = task.step(now_ns=now_ns)
            took_ns = (task.emitted_records - emitted) * self._emit_ns
            if task.processed_records != processed:
                took_ns += self._receive_ns
            again = next_ns is not None and next_ns <= now_ns
            now_ns += int(took_ns)
            if not again:
                break
        else:
            next_ns = now_ns
        return now_ns, NEVER_NS if next_ns is None else max(next_ns, now_ns)

    def _bring(self, text: TextInput) -> None:
        content = self._texts.get(str(text))
        if content is None:
            if not text.is_ended:
                text.fail("there is no such text")
            return
        if isinstance(text, FileTextInput):
            if not text.next_byte and not text.wants_data:
                text.set_size(len(content))
            position = text.next_byte
        else:
            assert isinstance(text, SocketTextInput)
            position = text.received_bytes
        if text.wants_data:
            data = content[position : position + TEXT_BYTES]
            if data:
                text.receive_data(data)
            else:
                text.receive_eof()


class SimulatedProgram(SimulatedJob):
    """The tasks of a plan, with the functions of its program (see job_cluster).

    Attributes:
        io: output of the sinks.
        descriptors: subtasks of each TaskManager.
    """

    def __init__(
        self,
        plan: PhysicalPlan,
        job: JobGraph,
        costs: CostModel,
        *,
        texts: Mapping[str, bytes],
        end_ns: int | None,
        seed: int,
        workers: WorkerFactory | None,
    ) -> None:
        depth_of = {str(vertex_id): depth for vertex_id, depth in depths_of(job).items()}
        self.descriptors = [
            [replace(each, stage=depth_of[each.information.vertex_id]) for each in own]
            for own in descriptors_of(plan)
        ]
        network = network_of(job)
        super().__init__(
            [each for own in self.descriptors for each in own],
            network,
            job.config.flow_control,
            costs,
            seed=seed,
            start_ns=START_NS,
            opening_ns=0,
            segments=lambda: [network.segments] * plan.task_managers,
        )
        self.io = MemoryIO()
        self._job = job
        self._texts = texts
        self._workers = workers
        self._end_ns = None if end_ns is None else START_NS + end_ns

    def create_task(
        self,
        subtask: TaskDeploymentDescriptor,
        partitions: Sequence[ResultPartition],
        gates: Sequence[SingleInputGate],
        task_manager: SimulatedTaskManager,
        probe: Probe,
        respond: CheckpointResponder,
    ) -> SteppedTask:
        """Create the task of a subtask."""
        task = create_task(
            subtask,
            self._job,
            partitions,
            gates,
            probe,
            respond,
            io=self.io,
            start=Start(START_NS, START_NS, end_ns=self._end_ns),
            seed=self.seed,
            worker=None if self._workers is None else partial(self._workers, task_manager),
        )
        return SteppedTask(task, SimulatedStreamTask(task, self.costs, self._texts).step)


def job_cluster(
    plan: PhysicalPlan,
    job: JobGraph,
    costs: CostModel,
    *,
    texts: Mapping[str, bytes] | None = None,
    faults: Faults = NO_FAULTS,
    end_ns: int | None = None,
    seed: int = 1,
    workers: WorkerFactory | None = None,
    **options: Any,
) -> Any:
    """The cluster of a plan; its `job` is a SimulatedProgram.

    Args:
        job: the job graph of the plan.
        texts: contents that sources read, by path of a file or host:port of a socket.
        costs: time that the steps take.
        faults: faults of links, and exhaustions; pauses of consumers are ignored.
        end_ns: end of the generated records, counted from the start; None for no end.
        workers: makes the workers of tasks with functions; None: functions take no time.
        options: of Cluster.
    """
    program = SimulatedProgram(
        plan,
        job,
        costs,
        texts=texts or {},
        end_ns=end_ns,
        seed=seed,
        workers=workers,
    )
    if isinstance(faults, FaultPlan):
        faults = replace(faults, pauses=())
    return Cluster(program, faults=faults, **options)
