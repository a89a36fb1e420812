"""What-if: recorded arrivals under other network settings, in virtual time.

The compiled kernel (`fast_path`) simulates the settings that it supports, and the real core all
others; both give the same numbers.

The simulation starts with empty queues at the start of the window; at the highest rate, records
that do not count fill them first. Its data ends where that of the recorded run did
(RecordedExchange.data_ends_ns): at the end of the window, or a beat of the buffer timeout after it,
so that records in half-filled buffers leave as they would have.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from flinknet.config import MAX_RATE_BATCH_BYTES, NetworkConfig
from flinknet.errors import InvariantViolatedError
from flinknet.histogram import LogLinearHistogram
from flinknet.options.what_if import Setting
from flinknet.results import BacklogSummary
from flinknet.simulator.checkpoints import SimulatedCheckpoints
from flinknet.simulator.cluster import Cluster
from flinknet.simulator.link import LinkSettings
from flinknet.simulator.source_plan import SourcePlan
from flinknet.units import NS_PER_S

from .fast_path import FastOutcome, run_fast
from .kernel_edge import KernelEdge, knows_checkpoints
from .outcome import BacklogProbe, CheckpointTimes, Outcome
from .ramps import Ramps
from .recorded import RecordedExchange, emission_order, flushes_factor, places_of

BEATS_PER_BARRIER = 10
"""Beats of the flusher between two checkpoints from which on barriers hardly change when buffers
leave."""

BARRIERS_LEFT_OUT = (
    "assumed for the job as a whole: no checkpoints, whose barriers end buffers and overtake data"
)


def simulate(exchange: RecordedExchange, network: NetworkConfig) -> Outcome:
    """Predict a recorded exchange under other settings: by the compiled kernel if it knows the
    exchange, else with the real core. Records all have the mean length of the recorded ones, at
    least what the stamp needs. Raises: as `simulate_in_full`."""
    return simulate_compiled(exchange, network) or simulate_in_full(exchange, network)


def simulate_compiled(exchange: RecordedExchange, network: NetworkConfig) -> Outcome | None:
    """Run an exchange with the compiled kernel. Returns: None where it does not know the exchange.
    Raises: ConfigError when the buffers do not fit into network memory."""
    if not exchange.records:
        return Outcome(messages=0, duration_ns=exchange.duration_ns, memory_bytes=0)
    edge = KernelEdge.of(exchange, network)
    if exchange.is_max_rate and edge.why_not_covered is None:
        edge = replace(edge, exchange=_with_full_queues(edge))
    fast = run_fast(edge)
    return None if fast is None else outcome_of(fast)


def simulate_part(exchange: RecordedExchange, network: NetworkConfig) -> FastOutcome | None:
    """Simulate an exchange, and count only the records and messages of its middle part
    (`RecordedExchange.counted_ns`, `RecordedChannel.counted`). Returns: None if the compiled kernel
    does not cover the exchange, or if a writer waits for buffers, as the middle part then depends
    on the rest. Raises: ConfigError when the buffers do not fit into network memory."""
    if not exchange.records:
        return None
    return run_fast(KernelEdge.of(exchange, network), may_wait=False)


def simulate_in_full(exchange: RecordedExchange, network: NetworkConfig) -> Outcome:
    """Drive a recorded exchange through the stack under other settings; records as in `simulate`.
    Raises: SimulationError when the run does not come to its end, or loses records; ConfigError
    when the buffers do not fit into network memory."""
    if not exchange.records:
        return Outcome(messages=0, duration_ns=exchange.duration_ns, memory_bytes=0)
    edge = KernelEdge.of(exchange, network)
    exchange, network, start_ns = edge.exchange, edge.network, exchange.measured_from_ns
    probe = BacklogProbe()
    cluster = Cluster.of_exchange(
        edge.scenario,
        places_of(exchange),
        channels_of(exchange),
        plans_of(exchange, network),
        exchange.costs,
        start_ns=start_ns,
        probes=(probe,) * len(edge.buffers),
        preemptions=edge.preemptions,
        link=LinkSettings(capacity_bytes=exchange.socket_bytes),
        flush_overhead_ns=exchange.flush_overhead_ns,
    )
    cluster.run_until_idle()
    if cluster.error is not None:
        raise InvariantViolatedError(str(cluster.error), exchange.seed)
    latency, records, last_ns = LogLinearHistogram(), 0, start_ns
    for task in cluster.sinks:
        for sink in task.receivers:
            sink.settle()
            latency.merge(sink.latency)
            records += sink.records
            last_ns = max(last_ns, sink.last_measured_ns)
    if records != exchange.records:
        raise InvariantViolatedError(
            f"{records} records arrived of {exchange.records}", exchange.seed
        )
    length_ns = duration_ns(
        last_ns, records, probe.messages, exchange, network, resumed_ns=probe.resumed_ns
    )
    return Outcome(
        latency=latency,
        records=records,
        messages=probe.messages,
        duration_ns=length_ns,
        backlog_buffers=probe.summary(),
        memory_bytes=edge.memory_bytes,
        credits=probe.credits,
        checkpoints=None if (own := cluster.checkpoints) is None else _times_of(own),
    )


def _times_of(simulated: SimulatedCheckpoints) -> CheckpointTimes:
    of = simulated.coordinator
    return CheckpointTimes(
        triggered=of.counts["triggered"],
        completed=of.completed,
        aborted=of.counts["aborted"],
        unaligned=of.counts["unaligned"],
        processed_bytes=of.counts["processed bytes"],
        overtaken_bytes=of.counts["overtaken bytes"],
        overtaken_bytes_max=of.overtaken_bytes_max,
        times=of.times,
    )


def duration_ns(
    last_ns: int,
    records: int,
    messages: int,
    exchange: RecordedExchange,
    network: NetworkConfig,
    *,
    resumed_ns: int = 0,
) -> int:
    """How long an exchange took whose last record was taken at an instant: at least as long as its
    tasks work on records and messages, and until a writer last resumed that waited for buffers."""
    length_ns = last_ns - exchange.measured_from_ns
    if exchange.is_max_rate:
        return length_ns
    costs = exchange.costs
    consume_ns = float(np.mean(costs.consume_ns_per_record))
    busy_ns = max(
        records * costs.emit_ns_per_record / exchange.producers,
        (records * consume_ns + messages * costs.receive_ns_per_message) / exchange.consumers,
        resumed_ns - exchange.measured_from_ns,
    )
    idle_ns = max(length_ns - round(busy_ns), 0)
    beat_ns = min(max(network.buffer_timeout_ns, 0), idle_ns)
    return counted_ns(length_ns, exchange.duration_ns, beat_ns)


def counted_ns(length_ns: int, window_ns: int, beat_ns: int) -> int:
    """The length of time that throughput counts over, of an exchange whose last record was taken
    `length_ns` after the window began in which its records came. The last records wait for the
    flusher, for `beat_ns` at most: that is latency, not want of throughput."""
    return max(length_ns - beat_ns, window_ns)


def outcome_of(fast: FastOutcome) -> Outcome:
    """The outcome of an exchange that the kernel ran."""
    edge, exchange, records = fast.edge, fast.edge.exchange, fast.edge.exchange.records
    if fast.records != records and not any(each.counted for each in exchange.channels):
        raise InvariantViolatedError(f"{fast.records} records arrived of {records}", exchange.seed)
    share = fast.records / records  # the others have filled queues
    length_ns = duration_ns(
        fast.last_ns, records, fast.messages, exchange, edge.network, resumed_ns=fast.resumed_ns
    )
    return Outcome(
        latency=fast.latency,
        records=fast.records,
        messages=round(share * fast.messages),
        duration_ns=round(share * length_ns),
        backlog_buffers=BacklogSummary(fast.backlog_total / fast.messages, fast.backlog_max),
        memory_bytes=fast.memory_bytes,
        credits=round(share * fast.credits),
        method="kernel",
        checkpoints=fast.checkpoints,
    )


def _with_full_queues(edge: KernelEdge) -> RecordedExchange:
    """The exchange with records before those that count, whole batches of each producer: as many as
    fill all buffers and, without credit, all sockets."""
    exchange, record_bytes = edge.exchange, edge.record_bytes
    batch_records = max(1, MAX_RATE_BATCH_BYTES // record_bytes)
    connections = {each.connection for each in exchange.channels}
    sockets_bytes = len(connections) * exchange.socket_bytes if edge.is_tcp else 0
    wanted = (edge.memory_bytes + sockets_bytes) / record_bytes / exchange.records
    to_ns, channels = exchange.measured_from_ns, []
    for producer in range(exchange.producers):
        own = [each for each in exchange.channels if each.producer == producer]
        reached = np.cumsum([each.records for each in own])
        batches = int(np.ceil(wanted * reached[-1] / batch_records))
        reached = np.rint(reached * (batches * batch_records / reached[-1])).astype(np.int64)
        for each, records in zip(own, np.diff(reached, prepend=0), strict=True):
            before = Ramps(np.array([records]), np.array([to_ns - NS_PER_S]), np.array([to_ns - 1]))
            channels.append(each.after(before))
    return replace(exchange, channels=tuple(channels))


def channels_of(exchange: RecordedExchange) -> dict[int, tuple[int, int, int]]:
    """Producer, consumer and subpartition of each channel, by its index."""
    subpartitions = Counter[int]()
    found = {}
    for each in exchange.channels:
        found[each.channel] = each.producer, each.consumer, subpartitions[each.producer]
        subpartitions[each.producer] += 1
    return found


def plans_of(exchange: RecordedExchange, network: NetworkConfig) -> list[SourcePlan]:
    """The records of each producer, in the order of the recorded instants."""
    end_ns = exchange.data_ends_ns(network)
    plans = []
    for producer in range(exchange.producers):
        own = [channel for channel in exchange.channels if channel.producer == producer]
        instants_ns, subpartitions = emission_order(own)
        plan = SourcePlan(None if len(own) == 1 else subpartitions, None, len(instants_ns))
        if not exchange.is_max_rate:
            last_ns = max(end_ns, int(instants_ns[-1]))
            plan = replace(plan, instants_ns=instants_ns, end_ns=last_ns)
        plans.append(plan)
    return plans


def leaves_barriers_out(setting: Setting) -> bool:
    """Whether a job is computed without the barriers of checkpoints: if the kernel does not know
    them, and they are rare in comparison with beats."""
    network = setting.network
    timeout_ns, interval_ns = network.buffer_timeout_ns, network.checkpoint_interval_ns
    if interval_ns is None or knows_checkpoints(network):
        return False
    return 0 <= timeout_ns * BEATS_PER_BARRIER <= interval_ns


def with_delays(outcome: Outcome, exchange: RecordedExchange, setting: Setting) -> Outcome:
    """The outcome of a simulation with the delays of the machine that was recorded."""
    more = flushes_factor([exchange], [setting])
    delays = exchange.delays.awake(exchange.waking_share(setting), more)
    delays = delays.and_waits(exchange.late_waits_ns(setting))
    return replace(outcome, latency=delays.added(outcome.latency))
