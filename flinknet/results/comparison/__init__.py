"""Which of several configurations is better, and how surely.

A result is a `Comparison`: plain values that the terminal, Markdown, JUnit, JSON and the page show.

    differences   metrics of a run, and their differences with intervals and verdicts
    limits        limits of a gate (--fail-if), and their decisions
    compared      configurations of a call, each candidate against the base; the order of runs
    earlier       results of earlier calls, from their JSON
"""

from .compared import *
from .differences import *
from .earlier import *
from .limits import *
