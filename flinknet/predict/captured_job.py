"""A job whose exchanges were captured between processes, those within TaskManagers filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from flinknet.trace.job_names import edges_in_flow
from flinknet.trace.recordings import RunPlace, open_recordings

from .captured import FILLED_IN, METRICS_AROUND_NS, load_captured
from .fit.costs import CostFit
from .fit.delays import NO_DELAYS
from .fit.flusher import together
from .job_checked import checked
from .local_channels import (
    BROADCAST,
    IN_TURN,
    NO_COUNTERS,
    LocalEdge,
    at_places_of,
    partitioner_of,
    planned_edge,
    recorded_within,
)
from .recorded import RecordedExchange
from .recorded_job import JobEdge, RecordedJob
from .tapped_consumers import with_consumers

FIRST_IS_LOCAL = (
    "its channels are local, which a tap does not see, and no edge next to it shows when its"
    " records came"
)


AS_PASSED_ON = (
    "assumed: the records of the first edge, whose channels are local, came when the task behind it"
    " passed them on"
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

    def behind(self, place: int) -> int | None:
        """The place of the only edge that leads away from the consumers of one; None without one,
        and where there are several."""
        found = [n for n, source in enumerate(self.sources) if source == self.targets[place]]
        return found[0] if len(found) == 1 else None


def load_captured_job(
    place: RunPlace, from_ns: int, to_ns: int, edges: JobEdges
) -> tuple[RecordedJob, list[str]]:
    """The job in a part of a trace, and what was assumed of it."""
    run = open_recordings(place)
    manifest, passed = run.manifest, recorded_within(run, from_ns, to_ns)
    assert manifest is not None, "runs without a manifest are refused by open_recorded_run"
    manifest = at_places_of(manifest, place, from_ns, to_ns, passed)
    seen = {each.edge for each in passed}
    recorded: dict[int, RecordedExchange] = {}
    fits: dict[int, CostFit] = {}
    for n, number in enumerate(edges.numbers):
        if number in seen:
            recorded[n], fits[n] = load_captured(place, from_ns, to_ns, edge=number, is_filled=True)
    late_beats = together([each.late_beats for each in recorded.values()])
    recorded = {n: replace(each, late_beats=late_beats) for n, each in recorded.items()}
    counted = from_ns - METRICS_AROUND_NS, to_ns + METRICS_AROUND_NS
    found: list[JobEdge] = []
    own = {each.index: each.number for each in edges_in_flow(manifest)}
    notes = _notes_of({own[edges.numbers[n]]: fit.notes for n, fit in fits.items()})
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
                is_in_turn=planned is not None and planned.partitioner in {*IN_TURN, BROADCAST},
            )
        else:
            local = None if planned is None else LocalEdge(place, manifest, planned, counted)
            before, behind = edges.before(n), edges.behind(n)
            filled, like = None, NO_DELAYS
            if local is not None and before is not None:
                filled, like = local.behind(found[before].exchange), found[before].delays
            elif local is not None and behind in fits:
                partitioner = partitioner_of(manifest, edges.numbers[behind])
                filled, like = local.before(recorded[behind], partitioner), fits[behind].delays
            why = None
            if filled is not None:
                notes += [FILLED_IN] if before is not None else [FILLED_IN, AS_PASSED_ON]
            else:
                why = NO_COUNTERS if before is not None or behind in fits else FIRST_IS_LOCAL
            edge = JobEdge(
                edges.sources[n],
                edges.targets[n],
                filled or replace(next(iter(recorded.values())), channels=()),
                like,
                has_own_instants=before is None,
                why_unknown=edges.whys[n] or why,
            )
        found.append(edge)
    return checked(RecordedJob(found)), list(dict.fromkeys(notes))


def _notes_of(by_edge: Mapping[int, Sequence[str]]) -> list[str]:
    """The notes of all edges; those that not all of them have, with the number of their edge."""
    common = set.intersection(*map(set, by_edge.values())) if by_edge else set()
    return [
        note if note in common else f"edge {number}: {note}"
        for number, notes in by_edge.items()
        for note in notes
    ]


def _with_consumers(
    number: int, edges: JobEdges, exchanges: Mapping[int, RecordedExchange]
) -> RecordedExchange:
    """An exchange with its consumers numbered as the producers behind it."""
    behind = [
        each.producers for n, each in exchanges.items() if edges.sources[n] == edges.targets[number]
    ]
    return with_consumers(exchanges[number], max(behind)) if behind else exchanges[number]
