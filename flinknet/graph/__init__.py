"""From a program to what would run where: a graph for each concern.

    environment, data_stream    the words of a program; each call leaves a transformation
    watermarks                  how records get event time, and who is waited for
    stream_graph                what the program says: operators and streams
    job_graph                   what is submitted: operators chained into vertices
    execution_graph             the parallel form: subtasks, partitions, attempts
    physical_plan               slots, channels local and remote, TCP connections, buffers

Pure but for `program`, which runs the file that holds a program. Each layer can be built and
printed alone (`tree`). Of the rest of flinknet the graphs use values only: ids, types, sizes
of pools, key groups; what is planned here is what the network stack makes of it.
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
