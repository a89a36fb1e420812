"""Where everything of an exchange stands in the kernel's memory."""

from __future__ import annotations

from collections import Counter

from flinknet.config import TCP, NetworkConfig
from flinknet.job.load.payload import OVERHEAD_BYTES
from flinknet.job.load.plan import LoadPlan

from .fast_clock import back_ns
from .fast_kernel import words as k
from .fast_memory import KernelMemory, power_of_two
from .recorded import RecordedExchange

RESERVED_WORDS = 1 << 21
"""Of a memory that has its size from the beginning, at most: to grow by and by takes half as long
again. Larger ones grow: they would be new memory each time."""


TCP_SLOTS = 1 << 10
"""Messages on the way of a connection without credit, for which there is room at first."""

TCP_SLOTS_MAX = 1 << 16
"""The same at most: nearly as many of the smallest messages as a socket holds."""

ROOM_BYTES_MAX = 1 << 28
"""Of all connections together."""

ROOM_BITS = 3
"""Of the factor by which that is more at the next attempt."""


class Addresses:
    """Addresses of everything in a run, in a memory that has room for it.

    Args:
        attempts: that have had too little room for messages on their way.
    """

    def __init__(
        self, exchange: RecordedExchange, network: NetworkConfig, load: LoadPlan, attempts: int
    ) -> None:
        arrivals_words = k.RAMP_WORDS * sum(len(each.arrivals) for each in exchange.channels)
        is_small = arrivals_words < RESERVED_WORDS
        self.memory = memory = KernelMemory(k.HEAD_WORDS, arrivals_words if is_small else 0)
        self.exchange, self.network, self.load = exchange, network, load
        self.record_bytes = load.scenario.workload.record_size.low_bytes + OVERHEAD_BYTES
        self.period_ns = network.buffer_timeout_ns + exchange.flush_overhead_ns
        said = 4  # under way, beside buffers
        if network.debloating_enabled:
            said += back_ns(exchange) // network.debloating_period_ns + 1
        self.is_tcp = exchange.flow_control == TCP
        buffers = network.exclusive_buffers + network.floating_buffers
        if self.is_tcp:  # a gate's are there for any of its channels
            buffers = max(task.inputs[0].pool.max_buffers for task in load.sinks)
        self.ring = power_of_two(buffers + said)
        self.least_slots = TCP_SLOTS << attempts * ROOM_BITS if self.is_tcp else 0
        self.channels = memory.take(len(load.channels) * k.CHANNEL_WORDS)
        self.channel_at = {
            each.index: self.channels + place * k.CHANNEL_WORDS
            for place, each in enumerate(load.channels)
        }
        self.source_at = [memory.take(k.SOURCE_WORDS) for _ in load.sources]
        self.sink_at = [memory.take(k.SINK_WORDS) for _ in load.sinks]
        self.timers = load.task_managers if network.debloating_enabled else 0
        turns = load.task_managers + 1 + self.timers  # and the coordinator's
        self.wakes = memory.timetable(turns)
        self.managers = memory.take(turns * k.TASK_MANAGER_WORDS)
        self.manager_at = [
            self.managers + number * k.TASK_MANAGER_WORDS for number in range(load.task_managers)
        ]
        self.boundaries = _boundaries(network)
        self.outputs = [task.outputs[0].channels for task in load.sources]
        remote = [
            (each.task_manager, task.task_manager)
            for task in load.sinks
            for each in task.inputs[0].channels
            if not each.is_local
        ]
        self.channels_between = Counter(remote)  # in the order in which connections are made
        self.connection_at = {
            pair: memory.take(k.CONNECTION_WORDS) for pair in self.channels_between
        }

    @property
    def may_have_more_room(self) -> bool:
        """Whether another attempt may have more for messages on their way."""
        words = k.DOWN_WORDS + k.UP_WORDS + k.STAGED_WORDS + k.STAMP_WORDS
        next_slots = self.least_slots << ROOM_BITS
        needed_bytes = 8 * words * next_slots * len(self.connection_at)
        return 0 < next_slots <= TCP_SLOTS_MAX and needed_bytes <= ROOM_BYTES_MAX


def _boundaries(network: NetworkConfig) -> int:
    """Room for places in a subpartition where segments have been closed early: an aligned barrier
    has to leave before the next one comes, others need not, and with debloating all may be."""
    if not network.debloating_enabled:
        if network.checkpoint_interval_ns is None:
            return 1
        if not network.unaligned_checkpoints:
            return 2
    return power_of_two(network.max_buffers_per_channel + 4)
