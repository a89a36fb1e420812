"""Jobs: what a plan says, as tasks that run between gates and partitions.

    descriptor      what a TaskManager is told to run a subtask

Sans-IO, as `tasks`: `runtime` and `simulator` step what is made here.
"""

from .descriptor import (
    InputChannelDescriptor,
    InputGateDeploymentDescriptor,
    ResultPartitionDeploymentDescriptor,
    TaskDeploymentDescriptor,
    descriptors_of,
)

__all__ = [
    "InputChannelDescriptor",
    "InputGateDeploymentDescriptor",
    "ResultPartitionDeploymentDescriptor",
    "TaskDeploymentDescriptor",
    "descriptors_of",
]
