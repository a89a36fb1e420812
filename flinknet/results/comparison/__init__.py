"""Which of several configurations is better, how surely, and how that goes on over many calls.

A result is a `Comparison`: plain values that the terminal, Markdown, JUnit, JSON and the page show.

    metrics       what is compared of a run
    differences   of one metric, with intervals and verdicts; student_t: the distribution
    limits        of a gate (--fail-if), and what they come to
    rounds        the order of runs
    compared      the configurations of a call, each candidate against the base
    earlier       results of earlier calls, from their JSON
    trend         results over many calls, and steps in them
"""

from .compared import (
    Baseline,
    Candidate,
    ComparedRun,
    Comparison,
    Configuration,
    SettingChange,
    compare,
)
from .differences import Difference, Verdict, difference, summary
from .earlier import (
    EarlierResult,
    baseline_in,
    earlier_result,
    elsewhere,
    smaller_changes,
)
from .limits import Limit, LimitDecision, Outcome, parse_limit
from .metrics import METRICS, Metric, label_of
from .rounds import interleaved_orders
from .student_t import student_t_cdf, student_t_quantile
from .trend import RESULTS_MIN, Step, Trend, TrendPoint, mean_of, trend_of

__all__ = [
    "METRICS",
    "RESULTS_MIN",
    "Baseline",
    "Candidate",
    "ComparedRun",
    "Comparison",
    "Configuration",
    "Difference",
    "EarlierResult",
    "Limit",
    "LimitDecision",
    "Metric",
    "Outcome",
    "SettingChange",
    "Step",
    "Trend",
    "TrendPoint",
    "Verdict",
    "baseline_in",
    "compare",
    "difference",
    "earlier_result",
    "elsewhere",
    "interleaved_orders",
    "label_of",
    "mean_of",
    "parse_limit",
    "smaller_changes",
    "student_t_cdf",
    "student_t_quantile",
    "summary",
    "trend_of",
]
