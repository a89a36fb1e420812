"""An exchange for the compiled kernel: whether it is covered, and the numbers of its run.

Covered are records that come at a rate, also where that is assumed, or as fast as they are taken;
any number of channels, local or over connections with exclusive buffers, with credit or without,
whose sockets may fill; writers that wait for buffers, in an exchange that is computed whole;
checkpoints; buffers that are debloated; network memory for all pools. The kernel notices by itself
if a checkpoint takes longer than it may. All other exchanges are simulated with the real core.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from flinknet import config
from flinknet.arrays import IntArray
from flinknet.config import MAX_RATE_BATCH_BYTES, TCP, NetworkConfig
from flinknet.core.buffers import pool_sizes
from flinknet.core.buffers.data_type import IS_BLOCKING_UPSTREAM
from flinknet.core.connection import RECEIVE_BYTES, SEND_BATCH_BYTES, WriteWaterMarks
from flinknet.core.wire import events
from flinknet.core.wire.checkpoint_barrier import AlignmentType, CheckpointBarrier
from flinknet.core.wire.layout import BUFFER_RESPONSE_HEADER_BYTES
from flinknet.core.wire.records import OVERHEAD_BYTES
from flinknet.errors import ConfigError
from flinknet.simulator.cluster import OPENING_NS
from flinknet.simulator.cost_model import SPIN_NS, Preemptions
from flinknet.simulator.source_plan import beat_phase_ns
from flinknet.simulator.task_manager import BUSY_NS_MAX
from flinknet.units import NS_PER_MS, human_duration

from .job import Passage
from .kernel import NEVER
from .kernel.views import float_bits
from .recorded import (
    RecordedChannel,
    RecordedExchange,
    emission_order,
    places_of,
    without_idle_tasks,
)

_TURNS_PER_RECORD = 20
"""Most turns of all TaskManagers for each record and channel, far more than there can be."""


@dataclass(frozen=True, slots=True, eq=False)
class ExchangeTask:
    """A task of an exchange."""

    task_manager: int
    channels: list[RecordedChannel]  # in the order of its subpartitions, or of its gate
    pool_buffers: int  # most buffers in the pool of its partition or gate


@dataclass(frozen=True, slots=True, eq=False)
class KernelEdge:
    """An exchange to run, alone or with others, with its tasks in their places. A record has the
    mean length of the recorded ones, and no less than the load generator's stamp needs. Of channels
    that a task of another exchange writes, only the number of records counts."""

    exchange: RecordedExchange  # without idle tasks
    network: NetworkConfig
    record_bytes: int  # length of each record in a buffer
    sources: list[ExchangeTask]
    sinks: list[ExchangeTask]
    buffers: list[pool_sizes.TaskManagerBuffers]  # of each TaskManager, up to the last one used
    producers: Sequence[int]  # recorded numbers of its tasks
    consumers: Sequence[int]
    before: int | None = None  # place of the exchange that its producers read; None for sources
    passages: Mapping[int, Passage] = field(default_factory=dict)  # of these, by recorded number

    @classmethod
    def of(
        cls,
        exchange: RecordedExchange,
        network: NetworkConfig,
        before: int | None = None,
        passages: Mapping[int, Passage] | None = None,
    ) -> KernelEdge:
        """An exchange that has records, under other settings. Debloating begins with the size that
        was announced when the window began. Raises: ConfigError when the buffers do not fit into
        network memory."""
        exchange, producers, consumers = without_idle_tasks(exchange)
        if network.debloating_enabled and (size_bytes := exchange.buffer_size_bytes) is not None:
            size_bytes = max(size_bytes, network.min_segment_size_bytes)
            size_bytes = min(size_bytes, network.segment_size_bytes)
            network = replace(network, starting_segment_size_bytes=size_bytes)
        sources, sinks, needs = list[ExchangeTask](), list[ExchangeTask](), []
        upstream, downstream = places_of(exchange)
        written: list[list[RecordedChannel]] = [[] for _ in upstream]
        read: list[list[RecordedChannel]] = [[] for _ in downstream]
        for each in exchange.channels:
            written[each.producer].append(each)
            read[each.consumer].append(each)
        for place, own in zip(upstream, written, strict=True):
            sizes = len(own), network.exclusive_buffers, network.floating_buffers
            pool = pool_sizes.output_pool_size(*sizes)
            sources.append(ExchangeTask(place, own, pool.max_buffers))
            partition = pool, network.max_overdraft_buffers
            needs.append(pool_sizes.task_buffers(place, 0, (partition,), ()))
        for place, own in zip(downstream, read, strict=True):
            sizes = len(own), network.exclusive_buffers, network.floating_buffers
            if exchange.flow_control == TCP:
                gate = pool_sizes.creditless_gate_buffers(*sizes)
            else:
                most = network.required_buffers_per_gate_max
                gate = pool_sizes.gate_buffers(*sizes, required_max=most)
            sinks.append(ExchangeTask(place, own, gate.pool.max_buffers))
            remote = sum(upstream[each.producer] != place for each in own)
            needs.append(pool_sizes.task_buffers(place, 0, (), ((remote, gate),)))
        count = 1 + max(*upstream, *downstream)
        buffers = pool_sizes.buffers_by_task_manager(needs, count, network.segments)
        if (why := pool_sizes.shortage(buffers, network.segment_size_bytes)) is not None:
            raise ConfigError(why)
        lengths = [each.record_wire_bytes for each in exchange.channels]
        weights = [each.records for each in exchange.channels]
        record_bytes = max(
            round(float(np.average(lengths, weights=weights))),
            config.SMALLEST_VALUE_BYTES + OVERHEAD_BYTES,
        )
        known = {each: passages[each] for each in producers if passages and each in passages}
        own_tasks = record_bytes, sources, sinks, buffers, producers, consumers
        return cls(exchange, network, *own_tasks, before, known)

    @property
    def why_not_covered(self) -> str | None:
        """What is unusual about an exchange that the kernel does not know, in words; None for one
        that it knows."""
        exchange, network = self.exchange, self.network
        is_far = max(self.one_way_ns, self.back_ns) >= OPENING_NS // 4
        unusual = {
            "other processes delay a load that keeps its rate": exchange.preemptions[0]
            and not exchange.is_max_rate,
            "its channels have no exclusive buffers": network.exclusive_buffers <= 0,
            "its gates require few of their buffers": network.required_buffers_per_gate_max
            is not None,
            "no checkpoint follows the end of a task": not knows_checkpoints(network),
            "its segment size is no power of two": network.segment_size_bytes.bit_count() != 1,
            "a record takes several segments": self.record_bytes > network.segment_size_bytes,
            f"a message is {human_duration(OPENING_NS / 4)} or more on its way": is_far,
            "its buffers take more than the network memory": any(
                each.most_buffers > each.total_buffers for each in self.buffers
            ),
        }
        return next((why for why, is_so in unusual.items() if is_so), None)

    @property
    def taken(self) -> dict[int, int]:
        """Records that each consumer takes, by its recorded number."""
        counts = dict.fromkeys(self.consumers, 0)
        for each in self.exchange.channels:
            counts[self.consumers[each.consumer]] += each.records
        return counts

    @property
    def is_tcp(self) -> bool:
        return self.exchange.flow_control == TCP

    def ends(self, channel: RecordedChannel) -> tuple[int, int]:
        """TaskManagers of the producer and of the consumer of a channel; equal if it is local."""
        source, sink = self.sources[channel.producer], self.sinks[channel.consumer]
        return source.task_manager, sink.task_manager

    @property
    def scenario(self) -> config.Scenario:
        """The exchange as a run of the load generator."""
        exchange, value_bytes = self.exchange, self.record_bytes - OVERHEAD_BYTES
        workload = config.WorkloadConfig(
            producers=exchange.producers,
            consumers=exchange.consumers,
            record_size=config.RecordSize(value_bytes, value_bytes),
            partitioner=exchange.partitioner,
        )
        return config.Scenario(
            network=self.network,
            workload=workload,
            task_managers=len(self.buffers),
            seed=exchange.seed,
            flow_control=exchange.flow_control,
        )

    @property
    def preemptions(self) -> dict[int, Preemptions]:
        """The preemptions of each TaskManager: those of the process of its first task."""
        found: dict[int, Preemptions] = {}
        for own, tasks in zip(self.exchange.preemptions, (self.sources, self.sinks), strict=True):
            for each, task in zip(own, tasks, strict=False):
                found.setdefault(task.task_manager, each)
        return found

    @property
    def memory_bytes(self) -> int:
        """Most that the pools of all TaskManagers can take."""
        buffers = sum(each.most_buffers for each in self.buffers)
        return buffers * self.network.segment_size_bytes

    @property
    def one_way_ns(self) -> int:
        """Latency of a link: the way of a message without the sending that the sender does."""
        costs = self.exchange.costs
        return max(0, int(costs.transit_ns - costs.send_ns_per_message))

    @property
    def back_ns(self) -> int:
        """Latency of the way back, for messages of consumers."""
        back_ns = self.exchange.costs.back_ns
        return self.one_way_ns if back_ns is None else int(back_ns)

    @property
    def period_ns(self) -> int:
        return self.network.buffer_timeout_ns + self.exchange.flush_overhead_ns

    def phase_ns(self, source: int) -> int:
        """Time since the last beat of a source's flusher when the run begins."""
        exchange, period_ns = self.exchange, self.period_ns
        first, flusher = exchange.flushers_before, exchange.flushers_before + source
        if exchange.starts_within_ns is None or period_ns <= 0:
            return beat_phase_ns(exchange.seed, flusher, period_ns)
        apart_ns = min(exchange.starts_within_ns, period_ns)
        first_ns = beat_phase_ns(exchange.seed, first, period_ns)
        return (first_ns + beat_phase_ns(exchange.seed + 1, flusher, apart_ns)) % period_ns

    @property
    def first_checkpoint_ns(self) -> int:
        """Instant at which the coordinator begins the first checkpoint; NEVER if there is none, or
        tasks before the sources pass them on."""
        exchange, interval_ns = self.exchange, self.network.checkpoint_interval_ns
        if interval_ns is None or exchange.barriers is not None:
            return NEVER
        start_ns, since_ns = exchange.measured_from_ns, exchange.checkpoints_from_ns
        if since_ns is None:
            return start_ns + interval_ns
        return since_ns + ((start_ns - since_ns) // interval_ns + 1) * interval_ns

    @property
    def alignments_max(self) -> int:
        """Most checkpoints whose alignment a sink notes."""
        exchange, interval_ns = self.exchange, self.network.checkpoint_interval_ns
        if interval_ns is None or not exchange.keeps_departures:
            return 0
        if exchange.barriers is not None:
            return max(len(each) for each in exchange.barriers)
        return 1 + 2 * (exchange.duration_ns // interval_ns)

    def numbers(self) -> dict[str, int]:
        """Words of a `kernel.memory.Exchange` that hold numbers, at the start of a run."""
        exchange, network, costs = self.exchange, self.network, self.exchange.costs
        counted_from_ns, counted_to_ns = exchange.counted_ns or (0, NEVER)
        interval_ns, managers = network.checkpoint_interval_ns, len(self.buffers)
        segment_bytes, encode = network.segment_size_bytes, events.encode_pipelined
        marks = WriteWaterMarks.classic(segment_bytes) if self.is_tcp else WriteWaterMarks()
        ends_anywhere = interval_ns is not None or network.debloating_enabled
        turns_max = 1_000_000 + _TURNS_PER_RECORD * exchange.records
        if network.buffer_timeout_ns > 0:
            turns_max += 2 * exchange.producers * exchange.duration_ns // self.period_ns
        numbers: dict[str, int] = {
            "task_managers": managers,
            "timeout_ns": network.buffer_timeout_ns,
            "period_ns": self.period_ns,
            "record_bytes": self.record_bytes,
            "batch_records": max(1, MAX_RATE_BATCH_BYTES // self.record_bytes),
            "segment_bytes": segment_bytes,
            "segment_bits": segment_bytes.bit_length() - 1,
            "exclusive_buffers": network.exclusive_buffers,
            "quota_buffers": network.max_buffers_per_channel,
            "header_bytes": BUFFER_RESPONSE_HEADER_BYTES,
            "recovery_bytes": len(encode(events.EndOfOutputChannelStateEvent())),
            "end_of_data_bytes": len(encode(events.EndOfData())),
            "end_of_partition_bytes": len(encode(events.EndOfPartitionEvent())),
            "batch_bytes": SEND_BATCH_BYTES,
            "receive_bytes": RECEIVE_BYTES,
            "steps_per_turn": config.STEPS_PER_TURN,
            "steps_at_records": ends_anywhere or network.buffer_timeout_ns == 0,
            "busy_ns": BUSY_NS_MAX,
            "latency_ns": self.one_way_ns,
            "back_ns": self.back_ns,
            "sleeps_after_ns": SPIN_NS,
            "wake_ns": int(costs.wake_ns),
            "receive_ns": int(costs.receive_ns_per_message),
            "send_ns_per_message": float_bits(costs.send_ns_per_message),
            "send_ns_per_byte": float_bits(costs.send_ns_per_byte),
            "emit_ns_per_record": float_bits(costs.emit_ns_per_record),
            "link_bytes": exchange.socket_bytes,
            "high_bytes": marks.high_bytes,
            "low_bytes": marks.low_bytes,
            "narrow_bytes": 2 * (SEND_BATCH_BYTES + segment_bytes),
            "without_credit": self.is_tcp,
            "is_max_rate": exchange.is_max_rate,
            "is_disturbed": bool(exchange.preemptions[0]),
            "counted_from_ns": counted_from_ns,
            "counted_to_ns": counted_to_ns,
        }
        if interval_ns is not None:
            turns_max += 10 * (managers + 1) * (exchange.duration_ns // interval_ns)
            alignment, timeout_ms = network.alignment(exchange.partitioner)
            barrier = CheckpointBarrier(1, 0, alignment=AlignmentType[alignment])
            numbers |= {
                "has_barriers": True,
                "is_unaligned": barrier.is_unaligned,
                "is_blocking": events.data_type_of(barrier) in IS_BLOCKING_UPSTREAM,
                "interval_ns": interval_ns,
                "expires_ns": network.checkpoint_timeout_ns,
                "barrier_bytes": len(encode(barrier)),
                "aligned_timeout_ns": timeout_ms * NS_PER_MS,
                "next_checkpoint_ns": self.first_checkpoint_ns,
            }
        if network.debloating_enabled:
            turns_max += 10 * managers * (exchange.duration_ns // network.debloating_period_ns)
            numbers |= {
                "debloat_ns": network.debloating_period_ns,
                "target_ms": network.debloating_target_ns // NS_PER_MS,
                "smallest_bytes": network.min_segment_size_bytes,
                "threshold_percent": network.debloating_threshold_percent,
                "newest_share": float_bits(2 / (network.debloating_samples + 1)),
            }
        return numbers | {"turns_max": turns_max}


def knows_checkpoints(network: NetworkConfig) -> bool:
    """Whether there are none, or tasks that have ended take part in them."""
    return network.checkpoint_interval_ns is None or network.checkpoints_after_tasks_finish


def hold_each_other_up(exchanges: Iterable[RecordedExchange]) -> bool:
    """Whether exchanges without credit share connections: unread messages of one stop another."""
    used = [
        connection
        for exchange in exchanges
        if exchange.flow_control == TCP
        for connection in {each.connection for each in exchange.channels if each.connection >= 0}
    ]
    return len(used) > len(set(used))


def batches_of(exchange: RecordedExchange, record_bytes: int) -> list[IntArray]:
    """Batches that each producer writes, one after the other: in each row the number of records for
    each of its subpartitions."""
    batch_records = max(1, MAX_RATE_BATCH_BYTES // record_bytes)
    found = []
    for producer in range(exchange.producers):
        own = [each for each in exchange.channels if each.producer == producer]
        _, subpartitions = emission_order(own)
        batches = -(-len(subpartitions) // batch_records)
        places = np.arange(len(subpartitions)) // batch_records * len(own) + subpartitions
        found.append(np.bincount(places, minlength=batches * len(own)).reshape(batches, len(own)))
    return found
