# mypyc
"""RunningTasks: the tasks of one TaskManager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from flinknet.config import SlowConsumer
from flinknet.job.load.assembly import run_input_of
from flinknet.job.stream_task import StreamTask


@dataclass(frozen=True, slots=True)
class RunningTasks:
    """The subtasks of one TaskManager: of the first vertex, of those between, and of the last."""

    sources: tuple[StreamTask, ...] = ()
    relays: tuple[StreamTask, ...] = ()
    sinks: tuple[StreamTask, ...] = ()

    @property
    def all(self) -> tuple[StreamTask, ...]:
        """Every task, upstream first."""
        return (*self.sources, *self.relays, *self.sinks)

    @property
    def reading(self) -> tuple[StreamTask, ...]:
        """Those that read a gate."""
        return (*self.relays, *self.sinks)

    def changes_of_delay(
        self, slow_consumers: Sequence[SlowConsumer], *, from_ns: int
    ) -> list[tuple[int, Callable[[], None]]]:
        """Instants and what to do then, so that consumers that are slow for a time are slow from
        `from_ns` on for as long.
        """
        changes: list[tuple[int, Callable[[], None]]] = []
        for slow in slow_consumers:
            for sink in self.sinks:
                if slow.slow_ns is not None and sink.index == slow.index:
                    set_delay = run_input_of(sink).set_delay
                    changes.append((from_ns, partial(set_delay, slow.delay_ns_per_record)))
                    changes.append((from_ns + slow.slow_ns, partial(set_delay, 0)))
        return changes
