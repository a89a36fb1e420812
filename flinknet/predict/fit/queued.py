"""Work of consumers by Flink's metrics, and waiting by the recorded backlog.

Messages between processes do not show how long a task works on a record: a consumer that has
floating buffers to spare returns credit before it has looked at the records. Flink counts how long
each task was neither idle nor back-pressured (`accumulateBusyTimeMs`) and how many records it took
(`numRecordsIn`). Records that stay within a TaskManager are not in such a trace, and records in the
trace wait for them: this wait counts as part of the time for a record, so that a task that is
nearly saturated is not predicted as idle.

Nor do these messages show how long records waited for a saturated consumer. The backlog that
buffers carry is a lower bound by Little's law: the buffers that were ready to leave waited for as
long as it took them to leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flinknet.arrays import EventColumns, IntArray
from flinknet.results import ERROR_TO_BET_ON, LatencySummary
from flinknet.trace import RunManifest
from flinknet.trace.job_names import named_edges
from flinknet.trace.metrics import Series
from flinknet.trace.recordings import RunPlace, series_within
from flinknet.units import human_duration

from .window_rows import places_by_channel

WORTH_A_LOOK_NS = 1_000_000
"""Least waiting, in ns, that is more than schedulers cause."""

CONTRADICTED = "the recorded backlog contradicts the predicted latency"
"""Reason for which no setting is advised."""

BUSY_TIME, IDLE_TIME = "accumulateBusyTimeMs", "accumulateIdleTimeMs"
RECORDS_IN, RECORDS_OUT = "numRecordsIn", "numRecordsOut"
BYTES_IN_LOCAL, BYTES_IN_REMOTE = "numBytesInLocal", "numBytesInRemote"

IDLE_MS_PER_S = 990.0
"""Idle time of a task, in ms per s, from which on its work does not matter."""

REMOTE_SHARE_MIN = 0.1
"""Least share of a task's input that is assumed to be in the trace."""


@dataclass(frozen=True, slots=True)
class Queued:
    """Lower bounds of the time that buffers waited in the queues of producers: mean over records,
    and p99 over records of the mean of their channel, which shows one slow consumer of many."""

    mean_ns: float = 0.0
    p99_ns: float = 0.0

    @property
    def is_worth_a_look(self) -> bool:
        """Whether predictions should be compared with it."""
        return max(self.mean_ns, self.p99_ns) >= WORTH_A_LOOK_NS


def queued(sent: EventColumns, to_ns: int) -> Queued:
    """Apply Little's law to each channel: the time that buffers stood in its queue, over their
    number. Between two buffers a queue only grows, so at least the backlog of the first one stood
    there until the second one left. Data buffers that left before `to_ns` count."""
    waits_ns, records = [], []
    for places in places_by_channel(sent).values():
        own = places[sent["at_ns"][places] < to_ns]
        own = own[np.lexsort((sent["sequence_number"][own], sent["at_ns"][own]))]
        if not len(own):
            continue
        stood_ns = np.maximum(sent["backlog_buffers"][own[:-1]], 0) * np.diff(sent["at_ns"][own])
        waits_ns.append(float(stood_ns.sum()) / len(own))
        records.append(int(np.maximum(sent["records"][own], 0).sum()))
    if not sum(records):
        return Queued()
    order = np.argsort(waits_ns)
    up_to = np.cumsum(np.array(records)[order])
    slowest = order[np.searchsorted(up_to, 0.99 * up_to[-1])]
    return Queued(float(np.average(waits_ns, weights=records)), waits_ns[slowest])


def contradiction(
    found: Queued, latency: LatencySummary, way_ns: float, p99_high_ns: float | None
) -> str | None:
    """A sentence on why a prediction of the recorded setting cannot be true; None if it can.
    Waiting that is longer than the predicted latency disproves it. With the time of a message on
    its way and at its consumer (`way_ns`) added, and in a p99 without an interval, the model may be
    off by the usual error."""
    if latency.mean is None:
        return None
    if p99_high_ns is None and latency.p99 is not None:
        p99_high_ns = latency.p99 * (1 + ERROR_TO_BET_ON)
    implied_ns = found.mean_ns + way_ns
    if max(found.mean_ns, implied_ns / (1 + ERROR_TO_BET_ON)) > latency.mean:
        what, predicted_ns = "a mean latency", latency.mean
    elif p99_high_ns is not None and found.p99_ns > p99_high_ns:
        what, implied_ns, predicted_ns = "a p99", found.p99_ns, p99_high_ns
    else:
        return None
    return (
        f"the recorded backlog implies {what} of at least {human_duration(implied_ns)}, and the"
        f" model predicts {human_duration(predicted_ns)}: a consumer is saturated, and how long"
        " records wait for it does not show in the messages"
    )


def queued_ns(
    arrived_ns: IntArray, consumed_ns: IntArray, service_ns: IntArray, consumer: IntArray
) -> IntArray:
    """Work, in ns, that lay before the consumer of each message when the message arrived. Delays
    while a consumer stood still come from the machine and do not count."""
    queued = np.zeros(len(arrived_ns), dtype=np.int64)
    for each in np.unique(consumer).tolist():
        own = np.flatnonzero(consumer == each)
        own = own[np.argsort(consumed_ns[own], kind="stable")]
        done_ns, took_ns, came_ns = consumed_ns[own], service_ns[own], arrived_ns[own]
        begun_ns = np.concatenate(([0], np.cumsum(took_ns)))  # of work, not of time
        place = np.arange(len(own))
        in_work = np.minimum(np.searchsorted(done_ns, came_ns, side="right"), place)
        rest_ns = np.clip(done_ns[in_work] - came_ns, 0, took_ns[in_work])
        behind_it_ns = begun_ns[place] - begun_ns[np.minimum(in_work + 1, place)]
        queued[own] = np.where(in_work < place, rest_ns + behind_it_ns, 0)
    return queued


def busy_for_ns(at_ns: IntArray, records: IntArray, ns_per_record: float) -> IntArray:
    """Work, in ns, that lies before a consumer when each of its messages arrives (`at_ns`,
    ascending), if it works without a pause."""
    work_ns = np.cumsum(np.maximum(records, 0) * ns_per_record)
    before_ns = np.r_[0.0, work_ns[:-1]]
    done_ns = before_ns + np.maximum.accumulate(at_ns - before_ns)  # begun, of each message
    found: IntArray = (done_ns - at_ns).astype(np.int64)
    return found


def consuming_tasks(
    place: RunPlace, manifest: RunManifest, edge: int | None, from_ns: int, to_ns: int
) -> list[Series | None]:
    """Flink's metrics of the tasks that consume an edge, by subtask; None for missing ones, and an
    empty list for an unknown edge."""
    named = None if edge is None else named_edges(manifest).get(edge)
    if named is None:
        return []
    of_task = series_of_tasks(place, manifest, named.target, from_ns, to_ns)
    return [of_task.get(name) for name in named.target_tasks]


def busy_ns_per_record(
    tasks: Sequence[Series | None], *, is_all_seen: bool = False
) -> dict[int, float]:
    """Time of each task for a record, by subtask; a record of any input if there are several. Tasks
    without metrics are missing. Unless local records are known, too, those from other TaskManagers
    stand for all."""
    of_tasks = (None if each is None else _ns_per_record(each, is_all_seen) for each in tasks)
    return {subtask: own for subtask, own in enumerate(of_tasks) if own is not None}


def are_idle(tasks: Sequence[Series | None]) -> bool:
    """Whether Flink reports every task as idle nearly all of the time."""
    idle_ms_per_s = [each.increase_per_s(IDLE_TIME) or 0.0 for each in tasks if each is not None]
    return bool(idle_ms_per_s) and min(idle_ms_per_s) >= IDLE_MS_PER_S


def tasks_of(vertex: Mapping[str, Any], series: Iterable[Series]) -> dict[str | None, Series]:
    """Flink's metrics of the tasks of a vertex of a job, by name of the task."""
    names, own = set(vertex["tasks"]), (vertex.get("job"), vertex.get("id"))
    found = (each for each in series if (each.job, each.vertex) == own)
    return {each.task: each for each in found if each.task in names}


def series_of_tasks(
    place: RunPlace, manifest: RunManifest, vertex: int, from_ns: int, to_ns: int
) -> dict[str | None, Series]:
    """Flink's metrics of the tasks of a vertex, by name of the task."""
    vertices: Any = manifest.scenario["job"]["vertices"]
    described = next(each for each in vertices if each["index"] == vertex)
    return tasks_of(described, series_within(place, from_ns, to_ns))


def _ns_per_record(series: Series, is_all_seen: bool) -> float | None:
    busy_ms_per_s = series.increase_per_s(BUSY_TIME)
    records_per_s = series.increase_per_s(RECORDS_IN)
    if busy_ms_per_s is None or not records_per_s:
        return None
    busy_ms_per_s = min(busy_ms_per_s, 1000.0)
    busy_ns = busy_ms_per_s * 1e6 / records_per_s
    if is_all_seen:
        return busy_ns
    # The wait for local records lengthens the time of a remote one, up to the number of records for
    # each remote one. At a task with constant times, records that come at random wait for
    # load / (1 - load) / 2 others. Input whose remote share is unknown, or 0, counts as remote.
    local, remote = (series.increase_per_s(name) for name in (BYTES_IN_LOCAL, BYTES_IN_REMOTE))
    share = remote / (local + remote) if local and remote else 1.0
    busy, longer = busy_ms_per_s / 1000, 1 / max(share, REMOTE_SHARE_MIN)
    if busy < 1:
        own = busy * share
        longer = min(1 + (busy / (1 - busy) - own / (1 - own)) / 2, longer)
    return busy_ns * longer
