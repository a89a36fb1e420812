"""The downstream half: from frames to records, with credit for every free buffer.

    connection          the interface for drivers; sends requests, notices, credit
    client_handler      receives messages into the buffers of channels; tcp_mode: without credit,
                        as before Flink 1.5
    request_backoff     when to repeat a request
    input_channel       a channel over a connection: sequence, unannounced credit;
                        buffer_manager: its free buffers; priority_events: events that overtake
                        data in its queue; local_channel: a channel without a connection
    input_gate          the interface for tasks: all channels of an input, in turn, and several
                        gates as one (UnionInputGate)
    record_reader       from buffers to records
    checkpointed_input  handles the events of a gate; checkpoint_barriers: when a checkpoint is
                        taken, exactly once or at least once

No clock, no socket.
"""

from .buffer_manager import BufferManager
from .connection import ConsumerConnection
from .input_channel import RemoteInputChannel
from .input_gate import InputBuffer, InputChannel, SingleInputGate, UnionInputGate
from .local_channel import LocalInputChannel
from .record_reader import RecordReader, RecordRun, SpillStore
