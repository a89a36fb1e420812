"""The graphs of a job, from its program to its placement: one per concern.

    environment, data_stream    the API of programs; each call creates a transformation
                                (transformations); program: loads the file of a program;
                                vertex_row: a job of so many subtasks, without a file
    endpoints, operators        sources and sinks, and the operators between them;
                                partitioners: which consumer gets a record; operator_output:
                                outputs of an operator; type_information: types of records;
                                user_functions: functions of the program, copied for each
                                subtask; absent: calls of Flink's API that there are not
    watermarks                  event time and watermarks
    stream_graph                the program: operators and streams;
                                stream_graph_generator builds it
    job_graph                   the job as submitted: operators chained into vertices;
                                job_graph_generator builds it, with chaining, node_hashes
                                (ids) and slot_sharing; resources: demands of operators
    job_config                  settings of a job from Flink's keys
    stream_config               configuration of an operator in a task; operator_chain: the
                                operators of a task
    execution_graph             the parallel form: subtasks, partitions; execution: their
                                attempts and states; failover: what restarts together;
                                wiring: which subpartition each consumer reads
    physical_plan               slots, local and remote channels, TCP connections, buffers;
                                planning builds it, with slots and network_memory;
                                placements: buffers over all placements that Flink may choose
    running_job, running_plan   a job of a real Flink, and its plan; traffic: channels between
                                TaskManagers; lineage: inputs of vertices, from ids alone
    tree, documents             each layer as text, and as JSON; picture: as boxes and arrows,
                                drawn by dot or svg

Pure except `program`, which runs the file of a program. Each layer can be built and printed alone.
The graphs use only values of the rest of flinknet: ids, types, pool sizes, key groups. The network
stack builds what is planned here.
"""

from .endpoints import (
    CollectionSource,
    DiscardSink,
    FileSink,
    FileSource,
    FunctionSink,
    GeneratedSource,
    LatencySink,
    PrintSink,
    SequenceSource,
    SocketTextSource,
)
from .environment import StreamExecutionEnvironment
from .execution_graph import ExecutionGraph, execution_graph_of
from .job_graph import JobGraph
from .job_graph_generator import job_graph_of
from .operator_chain import OperatorChain
from .operator_output import Output, OutputTag, TaskEvent
from .physical_plan import PhysicalPlan
from .planning import physical_plan_of
from .program import Program, load_program
from .resources import ResourceSpec
from .stream_config import StreamConfig
from .stream_graph import StreamGraph
from .vertex_row import vertex_row
from .watermarks import WatermarkStrategy

__all__ = [
    "CollectionSource",
    "DiscardSink",
    "ExecutionGraph",
    "FileSink",
    "FileSource",
    "FunctionSink",
    "GeneratedSource",
    "JobGraph",
    "LatencySink",
    "OperatorChain",
    "Output",
    "OutputTag",
    "PhysicalPlan",
    "PrintSink",
    "Program",
    "ResourceSpec",
    "SequenceSource",
    "SocketTextSource",
    "StreamConfig",
    "StreamExecutionEnvironment",
    "StreamGraph",
    "TaskEvent",
    "WatermarkStrategy",
    "execution_graph_of",
    "job_graph_of",
    "load_program",
    "physical_plan_of",
    "vertex_row",
]
