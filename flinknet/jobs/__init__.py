"""Jobs: what a plan says, as tasks that run between gates and partitions.

    descriptor      what a TaskManager gets to run a subtask
    assembly        from a descriptor to partitions, gates and the task between them
    stream_task     the task: reads or makes records, runs a chain, writes
    task_chain      what it runs: operators of a program (chain_runner), or runs of records (load)
    network_input   from buffers of gates to the chain      task_output  from the chain to buffers
    serializers     values as bytes, as Flink writes them   elements     with their timestamps
    keys            hashes of keys, as Java's               checkpoints  one answer for a task
    sources, sinks  what those of a program do              operators    with delays
    load            the load generator, relays and measuring sinks of bench
    task_metrics, debloating, io

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
