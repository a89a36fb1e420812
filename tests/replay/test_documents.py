"""The JSON of a replay: what it holds, and in which order; tests/same has every kind of run."""

from __future__ import annotations

import json

from flinknet.plain_values import from_plain, to_plain
from flinknet.report.export import replay_document
from flinknet.results import ReplayAnswer
from tests.page_answer import answer, typed


def test_fields_that_do_not_apply_are_left_out() -> None:
    plain = answer()
    of_run = replay_document([typed(plain | {"details": None})])
    assert not {"is_bottleneck", "details"} & of_run.keys()
    assert list(of_run["model_error"]) == ["throughput", "p50", "p99", "buffers_per_s"]
    edge = replay_document([typed(plain | {"trace": {"edge": "a → b", "origin": "tap"}})])
    assert {"is_bottleneck", "bottleneck", "details"} <= edge.keys()
    assert edge["model_error"]["buffers_per_s"] is None


def test_several_answers_are_a_list() -> None:
    found = replay_document([typed(answer()), typed(answer())])
    assert (list(found), len(found["replays"])) == (["schema_version", "replays"], 2)


def test_an_answer_is_plain_data_and_comes_back_from_it() -> None:
    given = typed(answer())
    plain = json.loads(json.dumps(to_plain(given)))
    assert to_plain(from_plain(ReplayAnswer, plain)) == plain
