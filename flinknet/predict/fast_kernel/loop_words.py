"""More words of the kernel's memory, in a run whose event loops have costs of their parts: what
stands behind `words.LOOP`, MEMORY, STREAM, POOL_MEMORY and LOOP_STATE."""

from __future__ import annotations

# Of the run: costs that are whole ns; the bytes of which TCP hands on what is sent at one go; the
# buffers of a run that are received at once, and those that are read at once; whether sinks read
# such runs; where the costs stand that are no whole ns.
TAKE_CREDIT_NS, PICK_NS, SEND_NS, RECEIVE_NS, ANNOUNCE_NS, PART_BYTES = range(6)
FILL_BUFFERS, READ_BUFFERS, READS_RUNS, COSTS = range(6, 10)
RUN_WORDS = 10

# Costs: of a byte received; of decoding, and for each message; of a turn in which a sink reads, and
# from then on for each record, by sink.
RECEIVE_PER_BYTE, DECODE, DECODE_PER_BUFFER, READ, CONSUME = range(5)

# Of a channel: the sixteen bytes of its receiver's id, in two words; its free buffers by number, in
# the order in which they are taken: where these stand, from and to, and how many there is room for;
# whether a barrier has overtaken what comes next.
ID_HIGH, ID_LOW, FREE, FREE_BEGIN, FREE_END, FREE_ROOM, IS_BROKEN = range(7)
MEMORY_WORDS = 7

# Of a connection: parts of its stream that are on their way; the bytes of the first message that is
# not whole that were read; the channel of the run of buffers that it may go on with, 0 for none,
# and the size of these; the buffer that is being filled, and whether it is a floating one.
PARTS, PARTS_MASK, PARTS_BEGIN, PARTS_END, INTO, RUN, RUN_BYTES, FILLED, IS_FILLED_FLOATING = range(
    9
)
STREAM_WORDS = 9
PART_WORDS = 2  # bytes up to its end, of all that was sent; when it arrives

# Of a sink: the free buffers of its pool by number, first come, first served; where the number of
# the next new one stands; where the costs of its records stand; the channels whose data has ended,
# and where it stands itself, as a source.
KEPT, KEPT_MASK, KEPT_BEGIN, KEPT_END, NEXT_NEW, CONSUME_AT, ENDED_DATA, TASK_STATE = range(8)
POOL_WORDS = 8

# Of a TaskManager: whether it has still to send what it let go in the turn before; the number of
# the next new buffer; what the parts of its turns take more or less, over and over: of each kind
# where these times stand, how many, and which is next.
IS_UNSENT, NEXT_SEGMENT, JITTERS = range(3)
PICK_JITTER, SEND_JITTER, WRITE_JITTER, DECODE_JITTER, ANNOUNCE_JITTER, READ_JITTER = range(6)
JITTER_KINDS, JITTER_WORDS = 6, 3
STATE_WORDS = 2 + JITTER_KINDS * JITTER_WORDS
