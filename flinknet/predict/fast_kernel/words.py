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

DONE, WRITER_WAITS, TOO_LONG, CHECKPOINT_EXPIRES = range(4)
ORDER_UNKNOWN, ANSWER_MISSING, ROOM_MISSING = range(4, 7)
"""How a run ended; anything but DONE is for another run, or for the simulator, to answer."""

NEVER = 2**62
DATA, RECOVERY, END_OF_DATA, END_OF_PARTITION, BARRIER, PRIORITY_BARRIER, NOTHING = range(7)
"""What a message is; an EndOfPartition is sent when every channel of its source has acknowledged
the end of data. A PRIORITY_BARRIER is an unaligned one, which overtakes data."""

RESUME, ACKNOWLEDGE, CANCEL, BUFFER_SIZE = -1, -2, -3, -4
"""What a consumer says that is no credit; a new buffer size is said as so many less."""

# What does not change in a run: words 1 to 31.
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
    SOURCES,
    FIRST_SOURCE,
    COUNTED_FROM_NS,
    COUNTED_TO_NS,
    END_OF_PARTITION_BYTES,
    LINK_BYTES,
    WAKES,
    HAS_INSTANTS,
    BEAT_NS,
) = range(1, 32)
# What a run came to: words 32 to 51; ENDED says how.
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
    ENDED,
    LOW_TOTAL,
    LOW_SMALLEST,
    LOW_LARGEST,
    HIGH_TOTAL,
    HIGH_SMALLEST,
    HIGH_LARGEST,
    TURNS_ASKED,
    LOCAL_MESSAGES,
) = range(32, 52)
# Checkpoints: words 52 to 76. What does not change in a run; then the one that is under way, and
# what became of those before.
(
    STEPS_AT_RECORDS,
    IS_UNALIGNED,
    IS_BLOCKING,
    BOUNDARIES_MASK,
    INTERVAL_NS,
    EXPIRES_NS,
    BARRIER_BYTES,
    SINKS,
    FIRST_SINK,
    TIMES,
    TIME_SUMS,
    TURN_NS,
    NEXT_CHECKPOINT_NS,
    CHECKPOINT,
    IS_PENDING,
    BEGAN_NS,
    UNCONFIRMED,
    OVERTAKEN_BYTES,
    WAS_UNALIGNED,
    TRIGGERED,
    COMPLETED,
    PROCESSED_BYTES,
    UNALIGNED_TOTAL,
    OVERTAKEN_TOTAL,
    OVERTAKEN_MAX,
) = range(52, 77)
# Debloating: words 77 to 81. How often gates are looked at, 0 for never; the time that what is
# under way shall take; the smallest size; which changes are worth a message; from which number on
# the size of each sink stands.
DEBLOAT_NS, TARGET_MS, SMALLEST_BYTES, THRESHOLD_PERCENT, SIZES = range(77, 82)
ALIGNED_TIMEOUT_NS = 82  # from when on barriers that are aligned overtake data; 0 for never
CATCHES_UP = 83  # whether quiet turns are made up for when something else happens
# Writers: words 84 to 87. What a source takes at once; whether one may wait, or the run ends; when
# one last went on that had waited; whether a TaskManager has sent anything in its turn.
BATCH_RECORDS, MAY_WAIT, RESUMED_NS, HAS_SENT = range(84, 88)
TIED_NS = 88  # when several TaskManagers last had turns at one instant, in an order that is unknown
ANSWERS_BEHIND = 89  # that a checkpoint needs of the exchanges behind this one
HAS_BARRIERS = 90  # whether there are checkpoints
# Sockets and the highest rate: words 96 to 102. How long what consumers say is under way; the bytes
# that wait for a socket above which a connection hands over no more, and below which it does again;
# the room in a socket below which it has to be looked at; whether sources write as fast as they
# can; whether the machine keeps TaskManagers from their work; how often a connection was asked for
# more while something waited for its socket.
BACK_NS, HIGH_BYTES, LOW_BYTES, NARROW_BYTES, IS_MAX_RATE, IS_DISTURBED, FULL_SOCKETS = range(
    96, 103
)
# Without credit: words 103 to 105. Whether there is none; how often a socket was not read any more
# for want of a buffer; whether what waited for one has come to its channel in a turn.
WITHOUT_CREDIT, STOPS, HAS_DELIVERED = range(103, 106)
# The last turn, of the coordinator or a timer at least, that all have come before who asked for its
# instant earlier.
PASSED_NS, PASSED_ASKED = range(106, 108)
HEAD_WORDS = 108

# Durations that are kept of checkpoints: for each a histogram from number TIMES on, and a count, a
# total, a minimum and a maximum from word TIME_SUMS on.
CHECKPOINT_TIME, START_DELAY, ALIGNMENT, TRAVEL = range(4)
TIME_KINDS, TIME_WORDS = 4, 4

# A channel, first what each record needs: whose it is; its arrivals, where these stand, and where
# they end; the bytes written and read; its subpartition: segments read of the first stretch, the
# byte that this begins at, data buffers, these and events, whether its reader has something to
# read, the events at either end, barriers (an unaligned one, and where an aligned one is); a queue
# of the bytes behind which barriers closed segments; its reader: a local channel has no CONNECTION;
# when a record opens the next segment, the byte that the open one begins at; whether the last
# buffer polled has left the subpartition, and buffers that its local consumer works on; data
# buffers before the aligned barrier; whether its source has ended; its messages under way; its
# input channel; what has been done and is counted; where to note when its next record is done with,
# 0 for nowhere; bytes read. Then, where it is unknown when records came, what was sent last; how
# many segments barriers have closed; whether an unaligned barrier waits to be read, the message
# that it came behind; whether the channel's barrier is missing in the checkpoint that its consumer
# has begun, and how many bytes had been read then; the size of the next buffers, where the open one
# is full, and the size that waits to be announced, 0 for none; the bytes before the aligned
# barrier; whether what the task reads is counted for an unaligned checkpoint; whether the priority
# event that waits to be read announces an aligned barrier; records taken and not written yet, and
# where its arrivals stood before; the bytes up to which it is to be written when there are buffers;
# how long its barrier travelled, and one more, 0 while it has not been read; the number of its last
# message that waited for the socket, counted from 1.
(
    SOURCE,
    PLACE,
    RAMP,
    RAMP_END,
    POSITION,
    EMITTED,
    POLLED,
    HEAD,
    SEGMENTS_FROM,
    SEGMENTS,
    ELEMENTS,
    IS_AVAILABLE,
    FRONT_EVENT,
    TAIL_EVENT,
    HAS_PRIORITY_BARRIER,
    BARRIER_PLACE,
    BOUNDARIES_BEGIN,
    BOUNDARIES_END,
    IS_BLOCKED,
    FLUSH_REQUESTED,
    CONNECTION,
    IS_NOTIFIED,
    IS_ENQUEUED,
    CREDIT,
    OPENS_RAMP,
    OPENS_BASE,
    OPENS_RECORD,
    OPEN_FROM,
    IS_TAKEN_WHOLE,
    LENT_BUFFERS,
    SEGMENTS_BEFORE,
    IS_FINISHED,
    SENT,
    RECEIVED,
    CONSUMED,
    RING,
    SINK,
    FREE_EXCLUSIVE,
    FREE_FLOATING,
    REQUIRED,
    IS_WAITING,
    UNANNOUNCED,
    IS_QUEUED,
    IS_RELEASED,
    DONE_RAMP,
    DONE_POSITION,
    COUNTED_RAMP,
    COUNTED_RAMP_END,
    DEPARTURES,
    CHANNEL_BYTES,
    SENT_RAMP,
    SENT_POSITION,
    LAST_SENT_NS,
    BOUNDARIES,
    CLOSED_SEGMENTS,
    IS_BARRIER_RECEIVED,
    BARRIER_BEHIND,
    IS_MISSING,
    COUNTED_FROM_BYTES,
    BUFFER_BYTES,
    OPEN_UNTIL,
    TO_ANNOUNCE,
    BYTES_BEFORE,
    IS_COUNTED,
    HAS_ANNOUNCEMENT,
    TAKEN,
    SAVED_RAMP,
    SAVED_POSITION,
    WAITING_UNTIL,
    TRAVELLED,
    LAST_STAGED,
) = range(71)
CHANNEL_WORDS = 71
NOWHERE, BEFORE_TAIL, BEHIND_TAIL = range(3)
"""Where a barrier is: in front of the event at the tail if there is one, or behind it."""

RAMP_WORDS = 3  # records, first and last instant
ARRIVALS_WORDS = 3  # of a channel in `batches`: its next stretch, their end, records before it
BARRIER_WORDS = 3
"""Of a barrier that a task passes on: the instant, when its checkpoint began, and whether it
overtakes data."""

MESSAGE_WORDS = 6
"""Kind, records, whether its buffer is a floating one, when sent, longest wait, bytes."""

# A connection: its two TaskManagers, and which of their ends it has there; queues as address, begin
# and end, and how long they are, less one; all lengths are powers of two. Then what the socket is
# asked to take: bytes so far, messages whose segments come back when it has taken them, whether
# there are any or nothing is handed over, and whether that is so. Then, without credit: the first
# message read that has not come to its channel, whether it waits for a buffer or has one, whether
# what waits is due, and where it stands when messages were sent, 0 for nowhere.
(
    UPSTREAM,
    UPSTREAM_PLACE,
    DOWNSTREAM,
    DOWNSTREAM_PLACE,
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
    UNREAD_BYTES,
    SENT_BYTES,
    STAGED,
    STAGED_BEGIN,
    STAGED_END,
    IS_PRESSED,
    IS_UNWRITABLE,
    UNDELIVERED,
    WAITS_FOR_BUFFER,
    IS_DUE,
    STAMPS,
) = range(33)
CONNECTION_WORDS = 33
IS_LISTENING, HAS_BUFFER = 1, 2
CONTROL_WORDS = 2  # channel, what to say
DOWN_WORDS = 6  # channel, backlog (without credit: records), bytes, piece, when it arrives, kind
STAMP_WORDS = 2  # when sent, longest wait
UP_WORDS = 3  # channel, credit or what else is said, when it arrives
STAGED_WORDS = 3  # bytes up to its end, of all that was sent; channel; segments

# A source: its channels, when its data ends, its pool, its flusher, its last step; where it stands;
# timetables of its channels, of their next records and of those that open their next segments; sums
# over its channels, and the buffers that local consumers work on; when it is to pass on barriers,
# where no coordinator begins checkpoints; whether barriers that may time out have not
# all left, and when they do; the channels of which records were taken; its pool's overdraft, and
# channels at their quota; the place of the channel that waits for a buffer, counted from 1, whether
# it has waited when it last wanted one, whether it has barriers to write, and whether all of its
# records have been taken; more of a channel than these are no single batch, and do not fit into its
# pool; when it wrote its last barriers; its link, 0 for none; while the coordinator of an exchange
# before waits for its barriers to leave, where the next one stood when that checkpoint began, or 0;
# at the highest rate, the next batch, and where these end: records for each channel.
(
    OUTPUTS,
    OUTPUTS_COUNT,
    END_NS,
    POOL_BUFFERS,
    FLUSH_NS,
    AGAIN_NS,
    IDLE_SEEN_NS,
    STATE,
    UNACKNOWLEDGED,
    RECORDS_DUE,
    SEGMENTS_DUE,
    ALL_SEGMENTS,
    ALL_ELEMENTS,
    AVAILABLE,
    LENT,
    NEXT_BARRIER,
    BARRIERS_END,
    IS_WATCHED,
    TIMES_OUT_NS,
    TOUCHED,
    TOUCHED_COUNT,
    OVERDRAFT_BUFFERS,
    AT_QUOTA,
    WAITS_AT,
    HAS_WAITED,
    HAS_TO_CHECKPOINT,
    HAS_ENDED,
    MOST_RECORDS,
    WRITTEN_NS,
    LINK,
    OWES_FROM,
    BATCH,
    BATCHES_END,
) = range(33)
SOURCE_WORDS = 33
RUNNING, AWAITING_ACKNOWLEDGEMENT, FINISHED = range(3)

# A sink: its channels, its work, its gate's queue, its pool of floating buffers; channels that have
# not ended; the last checkpoint that it confirmed; whether it aligns barriers, since when and how
# many bytes, of how many channels and from how many it has them, those it has blocked; where to
# note when it has passed on the next checkpoint, and where there is no more room; channels with
# unaligned barriers, when it reads these if it is at work, and the bytes that they have overtaken;
# since when it has nothing to read, -1 while it has, how long that was before, and when that last
# changed; the rate, instant, bytes and time without data when its gate was last looked at, and the
# buffer size that it announced last. Of the checkpoint whose barriers it waits for: whether one has
# come, whether they overtake data, whether it has been taken, when it times out, and the channels
# whose barriers are announced. Of a task that writes, too: its relay, 0 for none; whether it waits
# for buffers; the buffer that it took last, whether its records are passed on, and when it began.
# How many checkpoints it has aligned, how many of them were looked at, and whether the coordinator
# of an exchange before waits for the next.
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
    OPEN_INPUTS,
    READ_BYTES,
    CONFIRMED,
    IS_ALIGNING,
    BEGUN_NS,
    START_DELAY_NS,
    BEGUN_BYTES,
    TO_ALIGN,
    ALIGNED,
    BLOCKED,
    BLOCKED_COUNT,
    ALIGNMENTS,
    ALIGNMENTS_END,
    PRIORITIES,
    PRIORITIES_BEGIN,
    PRIORITIES_END,
    MAIL_NS,
    COUNTED_BYTES,
    IDLE_SINCE_NS,
    IDLE_BEFORE_NS,
    MARKED_NS,
    SEEN_RATE,
    SEEN_NS,
    SEEN_BYTES,
    SEEN_IDLE_NS,
    ANNOUNCED_BYTES,
    HAS_BARRIER,
    IS_OVERTAKING,
    IS_TRIGGERED,
    DEADLINE_NS,
    ANNOUNCED,
    ANNOUNCED_COUNT,
    RELAY,
    IS_HELD_UP,
    TOOK,
    TOOK_RECORDS,
    TOOK_NS,
    HAS_TAKEN,
    FINISHED_ALIGNMENTS,
    SEEN_ALIGNMENTS,
    OWES_ALIGNMENT,
) = range(56)
SINK_WORDS = 56

# A TaskManager, the coordinator behind them, and behind that the timer of each one's debloating:
# its place in the timetable of turns, the number of its request for the next one,
# its loop, lists of its tasks; its ends of connections, and timetables of what arrives there and,
# as 0, of what has something to send; the last two instants for which it had asked before it asked
# for an earlier one, with the numbers of these requests; the last request that the simulator may
# have numbered otherwise, as quiet turns came after it; when it is kept from its work next, each
# with how long, and where that ends; how long it takes to get going after it was idle, over and
# over: where these times stand, how many, and which is next.
NUMBER, ASKED, FREE_SINCE_NS, IDLE_NS, OWN_SOURCES, OWN_SOURCES_COUNT = range(6)
OWN_SINKS, OWN_SINKS_COUNT, HAS_LOCAL_CHANNELS, ENDS, ARRIVALS, UNSENT = range(6, 12)
LATER_NS, LATER_ASKED, LATEST_NS, LATEST_ASKED, DOUBTED = range(12, 17)
PREEMPTION, PREEMPTIONS_END, WAKEUPS, WAKEUPS_COUNT, NEXT_WAKEUP = range(17, 22)
TASK_MANAGER_WORDS = 22
END_WORDS = 2  # connection, whether it is its upstream end

# The floating-point numbers: costs, then latencies by bucket, then differences of their density,
# then the lowest and the highest latencies by bucket, where it is unknown when records came. One of
# the costs is what a new buffer size counts against those before.
SEND_NS_PER_MESSAGE, SEND_NS_PER_BYTE, EMIT_NS_PER_RECORD, NEWEST_SHARE, COUNTS = range(5)
