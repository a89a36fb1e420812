"""The cost of each predicted setting: messages, packets, bytes, CPU.

The CPU time of a message is measured by the counters of the job if these changed enough while the
trace was recorded; a job under an even load does not show it, and then it is assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from flinknet import results
from flinknet.arrays import FloatArray, IntArray
from flinknet.results.trades import ratio_of
from flinknet.trace.metrics import Series

from .edges import local_share, received_per_s
from .observe.flink_metrics import series_of
from .observe.measured import ObservedRun
from .read import RecordedRun

BUFFER_RESPONSE_BYTES = 47
"""Header of a buffer on the wire, from Flink 2.0 on; 4 less before."""

ADD_CREDIT_BYTES = 29

PACKET_HEADER_BYTES = 52
"""IPv4 and TCP with time stamps."""

SEGMENT_BYTES_MAX = 1448
"""Payload of a TCP packet on Ethernet."""

FLINK_CPU_NS_PER_MESSAGE = 90_000.0
"""CPU time of a message at both TaskManagers, with its credit and their system calls: Flink 2.3, 1
and 5 ms against 100 ms at the same 4 000 records/s."""

OWN_CPU_NS_PER_MESSAGE = 24_000.0
"""CPU time of a message in flinknet's stack: sending and receiving of `simulator.cost_model`."""

LEARNT_FROM_INTERVALS = 12
"""Fewest intervals between two reports that separate the cost of messages from that of records."""

_Point = TypeVar("_Point", bound=results.TradeOffPoint)

_CPU_TIME, _MESSAGES, _RECORDS = "JVM.CPU.Time", "numBuffersInRemote", "numRecordsIn"
"""Flink's counters; numBuffersOut counts finished buffers alone, and a flush sends others."""


@dataclass(frozen=True, slots=True)
class _Carried:
    """Bytes of a record and credit messages of a buffer, assumed alike for all settings."""

    payload_bytes: float
    credits: float

    @classmethod
    def of(
        cls, measured: results.Measured, messages: Sequence[results.MessageCount], share: float
    ) -> _Carried | None:
        """None if nothing was sent; `share` as of `priced`."""
        data = next((each for each in messages if each.kind == "DATA_BUFFER"), None)
        if data is None or not measured.records or not measured.buffers:
            return None
        credits = min(measured.credits.messages / measured.buffers, 1.0)
        return cls(share * data.payload_bytes / measured.records, credits)

    def price(
        self, buffers_per_s: float, records_per_s: float, flow_control: str
    ) -> tuple[float, float, float]:
        credits = self.credits if flow_control == "credit" else 0.0
        frame_bytes = BUFFER_RESPONSE_BYTES + self.payload_bytes * records_per_s / buffers_per_s
        # Packets that a frame fills on average, if all sizes up to twice the mean are as likely:
        # the mean alone, rounded up, would jump where it passes a whole number of packets.
        most = max(2 * frame_bytes / SEGMENT_BYTES_MAX, 1.0)
        full = int(most)
        packets = (full * (full + 1) / 2 + (most - full) * (full + 1)) / most
        packets_per_s = buffers_per_s * (packets + credits)
        bytes_per_s = buffers_per_s * (frame_bytes + credits * ADD_CREDIT_BYTES)
        bytes_per_s += packets_per_s * PACKET_HEADER_BYTES
        return buffers_per_s * (1 + credits), packets_per_s, bytes_per_s


def priced(
    points: Sequence[results.TradeOffPoint],
    measured: results.Measured,
    messages: Sequence[results.MessageCount],
    cpu_cost: results.CpuCost,
    share: float = 1.0,
) -> tuple[results.TradeOffPoint, ...]:
    """The points of an exchange with their prices; a share of their records is on the network."""
    carried = [_Carried.of(measured, messages, share)]
    prices = [_price([point], carried) for point in points]
    return _with_changes(points, prices, cpu_cost)


def recorded_share(run: RecordedRun, measured: results.Measured) -> float:
    """Share of the records of an edge that were recorded, by Flink's counters; the others passed on
    local channels. 1 without such channels or counters."""
    index = run.ends.index
    all_per_s = received_per_s(run, index) if local_share(run, index) else None
    if not all_per_s or not measured.throughput_records_per_s:
        return 1.0
    return min(measured.throughput_records_per_s / all_per_s, 1.0)


def priced_job(
    job: results.JobAnswer, answers: Sequence[tuple[results.EdgeAnswer, float] | None]
) -> results.JobAnswer:
    """The job with the price of each setting: that of all edges together, by the answer about each,
    with the share of its records that were recorded; None for one that is never on the network."""
    known = [each for each in answers if each is not None]
    cpu_cost = known[0][0].cpu_cost if known else None
    if cpu_cost is None:
        return job
    carried = [
        None if each is None else _Carried.of(each[0].observed, each[0].messages, each[1])
        for each in answers
    ]
    prices = [_price(each.edges, carried) for each in job.points]
    return replace(job, points=_with_changes(job.points, prices, cpu_cost), cpu_cost=cpu_cost)


def _price(
    edges: Sequence[results.TradeOffPoint], carried: Sequence[_Carried | None]
) -> results.Price | None:
    """The price of edges together; None if one is unknown, and where no buffer is sent."""
    prices = []
    for edge, carries in zip(edges, carried, strict=True):
        buffers_per_s, records_per_s = edge.buffers_per_s, edge.throughput_records_per_s
        if buffers_per_s == 0:
            continue
        if buffers_per_s is None or records_per_s is None or carries is None:
            return None
        prices.append(carries.price(buffers_per_s, records_per_s, edge.flow_control))
    if not prices:
        return None
    messages_per_s, packets_per_s, bytes_per_s = map(sum, zip(*prices, strict=True))
    return results.Price(messages_per_s, packets_per_s, bytes_per_s, None, None)


def _with_changes(
    points: Sequence[_Point], prices: Sequence[results.Price | None], cpu_cost: results.CpuCost
) -> tuple[_Point, ...]:
    """The points with their prices, and how these differ from that of the recorded setting."""
    pairs = [*zip(points, prices, strict=True)]
    recorded, before = next((pair for pair in pairs if pair[0].is_recorded), (None, None))
    if recorded is None:
        return tuple(points)

    def changed(point: results.TradeOffPoint, price: results.Price | None) -> results.Price | None:
        if price is None or before is None:
            return price
        cpu_cores = None
        ratio = ratio_of(point.throughput_records_per_s, recorded.throughput_records_per_s)
        is_same_work = ratio is not None and abs(ratio - 1) <= 0.02
        is_same_work &= point.flow_control == recorded.flow_control
        is_same_work &= point.consumer_speed == recorded.consumer_speed
        if point.buffers_per_s and recorded.buffers_per_s and is_same_work:
            more_per_s = point.buffers_per_s - recorded.buffers_per_s
            cpu_cores = more_per_s * cpu_cost.ns_per_message / 1e9
        more = price.messages_per_s - before.messages_per_s
        return replace(price, messages_per_s_change=more, cpu_cores_change=cpu_cores)

    return tuple(replace(point, price=changed(point, price)) for point, price in pairs)


def cpu_cost_of(observed: ObservedRun) -> results.CpuCost:
    """CPU time of a message: by the counters of the job, or as assumed."""
    run = observed.run
    if not run.manifest.is_from_between:
        return results.CpuCost(
            OWN_CPU_NS_PER_MESSAGE, "assumed: that of flinknet's own stack", False
        )
    learnt_ns = learnt_ns_per_message(series_of(run))
    if learnt_ns is not None:
        return results.CpuCost(learnt_ns, "measured by the job's own counters", True)
    return results.CpuCost(FLINK_CPU_NS_PER_MESSAGE, "assumed: as measured of Flink 2.3", False)


def learnt_ns_per_message(series: Sequence[Series]) -> float | None:
    """CPU time of a message, from how the use of all TaskManagers followed messages and records;
    None where these did not change enough, or together."""
    managers = _counters((each for each in series if each.task is None), _CPU_TIME)
    tasks = [each for each in series if each.task is not None]
    messages, records = _counters(tasks, _MESSAGES), _counters(tasks, _RECORDS)
    if not managers or not messages or not records:
        return None
    counters = [*managers, *messages, *records]
    from_ns = max(int(at_ns[0]) for at_ns, _ in counters)
    to_ns = min(int(at_ns[-1]) for at_ns, _ in counters)
    step_ns = max(int(np.diff(at_ns).max()) for at_ns, _ in managers)
    intervals = (to_ns - from_ns) // max(step_ns, 1)
    if intervals < LEARNT_FROM_INTERVALS:
        return None
    marks_ns = np.linspace(from_ns, to_ns, intervals + 1)
    cpu_ns, sent, read = (
        np.diff(np.sum([np.interp(marks_ns, *each) for each in of], axis=0))
        for of in (managers, messages, records)
    )
    causes = np.column_stack([np.ones(intervals), sent, read])
    usual = _usual(causes, cpu_ns)
    causes, cpu_ns = causes[usual], cpu_ns[usual]
    if len(cpu_ns) < max(LEARNT_FROM_INTERVALS, intervals * 2 / 3):
        return None
    if np.linalg.matrix_rank(causes / np.maximum(causes.max(axis=0), 1)) < causes.shape[1]:
        return None
    solution, *_ = np.linalg.lstsq(causes, cpu_ns, rcond=None)
    residual = cpu_ns - causes @ solution
    variance = residual @ residual / (len(cpu_ns) - causes.shape[1])
    error = float(np.sqrt(variance * np.linalg.inv(causes.T @ causes)[1, 1]))
    found = float(solution[1])
    return found if found > 0 and error <= 0.3 * found else None


def _usual(causes: FloatArray, cpu_ns: FloatArray) -> npt.NDArray[np.bool_]:
    """Intervals near the fit of the others: the JVM neither collected garbage nor compiled."""
    usual = np.ones(len(cpu_ns), bool)
    for _ in range(20):  # then they hardly change
        solution, *_ = np.linalg.lstsq(causes[usual], cpu_ns[usual], rcond=None)
        off_ns = np.abs(cpu_ns - causes @ solution)
        usual = off_ns <= 4.5 * np.median(off_ns[usual]) + 1.0  # some three standard deviations
    return usual


def _counters(series: Iterable[Series], name: str) -> list[tuple[IntArray, FloatArray]]:
    """Instants and values of a counter, of all that have it; none if one has too little of it."""
    found = []
    for each in series:
        if (column := each.values.get(name)) is not None:
            known = ~np.isnan(column)
            found.append((each.at_ns[known], column[known]))
    return found if all(len(at_ns) > 1 for at_ns, _ in found) else []
