"""Factories of the tasks of a TaskManager: for a program, whose graph is found by running it, and
for the load of a scenario, whose tasks follow from their descriptors.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

from flinknet.config import Scenario
from flinknet.core.consumer import SingleInputGate
from flinknet.core.producer import ResultPartition
from flinknet.job.checkpoint_coordinator import Answer
from flinknet.job.descriptor import TaskDeploymentDescriptor
from flinknet.job.io import TaskIO
from flinknet.job.load.load_tasks import create_load_task
from flinknet.job.scheduling import SchedulingType, scheduling_of
from flinknet.job.sources import RequestNextInputSplit
from flinknet.job.stream_task import StreamTask

from ..shuffle_environment import ShuffleEnvironment
from ..task_thread import TaskThread
from .control_messages import Start, SubmitJob, SubmitLoad


class ProgramFactory:
    """Creates the tasks of a program. Functions are not sent between processes; the program is.

    Attributes:
        network: network settings of all tasks.
        reports_first_output: whether readers of a task wait for its first output.

    Raises: ConfigError for an invalid program.
    """

    reports_first_output = False

    def __init__(self, submission: SubmitJob, cache: Path | None) -> None:
        from flinknet.graph import job_graph_of, load_program
        from flinknet.job import network_of

        with redirect_stdout(sys.stderr):
            program = load_program(
                Path(submission.path),
                submission.settings,
                submission.arguments,
                source=submission.source,
                cache=cache,
            )
        self._job = job_graph_of(program.stream_graph)
        self._seed = submission.seed
        self.network = network_of(self._job)

    def create(
        self,
        descriptor: TaskDeploymentDescriptor,
        partitions: Sequence[ResultPartition],
        gates: Sequence[SingleInputGate],
        start: Start,
        environment: ShuffleEnvironment,
        respond: Callable[[Answer], None],
        request_split: Callable[[RequestNextInputSplit], None],
        io: TaskIO,
        *,
        now_ns: int,
    ) -> StreamTask:
        """Create the task of an attempt, between its gates and partitions; if it starts later than
        the run, it generates records from then on. Raises: ConfigError, TaskFailedError.
        """
        from flinknet.job import create_task

        return create_task(
            descriptor,
            self._job,
            partitions,
            gates,
            environment.recorder,
            respond,
            io=io,
            start_ns=max(start.start_ns, now_ns),
            end_ns=start.end_ns,
            measured_from_ns=start.measured_from_ns,
            timestamp_epoch_ns=start.timestamp_epoch_ns,
            seed=self._seed,
            spills=environment.spills,
            worker=partial(TaskThread, environment.loop),
            request_split=request_split,
        )


class LoadFactory:
    """Creates the tasks of a load; attributes as in ProgramFactory."""

    def __init__(self, scenario: Scenario, records: str) -> None:
        self.scenario = scenario
        self._records = records
        self.network = scenario.network
        self.reports_first_output = scheduling_of(scenario) is SchedulingType.ON_FIRST_OUTPUT

    def create(
        self,
        descriptor: TaskDeploymentDescriptor,
        partitions: Sequence[ResultPartition],
        gates: Sequence[SingleInputGate],
        start: Start,
        environment: ShuffleEnvironment,
        respond: Callable[[Answer], None],
        request_split: Callable[[RequestNextInputSplit], None],
        io: TaskIO,
        *,
        now_ns: int,
    ) -> StreamTask:
        """Create the task of an attempt; see ProgramFactory."""
        return create_load_task(
            descriptor,
            self.scenario,
            partitions,
            gates,
            environment.recorder,
            respond,
            start_ns=start.start_ns,
            end_ns=start.end_ns,
            measured_from_ns=start.measured_from_ns,
            measured_to_ns=start.measured_to_ns,
            give_up_ns=start.give_up_ns,
            timestamp_epoch_ns=start.timestamp_epoch_ns,
            spills=environment.spills,
            records=self._records,
        )


TaskFactory = ProgramFactory | LoadFactory
"""Creates the tasks of a job."""


def factory_of(job: SubmitJob | SubmitLoad, cache: Path | None) -> TaskFactory:
    """Return the task factory of a submission, with its directory of cached files. Raises:
    ConfigError.
    """
    if isinstance(job, SubmitLoad):
        return LoadFactory(job.scenario, job.records)
    return ProgramFactory(job, cache)
