"""Work without progress that lasts far longer than usual is a preemption; the rest is what things
cost."""

from __future__ import annotations

import numpy as np

from flinknet.predict.fit.saturation import preempted
from flinknet.predict.intervals import Intervals

MS = 1_000_000
US = 1_000


def ns(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def pairs(found: Intervals) -> list[tuple[int, int]]:
    return list(zip(found.starts_ns.tolist(), found.ends_ns.tolist(), strict=True))


def test_a_stop_in_the_middle_of_work_is_a_preemption_and_its_time_no_cost() -> None:
    steps = np.arange(1000) * 20 * US
    steps[500:] += 4 * MS
    work = Intervals(ns(0), ns(int(steps[-1])))
    assert pairs(preempted(work, steps)) == [(int(steps[499]), int(steps[499]) + 4 * MS)]


def test_a_late_beginning_counts_from_when_there_was_work() -> None:
    steps = np.arange(100) * 20 * US
    later = steps + 50 * MS
    work = Intervals(ns(0, 45 * MS), ns(int(steps[-1]), int(later[-1])))
    assert pairs(preempted(work, np.r_[steps, later])) == [(45 * MS, 50 * MS - 20 * US)]


def test_time_without_work_is_no_preemption() -> None:
    steps = np.arange(100) * 20 * US
    later = steps + 50 * MS
    work = Intervals(ns(0, 50 * MS), ns(int(steps[-1]), int(later[-1])))
    assert pairs(preempted(work, np.r_[steps, later])) == []


def test_who_always_takes_long_has_no_preemptions() -> None:
    steps = np.arange(100) * 3 * MS
    assert pairs(preempted(Intervals(ns(0), ns(int(steps[-1]))), steps)) == []
