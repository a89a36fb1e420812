"""SimulatedHosts: the TaskManagers that jobs run on, together or one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flinknet.config import NetworkConfig
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.connection import Connection
from flinknet.core.producer import BoundedData, ResultPartitionManager
from flinknet.core.producer.result_partition_factory import in_memory
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.errors import FlinknetError
from flinknet.job.gates import blocking_storage

from .faults import NO_FAULTS, Faults
from .link import LinkEnd, LinkSettings, SendCosts, SimulatedLink
from .scheduler import Scheduler
from .task_manager import SimulatedTaskManager


def no_wrap(connection: Connection, _is_server: bool) -> Connection:
    """The connection itself, without another layer."""
    return connection


def _let_it_close(_error: FlinknetError) -> None:
    """Ignore an error: the connection sends it to its peer and then closes."""


class SimulatedHosts:
    """TaskManagers with their memory and partitions, and their common virtual time.

    Attributes:
        task_managers, partitions, storages: one of each for each TaskManager.

    Args:
        segments: number of segments of each TaskManager's network memory.
        network: settings of all jobs.
        start_ns: virtual time at the beginning.
        faults: clocks and lost wake-ups.
        create_data: makes the storage of blocking partitions.
        wrap: puts a layer, such as TLS, around a connection; the flag is set for servers.
    """

    def __init__(
        self,
        segments: Sequence[int],
        network: NetworkConfig,
        *,
        start_ns: int,
        faults: Faults = NO_FAULTS,
        create_data: Callable[[ResultPartitionID, str], BoundedData] = in_memory,
        wrap: Callable[[Connection, bool], Connection] = no_wrap,
    ) -> None:
        self.scheduler = Scheduler(start_ns=start_ns)
        self._segments = segments
        self._segment_size_bytes = network.segment_size_bytes
        self._faults = faults
        self.wrap = wrap
        self._visitors: SimulatedTaskManager | None = None
        self.task_managers = [self._start(index) for index in range(len(segments))]
        self.partitions = [ResultPartitionManager() for _ in segments]
        self.storages = [blocking_storage(network, create_data) for _ in segments]

    def replace(self, index: int) -> None:
        """Replace a TaskManager whose process has died, for later jobs."""
        dead = self.task_managers[index]
        dead.tasks, dead.ends = (), []
        self.task_managers[index] = self._start(index)
        self.partitions[index] = ResultPartitionManager()

    def visit(self, index: int, serving: Connection, stranger: Connection) -> SimulatedLink:
        """Let a stranger, who belongs to no job, connect to the data port of a TaskManager, which
        closes the connection at the first invalid message.
        """
        if self._visitors is None:
            memory = NetworkBufferPool(0, self._segment_size_bytes)
            self._visitors = SimulatedTaskManager("strangers", self.scheduler, memory)
        places = (self.task_managers[index], serving), (self._visitors, stranger)
        settings, costs = LinkSettings(), SendCosts()
        ends = [LinkEnd(each, settings, costs, place.wake) for place, each in places]
        ends[0].join(ends[1])
        link = SimulatedLink(*ends)
        for (place, _), end in zip(places, ends, strict=True):
            end.clock = place.clock
            end.fail = _let_it_close
            place.ends.append(end)
            place.wake(self.scheduler.now_ns)
        return link

    def _start(self, index: int) -> SimulatedTaskManager:
        faults = self._faults
        started = SimulatedTaskManager(
            f"tm-{index}",
            self.scheduler,
            NetworkBufferPool(self._segments[index], self._segment_size_bytes),
        )
        started.clock = faults.clock_of(index)
        started.lost_wakeups = faults.wakeups_of(index)
        return started
