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

from .bottleneck import *
from .flink_metrics import *
from .job import *
from .job_answer import *
from .measures import *
from .prediction import *
from .recordings import *
from .replay import *
from .run import *
from .validity import *
from .watch import *
