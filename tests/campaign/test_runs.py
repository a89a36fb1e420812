"""Runs of the campaign with the seeds from 1: these find nearly all mutants (docs/campaign.md)."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.campaign.trial import failure_of

RUNS = 4000
"""Number of runs; `make mutants` looks for each mutant in as many."""

PIECE = 500


@pytest.mark.row("S109")
@pytest.mark.parametrize("first", range(1, RUNS, PIECE))
def test_disturbed_runs_keep_every_rule(first: int) -> None:
    for seed in range(first, first + PIECE):
        failure = failure_of(seed, Counter())
        assert failure is None, f"{failure.command}\n{failure.text}"
