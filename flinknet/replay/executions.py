"""Executions of jobs in a trace that was recorded between processes: jobs come and go in it.

A partition names the execution graph of its producer. A job that is submitted again has another
one; a job that restarts keeps it, and its tasks have a higher attempt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flinknet.trace import ChannelInfo, RunManifest, TraceFile
from flinknet.trace.index import spans_of
from flinknet.trace.job_names import producer_of


@dataclass(frozen=True, slots=True)
class Attempt:
    """What an execution did from one restart to the next.

    Attributes:
        channels: that had events then, in the manifest's order.
        from_ns, to_ns: from the first of these events to behind the last one.
    """

    channels: tuple[ChannelInfo, ...]
    from_ns: int
    to_ns: int


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a job, as far as a trace has it.

    Attributes:
        channels: in the manifest's order.
        from_ns, to_ns: from its first event to behind its last one.
        restarts: how often the task that was started most often was started again.
        longest: of its attempts that were recorded; None where there is one only.
    """

    channels: tuple[ChannelInfo, ...]
    from_ns: int
    to_ns: int
    restarts: int
    longest: Attempt | None = None


def executions_of(manifest: RunManifest, files: Iterable[TraceFile]) -> list[Execution]:
    """The executions in a trace, the earliest first; those of which no event was kept are left out.

    A channel whose request was not recorded belongs to the execution that was there when it began.
    """
    spans = spans_of(files)
    known: dict[bytes, list[ChannelInfo]] = {}
    strays: list[ChannelInfo] = []
    for channel in manifest.channels:
        if channel.index in spans:
            producer = producer_of(channel.partition)
            own = known.setdefault(producer.execution_graph_id.raw, []) if producer else strays
            own.append(channel)
    if strays and not known:
        return [_execution(strays, spans)]
    found = [_execution(own, spans) for own in known.values()]
    found.sort(key=lambda each: each.from_ns)
    for stray in strays:
        at_ns = spans[stray.index][1]
        place = max((i for i, each in enumerate(found) if each.from_ns <= at_ns), default=0)
        found[place] = _execution([*found[place].channels, stray], spans)
    return found


def _execution(channels: list[ChannelInfo], spans: dict[int, tuple[int, int, int]]) -> Execution:
    attempts = (producer_of(each.partition) for each in channels)
    return Execution(
        tuple(sorted(channels, key=lambda each: each.index)),
        min(spans[each.index][1] for each in channels),
        max(spans[each.index][2] for each in channels) + 1,
        max((each.attempt_number for each in attempts if each is not None), default=0),
        _longest_attempt(channels, spans),
    )


def _longest_attempt(
    channels: list[ChannelInfo], spans: dict[int, tuple[int, int, int]]
) -> Attempt | None:
    """The longest part between the instants at which tasks of a new attempt began to be read."""
    begun_ns: dict[int, int] = {}
    for each in channels:
        producer = producer_of(each.partition)
        number = 0 if producer is None else producer.attempt_number
        first_ns = spans[each.index][1]
        begun_ns[number] = min(begun_ns.get(number, first_ns), first_ns)
    if len(begun_ns) < 2:
        return None
    cuts_ns = sorted(begun_ns.values())
    parts = [
        _within(channels, spans, from_ns, to_ns)
        for from_ns, to_ns in zip(cuts_ns, [*cuts_ns[1:], None], strict=True)
    ]
    return max(parts, key=lambda each: each.to_ns - each.from_ns)


def _within(
    channels: list[ChannelInfo],
    spans: dict[int, tuple[int, int, int]],
    from_ns: int,
    next_ns: int | None,
) -> Attempt:
    own = [
        each
        for each in channels
        if spans[each.index][2] >= from_ns and (next_ns is None or spans[each.index][1] < next_ns)
    ]
    last_ns = max(spans[each.index][2] for each in own) + 1
    return Attempt(
        tuple(sorted(own, key=lambda each: each.index)),
        from_ns,
        last_ns if next_ns is None else min(last_ns, next_ns),
    )
