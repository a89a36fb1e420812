"""Plan of a synthetic run: its tasks, and the law of each of its channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from flinknet.config import CREDIT, Scenario
from flinknet.errors import ConfigError
from flinknet.job.load.payload import OVERHEAD_BYTES
from flinknet.job.load.plan import LoadPlan, load_plan_of

from .channel import LATE_NS, PAUSE_EVERY, PAUSE_NS, TAKE_NS_PER_RECORD, WAY_NS, ChannelLaw

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


@dataclass(frozen=True, slots=True)
class SynthPlan:
    """A synthetic run without its events.

    Attributes:
        load: its tasks and channels.
        laws: of each channel.
        skew: subtask i of the consumers gets a share of each producer's records in proportion to
            (i + 1) ** -skew.
    """

    scenario: Scenario
    load: LoadPlan
    laws: tuple[ChannelLaw, ...]
    skew: float

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
    found = SynthPlan(scenario, load, laws, skew)
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
