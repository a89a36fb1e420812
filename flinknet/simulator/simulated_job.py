"""SimulatedJob: the job of a cluster; creates its tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flinknet.config import NetworkConfig
from flinknet.core.consumer import SingleInputGate
from flinknet.core.probe import Probe
from flinknet.core.producer import ResultPartition
from flinknet.job.barriers import CheckpointResponder
from flinknet.job.descriptor import TaskDeploymentDescriptor
from flinknet.job.scheduling import SchedulingType

from .cost_model import CostModel
from .task_manager import SimulatedTaskManager, SteppedTask


class SimulatedJob:
    """The subtasks and settings of a job. `create_task` determines the kind of its tasks and the
    cost of their steps.

    Attributes:
        subtasks: in the order in which their channels are opened; on each TaskManager, subtasks
            that write an edge come before those that read it.
        network, flow_control: settings of all channels.
        costs: time that steps and links take.
        start_ns: start of the tasks.
        opening_ns: time from the requests of channels to the start.
        segments: numbers of segments of the TaskManagers' network memory, if the job has new hosts.
        scheduling: condition on which a vertex requests its channels; None for none.
    """

    def __init__(
        self,
        subtasks: Sequence[TaskDeploymentDescriptor],
        network: NetworkConfig,
        flow_control: str,
        costs: CostModel,
        *,
        seed: int,
        start_ns: int,
        opening_ns: int,
        segments: Callable[[], Sequence[int]],
        scheduling: SchedulingType | None = None,
    ) -> None:
        self.subtasks = subtasks
        self.network = network
        self.flow_control = flow_control
        self.costs = costs
        self.seed = seed
        self.start_ns = start_ns
        self.opening_ns = opening_ns
        self.segments = segments
        self.scheduling = scheduling

    def create_task(
        self,
        subtask: TaskDeploymentDescriptor,
        partitions: Sequence[ResultPartition],
        gates: Sequence[SingleInputGate],
        task_manager: SimulatedTaskManager,
        probe: Probe,
        respond: CheckpointResponder,
    ) -> SteppedTask:
        """Create the task of a subtask.

        Args:
            partitions, gates: partitions of its outputs and gates of its inputs, in their order.
            respond: takes its answers about checkpoints.
        """
        raise NotImplementedError
