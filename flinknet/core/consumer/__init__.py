"""The downstream half: from frames to records, with credit for every free buffer.

    connection          the interface for drivers; sends requests, notices, credit
    client_handler      receives messages into the buffers of channels; tcp_mode: without credit,
                        as before Flink 1.5
    partition_requests  pending requests of a connection; request_backoff: when to repeat one
    input_channel       a channel over a connection: sequence, unannounced credit;
                        buffer_manager: its free buffers; priority_events: events that overtake
                        data in its queue; local_channel: a channel without a connection
    input_gate          the interface for tasks: all channels of an input, in turn; union_gate:
                        several gates as one; decompression: for compressed buffers
    record_reader       from buffers to records
    checkpointed_input  handles the events of a gate; checkpoint_barriers, barrier_tracker: when a
                        checkpoint is taken, for exactly-once and at-least-once
    buffer_debloater    computes the buffer size of the producers

No clock, no socket.
"""

from .buffer_manager import BufferManager
from .connection import ConsumerConnection
from .input_channel import RemoteInputChannel
from .input_gate import InputBuffer, InputChannel, SingleInputGate
from .local_channel import LocalInputChannel
from .record_reader import RecordReader, RecordRun, SpillStore
from .union_gate import UnionInputGate
