"""What a TaskManager runs: StreamTasks that read gates and write partitions.

    stream_task     the task: reads or generates records, runs a chain, writes
    task_chain      what a task runs: a program's operators (chain_runner) or load (load); where it
                    writes, the age of records at sinks, and the loan of a chain to a thread
    task_ends       gates, sources and outputs of a task; network_input: from buffers to the chain;
                    channel_input: one channel; record_output: from the chain to buffers
    descriptor      what a TaskManager needs to run a subtask
    gates           builds partitions, gates and their pools from a descriptor; flow control
    program_tasks   builds the task of a program; task_frame: what every task has
    selectors       choose a record's channel, by Java's hashes of keys
    scheduling      what waits for what, and a channel for a producer without its partition
    barriers        checkpoints of a task's inputs and outputs, with one answer for the task;
                    checkpoint_coordinator: triggers and completes them
    serializers     values as bytes, as Flink writes them; basic_serializers: single values
    elements        records with their timestamps, and what lies between them
    sources, task_operators, io    of a program, its sinks, and their files
    event_time      timestamps, watermarks of several channels, timers
    context         the current record, and failures of the program's functions in words
    times           busy, idle and back-pressured time of a task; task_metrics: under Flink's names
    debloating      adapts the buffer size of gates
    load            load generator, relays and measuring sinks of bench

Sans-IO: a driver (`runtime` or `simulator`) steps a task at an instant and learns when to step it
again. The tasks of a TaskManager take turns on its event loop; a program's functions may run
elsewhere (task_chain), such as in threads of the runtime.
"""

from .descriptor import (
    InputChannelDescriptor,
    InputGateDeploymentDescriptor,
    ResultPartitionDeploymentDescriptor,
    TaskDeploymentDescriptor,
    descriptors_of,
)
from .gates import create_gates, create_partitions
from .io import FileTextInput, SocketTextInput, TaskIO, TextInput
from .program_tasks import create_task, network_of
from .stream_task import StreamTask
