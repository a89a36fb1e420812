"""The table of checkpoints beneath a bench."""

from __future__ import annotations

from flinknet.report.observed_tables import checkpoint_table
from flinknet.results import CheckpointSummary, LatencySummary
from flinknet.units import MISSING
from tests.report.printing import printed

NONE = LatencySummary(count=0)


def summary(completed: int, travel_ms: int) -> CheckpointSummary:
    travel = LatencySummary(count=40, p50=travel_ms * 1e6, max=3 * travel_ms * 1_000_000)
    return CheckpointSummary(9, completed, 2, 1, NONE, NONE, NONE, travel, 4096.0, 5000, 0.0)


def text_of(*settings: tuple[str, list[CheckpointSummary]], width: int = 140) -> list[str]:
    return printed(checkpoint_table(settings), width=width).splitlines()


def test_a_row_shows_what_became_of_the_checkpoints() -> None:
    (row,) = [line for line in text_of(("", [summary(6, 20)])) if "this configuration" in line]
    assert row.split()[2:6] == ["9", "6", "2", "1"]
    assert row.split()[6:9] == [MISSING] * 3
    assert "20.0 ms" in row
    assert "60.0 ms" in row
    assert "4.00 KiB" in row


def test_a_replay_says_what_it_counts_on_an_edge() -> None:
    text = printed(checkpoint_table([("recorded", [summary(6, 20)])], is_replayed=True), width=140)
    assert "triggered" not in text
    assert text.split("checkpoints", 1)[1].split()[:4] == ["sent", "all", "arrived", "aborted"]
    assert "aborted: the job's that began in the part used" in " ".join(text.split())


def test_several_runs_show_as_their_median_and_a_setting_without_checkpoints_not_at_all() -> None:
    runs = [summary(completed, 10) for completed in (3, 7, 5)]
    lines = text_of(("a", runs), ("b", []))
    (row,) = [line for line in lines if line.strip().startswith("a ")]
    assert row.split()[2] == "5"
    assert not [line for line in lines if line.strip().startswith("b")]
