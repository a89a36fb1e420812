"""All errors that flinknet raises on purpose.

FlinknetError                     exit code 4
├── ConfigError                   exit code 2: which value, why not, what would do
├── ProtocolError
│   ├── LocalProtocolError        our own call is illegal in this state
│   └── RemoteProtocolError       the peer broke a rule of the protocol
│       ├── FrameCorruptedError
│       ├── UnknownMessageError
│       ├── BufferReorderingError
│       └── CreditExceededError
├── PartitionError
│   ├── PartitionNotFoundError
│   ├── ProducerFailedError
│   └── PartitionConnectionError
├── GateClosedError
├── BufferPoolError
│   ├── InsufficientBuffersError
│   └── BufferPoolDestroyedError
├── TransportError
│   ├── LocalTransportError
│   ├── RemoteTransportError
│   └── TlsError
├── TraceError
│   ├── TraceFormatError
│   │   └── TraceDamagedError
│   ├── TraceTruncatedError
│   └── StorageError              an object store or HDFS refuses, or cannot be reached
├── RunFailedError                exit code 1: a run ended, but not well (a process died, records
│                                 were lost)
└── SimulationError
    ├── InvariantViolatedError
    └── StalledError

The core raises; a driver maps at its edge (to an ErrorResponse, to a close); the command line
catches FlinknetError once, prints one line and exits with `exit_code`. Anything else is a bug,
keeps its traceback and exits with 70.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CHANNELS_NAMED = 16


class FlinknetError(Exception):
    """Base of all errors that a user may see as one line."""

    exit_code = 4


class ConfigError(FlinknetError):
    """A value given by the user cannot be used."""

    exit_code = 2


class ProtocolError(FlinknetError):
    """A rule of the data-port protocol was broken."""


class LocalProtocolError(ProtocolError):
    """Our own call is illegal in this state."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that a Flink peer would not accept."""


class FrameCorruptedError(RemoteProtocolError):
    """Wrong magic number, impossible length, or a body that contradicts its length."""


class UnknownMessageError(RemoteProtocolError):
    """A message id that does not exist, or does not belong in this direction."""

    def __init__(self, message_id: int, direction: str) -> None:
        super().__init__(f"message id {message_id} is not known from {direction}")


class BufferReorderingError(RemoteProtocolError):
    """A buffer arrived with a sequence number other than the next one (Flink:
    BufferReorderingException).
    """

    def __init__(self, expected: int, actual: int, channel: str = "") -> None:
        where = f" on channel {channel}" if channel else ""
        super().__init__(
            f"buffer re-ordering{where}: expected sequence number {expected}, received {actual}"
        )


class CreditExceededError(RemoteProtocolError):
    """Data arrived without credit, or credit would fall below zero."""

    def __init__(self, channel: str, credits_available: int) -> None:
        super().__init__(
            f"channel {channel}: data without credit (credits available: {credits_available})"
        )


class PartitionError(FlinknetError):
    """The peer reported in an ErrorResponse that a partition cannot be read."""


class PartitionNotFoundError(PartitionError):
    """The producer does not have the partition (Flink: PartitionNotFoundException)."""


class ProducerFailedError(PartitionError):
    """The producing task failed (Flink: ProducerFailedException)."""


class PartitionConnectionError(PartitionError):
    """The TaskManager that has the partition cannot be reached."""


class GateClosedError(FlinknetError):
    """The input gate was closed while its task was reading (Flink: CancelTaskException)."""


class BufferPoolError(FlinknetError):
    """Network memory could not serve a request."""


class InsufficientBuffersError(BufferPoolError):
    """Too few network buffers."""

    def __init__(self, required: int, available: int, total: int, segment_size_bytes: int) -> None:
        super().__init__(
            f"insufficient number of network buffers: required {required}, but only {available} of"
            f" {total} buffers of {segment_size_bytes} bytes are available; raise"
            " taskmanager.memory.network.fraction, taskmanager.memory.network.min or"
            " taskmanager.memory.network.max"
        )


class ExclusiveBuffersTimeoutError(BufferPoolError):
    """Reserved exclusive buffers were not returned by others in time."""

    def __init__(self, total_buffers: int, segment_size_bytes: int, timeout_ms: int) -> None:
        super().__init__(
            "Timeout triggered when requesting exclusive buffers: The total number of network"
            f" buffers is currently set to {total_buffers} of {segment_size_bytes} bytes each. You"
            " can increase this number by setting the configuration keys"
            " 'taskmanager.memory.network.fraction', 'taskmanager.memory.network.min', and"
            " 'taskmanager.memory.network.max', or you may increase the timeout which is"
            f" {timeout_ms}ms by setting the key"
            " 'taskmanager.network.memory.buffers-request-timeout'."
        )


class BufferPoolDestroyedError(BufferPoolError):
    """A request to a destroyed pool (Flink: CancelTaskException)."""


class TransportError(FlinknetError):
    """A connection could not be opened, or broke.

    Carries the other end and the indexes of the channels that failed with it, if known.
    """

    def __init__(self, text: str, peer: str = "", channels: Sequence[int] = ()) -> None:
        super().__init__(text)
        self.peer = peer
        self.channels = tuple(channels)


def failed_channels(channels: Sequence[int]) -> str:
    """The failed channels, in words; a long list is cut."""
    named = ", ".join(str(each) for each in channels[:CHANNELS_NAMED])
    more = f" and {len(channels) - CHANNELS_NAMED} more" if len(channels) > CHANNELS_NAMED else ""
    return f"Failed channels: {named}{more}"


class LocalTransportError(TransportError):
    """The fault is on this side: port in use, too many open files, cannot bind."""


class RemoteTransportError(TransportError):
    """The fault is on the peer's side: refused, reset, closed; the TaskManager may be lost."""


class TlsError(TransportError):
    """The two ends do not trust or do not understand each other."""


class TraceError(FlinknetError):
    """A trace cannot be read or written."""


class StorageError(TraceError):
    """An object store or HDFS has no such file, refuses access, or cannot be reached."""


class TraceFormatError(TraceError):
    """Not a flinknet trace, or of a version that this flinknet does not read."""


class TraceDamagedError(TraceFormatError):
    """A block of a trace file is damaged; the blocks before it are intact.

    Attributes:
        damage: the block and its fault, without the advice.
    """

    def __init__(self, path: Any, block: int | None, offset: int, why: str) -> None:
        is_numbered = block is not None and block >= 0
        place = f"block {block} at byte {offset}" if is_numbered else f"byte {offset}"
        self.damage = f"{place}: {why}"
        super().__init__(
            f"{path}: {self.damage}; `flinknet trace verify RUN` shows all that is damaged, and a"
            f" copy of the run with {path.name} cut there (truncate -s {offset}) can be replayed up"
            " to it; `trace replay --on-damage skip` leaves the block out"
        )


class TraceTruncatedError(TraceError):
    """A trace file ends before its trailer; the blocks before the cut are readable."""

    def __init__(self, path: Any, blocks: int, lost_bytes: int) -> None:
        super().__init__(
            f"{path}: cut off; {blocks} whole blocks are readable, the last {lost_bytes} bytes are"
            " lost"
        )


class RunFailedError(FlinknetError):
    """A run ended without a valid result: a process died, or records were lost, duplicated or out
    of order.
    """

    exit_code = 1


class TaskFailedError(RunFailedError):
    """A task of a job failed: a function of its program raised, or a record was invalid."""


class Terminated(SystemExit):
    """A signal that ends this process, as an exception that propagates; not an error of flinknet or
    of the user's program.
    """


class SimulationError(FlinknetError):
    """A simulated run failed; carries the seed that repeats it."""

    def __init__(self, message: str, seed: int) -> None:
        super().__init__(f"{message} (seed {seed})")
        self.seed = seed


class InvariantViolatedError(SimulationError):
    """A checker found a violated invariant."""


class StalledError(SimulationError):
    """No event is left although work remains."""
