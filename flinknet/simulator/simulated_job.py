"""SimulatedJob: what a cluster runs, and what makes its tasks."""

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
    """The subtasks of a job and its settings. What kind of tasks they are, and what their steps
    cost, is up to `create_task`.

    Attributes:
        subtasks: in the order in which their channels are opened; on each TaskManager those that
            write come before those that read it.
        network, flow_control: settings of all channels.
        costs: what steps and links take.
        start_ns: when the tasks start.
        opening_ns: how long before that the channels are requested.
        segments: of the network memory of each TaskManager; counted for hosts of its own only.
        scheduling: what a vertex waits for before it requests its channels; None for nothing.
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
        """The task of a subtask.

        Args:
            partitions, gates: of its outputs and inputs, in their order.
            respond: takes its answers about checkpoints.
        """
        raise NotImplementedError
