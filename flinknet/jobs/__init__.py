"""Jobs: what a plan says, as tasks that run between gates and partitions.

    descriptor      what a TaskManager is told to run a subtask
    assembly        from a descriptor to partitions, gates and the task between them
    stream_task     the task: reads or makes records, runs a chain of operators, writes
    network_input   from buffers of gates to records        output       from records to buffers
    serializers     values as bytes, as Flink writes them   elements     with their timestamps
    keys            hashes of keys, as Java's               checkpoints  one answer for a task
    sources, sinks  what those of a program do              operators    with delays
    io              what comes from, and goes to, the world outside

Sans-IO, as `tasks`: `runtime` and `simulator` step what is made here.
"""

from .assembly import create_gates, create_partitions, create_task, network_of
from .descriptor import (
    InputChannelDescriptor,
    InputGateDeploymentDescriptor,
    ResultPartitionDeploymentDescriptor,
    TaskDeploymentDescriptor,
    descriptors_of,
)
from .io import FileTextInput, MemoryIO, SocketTextInput, TaskIO, TextInput
from .stream_task import StreamTask

__all__ = [
    "FileTextInput",
    "InputChannelDescriptor",
    "InputGateDeploymentDescriptor",
    "MemoryIO",
    "ResultPartitionDeploymentDescriptor",
    "SocketTextInput",
    "StreamTask",
    "TaskDeploymentDescriptor",
    "TaskIO",
    "TextInput",
    "create_gates",
    "create_partitions",
    "create_task",
    "descriptors_of",
    "network_of",
]
