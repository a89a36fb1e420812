"""How long tasks work on a record, by the time that Flink says they were busy.

Messages between processes do not show it: a consumer that has floating buffers to spare returns
credit before it has looked at the records. Flink counts how long each task was neither idle nor
back-pressured (`accumulateBusyTimeMs`) and how many records it took (`numRecordsIn`).

Records that stay within a TaskManager are not in a trace of what passes between processes. Those in
the trace wait for them at times: that wait is part of what a record takes, so that a task that is
nearly as busy as it can be is not predicted as idle.
"""

from __future__ import annotations

from typing import Any

from flinknet.trace import RunManifest
from flinknet.trace.job_names import named_edges
from flinknet.trace.metrics import Series
from flinknet.trace.recordings import RunPlace, series_within

BUSY_TIME, IDLE_TIME = "accumulateBusyTimeMs", "accumulateIdleTimeMs"
RECORDS_IN, RECORDS_OUT = "numRecordsIn", "numRecordsOut"
BYTES_IN_LOCAL, BYTES_IN_REMOTE = "numBytesInLocal", "numBytesInRemote"

IDLE_MS_PER_S = 990.0
"""A task that is idle for longer has no work that would show."""

REMOTE_SHARE_MIN = 0.1
"""A record in the trace stands for no more of a task's time than this share of its input would."""


def busy_ns_per_record(
    place: RunPlace,
    manifest: RunManifest,
    edge: int | None,
    from_ns: int,
    to_ns: int,
    *,
    is_all_seen: bool = False,
) -> dict[int, float]:
    """The time of each consuming task for a record, by its subtask; of tasks with several inputs,
    for a record of any of them. Tasks that Flink was not asked about are missing.

    Args:
        place: of the run.
        edge: number of the exchange.
        from_ns, to_ns: the part that counts.
        is_all_seen: local records are known, too; else those that came from other TaskManagers
            stand for all.
    """
    named = None if edge is None else named_edges(manifest).get(edge)
    if named is None:
        return {}
    of_task = series_of_tasks(place, manifest, named.target, from_ns, to_ns)
    found = {}
    for subtask, name in enumerate(named.target_tasks):
        busy_ns = _ns_per_record(of_task[name], is_all_seen) if name in of_task else None
        if busy_ns is not None:
            found[subtask] = busy_ns
    return found


def are_idle(
    place: RunPlace, manifest: RunManifest, edge: int | None, from_ns: int, to_ns: int
) -> bool:
    """Whether Flink reports every consuming task as idle nearly all of the time."""
    named = None if edge is None else named_edges(manifest).get(edge)
    if named is None:
        return False
    of_task = series_of_tasks(place, manifest, named.target, from_ns, to_ns)
    reported = [of_task[name] for name in named.target_tasks if name in of_task]
    idle_ms_per_s = [each.increase_per_s(IDLE_TIME) or 0.0 for each in reported]
    return bool(idle_ms_per_s) and min(idle_ms_per_s) >= IDLE_MS_PER_S


def series_of_tasks(
    place: RunPlace, manifest: RunManifest, vertex: int, from_ns: int, to_ns: int
) -> dict[str | None, Series]:
    """What Flink said of the tasks of a vertex, by their names."""
    vertices: Any = manifest.scenario["job"]["vertices"]
    described = next(each for each in vertices if each["index"] == vertex)
    own = described.get("job"), described.get("id")
    return {
        each.task: each
        for each in series_within(place, from_ns, to_ns)
        if (each.job, each.vertex) == own
    }


def _ns_per_record(series: Series, is_all_seen: bool) -> float | None:
    busy_ms_per_s = series.increase_per_s(BUSY_TIME)
    records_per_s = series.increase_per_s(RECORDS_IN)
    if busy_ms_per_s is None or not records_per_s:
        return None
    busy_ms_per_s = min(busy_ms_per_s, 1000.0)
    busy_ns = busy_ms_per_s * 1e6 / records_per_s
    return busy_ns if is_all_seen else busy_ns * _with_local(busy_ms_per_s, _remote_share(series))


def _with_local(busy_ms_per_s: float, remote_share: float) -> float:
    """How many times as long a record takes with its wait for local ones, at most as many as there
    are records for each remote one. Records that come at random to a task that takes equally long
    for each wait for half of load / (1 - load) of them.
    """
    at_most = 1 / max(remote_share, REMOTE_SHARE_MIN)
    busy = busy_ms_per_s / 1000
    if busy >= 1:
        return at_most
    remote = busy * remote_share
    return min(1 + (busy / (1 - busy) - remote / (1 - remote)) / 2, at_most)


def _remote_share(series: Series) -> float:
    """Of a task's input, by bytes; 1 where Flink does not say, or where all of it is local."""
    local, remote = (series.increase_per_s(name) for name in (BYTES_IN_LOCAL, BYTES_IN_REMOTE))
    return remote / (local + remote) if local and remote else 1.0
