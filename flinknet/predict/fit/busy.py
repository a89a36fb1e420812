"""How long tasks work on a record, by the time that Flink says they were busy.

Messages between processes do not show it: a consumer that has floating buffers to spare returns
credit before it has looked at the records. Flink counts how long each task was neither idle nor
back-pressured (`accumulateBusyTimeMs`) and how many records it took (`numRecordsIn`).

Records that stay within a TaskManager are not in a trace of what passes between processes, and take
their share of the task's time: each record in the trace counts for those, too.
"""

from __future__ import annotations

from flinknet.trace import RunManifest
from flinknet.trace.job_names import named_edges
from flinknet.trace.metrics import Series
from flinknet.trace.recordings import RunPlace, series_within

BUSY_TIME = "accumulateBusyTimeMs"
RECORDS_IN = "numRecordsIn"
BYTES_IN_LOCAL, BYTES_IN_REMOTE = "numBytesInLocal", "numBytesInRemote"


def busy_ns_per_record(
    place: RunPlace, manifest: RunManifest, edge: int | None, from_ns: int, to_ns: int
) -> dict[int, float]:
    """The time of each consuming task for a record that came from another TaskManager, by its
    subtask; of tasks with several inputs, for a record of any of them. Tasks that Flink was not
    asked about are missing.

    Args:
        place: of the run.
        edge: number of the exchange.
        from_ns, to_ns: the part that counts.
    """
    named = None if edge is None else named_edges(manifest).get(edge)
    if named is None:
        return {}
    vertex = next(
        each for each in manifest.scenario["job"]["vertices"] if each["index"] == named.target
    )
    own = vertex.get("job"), vertex.get("id")
    of_task = {
        each.task: each
        for each in series_within(place, from_ns, to_ns)
        if (each.job, each.vertex) == own
    }
    found = {}
    for subtask, name in enumerate(named.target_tasks):
        busy_ns = _ns_per_record(of_task[name]) if name in of_task else None
        if busy_ns is not None:
            found[subtask] = busy_ns
    return found


def _ns_per_record(series: Series) -> float | None:
    busy_ms_per_s = series.increase_per_s(BUSY_TIME)
    records_per_s = series.increase_per_s(RECORDS_IN)
    if busy_ms_per_s is None or not records_per_s:
        return None
    return min(busy_ms_per_s, 1000.0) * 1e6 / (records_per_s * _remote_share(series))


def _remote_share(series: Series) -> float:
    """Of a task's input, by bytes; 1 where Flink does not say, or where all of it is local."""
    local, remote = (series.increase_per_s(name) for name in (BYTES_IN_LOCAL, BYTES_IN_REMOTE))
    return remote / (local + remote) if local and remote else 1.0
