"""The downstream half: from frames to records, giving credit for every buffer that is free.

    connection          the door for drivers; sends requests, notices, credit
    client_handler      lays what comes from the producer into the buffers of channels; tcp_mode:
                        the same as before Flink 1.5, without credit
    partition_requests  what has become of the requests of a connection; request_backoff: when one
                        is repeated
    input_channel       a channel over a connection: sequence, credit not announced yet;
                        buffer_manager: its free buffers; priority_events: what overtakes data in
                        its queue; local_channel: one without a connection
    input_gate          the door for tasks: all channels of an input, in turns; union_gate: several
                        gates as one; decompression: a gate whose buffers may be compressed
    record_reader       from buffers to records
    checkpointed_input  what events of a gate mean; checkpoint_barriers, barrier_tracker: when a
                        checkpoint is taken, exactly once or at least once
    buffer_debloater    how large the producers' buffers should be

No clock, no socket.
"""

from .buffer_manager import BufferManager
from .connection import ConsumerConnection
from .input_channel import RemoteInputChannel
from .input_gate import InputBuffer, InputChannel, SingleInputGate
from .local_channel import LocalInputChannel
from .record_reader import RecordReader, RecordRun, SpillStore
from .union_gate import UnionInputGate

__all__ = [
    "BufferManager",
    "ConsumerConnection",
    "InputBuffer",
    "InputChannel",
    "LocalInputChannel",
    "RecordReader",
    "RecordRun",
    "RemoteInputChannel",
    "SingleInputGate",
    "SpillStore",
    "UnionInputGate",
]
