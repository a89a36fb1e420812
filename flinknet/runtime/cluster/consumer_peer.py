"""ConsumerPeer: reads partitions of a TaskManager of Flink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from flinknet.graph.execution import ExecutionState
from flinknet.job.load.peer_plans import CONSUMERS, PRODUCERS
from flinknet.job.load.plan import LoadPlan
from flinknet.job.load.sink import COUNTED, STAMPED

from . import control_messages as messages
from .peer import CANCELLED, END_OF_PARTITION, Peer


class ConsumerPeer(Peer):
    """Reads partitions of a TaskManager to their end, or as far as the workload's `records` (of all
    channels) or `duration_ns` go; then the channels are cancelled.

    Args:
        address: host and port of the TaskManager's data port.
        is_stamped: the records have flinknet's format: check that each arrives once, in order.
    """

    role, index = "consumer", CONSUMERS
    cancelled = "the consuming task was cancelled"

    def __init__(
        self,
        load: LoadPlan,
        address: tuple[str, int],
        *,
        is_stamped: bool,
        directory: Path | None,
        interrupts: Sequence[int],
    ) -> None:
        # This process ends, so no other channel will reuse the connection.
        network = replace(load.scenario.network, reuse_connections=False)
        super().__init__(load, network, directory, interrupts)
        self._address = address
        self._records = STAMPED if is_stamped else COUNTED

    @property
    def peer(self) -> str:
        """The address of the producer."""
        return f"{self._address[0]}:{self._address[1]}"

    def _begin(self) -> None:
        addresses, start = {PRODUCERS: self._address}, self._start()
        self._send(*(messages.SubmitTask(each, addresses, start) for each in self._tasks))

    def _advance(self, now_ns: int) -> None:
        if self._are_all(ExecutionState.FINISHED):
            self._stop(END_OF_PARTITION)
        elif self._has_enough(now_ns):
            self._stop(CANCELLED)

    def _has_enough(self, now_ns: int) -> bool:
        workload = self._load.scenario.workload
        if workload.records is not None:
            running = self._executor.attempts.running
            taken: int = sum(sink.records for each in running for sink in each.task.receivers)
            return taken >= workload.records
        duration_ns = workload.duration_ns
        return duration_ns is not None and now_ns - self.start_ns >= duration_ns
