"""Results as frozen plain numbers. Absent samples are None, never 0. Field names are those of the
JSON.

    measures    summaries of samples, and warnings: parts of all results
    run         one run of an exchange, also while it runs
    job         one run of a job, also while it runs
    validity    how far a measurement can be used, and what disturbed it
    prediction  predictions of a replay, and their error
    bottleneck  the verdict on a job, and the thresholds of its rules
    ledger      where the time of a job's tasks and channels went; `verdict` and `slow_tasks` have
                the rules over it
    recordings  recordings that make up a run, and known losses
    replay      the answer of a replay about a run; `job_answer` about a whole job
    flink_metrics  metrics that a real Flink reported while a trace was recorded
    references  published measurements with which a bench may be compared
    watch       the newest part of traces that are being written
    comparison  which of several configurations is better: a package of its own, which no other file
                here imports
"""

from .bottleneck import Bottleneck, Cause, Remedy
from .flink_metrics import (
    EdgeShare,
    FlinkMetrics,
    TaskManagerMetrics,
    TaskMetrics,
    VertexMetrics,
)
from .job import (
    ClusterJob,
    ClusterStatus,
    ConnectionStatus,
    EdgeMeasured,
    GateDump,
    JobDump,
    JobResult,
    JobStatus,
    LatencyMarkersMeasured,
    MarkedOperator,
    MarkerHistogram,
    MarkerSummary,
    PartitionDump,
    PriorAttempt,
    TaskDump,
    TaskManagerDump,
    TaskManagerMeasured,
    TaskManagerStatus,
    TaskMeasured,
    VertexMeasured,
    VertexStatus,
)
from .job_answer import TAKEN_ALONE, JobAnswer, JobEdgePoint, JobObserved, JobPoint
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
from .prediction import ERROR_TO_BET_ON, MACHINE_DELAYED, CpuCost, ModelError, Price, TradeOffPoint
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
    Buffering,
    ChannelLevels,
    ChannelMeasured,
    ChannelProgress,
    DebloatedGate,
    DebloatingSample,
    FillLevels,
    FillSample,
    Measured,
    PeerChannel,
    PeerResult,
    ProcessorUse,
    Progress,
    RunMetrics,
    RunResult,
    Taken,
    TaskProgress,
    Wiring,
    has_given_rate,
    sustained_per_s,
)
from .validity import (
    CORES_SHARED,
    DISTURBED,
    DISTURBED_BY_STRANGERS,
    OF_SETTINGS,
    P99_DISTURBED,
    STOOD_STILL,
    STRANGERS,
    Strangers,
    Validity,
    is_disturbed,
    validity_by,
    validity_of,
    without_consequences,
)
from .watch import LatencyBounds, WatchedEdge, WatchLook
