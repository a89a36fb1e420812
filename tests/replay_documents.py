"""Answers of a replay as the documents that users get, and runs of every kind to ask."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.edited_manifest import edit_manifest
from tests.recorded_run import write_run
from tests.tapped_job import MS, SECOND, SOURCE, TappedChannel, write_tapped_job

if TYPE_CHECKING:
    from flinknet.replay.pipeline import Replay


def documents(replay: Replay) -> list[dict[str, Any]]:
    """The document about each run."""
    from flinknet.report.export import answer_document

    return [answer_document(each) for each in replay.answers]


def runs_of_every_kind(directory: Path) -> Mapping[str, Path]:
    """A recorded run, a sweep, a blocking exchange, a run with two edges, a tapped job."""
    runs = {name: directory / name for name in ("one", "sweep", "blocking", "edges", "tapped")}
    write_run(runs["one"], buffers=20)
    write_run(runs["sweep"] / "a", buffers=8)
    write_run(runs["sweep"] / "b", buffers=8, period_ns=5 * MS)
    write_run(runs["blocking"], buffers=8)
    edit_manifest(runs["blocking"], _make_blocking)
    write_run(runs["edges"], buffers=8)
    edit_manifest(runs["edges"], _make_two_edges)
    slow = [TappedChannel(SOURCE, 0, consumer, 0.8, buffers=30) for consumer in range(2)]
    blocked = TappedChannel(SECOND, 0, 1, 0.9, 1_050 * MS, 400 * MS, buffers=30)
    write_tapped_job(runs["tapped"], [*slow, TappedChannel(SECOND, buffers=30), blocked])
    return runs


def _make_blocking(manifest: dict[str, Any]) -> None:
    manifest["scenario"]["workload"]["partition_type"] = "blocking"


def _make_two_edges(manifest: dict[str, Any]) -> None:
    manifest["channels"][1]["edge"] = 1
    manifest["scenario"]["workload"]["relays"] = 1
