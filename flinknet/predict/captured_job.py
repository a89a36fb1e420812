"""A job whose exchanges were captured between processes, those within TaskManagers filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from flinknet.trace.recordings import RunPlace, open_recordings

from .captured import METRICS_AROUND_NS, load_captured
from .fit.costs import CostFit
from .fit.delays import NO_DELAYS
from .job_run import checked
from .local_channels import NO_COUNTERS, local_exchange, planned_edge
from .recorded import RecordedExchange
from .recorded_job import JobEdge, RecordedJob
from .tapped_consumers import with_consumers

FIRST_IS_LOCAL = (
    "its channels are local, which a tap does not see, and no edge before it shows when its records"
    " came"
)


@dataclass(frozen=True, slots=True)
class JobEdges:
    """The edges of a job, those of one task before those behind it.

    Attributes:
        numbers: in the manifest.
        sources, targets: vertices at their ends.
        whys: of each, why nothing can be said of it; empty if something can.
    """

    numbers: Sequence[int]
    sources: Sequence[int]
    targets: Sequence[int]
    whys: Sequence[str]

    def before(self, place: int) -> int | None:
        """The place of the edge that leads to the producers of one; None behind a source."""
        return next(
            (n for n, target in enumerate(self.targets) if target == self.sources[place]), None
        )


def load_captured_job(
    place: RunPlace, from_ns: int, to_ns: int, edges: JobEdges
) -> tuple[RecordedJob, list[str]]:
    """The job in a part of a trace, and what was assumed of it."""
    manifest = open_recordings(place).manifest
    assert manifest is not None, "runs without a manifest are refused by open_recorded_run"
    recorded: dict[int, RecordedExchange] = {}
    fits: dict[int, CostFit] = {}
    for n, number in enumerate(edges.numbers):
        if manifest.of_edge(number).channels:
            recorded[n], fits[n] = load_captured(
                place, from_ns, to_ns, edge=number, is_filled=True
            )
    found: list[JobEdge] = []
    for n, number in enumerate(edges.numbers):
        planned = planned_edge(manifest, number)
        if n in fits:
            exchange = recorded[n]
            if planned is None:  # else the tasks have their numbers already
                exchange = _with_consumers(n, edges, recorded)
            edge = JobEdge(
                edges.sources[n],
                edges.targets[n],
                exchange,
                fits[n].delays,
                unseen=fits[n].unseen,
                why_unknown=edges.whys[n] or None,
            )
        else:
            before = edges.before(n)
            filled = None
            if planned is not None and before is not None:
                filled = local_exchange(
                    place,
                    manifest,
                    planned,
                    found[before].exchange,
                    (from_ns - METRICS_AROUND_NS, to_ns + METRICS_AROUND_NS),
                )
            why = None
            if filled is None:
                why = FIRST_IS_LOCAL if before is None else NO_COUNTERS
            edge = JobEdge(
                edges.sources[n],
                edges.targets[n],
                filled or replace(next(iter(recorded.values())), channels=()),
                NO_DELAYS if before is None else found[before].delays,
                has_own_instants=False,
                why_unknown=edges.whys[n] or why,
            )
        found.append(edge)
    notes = list(dict.fromkeys(note for fit in fits.values() for note in fit.notes))
    return checked(RecordedJob(found)), notes


def _with_consumers(
    number: int, edges: JobEdges, exchanges: Mapping[int, RecordedExchange]
) -> RecordedExchange:
    """An exchange with its consumers numbered as the producers behind it."""
    behind = [
        each.producers
        for n, each in exchanges.items()
        if edges.sources[n] == edges.targets[number]
    ]
    return with_consumers(exchanges[number], max(behind)) if behind else exchanges[number]
