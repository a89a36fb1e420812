"""What a TaskManager runs: StreamTasks, each reading gates and writing partitions.

    stream_task     the task: reads or makes records, runs a chain, writes
    task_chain      what it runs: operators of a program (chain_runner), or runs of records (load)
    task_inputs     gates and sources of a task: network_input: from buffers to the chain;
                    channel_input: one channel of it
    task_outputs    all outputs of a task: task_output, record_output: from the chain to buffers
    hand_over       the chain while a thread has it (task_worker)
    descriptor      what a TaskManager gets to run a subtask
    gates           from a descriptor to partitions and gates with their pools
    program_tasks   the task of a program between them; task_frame: what every task has
    selectors       to which channel a record goes           scheduling  what waits for what
    flow_control    with credit, or as before Flink 1.5
    producer_states what becomes of a channel whose producer does not have its partition
    barriers        what a task's inputs and outputs do for a checkpoint; checkpoints: one answer
                    for the task; checkpoint_coordinator: what begins and completes them
    serializers     values as bytes, as Flink writes them; basic_serializers: single ones
    elements        records with their timestamps
    keys            hashes of keys, as Java's               sources, sinks, task_operators, io
    event_time      timestamps, watermarks, timers          watermark_valve  which of them pass
    latency_stats   the histograms of latency markers
    latency_meter   how old records are at their end        context  the record at hand
    times           how long a task is busy, idle, back-pressured
    metrics, task_metrics   under Flink's names          fill_levels  of its pools, over time
    debloating      when gates get smaller buffers
    load            the load generator, relays and measuring sinks of bench

Sans-IO: a driver (`runtime` or `simulator`) steps a task with an instant and learns when to step it
again. The tasks of a TaskManager take turns on its event loop; functions of a program may be called
elsewhere (task_worker), as threads of the runtime do.
"""

from .descriptor import (
    InputChannelDescriptor,
    InputGateDeploymentDescriptor,
    ResultPartitionDeploymentDescriptor,
    TaskDeploymentDescriptor,
    descriptors_of,
)
from .gates import create_gates, create_partitions
from .io import FileTextInput, MemoryIO, SocketTextInput, TaskIO, TextInput
from .program_tasks import create_task, network_of
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
