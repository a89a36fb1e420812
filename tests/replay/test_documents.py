"""The JSON of a replay: what it holds, in which order, for every kind of run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flinknet.plain_values import from_plain, to_plain
from flinknet.predict.grid import Grid
from flinknet.replay.pipeline import replay_runs
from flinknet.replay.read import open_runs
from flinknet.report.export import replay_document
from flinknet.results import ReplayAnswer
from tests.page_answer import answer, typed
from tests.replay_documents import documents, golden_lines, runs_of_every_kind

GOLDEN = Path(__file__).parent / "golden_documents.jsonl"
MS = 1_000_000


@pytest.mark.spark
@pytest.mark.releases
def test_the_documents_of_every_kind_of_run_stay_the_same(spark: Any, tmp_path: Path) -> None:
    lines = []
    for name, path in runs_of_every_kind(tmp_path).items():
        grid = Grid(buffer_timeouts_ns=(5 * MS, -1))
        found = replay_runs(spark, open_runs([path]), grid, details=name in ("one", "tapped"))
        lines += golden_lines(name, documents(found))
    assert lines == GOLDEN.read_text(encoding="utf-8").splitlines()


def test_fields_that_do_not_apply_are_left_out() -> None:
    plain = answer()
    of_run = replay_document([typed(plain | {"details": None})])
    assert not {"is_bottleneck", "details"} & of_run.keys()
    assert list(of_run["model_error"]) == ["throughput", "p50", "p99", "buffers_per_s"]
    edge = replay_document([typed(plain | {"trace": {"edge": "a → b", "origin": "tap"}})])
    assert list(edge)[-4:] == ["is_bottleneck", "bottleneck", "details", "trades"]
    assert edge["model_error"]["buffers_per_s"] is None


def test_several_answers_are_a_list() -> None:
    found = replay_document([typed(answer()), typed(answer())])
    assert (list(found), len(found["replays"])) == (["schema_version", "replays"], 2)


def test_an_answer_is_plain_data_and_comes_back_from_it() -> None:
    given = typed(answer())
    plain = json.loads(json.dumps(to_plain(given)))
    assert to_plain(from_plain(ReplayAnswer, plain)) == plain
