"""From a program to what would run where: a graph for each concern.

    environment, data_stream    the words of a program; each call leaves a transformation
                                (transformations); program: the file that holds one
    endpoints, operators        sources and sinks, and what happens to records between them;
                                partitioners: which consumer gets one; operator_output: what
                                operators put out; type_information: the type of their records
    watermarks                  how records get event time, and who is waited for
    stream_graph                what the program says: operators and streams;
                                stream_graph_generator makes it
    job_graph                   what is submitted: operators chained into vertices;
                                job_graph_generator makes it, with chaining, node_hashes (ids) and
                                slot_sharing; resources: what operators ask for
    job_config                  what Flink's keys say of a job as a whole
    stream_config               what a task has to know of an operator; operator_chain: the
                                operators of a task
    execution_graph             the parallel form: subtasks, partitions; execution: their attempts
                                and states; failover: what restarts together; wiring: who reads
                                which subpartition
    physical_plan               slots, channels local and remote, TCP connections, buffers;
                                planning makes it, with slots and network_memory
    running_job, running_plan   a job of a real Flink, and its plan; traffic: channels between
                                TaskManagers; lineage: who feeds whom, from ids alone
    tree, documents             each layer as text, and as JSON; picture: as boxes and arrows, drawn
                                by dot or svg

Pure but for `program`, which runs the file that holds a program. Each layer can be built and
printed alone. Of the rest of flinknet the graphs use values only: ids, types, sizes of pools, key
groups; what is planned here is what the network stack makes of it.
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
]
