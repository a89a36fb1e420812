"""Executions of jobs in a trace that was recorded between processes: jobs come and go in it.

A partition names the execution graph of its producer. A job that is submitted again has another
one; a job that restarts keeps it, and its tasks have a higher attempt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from flinknet.core.wire.ids import ExecutionAttemptID, ResultPartitionID
from flinknet.errors import FrameCorruptedError
from flinknet.trace import ChannelInfo, RunManifest, TraceFile, file_index


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a job, as far as a trace has it.

    Attributes:
        channels: in the manifest's order.
        from_ns, to_ns: from its first event to behind its last one.
        restarts: how often the task that was started most often was started again.
    """

    channels: tuple[ChannelInfo, ...]
    from_ns: int
    to_ns: int
    restarts: int


@lru_cache(maxsize=1 << 17)  # consumers of a partition name it, each of them
def partition_of(partition: str) -> ResultPartitionID | None:
    """A partition, which a manifest has as hex; None for text that is none."""
    if len(partition) != 2 * ResultPartitionID.BYTES:
        return None
    try:
        return ResultPartitionID.decode(bytes.fromhex(partition))
    except (ValueError, FrameCorruptedError):  # an edited manifest
        return None


def producer_of(partition: str) -> ExecutionAttemptID | None:
    """Who produces a partition; None for text that is none."""
    found = partition_of(partition)
    return None if found is None else found.producer_id


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
    )


def spans_of(files: Iterable[TraceFile]) -> dict[int, tuple[int, int, int]]:
    """How many events each channel has, their first instant and their last one, by the indexes."""
    spans: dict[int, tuple[int, int, int]] = {}
    for file in files:
        for channel, count, first_ns, last_ns in file_index(file).channels.tolist():
            events, low, high = spans.get(channel, (0, first_ns, last_ns))
            spans[channel] = events + count, min(low, first_ns), max(high, last_ns)
    return spans
