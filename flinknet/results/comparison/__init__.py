"""Which of several configurations is better, how surely, and how results develop over many calls.

A result is a `Comparison`: plain values that the terminal, Markdown, JUnit, JSON and the page show.

    differences   metrics of a run, and their differences with intervals and verdicts
    limits        limits of a gate (--fail-if), and their decisions
    compared      configurations of a call, each candidate against the base; the order of runs
    earlier       results of earlier calls, from their JSON, and steps in them
"""

from .compared import (
    Baseline,
    Candidate,
    ComparedRun,
    Comparison,
    Configuration,
    SettingChange,
    compare,
    interleaved_orders,
)
from .differences import (
    METRICS,
    Difference,
    Metric,
    Verdict,
    difference,
    label_of,
    student_t_cdf,
    student_t_quantile,
    summary,
)
from .earlier import (
    RESULTS_MIN,
    EarlierResult,
    Step,
    Trend,
    TrendPoint,
    baseline_in,
    earlier_result,
    elsewhere,
    mean_of,
    smaller_changes,
    trend_of,
)
from .limits import Limit, LimitDecision, Outcome, parse_limit
