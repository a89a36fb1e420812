"""What happens by the clock in a run of the kernel: checkpoints begin, flushers beat, gates are
looked at; and how often at most.
"""

from __future__ import annotations

from flinknet.config import NetworkConfig
from flinknet.simulator.source_plan import beat_phase_ns

from .fast_kernel import words as k
from .recorded import RecordedExchange

_TURNS_PER_RECORD = 20
"""Turns of all TaskManagers for each record and channel at most, far above what there can be."""


def one_way_ns(exchange: RecordedExchange) -> int:
    """Latency of a link: the way of a message without the sending that the sender itself does."""
    costs = exchange.costs
    return max(0, int(costs.transit_ns - costs.send_ns_per_message))


def back_ns(exchange: RecordedExchange) -> int:
    """The same of what consumers say."""
    costs = exchange.costs
    return one_way_ns(exchange) if costs.back_ns is None else int(costs.back_ns)


def catches_up(exchange: RecordedExchange, network: NetworkConfig) -> bool:
    """Whether quiet turns are made up for: buffers may end anywhere, so that the simulator has a
    turn for each record. Not where each record leaves at once, nor where what is sent arrives at
    the same instant while records take time, as the order of turns counts then; at the highest rate
    no turn is quiet.
    """
    if exchange.is_max_rate:
        return False
    ends_anywhere = network.checkpoint_interval_ns is not None or network.debloating_enabled
    is_apart = (
        min(one_way_ns(exchange), back_ns(exchange)) > 0 or exchange.costs.emit_ns_per_record == 0.0
    )
    return ends_anywhere and is_apart and network.buffer_timeout_ns != 0


def first_checkpoint_ns(exchange: RecordedExchange, network: NetworkConfig) -> int:
    """When the coordinator begins the first one; NEVER if there is none, or tasks before the
    sources pass them on."""
    interval_ns = network.checkpoint_interval_ns
    if interval_ns is None or exchange.barriers is not None:
        return k.NEVER
    start_ns, since_ns = exchange.measured_from_ns, exchange.checkpoints_from_ns
    if since_ns is None:
        return start_ns + interval_ns
    return since_ns + ((start_ns - since_ns) // interval_ns + 1) * interval_ns


def alignments_max(exchange: RecordedExchange, network: NetworkConfig) -> int:
    """How many checkpoints sinks note at most."""
    interval_ns = network.checkpoint_interval_ns
    if interval_ns is None or not exchange.keeps_departures:
        return 0
    if exchange.barriers is not None:
        return max(len(each) for each in exchange.barriers)
    return 1 + 2 * (exchange.duration_ns // interval_ns)


def flusher_phase_ns(exchange: RecordedExchange, flusher: int, period_ns: int) -> int:
    """Where in its period a flusher stands when the run begins."""
    if exchange.starts_within_ns is None or period_ns <= 0:
        return beat_phase_ns(exchange.seed, flusher, period_ns)
    first_ns = beat_phase_ns(exchange.seed, exchange.flushers_before, period_ns)
    apart_ns = min(exchange.starts_within_ns, period_ns)
    return (first_ns + beat_phase_ns(exchange.seed + 1, flusher, apart_ns)) % period_ns


def turns_max(exchange: RecordedExchange, network: NetworkConfig, task_managers: int) -> int:
    """How many turns all TaskManagers have at most, roughly, and with much to spare."""
    duration_ns, beats = exchange.duration_ns, 0
    if network.checkpoint_interval_ns is not None:
        beats = 10 * (task_managers + 1) * (duration_ns // network.checkpoint_interval_ns)
    if network.debloating_enabled:
        beats += 10 * task_managers * (duration_ns // network.debloating_period_ns)
    if network.buffer_timeout_ns > 0:
        period_ns = network.buffer_timeout_ns + exchange.flush_overhead_ns
        beats += 2 * exchange.producers * duration_ns // period_ns
    return 1_000_000 + _TURNS_PER_RECORD * exchange.records + beats
