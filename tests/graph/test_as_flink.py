"""The plan for the visualizer and the ids of data sets are those of Flink 2.3."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.flink.distribution import class_path, flink_home, java
from flinknet.graph import job_graph_of
from tests.graph.programs import two_paths

EXPECTED = Path(__file__).parent / "expected" / "two_paths_of_flink.json"
HARNESS = Path(__file__).parents[1] / "interop" / "java" / "PlanOf.java"


@pytest.fixture
def of_flink() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(EXPECTED.read_text())
    return found


@pytest.mark.row("S168")
def test_the_plan_for_the_visualizer_is_that_of_flink(of_flink: dict[str, Any]) -> None:
    assert json.loads(two_paths().get_execution_plan()) == of_flink["plan"]


@pytest.mark.row("S138")
def test_data_sets_have_the_ids_that_flink_gives_them(of_flink: dict[str, Any]) -> None:
    job = job_graph_of(two_paths().get_stream_graph())
    found = {
        (str(each.id), each.producer.name, each.consumers[0].target.name)
        for vertex in job.vertices.values()
        for each in vertex.results
    }
    assert found == {(each["id"], each["from"], each["to"]) for each in of_flink["data_sets"]}


@pytest.mark.interop
def test_flink_itself_answers_what_is_stored(of_flink: dict[str, Any], tmp_path: Path) -> None:
    home, runner, compiler = flink_home("2.3.0"), java(), java("javac")
    if home is None or runner is None or compiler is None:
        pytest.skip("the jars of Flink 2.3.0 are not here (make flink), or there is no JDK")
    paths = class_path(home, tmp_path)
    subprocess.run([compiler, "-nowarn", "-d", tmp_path, "-cp", paths, HARNESS], check=True)
    ended = subprocess.run(
        [runner, "-cp", paths, "PlanOf"], capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(ended.stdout) == of_flink
