"""Preemptions: the same for longer, and a sample of them for shorter."""

from __future__ import annotations

import numpy as np
import pytest

from flinknet.simulator.cost_model import Preemptions

MS = 1_000_000


def test_a_shorter_time_has_the_same_share_of_preemptions() -> None:
    starts_ns = np.arange(1_000) * 5 * MS
    lengths_ns = np.where(starts_ns < 2_500 * MS, MS, 3 * MS)
    part = Preemptions(starts_ns, lengths_ns).condensed(10)
    assert part.starts_ns.max() < 500 * MS
    assert part.lengths_ns.sum() == pytest.approx(lengths_ns.sum() / 10, rel=0.02)


def test_the_same_over_and_over() -> None:
    once = Preemptions(np.array([1 * MS]), np.array([2 * MS]))
    again = once.repeated(3, 10 * MS)
    assert again.starts_ns.tolist() == [1 * MS, 11 * MS, 21 * MS]
    assert again.lengths_ns.tolist() == [2 * MS] * 3
