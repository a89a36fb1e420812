"""Local channels of a job that restarted on other TaskManagers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from flinknet.predict.loading import load_job
from flinknet.replay.edges import local_share, received_per_s
from flinknet.replay.read import RecordedRun, open_runs
from flinknet.trace.metrics import METRICS_NAME
from tests.edited_manifest import edit_manifest
from tests.tapped_job import SOURCE, START_NS, TappedChannel, write_tapped_job

S = 1_000_000_000
PLACES = (("xy", "xy"), ("yz", "zy"))
"""TaskManagers of the sources and of the sinks, of each attempt."""

RATE = 1_000.0
"""Records per second of the job, local channels included."""


def restarted(directory: Path, lengths_s: Sequence[int]) -> Path:
    """Two sources and two sinks; with each attempt the other two of four channels are local."""
    channels, lines = [], list[dict[str, Any]]()
    for attempt, (places, length_s) in enumerate(zip(PLACES, lengths_s, strict=True)):
        since_ns = attempt * (lengths_s[0] + 5) * S
        channels += [
            TappedChannel(SOURCE, *ends, since_ns=since_ns, buffers=10 * length_s, attempt=attempt)
            for ends in ((0, 0), (0, 1), (1, 0), (1, 1))
            if places[0][ends[0]] != places[1][ends[1]]
        ]
        lines += metrics(attempt, places, START_NS + since_ns, length_s)
    write_tapped_job(directory, channels)
    (directory / METRICS_NAME).write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    edit_manifest(directory, lambda manifest: manifest["scenario"].update(job=plan(PLACES[-1])))
    return directory


def metrics(
    attempt: int, places: Sequence[str], from_ns: int, length_s: int
) -> Iterator[dict[str, Any]]:
    """Lines about all tasks, one a second."""
    for second in range(length_s):
        records = round(RATE / 2 * second)
        for vertex, own in enumerate(places):
            for subtask, place in enumerate(own):
                yield {
                    **{"at_ns": from_ns + second * S, "task_manager": place, "job": "a"},
                    **{"task": f"{'AB'[vertex]} ({subtask + 1}/2)", "vertex": f"v{vertex}"},
                    **{"subtask": subtask, "attempt": attempt},
                    **{"numRecordsIn": records * vertex, "numRecordsOut": records * (1 - vertex)},
                    **{"numBytesInLocal": records * 80, "numBytesInRemote": records * 20},
                    **{"numBuffersInLocal": records},
                }


def plan(places: Sequence[str]) -> dict[str, Any]:
    """The job as the tap described it at the end: every channel had been on the wire once."""
    return {
        "vertices": [
            {
                **{"index": at, "name": name, "job": "a", "id": f"v{at}", "parallelism": 2},
                **{"tasks": [f"{name} (1/2)", f"{name} (2/2)"], "task_managers": [*places[at]]},
            }
            for at, name in enumerate("AB")
        ],
        "edges": [
            {
                **{"index": 0, "source": 0, "target": 1, "channels": 4, "local_channels": 0},
                **{"partitioner": "rebalance", "partition_type": "pipelined_bounded"},
            }
        ],
    }


@pytest.mark.parametrize("lengths_s", [(6, 20), (20, 6)], ids=["last", "first"])
def test_local_channels_are_those_of_the_attempt(tmp_path: Path, lengths_s: Sequence[int]) -> None:
    (run,) = open_runs([restarted(tmp_path / "run", lengths_s)])
    assert run.ends.local_channels == 2
    assert local_share(run, 0) == 0.5
    assert received_per_s(run, 0) == pytest.approx(RATE, rel=0.05)
    assert loaded_channels(run) == {
        **{(0, 0): lengths_s[0] > 6, (1, 1): lengths_s[0] > 6},
        **{(0, 1): lengths_s[0] < 7, (1, 0): lengths_s[0] < 7},
    }


def loaded_channels(run: RecordedRun) -> dict[tuple[int, int], bool]:
    """Producer and consumer of each channel of the recorded job, and whether it is local."""
    job = load_job(run.place, run.from_ns, run.to_ns, (0,))
    channels = job.edges[0].exchange.channels
    return {(each.producer, each.consumer): each.connection < 0 for each in channels}
