"""The stored answers of `make same`, compared in the Spark session of the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.same.__main__ import STORED, TERMINAL
from tests.same.replays import REPLAYS, answers_of
from tests.same.simulated import simulated_answers

MADE = tuple(each for each in REPLAYS if each.startswith("made-"))
"""Made-up recordings of every kind of run."""

RECORDED = ("paced", "tap-slow-sink")
"""One of flinknet's own recordings, and one of a tap."""

HINT = "make same shows the differences"


def test_simulated_runs_leave_the_traces_whose_hashes_are_stored() -> None:
    assert differing(dict(simulated_answers(""))) == [], HINT


@pytest.mark.spark
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(MADE, marks=pytest.mark.releases, id="made"),
        pytest.param(RECORDED, id="recorded"),
        pytest.param(
            tuple(each for each in REPLAYS if each not in (*MADE, *RECORDED)),
            marks=pytest.mark.slow("more recordings"),
            id="others",
        ),
    ],
)
def test_answers_about_recordings_are_those_that_are_stored(
    names: tuple[str, ...], spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in TERMINAL.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    assert differing(dict(answers_of(names, tmp_path, spark))) == [], HINT


def test_no_answer_is_stored_that_nothing_gives_any_more() -> None:
    stored = {each.name for each in STORED.iterdir() if not each.name.startswith("info-")}
    kinds = ("csv", "json", "page.json", "txt")
    given = {f"{name}.{kind}" for name in REPLAYS for kind in kinds}
    assert stored - given == {"simulated-exchanges.txt"}


def differing(answers: dict[str, str]) -> list[str]:
    """Names of the answers that are not those that are stored: see `make same`."""
    assert answers
    return [
        name
        for name, text in answers.items()
        if text != (STORED / name).read_text(encoding="utf-8")
    ]
