"""The downstream half: from frames to records, giving credit for every buffer that is free.

`ConsumerConnection` (`connection`) is the door for drivers, and sends: requests, notices, credit.
`client_handler` takes what comes from the producer and lays it into the buffers of channels.
`buffer_manager` counts the free buffers of a channel, `input_channel` adds up the credit that has
not been announced yet. `SingleInputGate` (`input_gate`) is the door for tasks. No clock, no socket.
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
