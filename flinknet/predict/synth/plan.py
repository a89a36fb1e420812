"""Plan of a synthetic run, and its events as each process would have recorded them, in slices.

Producer and consumer of a channel see the same buffers; each end makes them for itself and keeps
its own half, so that files can be made apart. Events that a slice sets off beyond its end wait for
the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray
from flinknet.config import CREDIT, Scenario
from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.errors import ConfigError
from flinknet.job.load.payload import OVERHEAD_BYTES
from flinknet.job.load.plan import LoadPlan, load_plan_of
from flinknet.trace.schema import ROW_DTYPE

from .channel import (
    ANNOUNCE_NS,
    LATE_NS,
    PAUSE_EVERY,
    PAUSE_NS,
    TAKE_NS_PER_RECORD,
    WAY_NS,
    Buffers,
    ChannelLaw,
    SyntheticChannel,
)

START_NS = 1_000_000_000_000
"""Instant at which a synthetic run begins, on its clock."""

FLUSH_OVERHEAD_NS = 100_000
"""Time by which the flusher's period is longer than the buffer timeout, as in Flink."""

OPENING_NS = 1_000_000
"""Time from the requests for partitions to the first records."""

EVENTS_PER_BUFFER = 5
"""Events of a buffer: sent, received, consumed; credit announced and received."""

EVENTS_PER_END = EVENTS_PER_BUFFER + 5
"""Further events of a channel, at most: it is opened, ends, and its last buffer is one more."""

_BUSY_MAX = 0.6

Values = dict[str, IntArray | int]

_ABSENT = dict.fromkeys((name for name, _ in ROW_DTYPE), -1) | {
    "data_type": 0,
    "reason": 0,
    "payload_bytes": 0,
    "records": 0,
}
_END_BYTES = 4
_DATA = {"kind": MessageKind.BUFFER_RESPONSE, "data_type": DataType.DATA_BUFFER}
_END = {
    "kind": MessageKind.BUFFER_RESPONSE,
    "data_type": DataType.END_OF_PARTITION,
    "payload_bytes": _END_BYTES,
}


@dataclass(frozen=True, slots=True)
class SynthPlan:
    """Everything about a synthetic run but its events.

    Attributes:
        skew: subtask i of the consumers gets a share of each producer's records in proportion to
            (i + 1) ** -skew.
    """

    scenario: Scenario
    laws: tuple[ChannelLaw, ...]
    skew: float

    @property
    def load(self) -> LoadPlan:
        """Its tasks and channels, made anew: what travels to other processes is the scenario."""
        workload = replace(self.scenario.workload, duration_ns=None)  # may be longer than a run's
        return load_plan_of(replace(self.scenario, workload=workload))

    @property
    def first_record_ns(self) -> int:
        """Instant at which load begins."""
        return START_NS + OPENING_NS

    @property
    def measured_from_ns(self) -> int:
        """Start of the measured part."""
        return self.first_record_ns + self.scenario.workload.warmup_ns

    @property
    def end_ns(self) -> int:
        """End of the measured part, and of the data."""
        assert self.scenario.workload.duration_ns is not None
        return self.measured_from_ns + self.scenario.workload.duration_ns

    @property
    def events_per_s(self) -> float:
        """Events per second of the run."""
        return EVENTS_PER_BUFFER * sum(law.buffers_per_s for law in self.laws)

    @property
    def events(self) -> int:
        """Approximate number of events, without those of the ends."""
        return round(self.events_per_s * (self.end_ns - self.first_record_ns) / 1e9)

    @property
    def events_of_ends(self) -> int:
        """Number of events of the ends, at most."""
        return EVENTS_PER_END * len(self.laws)


def plan(scenario: Scenario, *, skew: float = 0.0, events: int | None = None) -> SynthPlan:
    """Plan a run.

    Args:
        scenario: with a rate that the consumers keep up with.
        skew: see SynthPlan.
        events: how many to make; the duration follows from it. None: the scenario's duration.

    Raises: ConfigError for a scenario that cannot be made.
    """
    _check(scenario)
    load = load_plan_of(scenario)
    laws = _laws(scenario, load, skew)
    found = SynthPlan(scenario, laws, skew)
    _check_load(found)
    if events is None:
        return found
    length_ns = round(events / found.events_per_s * 1e9)
    warmup_ns = min(scenario.workload.warmup_ns, length_ns // 10)
    workload = replace(
        scenario.workload, duration_ns=max(length_ns - warmup_ns, 1), warmup_ns=warmup_ns
    )
    scenario = replace(scenario, workload=workload)
    return replace(found, scenario=scenario)


def _laws(scenario: Scenario, load: LoadPlan, skew: float) -> tuple[ChannelLaw, ...]:
    network, workload = scenario.network, scenario.workload
    first_ns = START_NS + OPENING_NS
    period_ns = max(network.buffer_timeout_ns, 0) + FLUSH_OVERHEAD_NS
    laws = []
    for channel in load.channels:
        own = load.tasks[channel.producer].outputs[0].channels
        weights = (np.array([load.channels[each].consumer for each in own]) + 1.0) ** -skew
        share = float((channel.consumer + 1.0) ** -skew / weights.sum())
        gap_ns = 1e9 / (workload.rate_per_s * share)
        record_gap_ns = 1e9 / workload.rate_per_s
        phase = _phase(scenario.seed, channel.producer)
        laws.append(
            ChannelLaw(
                channel=channel.index,
                seed=scenario.seed,
                first_ns=first_ns + record_gap_ns * (phase + channel.subpartition),
                gap_ns=gap_ns,
                record_bytes=workload.record_size.low_bytes + OVERHEAD_BYTES,
                segment_bytes=network.segment_size_bytes,
                timeout_ns=network.buffer_timeout_ns,
                beat_ns=first_ns + round(period_ns * _phase(~scenario.seed, channel.producer)),
                period_ns=period_ns,
                credit=network.exclusive_buffers,
            )
        )
    return tuple(laws)


def _phase(seed: int, producer: int) -> float:
    """A share of a period; golden-ratio steps keep producers apart."""
    return (seed * 0.754877666 + (producer + 1) * 0.618033989) % 1.0


def _check(scenario: Scenario) -> None:
    network, workload = scenario.network, scenario.workload
    size = workload.record_size
    refused: Sequence[tuple[bool, str]] = (
        (workload.is_max_rate, "--rate: a synthetic run needs one, such as --rate 100k/s"),
        (size.low_bytes != size.high_bytes, "--record-size: synthetic records are of one size"),
        (workload.arrivals != "constant", "--arrivals: synthetic records come evenly"),
        (bool(workload.relays), "--relays: a synthetic run is one exchange"),
        (bool(workload.slow_consumers), "--slow-consumer: synthetic consumers keep up"),
        (workload.records is not None, "--records: give --duration or --events"),
        (workload.is_blocking, "--partition-type: a synthetic exchange is pipelined"),
        (scenario.placement != "split", "--placement: a synthetic run is split"),
        (scenario.flow_control != CREDIT, "--flow-control: a synthetic run has credit"),
        (network.debloating_enabled, "buffer debloating is not known to synthetic runs"),
        (network.checkpoint_interval_ns is not None, "synthetic runs have no checkpoints"),
        (network.exclusive_buffers < 1, "synthetic channels need an exclusive buffer"),
    )
    for is_asked, why in refused:
        if is_asked:
            raise ConfigError(f"{why}; bench runs the others")


def _check_load(found: SynthPlan) -> None:
    """Raises: ConfigError where queues would only grow."""
    for law in found.laws:
        records_per_s = 1e9 / law.gap_ns
        take_ns = 4_000 + PAUSE_NS / PAUSE_EVERY
        busy = (law.buffers_per_s * take_ns + records_per_s * TAKE_NS_PER_RECORD) / 1e9
        round_trip_ns = 2 * WAY_NS + LATE_NS + take_ns
        in_flight = law.buffers_per_s * round_trip_ns / 1e9 / law.credit
        if max(busy, in_flight) > _BUSY_MAX:
            raise ConfigError(
                f"a synthetic channel carries at most some {_BUSY_MAX:.0%} of what it could, and"
                f" channel {law.channel} would carry {max(busy, in_flight):.0%}; lower the rate,"
                " raise the buffer timeout, or use more producers and consumers"
            )


class ChannelEnd:
    """One end of a channel.

    Args:
        law: law of the channel.
        is_producer: whether it is the producer's end.
        opened_ns: instant at which the consumer asks for the partition.
        pool_buffers: buffers in the pool of the partition or gate.
    """

    def __init__(
        self, law: ChannelLaw, *, is_producer: bool, opened_ns: int, pool_buffers: int
    ) -> None:
        self._law = law
        self._is_producer = is_producer
        self._channel = SyntheticChannel(law)
        self._pool_buffers = pool_buffers
        self._credit = law.credit
        self._later: npt.NDArray[np.void] = self._opening(opened_ns)

    def until(self, until_ns: int) -> npt.NDArray[np.void]:
        """The events before an instant, in their order."""
        return self._before(until_ns, self._rows_of(self._channel.until(until_ns)))

    def end(self, end_ns: int) -> npt.NDArray[np.void]:
        """The remaining events, and the end of the partition."""
        buffers = self._channel.until(end_ns, is_end=True)
        rows = [self._rows_of(buffers), self._ending(end_ns)]
        return self._before(None, np.concatenate(rows))

    def _before(self, until_ns: int | None, rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        rows = np.concatenate([self._later, rows])
        rows = rows.take(np.argsort(rows["at_ns"], kind="stable"))
        count = len(rows)
        if until_ns is not None:
            count = int(np.searchsorted(rows["at_ns"], until_ns))
        self._later = rows[count:]
        rows = rows[:count]
        if self._is_producer:
            self._account(rows)
        return rows

    def _account(self, rows: npt.NDArray[np.void]) -> None:
        """The producer's credit before and after each of its messages."""
        is_buffer = rows["kind"] == MessageKind.BUFFER_RESPONSE
        is_data = is_buffer & (rows["data_type"] == DataType.DATA_BUFFER)
        is_credit = rows["kind"] == MessageKind.ADD_CREDIT
        change = is_credit.astype(np.int64) - is_data
        after = self._credit + np.cumsum(change)
        changes = is_buffer | is_credit
        rows["credit_before"][changes] = (after - change)[changes]
        rows["credit_after"][changes] = after[changes]
        if len(after):
            self._credit = int(after[-1])

    def _rows_of(self, buffers: Buffers) -> npt.NDArray[np.void]:
        number, size = buffers.sequence_number, buffers.payload_bytes
        sent: Values = {**_DATA, "sequence_number": number, "payload_bytes": size}
        records: Values = {
            "records": buffers.records,
            "first_record_ns": buffers.first_record_ns,
            "last_record_ns": buffers.last_record_ns,
        }
        credit: Values = {"kind": MessageKind.ADD_CREDIT, "value": 1}
        backlog = buffers.backlog_buffers
        available = np.maximum(self._pool_buffers - 1 - backlog, 0)
        pool: Values = {
            "pool_size_buffers": self._pool_buffers,
            "pool_available_buffers": available,
        }
        if self._is_producer:  # credit first: with it comes what waited for it
            return np.concatenate(
                [
                    self._rows(buffers.credit_received_ns, TracePoint.RECEIVED, **credit),
                    self._rows(
                        buffers.sent_ns,
                        TracePoint.SENT,
                        **sent,
                        **records,
                        **pool,
                        reason=buffers.reason,
                        backlog_buffers=backlog,
                    ),
                ]
            )
        free = buffers.free_buffers
        return np.concatenate(
            [
                self._rows(
                    buffers.received_ns,
                    TracePoint.RECEIVED,
                    **sent,
                    records=-1,
                    backlog_buffers=backlog,
                    credit_before=free,
                    credit_after=free - 1,
                    pool_size_buffers=self._pool_buffers,
                    pool_available_buffers=self._pool_buffers,
                ),
                self._rows(buffers.consumed_ns, TracePoint.CONSUMED, **sent, **records),
                self._rows(
                    buffers.credit_ns, TracePoint.SENT, **credit, credit_before=1, credit_after=0
                ),
            ]
        )

    def _opening(self, opened_ns: int) -> npt.NDArray[np.void]:
        request = {"kind": MessageKind.PARTITION_REQUEST, "value": self._law.credit}
        at_ns = np.array([opened_ns])
        if self._is_producer:
            credit = {"credit_before": 0, "credit_after": self._law.credit}
            return self._rows(at_ns + WAY_NS, TracePoint.RECEIVED, **request, **credit)
        return self._rows(at_ns, TracePoint.SENT, **request)

    def _ending(self, end_ns: int) -> npt.NDArray[np.void]:
        """The end of the partition goes behind the last buffer."""
        number = self._channel.buffers
        common = {**_END, "sequence_number": number}
        sent_ns = np.array([max(self._channel.last_sent_ns, end_ns)])
        received_ns = np.maximum(sent_ns + WAY_NS, self._channel.last_received_ns)
        if self._is_producer:
            how = {"reason": FlushReason.END, "backlog_buffers": 0}
            return self._rows(sent_ns, TracePoint.SENT, **common, **how)
        consumed_ns = np.maximum(received_ns, self._channel.last_consumed_ns) + ANNOUNCE_NS
        return np.concatenate(
            [
                self._rows(
                    received_ns, TracePoint.RECEIVED, **common, records=-1, backlog_buffers=0
                ),
                self._rows(consumed_ns, TracePoint.CONSUMED, **common),
            ]
        )

    def _rows(
        self, at_ns: IntArray, point: TracePoint, **values: IntArray | int
    ) -> npt.NDArray[np.void]:
        rows = np.empty(len(at_ns), ROW_DTYPE)
        given: Values = {
            **_ABSENT,
            "at_ns": at_ns,
            "channel": self._law.channel,
            "point": point,
            **values,
        }
        for name, value in given.items():
            rows[name] = value
        return rows


def in_order(parts: Sequence[npt.NDArray[np.void]]) -> npt.NDArray[np.void]:
    """Rows of several channels as one process would have recorded them."""
    rows = np.concatenate(parts) if parts else np.empty(0, ROW_DTYPE)
    return rows.take(np.argsort(rows["at_ns"], kind="stable"))
