"""Answers of real JobManagers, saved while a job ran: 2 sources, rebalanced to 3 sinks, on 2
TaskManagers with 2 slots each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flinknet.capture.rest.answers import HttpAnswers, SavedAnswers
from flinknet.capture.rest.http_client import RestPlace
from flinknet.core.wire.ids import (
    ExecutionAttemptID,
    ExecutionGraphID,
    ExecutionVertexID,
    IntermediateDataSetID,
    IntermediateResultPartitionID,
    JobVertexID,
    ResultPartitionID,
)
from flinknet.graph.running_job import RunningInput, RunningJob, RunningSubtask, RunningVertex
from flinknet.trace import ChannelInfo, RunManifest
from flinknet.trace.manifest import TAP
from tests.recorded_run import channel_info, manifest_of

RELEASES = ("1.20.5", "2.3.0")

SOURCE = JobVertexID(bytes.fromhex("bc764cd8ddf7a0cff126f51c16239658"))
SINK = JobVertexID(bytes.fromhex("0a448493b4782967b150582570326227"))


def directory(release: str) -> Path:
    return Path(__file__).parent / f"flink-{release}"


def saved(release: str) -> SavedAnswers:
    return SavedAnswers(directory(release))


class MadeAnswers(HttpAnswers):
    """Answers from a dict; for other paths there is none, as of a JobManager that has gone."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__(RestPlace("http://made"))
        self.answers = answers
        self.asked: list[str] = []

    def get(self, path: str) -> Any:
        from flinknet.errors import RemoteTransportError

        self.asked.append(path)
        if path.partition("?")[0] not in self.answers:
            raise RemoteTransportError(f"{path}: HTTP status 404")
        return self.answers[path.partition("?")[0]]


def vertex(
    number: int,
    name: str,
    parallelism: int,
    *inputs: tuple[int, str],
    places: tuple[str, ...] = (),
) -> RunningVertex:
    """A vertex; inputs are (number of the source, ship strategy)."""
    return RunningVertex(
        id=vertex_id(number),
        name=name,
        parallelism=parallelism,
        max_parallelism=128,
        inputs=tuple(
            RunningInput(vertex_id(each), strategy, "pipelined_bounded")
            for each, strategy in inputs
        ),
        subtasks=tuple(RunningSubtask(at, 0, "RUNNING", each) for at, each in enumerate(places)),
        slot_sharing_group="1",
    )


def job(*vertices: RunningVertex, name: str = "pipeline", started_at_ms: int = 1) -> RunningJob:
    return RunningJob(
        id=f"{started_at_ms:032x}",
        name=name,
        state="RUNNING",
        is_batch=False,
        started_at_ms=started_at_ms,
        vertices=vertices,
    )


def vertex_id(number: int) -> JobVertexID:
    return JobVertexID(bytes([number]) * 16)


def channel(
    index: int, edge: int, of: JobVertexID, producer: int, subpartition: int, *, execution: int = 0
) -> ChannelInfo:
    """A channel as a tap describes it: data set `edge`, written by a vertex in some execution."""
    partition = ResultPartitionID(
        IntermediateResultPartitionID(IntermediateDataSetID(bytes([200 + edge]) * 16), producer),
        ExecutionAttemptID(
            ExecutionGraphID(bytes([execution]) * 16), ExecutionVertexID(of, producer), 0
        ),
    )
    return channel_info(
        index, producer, subpartition, partition=partition.encode().hex(), edge=edge
    )


def tapped(*channels: ChannelInfo) -> RunManifest:
    return manifest_of((), channels, 0, 10_000_000_000, scenario={"tap": {}}, origin=TAP)
