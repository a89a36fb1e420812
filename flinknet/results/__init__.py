"""Results as frozen plain numbers. Absent samples are None, never 0. Field names are those of the
JSON.

    measures    summaries of samples, and warnings: parts of all results
    figures     every figure once: name in files, heading, meaning, unit, which way is better
    run, job    one run of an exchange, and of a job, also while it runs
    validity    how far a measurement can be used, and what disturbed it
    prediction  predictions of a replay, and their error
    bottleneck  the verdict on a job, and the thresholds of its rules
    ledger      where the time of a job's tasks and channels went; `verdict` and `slow_tasks` have
                the rules over it
    recordings  recordings that make up a run, known losses, Flink's own metrics, and the answer of
                `trace watch`
    replay      the answers of a replay about a run and a whole job
    trades      gain and price of one predicted setting against another
    breaking_point  the search for the highest rate that keeps a limit
    comparison  which of several configurations is better: a package of its own, which no other file
                here imports
"""

from .bottleneck import *
from .job import *
from .measures import *
from .prediction import *
from .recordings import *
from .replay import *
from .run import *
from .validity import *
