"""The ends of a channel and its connection: at the consumer buffers, credit to announce, and the
place in its gate; at the producer buffers that are lent; and sockets that are full or not read.

At the producer, messages that a socket does not take wait, with their segments; above a mark
nothing more is handed over. At the consumer, without credit, a message for which its gate has no
buffer waits, with all that was read behind it, and the socket is not read meanwhile.
"""

from __future__ import annotations

from . import (
    BARRIER,
    CANCEL,
    DATA,
    HAS_BUFFER,
    IS_LISTENING,
    NEVER,
    PRIORITY_BARRIER,
    ROOM_MISSING,
    WRITER_WAITS,
)
from .compiling import compile_all
from .memory import (
    NO_CHANNEL,
    SENT_WORDS,
    Channel,
    Connection,
    Exchange,
    Sent,
    Sink,
    Source,
    Staged,
)
from .times import set_due


def charge(m: Exchange, channel: Channel, buffers: int) -> None:
    """Count a channel that comes to its quota of buffers, or below it."""
    count, quota = channel.segments + channel.lent_buffers, m.quota_buffers
    if count < quota <= count + buffers:
        channel.source.at_quota += 1
    elif count + buffers < quota <= count:
        channel.source.at_quota -= 1


def lend(m: Exchange, channel: Channel, buffers: int) -> None:
    """A local consumer takes a buffer out of the subpartition, or is done with it."""
    charge(m, channel, buffers)
    channel.lent_buffers += buffers
    channel.source.lent += buffers


def is_pool_available(source: Source) -> bool:
    """LocalBufferPool.is_available: whether a new record may be begun."""
    used = source.all_segments + source.lent
    return source.at_quota == 0 and used < source.pool_buffers


def _has_something_to_say(connection: Connection) -> None:
    set_due(connection.downstream.unsent, connection.downstream_place, 0)


def notify_credit(channel: Channel, credit: int) -> None:
    if channel.unannounced == 0:
        connection = channel.connection
        connection.creditors[connection.creditors_count] = channel
        connection.creditors_count += 1
        _has_something_to_say(connection)
    channel.unannounced += credit


def say(channel: Channel, what: int) -> None:
    """Queue a message that is no credit."""
    connection = channel.connection
    _has_something_to_say(connection)
    entry = connection.control[connection.control_count]
    connection.control_count += 1
    entry.channel, entry.says = channel, what


def request_floating(channel: Channel) -> int:
    """Take the floating buffers that a channel lacks, or wait for them. Returns: their number."""
    sink = channel.sink
    missing = channel.required - channel.free_floating - channel.free_exclusive
    gained = 0
    while gained < missing:
        if sink.pool_free == 0:
            channel.is_waiting = 1
            sink.listeners[sink.listeners_end & sink.gate_mask] = channel.at
            sink.listeners_end += 1
            break
        sink.pool_free -= 1
        channel.free_floating += 1
        gained += 1
    return gained


def _hand_over(connection: Connection) -> None:
    """Without credit: there is a buffer for the message that a connection waits with."""
    connection.waits_for_buffer, connection.is_due = HAS_BUFFER, 1
    _has_something_to_say(connection)


def recycle_floating(m: Exchange, sink: Sink) -> None:
    """LocalBufferPool.recycle: to the first waiting channel that still needs it."""
    while sink.listeners_begin < sink.listeners_end:
        listener = sink.listeners[sink.listeners_begin & sink.gate_mask]
        sink.listeners_begin += 1
        if m.without_credit:
            _hand_over(Connection(m.words, listener))
            return
        channel = Channel(m.words, listener)
        channel.is_waiting = 0
        missing = channel.required - channel.free_floating - channel.free_exclusive
        if missing > 0:
            channel.free_floating += 1
            more = request_floating(channel) if missing > 1 else 0
            notify_credit(channel, 1 + more)
            return
    sink.pool_free += 1


def release(m: Exchange, channel: Channel) -> None:
    """Release an input channel: nothing waits any more, and free buffers go back."""
    channel.is_released = 1
    if not channel.connection:
        return
    channel.required = 0
    floating = channel.free_floating
    channel.free_floating = 0
    for _ in range(floating):
        recycle_floating(m, channel.sink)
    say(channel, CANCEL)
    connection = channel.connection
    if connection.undelivered < connection.down_begin and m.without_credit:
        connection.is_due = 1  # what waits may have been its own


def recycle_held(m: Exchange, sink: Sink) -> None:
    """The buffer that the task is done with."""
    channel = sink.held
    if not channel:
        return
    sink.held = NO_CHANNEL
    if not channel.connection:
        lend(m, channel, -sink.is_held_floating)
        return
    if sink.is_held_floating:
        recycle_floating(m, sink)
        return
    channel.free_exclusive += 1
    free = channel.free_floating + channel.free_exclusive
    if channel.free_floating > 0 and free > channel.required:
        channel.free_floating -= 1
        recycle_floating(m, sink)
    else:
        notify_credit(channel, 1)


def queue_barrier(channel: Channel) -> None:
    """SingleInputGate._queue_priority_channel: a channel with an unaligned barrier is read before
    others, also if it is queued."""
    if channel.is_barrier_received or channel.is_released:
        return
    sink = channel.sink
    mask, ready = sink.gate_mask, sink.ready
    if channel.is_queued:
        place = sink.ready_begin
        while ready[place & mask] != channel:
            place += 1
        sink.ready_end -= 1
        while place < sink.ready_end:
            ready[place & mask] = ready[place + 1 & mask]
            place += 1
    channel.is_queued = channel.is_barrier_received = 1
    sink.priorities[sink.priorities_end & mask] = channel
    sink.priorities_end += 1


def queue_channel(channel: Channel) -> None:
    sink = channel.sink
    channel.is_queued = 1
    sink.ready[sink.ready_end & sink.gate_mask] = channel
    sink.ready_end += 1


def queue_message(m: Exchange, channel: Channel, kind: int) -> None:
    """RemoteInputChannel.receive_buffer: the next message of a channel is there."""
    channel.received += 1
    if not channel.is_queued:
        queue_channel(channel)
    if kind == BARRIER and m.aligned_timeout_ns:
        channel.has_announcement = 1
        queue_barrier(channel)


def take_free(channel: Channel) -> int:
    """BufferManager.take: a buffer for the next message. Returns: whether it is a floating one."""
    channel.required -= 1
    if channel.free_floating > 0:
        channel.free_floating -= 1
        return 1
    channel.free_exclusive -= 1
    return 0


def receive_barrier_before_all(channel: Channel) -> None:
    """A barrier that has overtaken data is read before the messages that have come."""
    channel.barrier_behind = channel.received
    queue_barrier(channel)


def receive_backlog(m: Exchange, channel: Channel, backlog: int) -> None:
    """RemoteInputChannel.receive_backlog: ask for floating buffers, and announce those gained."""
    channel.required = backlog + m.exclusive_buffers
    if not channel.is_waiting:
        gained = request_floating(channel)
        if gained:
            notify_credit(channel, gained)


def is_narrow(m: Exchange, connection: Connection) -> bool:
    """Whether the next messages may have to wait for the socket, or some messages do."""
    room = m.link_bytes - connection.unread_bytes
    return room < m.narrow_bytes or connection.is_pressed > 0


def settle(m: Exchange, connection: Connection) -> None:
    """WriteWaterMarks.set_pending, and ProducerConnection's recycling of what the socket has taken
    since the last hand-over."""
    unsent_bytes = max(0, connection.unread_bytes - m.link_bytes)
    m.full_sockets += 1 if unsent_bytes else 0
    if unsent_bytes > m.high_bytes:
        connection.is_unwritable = 1
    elif unsent_bytes < m.low_bytes:
        connection.is_unwritable = 0
    taken_bytes = connection.sent_bytes - unsent_bytes
    while connection.staged_begin < connection.staged_end:
        entry = _staged(connection, connection.staged_begin)
        if entry.end_bytes > taken_bytes:
            break
        connection.staged_begin += 1
        if entry.segments:
            lend(m, entry.channel, -entry.segments)
    waits = connection.staged_begin < connection.staged_end
    connection.is_pressed = 1 if waits or connection.is_unwritable else 0


def batch_limit(m: Exchange, connection: Connection) -> tuple[int, bool]:
    """Bytes after which no further buffer is handed over at once, and whether the room in the
    socket limits them: then each buffer comes by itself."""
    room = m.link_bytes - connection.unread_bytes
    if room >= m.batch_bytes:
        return m.batch_bytes, False
    return min(m.batch_bytes, room + m.high_bytes + 1), True


def stage(
    m: Exchange,
    connection: Connection,
    channel: Channel,
    kind: int,
    segments: int,
    sent_bytes: int,
    is_in_run: bool,
) -> bool:
    """Keep the segments of a message that was polled until the socket has taken it.

    Args:
        segments: that left the subpartition with it: its own, and rests without bytes of such as
            wait already.
        sent_bytes: up to its end.
        is_in_run: whether it comes back together with the one before it.

    Returns: whether more may come back together with it.
    """
    own = channel.is_taken_whole if kind == DATA else 0
    rests = segments - own
    if rests and channel.last_staged > connection.staged_begin:
        _staged(connection, channel.last_staged - 1).segments += rests
        lend(m, channel, rests)
    if kind != DATA:
        return False
    is_in_run = is_in_run and rests == 0
    if not is_in_run:
        entry = _staged(connection, connection.staged_end)
        connection.staged_end += 1
        entry.channel, entry.segments = channel, 0
    entry = _staged(connection, connection.staged_end - 1)
    entry.end_bytes = sent_bytes
    entry.segments += own
    if own:
        lend(m, channel, own)
    channel.last_staged = connection.staged_end
    connection.is_pressed = 1
    return rests == 0


def _staged(connection: Connection, number: int) -> Staged:
    return connection.staged[number & connection.slots_mask]


def lay_down(
    m: Exchange, connection: Connection, entry: Sent, records: int, now: int, longest_wait_ns: int
) -> None:
    """Note what else there is to know of a message that is sent: its channel has no room for it
    until there is a buffer. The run ends if there is no room on the way either."""
    entry.backlog = records
    stamps = connection.stamps
    if stamps.at:
        stamp = stamps[(entry.at - connection.down.at) // SENT_WORDS]
        stamp.sent_ns, stamp.wait_ns = now, longest_wait_ns
    if connection.down_end - connection.undelivered > connection.slots_mask:
        m.ended = ROOM_MISSING


def is_stopped(connection: Connection) -> bool:
    """Whether a message waits for a buffer, so that the socket is not read."""
    return connection.undelivered < connection.down_begin


def receive_without_credit(m: Exchange, connection: Connection, now: int) -> int:
    """Read messages that have arrived, piece by piece, until one of them has to wait. Returns: the
    instant at which the next piece arrives that is to be read."""
    left, piece = m.receive_bytes, -1
    while connection.down_begin < connection.down_end:
        entry = _entry(connection, connection.down_begin)
        if entry.piece != piece:
            if is_stopped(connection):
                return NEVER
            if left <= 0 or entry.arrives_ns > now:
                return entry.arrives_ns
            piece = entry.piece
        left -= entry.size
        connection.unread_bytes -= entry.size
        was_stopped = is_stopped(connection)
        connection.down_begin += 1
        if was_stopped:
            continue
        if _deliver(m, connection, entry):
            connection.undelivered += 1
        else:
            m.stops += 1
            if not m.may_wait:
                m.ended = WRITER_WAITS
    if not is_stopped(connection):
        _begin_anew(connection)
    return NEVER


def deliver_waiting(m: Exchange, connection: Connection) -> None:
    """PartitionRequestClientHandler.handle_deadline: pass on what waits, until a buffer is missing
    again; after the last message the socket is read again."""
    connection.is_due = 0
    m.has_delivered = 1
    while is_stopped(connection):
        if not _deliver(m, connection, _entry(connection, connection.undelivered)):
            return
        connection.undelivered += 1
    if connection.down_begin == connection.down_end:
        _begin_anew(connection)
        return
    arrivals = connection.downstream.arrivals
    arrival_ns = _entry(connection, connection.down_begin).arrives_ns
    set_due(arrivals, connection.downstream_place, arrival_ns)


def _entry(connection: Connection, number: int) -> Sent:
    return connection.down[number & connection.slots_mask]


def _begin_anew(connection: Connection) -> None:
    connection.down_begin = connection.down_end = connection.undelivered = 0


def _finds_buffer(connection: Connection, sink: Sink) -> bool:
    """StagedBuffer.find_memory: whether there is a buffer for the first message that has none; if
    not, it is next to have one."""
    if connection.waits_for_buffer == HAS_BUFFER:
        connection.waits_for_buffer = 0
        return True
    if connection.waits_for_buffer:
        return False
    if sink.pool_free > 0:
        sink.pool_free -= 1
        return True
    connection.waits_for_buffer = IS_LISTENING
    sink.listeners[sink.listeners_end & sink.gate_mask] = connection.at
    sink.listeners_end += 1
    return False


def _deliver(m: Exchange, connection: Connection, entry: Sent) -> bool:
    """Pass a message to its channel. Returns: False if it must wait for a buffer."""
    channel, kind = entry.channel, entry.kind
    if kind == PRIORITY_BARRIER:
        receive_barrier_before_all(channel)
        return True
    if kind == DATA and not _finds_buffer(connection, channel.sink):
        return False
    message = channel.ring[channel.received & m.ring_mask]
    message.kind, message.records, message.is_floating = kind, entry.backlog, 1
    message.size = entry.size - m.header_bytes
    stamps = connection.stamps
    if stamps.at:
        stamp = stamps[(entry.at - connection.down.at) // SENT_WORDS]
        message.sent_ns, message.wait_ns = stamp.sent_ns, stamp.wait_ns
    queue_message(m, channel, kind)
    channel.sent = channel.received
    return True


compile_all(globals(), queue_channel, take_free, receive_backlog, queue_message, charge)
