"""Results as frozen plain numbers. Absent samples are None, never 0. Field names are those of the
JSON.

    measures    what all are made of: summaries of samples, warnings
    run         one run of an exchange; `progress` while it goes on
    processors  the use of the processors during a run
    buffering   what stood in the buffers of a run, and how large those were
    prediction  what a replay predicts, and how far it is off
    bottleneck  what holds a job up
    recordings  what a run was put together from, and what it is known to lack
    replay      all that a replay answers about a run; `job_answer` about a job as a whole
    job         one run of a job; `job_status` while it goes on, `job_dump` its tasks in detail
    latency_markers  what they said, next to how old records were
    flink_metrics  what a real Flink's own metrics say while a trace is recorded
    peer        an exchange with a TaskManager that is not flinknet's
    strangers   foreign connections at the data ports of a run; `disturbances` which warnings say
                 that a run was disturbed; `validity` how far a measurement can be used
    references  published measurements that a bench may be compared with
    watch       the newest part of traces that are still being written
    comparison  which of several configurations is better: a package of its own, which no other file
                here imports
"""

from .bottleneck import NEAR_FROM, PRESSED_FROM, UNPRESSED, Bottleneck, Cause, Remedy
from .buffering import (
    Buffering,
    ChannelLevels,
    DebloatedGate,
    DebloatingSample,
    FillLevels,
    FillSample,
)
from .disturbances import is_disturbed
from .flink_metrics import (
    EdgeShare,
    FlinkMetrics,
    TaskManagerMetrics,
    TaskMetrics,
    VertexMetrics,
)
from .job import EdgeMeasured, JobResult, TaskManagerMeasured, TaskMeasured, VertexMeasured
from .job_answer import TAKEN_ALONE, JobAnswer, JobEdgePoint, JobObserved, JobPoint
from .job_dump import GateDump, JobDump, PartitionDump, TaskDump, TaskManagerDump
from .job_status import (
    ClusterJob,
    ClusterStatus,
    ConnectionStatus,
    JobStatus,
    PriorAttempt,
    TaskManagerStatus,
    VertexStatus,
)
from .latency_markers import (
    LatencyMarkersMeasured,
    MarkedOperator,
    MarkerHistogram,
    MarkerSummary,
)
from .measures import (
    BacklogSummary,
    CheckpointSummary,
    CreditSummary,
    FlushCounts,
    LatencyDistribution,
    LatencySummary,
    RunWarning,
    VertexTimes,
)
from .peer import PeerChannel, PeerResult
from .prediction import ERROR_TO_BET_ON, MACHINE_DELAYED, CpuCost, ModelError, Price, TradeOffPoint
from .processors import (
    CORES_SHARED,
    DISTURBED,
    P99_DISTURBED,
    STOOD_STILL,
    ProcessorUse,
    Taken,
)
from .progress import ChannelProgress, Progress, TaskProgress
from .recordings import ClockRelation, RecordingSet, ReplayedRecording, TraceLoss
from .replay import (
    Advice,
    ChannelOverTime,
    ChannelWindows,
    Choice,
    FillRatios,
    MessageCount,
    RecordedEnvironment,
    ReplayAnswer,
    ReplayedChannel,
    RunDetails,
    SimulatedPart,
    SituationAdvice,
    TraceDescription,
    TracePart,
    Verdict,
    WindowMeasured,
)
from .run import (
    BlockingExchange,
    ChannelMeasured,
    Measured,
    RunMetrics,
    RunResult,
    Wiring,
    has_given_rate,
)
from .strangers import DISTURBED_BY_STRANGERS, STRANGERS, Strangers
from .validity import OF_SETTINGS, Validity, validity_by, validity_of, without_consequences
from .watch import LatencyBounds, WatchedEdge, WatchLook

__all__ = [
    "CORES_SHARED",
    "DISTURBED",
    "DISTURBED_BY_STRANGERS",
    "ERROR_TO_BET_ON",
    "MACHINE_DELAYED",
    "NEAR_FROM",
    "OF_SETTINGS",
    "P99_DISTURBED",
    "PRESSED_FROM",
    "STOOD_STILL",
    "STRANGERS",
    "TAKEN_ALONE",
    "UNPRESSED",
    "Advice",
    "BacklogSummary",
    "BlockingExchange",
    "Bottleneck",
    "Buffering",
    "Cause",
    "ChannelLevels",
    "ChannelMeasured",
    "ChannelOverTime",
    "ChannelProgress",
    "ChannelWindows",
    "CheckpointSummary",
    "Choice",
    "ClockRelation",
    "ClusterJob",
    "ClusterStatus",
    "ConnectionStatus",
    "CpuCost",
    "CreditSummary",
    "DebloatedGate",
    "DebloatingSample",
    "EdgeMeasured",
    "EdgeShare",
    "FillLevels",
    "FillRatios",
    "FillSample",
    "FlinkMetrics",
    "FlushCounts",
    "GateDump",
    "JobAnswer",
    "JobDump",
    "JobEdgePoint",
    "JobObserved",
    "JobPoint",
    "JobResult",
    "JobStatus",
    "LatencyBounds",
    "LatencyDistribution",
    "LatencyMarkersMeasured",
    "LatencySummary",
    "MarkedOperator",
    "MarkerHistogram",
    "MarkerSummary",
    "Measured",
    "MessageCount",
    "ModelError",
    "PartitionDump",
    "PeerChannel",
    "PeerResult",
    "Price",
    "PriorAttempt",
    "ProcessorUse",
    "Progress",
    "RecordedEnvironment",
    "RecordingSet",
    "Remedy",
    "ReplayAnswer",
    "ReplayedChannel",
    "ReplayedRecording",
    "RunDetails",
    "RunMetrics",
    "RunResult",
    "RunWarning",
    "SimulatedPart",
    "SituationAdvice",
    "Strangers",
    "Taken",
    "TaskDump",
    "TaskManagerDump",
    "TaskManagerMeasured",
    "TaskManagerMetrics",
    "TaskManagerStatus",
    "TaskMeasured",
    "TaskMetrics",
    "TaskProgress",
    "TraceDescription",
    "TraceLoss",
    "TracePart",
    "TradeOffPoint",
    "Validity",
    "Verdict",
    "VertexMeasured",
    "VertexMetrics",
    "VertexStatus",
    "VertexTimes",
    "WatchLook",
    "WatchedEdge",
    "WindowMeasured",
    "Wiring",
    "has_given_rate",
    "is_disturbed",
    "validity_by",
    "validity_of",
    "without_consequences",
]
