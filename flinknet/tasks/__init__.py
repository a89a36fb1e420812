"""What runs between the two halves of the network stack: a source that emits records, relays that
pass them on and a sink that takes them.

Tasks are sans-IO too: a driver (runtime or simulator) calls `step` with an instant and is told when
to call again. They take turns on the event loop of their TaskManager, as Flink's mailbox has it
within one task. They join `core` and `workload`, which do not know each other.
"""

from .relay import RelayTask
from .sink import SinkTask
from .source import RecordBatcher, SourceTask

__all__ = ["RecordBatcher", "RelayTask", "SinkTask", "SourceTask"]
