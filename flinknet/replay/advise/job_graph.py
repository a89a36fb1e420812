"""Edges of a job for its prediction end to end: recorded ones, and those that Flink counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flinknet.predict.local_channels import counts_of, planned_edge

from ..read import RecordedRun

NOT_TO_THE_END = (
    "{} was not recorded, most likely because its channels are local: the job's figures end before"
    " it"
)


def local_edges(runs: Sequence[RecordedRun]) -> list[RecordedRun]:
    """Edges without recorded channels, all of which are local, that Flink counts; as runs without
    channels."""
    run = runs[0]
    recorded = {each.ends.index for each in runs}
    if not run.manifest.is_from_between:
        return []
    return [
        replace(run, run=_NO_NUMBER, edge=each.index, manifest=run.manifest.of_edge(each.index))
        for each in run.flow
        if each.index not in recorded
        and local_share(run, each.index) == 1
        and received_per_s(run, each.index) is not None
    ]


_NO_NUMBER = -1


def local_share(run: RecordedRun, index: int) -> float:
    """Share of an edge's channels within TaskManagers, which were not recorded; 0 where Flink was
    not asked for its plan."""
    planned = planned_edge(run.manifest, index) if run.manifest.is_from_between else None
    return 0.0 if planned is None else len(planned.local) / planned.wiring.channels


def received_per_s(run: RecordedRun, index: int) -> float | None:
    """Records per second that the consumers of an edge took, by Flink's counters; None without
    them."""
    found = counts_of(run.place, run.manifest, index, run.from_ns, run.to_ns).received_per_s
    known = [each for each in found if each is not None]
    return sum(known) if known and len(known) == len(found) else None


def not_to_the_end(runs: Sequence[RecordedRun]) -> tuple[str, ...]:
    """Notes on edges that lead on from the recorded ones and were not recorded."""
    recorded = {each.ends.index for each in runs}
    targets = {each.ends.target for each in runs}
    left = [each for each in runs[0].flow if each.index not in recorded]
    return tuple(NOT_TO_THE_END.format(each.name) for each in left if each.source in targets)
