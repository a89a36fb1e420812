"""The graphs of a job, from its program to its placement: one per concern.

    environment, data_stream    the API of programs; each call creates a transformation
                                (transformations, with partitioners and resource demands);
                                program: loads the file of a program
    endpoints, operators        sources and sinks, and the operators between them;
                                user_functions: functions of the program, copied for each
                                subtask, and types of their records
    watermarks                  outputs of an operator, event time, and watermarks
    stream_graph                the program: operators and streams, and which are chained;
                                stream_graph_generator builds it
    job_graph                   the job as submitted: operators chained into vertices, with the
                                configuration of each in a task; job_graph_generator builds it
    job_config                  settings of a job from Flink's keys
    operator_chain              the operators of a task
    execution_graph             the parallel form: subtasks, partitions, attempts and their states;
                                failover: what restarts together, and splits of sources
    physical_plan               slots, local and remote channels, TCP connections, buffers;
                                planning builds it, for a job of a real Flink (running_job), too,
                                with slots; placements: buffers over all
                                placements that Flink may choose
    tree, documents             each layer as text, and as JSON; picture: as a drawing in SVG

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
from .job_graph import JobGraph, StreamConfig
from .job_graph_generator import job_graph_of
from .operator_chain import OperatorChain
from .physical_plan import PhysicalPlan
from .planning import physical_plan_of
from .program import Program, load_program, vertex_row
from .stream_graph import StreamGraph
from .transformations import ResourceSpec
from .watermarks import Output, OutputTag, TaskEvent, WatermarkStrategy
