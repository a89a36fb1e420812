"""Number and name of each edge of a recorded job, wherever they are shown."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flinknet.cli import main
from flinknet.errors import ConfigError
from flinknet.replay.edges import EdgeTimeouts
from flinknet.replay.plans import check_edge_timeouts
from flinknet.replay.read import open_runs
from flinknet.trace import RunManifest
from flinknet.trace.job_names import edges_in_flow
from tests.edited_manifest import edit_manifest
from tests.same.replays import _page_data as page_data
from tests.shared_spark import commands_in
from tests.tapped_job import MS, SECOND, SOURCE, THIRD, TappedChannel, write_tapped_job

NAMED = {"1 Src → Map", "2 Map → Win", "3 Win → Snk"}
BY_IDS = [
    "1 data set 1 of vertex bc764cd8 → vertex 0a448493",
    "2 data set 2 of vertex 0a448493 → vertex ea632d67",
    "3 data set 3 of vertex ea632d67 → its consumers",
]


def job(*edges: tuple[int, int], jobs: Sequence[str] = ("a", "a", "a", "a")) -> dict[str, Any]:
    """Edges from and to the vertices Src, Map, Win, Snk, in the order of the manifest."""
    return {
        "vertices": [
            {
                "index": at,
                "name": name,
                "job": own,
                "tasks": [f"{name} (1/1)"],
                "task_managers": [],
                "parallelism": 1,
            }
            for at, (name, own) in enumerate(zip(("Src", "Map", "Win", "Snk"), jobs, strict=True))
        ],
        "edges": [
            {
                **{"index": at, "source": source, "target": target, "channels": None},
                **{"local_channels": None, "partitioner": "hash", "partition_type": "pipelined"},
            }
            for at, (source, target) in enumerate(edges)
        ],
    }


def tapped(directory: Path, *vertices: str, **scenario: Any) -> Path:
    """A tap that saw the edges behind some vertices, in this order."""
    write_tapped_job(directory, [TappedChannel(each, buffers=30) for each in vertices])
    edit_manifest(directory, lambda manifest: manifest["scenario"].update(scenario))
    return directory


def titles(directory: Path) -> list[str]:
    return [each.title for each in edges_in_flow(RunManifest.load(directory))]


def test_edges_are_numbered_in_the_direction_of_flow(tmp_path: Path) -> None:
    plan = job((2, 3), (1, 2), (0, 1))
    assert {*titles(tapped(tmp_path / "run", THIRD, SECOND, SOURCE, job=plan))} == NAMED


def test_without_names_the_ids_of_vertices_show_the_direction_of_flow(tmp_path: Path) -> None:
    assert titles(tapped(tmp_path / "run", THIRD, SECOND, SOURCE)) == BY_IDS


def test_each_job_of_a_recording_has_numbers_of_its_own(tmp_path: Path) -> None:
    plan = job((2, 3), (0, 1), jobs=("a", "a", "b", "b"))
    run = tapped(tmp_path / "run", SECOND, SOURCE, job=plan)
    assert titles(run) == ["1 Src → Map", "1 Win → Snk"]
    assert [each.title for each in open_runs([run])[0].flow] == titles(run)


def test_an_edge_whose_request_was_missed_is_one_of_the_job(tmp_path: Path) -> None:
    plan = job((0, 1), (1, 2))
    channels = [TappedChannel(SOURCE), TappedChannel(SECOND), TappedChannel(THIRD, from_buffer=1)]
    write_tapped_job(tmp_path / "run", channels)
    edit_manifest(tmp_path / "run", lambda manifest: manifest["scenario"].update(job=plan))
    found = edges_in_flow(RunManifest.load(tmp_path / "run"))
    assert [each.number for each in found] == [1, 2, 3]
    assert [each.why_unknown is None for each in found] == [True, False, True]


def test_a_timeout_is_asked_for_by_the_same_number_where_an_edge_is_missing(
    tmp_path: Path,
) -> None:
    runs = open_runs([tapped(tmp_path / "run", THIRD, SOURCE, job=job((2, 3), (0, 1), (1, 2)))])
    assert [each.ends.title for each in runs] == ["1 Src → Map", "3 Win → Snk"]
    assert EdgeTimeouts((("3", 5),)).on([each.ends for each in runs]) == [None, 5]
    with pytest.raises(ConfigError, match=r"the edges are 1 Src → Map; 3 Win → Snk"):
        check_edge_timeouts(runs, [EdgeTimeouts((("2", 5),))])


@pytest.mark.spark
def test_an_edge_has_one_number_and_name_everywhere(spark: Any, tmp_path: Path) -> None:
    run = tapped(tmp_path / "run", THIRD, SECOND, SOURCE, job=job((2, 3), (1, 2), (0, 1)))
    names = ("json", "csv", "html", "mixed")
    files = {name: str(tmp_path / f"answer.{name}") for name in names}
    with commands_in(spark):
        written = ("--json", files["json"], "--csv", files["csv"])
        terminal = called("replay", run, *written, "--edges")
        written = ("--report", files["html"], "--json", files["mixed"])
        called("replay", run, *written, "--edge-timeout", "3=5ms")
    read = {name: Path(path).read_text() for name, path in files.items()}
    answers, rows = json.loads(read["json"])["replays"], csv.DictReader(read["csv"].splitlines())
    mixed = json.loads(read["mixed"])["jobs"][0]
    perfetto = tmp_path / "run.perfetto.json"
    called("export", run, "--format", "perfetto", "--out", perfetto)
    watched = json.loads(called("watch", run, "--once", "--json"))["edges"]
    shown = {
        "info": " ".join(
            f"{number} {source} → {target}"
            for number, source, target in re.findall(
                r"^(\d)\s+(\w+)\s+(\w+)\s+hash", called("info", run), re.MULTILINE
            )
        ),
        "replay": terminal,
        "JSON": " ".join(title(each["trace"]) for each in answers),
        "CSV": " ".join(title(each) for each in rows),
        "page": json.dumps(page_data(read["html"]), ensure_ascii=False),
        "job": " ".join(map("{} {}".format, mixed["edge_numbers"], mixed["edges"])),
        "Perfetto": perfetto.read_text(),
        "watch": " ".join(map(title, watched)),
    }
    found = {name: {*re.findall(r"\d [SMW]\w+ → \w+", text)} for name, text in shown.items()}
    assert found == dict.fromkeys(shown, NAMED)
    shorter = [[each == 5 * MS for each in point["timeouts_ns"]] for point in mixed["points"]]
    assert [False, False, True] in shorter


def title(edge: Any) -> str:
    return f"{edge['edge_number']} {edge['edge']}"


def called(command: str, *arguments: Any) -> str:
    result = CliRunner().invoke(
        main, ["trace", command, *map(str, arguments)], env={"COLUMNS": "160"}
    )
    assert result.exit_code == 0, result.output
    return result.stdout
