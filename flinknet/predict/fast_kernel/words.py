"""The words of the kernel's memory: what stands where, counted from the first word of each thing.
Word 0 is never used, so that 0 is no address."""

from __future__ import annotations

from collections.abc import MutableSequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

Words = MutableSequence[int]
"""The memory within the kernel."""

Numbers = MutableSequence[float]
"""What does not come in whole numbers, there."""

DONE, WRITER_WAITS, TOO_LONG = 0, 1, 2
"""How a run ended; anything but DONE is for the simulator to answer."""

NEVER = 2**62
DATA, RECOVERY, END_OF_DATA, END_OF_PARTITION, NOTHING = 0, 1, 2, 3, -1
"""What a message is; an EndOfPartition is sent when every channel of its source has acknowledged
the end of data."""

RESUME, ACKNOWLEDGE, CANCEL = -1, -2, -3
"""What a consumer says that is no credit."""

# What does not change in a run: words 1 to 25.
(
    TASK_MANAGERS,
    TIMEOUT_NS,
    PERIOD_NS,
    RECORD_BYTES,
    SEGMENT_BYTES,
    SEGMENT_BITS,
    EXCLUSIVE_BUFFERS,
    QUOTA_BUFFERS,
    HEADER_BYTES,
    RECOVERY_BYTES,
    END_OF_DATA_BYTES,
    BATCH_BYTES,
    RECEIVE_BYTES,
    STEPS_PER_TURN,
    BUSY_NS,
    LATENCY_NS,
    RECEIVE_NS,
    RING_MASK,
    TURNS_MAX,
    FIRST_TASK_MANAGER,
    CHANNELS,
    FIRST_CHANNEL,
    COUNTED_FROM_NS,
    COUNTED_TO_NS,
    END_OF_PARTITION_BYTES,
) = range(1, 26)
# What a run came to: words 32 to 43.
(
    RECORDS,
    LATENCY_TOTAL,
    SMALLEST,
    LARGEST,
    MESSAGES,
    BACKLOG_TOTAL,
    BACKLOG_MAX,
    LAST_NS,
    CREDITS,
    CREDIT_MESSAGES,
    TURNS,
) = range(32, 43)
HEAD_WORDS = 64

# A channel: whose it is, its arrivals, its subpartition, its reader, its messages under way, its
# input channel; whether it has come to its end, at either side.
(
    SOURCE,
    CONNECTION,
    SINK,
    RAMP_END,
    RAMP,
    POSITION,
    OPENS_RAMP,
    OPENS_BASE,
    OPENS_RECORD,
    OPENS_AT_NS,
    EMITTED,
    POLLED,
    HEAD,
    FRONT_EVENT,
    TAIL_EVENT,
    FLUSH_REQUESTED,
    IS_BLOCKED,
    CREDIT,
    IS_ENQUEUED,
    IS_NOTIFIED,
    SENT,
    RECEIVED,
    CONSUMED,
    RING,
    FREE_EXCLUSIVE,
    FREE_FLOATING,
    REQUIRED,
    IS_WAITING,
    UNANNOUNCED,
    IS_QUEUED,
    DONE_RAMP,
    DONE_POSITION,
    COUNTED_RAMP,
    COUNTED_RAMP_END,
    IS_FINISHED,
    IS_RELEASED,
) = range(36)
CHANNEL_WORDS = 36

RAMP_WORDS = 3  # records, first and last instant
MESSAGE_WORDS = 3  # kind, records, whether its buffer is a floating one

# A connection: its two TaskManagers; queues as address, begin and end, and how long
# they are, less one; all lengths are powers of two.
(
    UPSTREAM,
    DOWNSTREAM,
    SLOTS_MASK,
    READERS,
    READERS_BEGIN,
    READERS_END,
    NOTIFIED,
    NOTIFIED_COUNT,
    DOWN,
    DOWN_BEGIN,
    DOWN_END,
    PIECES,
    UP,
    UP_BEGIN,
    UP_END,
    CREDITORS,
    CREDITORS_COUNT,
    CONTROL,
    CONTROL_COUNT,
    WIDTH_MASK,
) = range(20)
CONNECTION_WORDS = 20
CONTROL_WORDS = 2  # channel, what to say
DOWN_WORDS = 5  # channel, backlog, bytes, piece, when it arrives
UP_WORDS = 3  # channel, credit or what else is said, when it arrives

# A source: its channels, when its data ends, its pool, its flusher, its last step; where it stands.
(
    OUTPUTS,
    OUTPUTS_COUNT,
    END_NS,
    POOL_BUFFERS,
    BEAT_NS,
    AGAIN_NS,
    IDLE_SEEN_NS,
    STATE,
    UNACKNOWLEDGED,
) = range(9)
SOURCE_WORDS = 9
RUNNING, AWAITING_ACKNOWLEDGEMENT, FINISHED = range(3)

# A sink: its channels, its work, its gate's queue, its pool of floating buffers.
(
    INPUTS,
    INPUTS_COUNT,
    CONSUME_NS,
    READY,
    READY_BEGIN,
    READY_END,
    HELD,
    IS_HELD_FLOATING,
    BUSY_UNTIL_NS,
    RECOVERED,
    POOL_FREE,
    LISTENERS,
    LISTENERS_BEGIN,
    LISTENERS_END,
    GATE_MASK,
) = range(15)
SINK_WORDS = 15

# A TaskManager: its loop, and lists of what it has.
(
    WAKE_NS,
    FREE_SINCE_NS,
    IDLE_NS,
    SOURCES,
    SOURCES_COUNT,
    SINKS,
    SINKS_COUNT,
    OUTGOING,
    OUTGOING_COUNT,
    INCOMING,
    INCOMING_COUNT,
) = range(11)
TASK_MANAGER_WORDS = 11

# The floating-point numbers: costs, then latencies by bucket, then differences of their density.
SEND_NS_PER_MESSAGE, SEND_NS_PER_BYTE, EMIT_NS_PER_RECORD, COUNTS = range(4)
