"""How many intervals contain what was measured, of figures and of how they change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.flink.calibration import calibrations_json, changes, print_calibration
from bench.flink.job_table import FIGURES, Cell, Figure, MeasuredJob

JOB = MeasuredJob(
    number=1,
    release="2.3.0",
    text="a job",
    settings={},
    vertices={},
    run="run",
    recorded_ms=100,
    truths={},
)


def cell(timeout_ms: int, figure: Figure, job: MeasuredJob = JOB) -> Cell:
    return Cell(job, timeout_ms, dict.fromkeys(FIGURES, figure), None)


def test_a_change_is_that_of_the_longer_timeout() -> None:
    shorter, longer = Figure(10, 7, 14, 12), Figure(100, 96, 103, 105)
    cells = [cell(100, longer), cell(5, shorter), cell(20, shorter, replace(JOB, number=2))]
    (found,) = changes(cells, "p50_ns")
    assert (found.predicted, found.measured) == (90, 93)
    assert found.low == pytest.approx(90 - (4**2 + 4**2) ** 0.5)
    assert found.high == pytest.approx(90 + (3**2 + 3**2) ** 0.5)
    assert found.is_covered
    assert changes([cell(100, longer), cell(5, replace(shorter, low=None))], "p50_ns") == []


def test_figures_and_their_changes_have_rows(capsys: pytest.CaptureFixture[str]) -> None:
    cells = [cell(5, Figure(10, 7, 14, 12)), cell(100, Figure(100, 96, 103, 105))]
    rows = {each["cells"]: each["p99"] for each in calibrations_json(cells)}
    assert (rows["5 ms"]["holding"], rows["5 ms"]["above"]) == (1, 0)
    assert (rows["100 ms (recorded)"]["holding"], rows["100 ms (recorded)"]["above"]) == (0, 1)
    assert rows["from one to another"]["holding"] == 1
    print_calibration(cells)
    assert "from one to another 1 of 1 0 0 6%" in " ".join(capsys.readouterr().out.split())
