"""A connection: buffers go down, credit comes up, each when its reader has a turn.

At the producers, messages that a socket does not take wait, with their segments; above a mark
nothing more is handed over. At the consumers, without credit, a message for which its gate has no
buffer waits, with all that was read behind it, and the socket is not read meanwhile.
"""

from __future__ import annotations

from .. import kernel
from . import channel as ends
from .compiling import compile_all
from .memory import Channel, Connection, Exchange, Sink, Staged, TaskManager
from .times import due_ns, set_due


def _has_passed(m: Exchange, at_ns: int, asked: int) -> bool:
    """Whether later requests for the instant of a request have had their turn."""
    return at_ns == m.passed_ns and asked < m.passed_asked


def wake(m: Exchange, task_manager: TaskManager, at_ns: int) -> None:
    """Ask for a turn, unless an earlier one is asked for. Who has asked for this instant before,
    and then for an earlier one, has its place among those of this instant still, once, unless that
    was before the turn that is taken."""
    at_ns = max(at_ns, task_manager.free_since_ns)
    due = due_ns(m.wakes, task_manager.number)
    if at_ns >= due:
        return
    m.turns_asked += 1
    asked = m.turns_asked
    if at_ns == task_manager.later_ns and not _has_passed(m, at_ns, task_manager.later_asked):
        asked = task_manager.later_asked
        task_manager.later_asked = m.turns_asked
    elif at_ns == task_manager.latest_ns and not _has_passed(m, at_ns, task_manager.latest_asked):
        asked = task_manager.latest_asked
        task_manager.latest_asked = m.turns_asked
    if due != kernel.NEVER:
        task_manager.latest_ns = task_manager.later_ns
        task_manager.latest_asked = task_manager.later_asked
        task_manager.later_ns, task_manager.later_asked = due, task_manager.asked
    task_manager.asked = asked
    set_due(m.wakes, task_manager.number, at_ns)


def count_message(m: Exchange, now: int, backlog: int) -> None:
    """A data buffer is sent."""
    if m.counted_from_ns <= now < m.counted_to_ns:
        m.messages += 1
        m.backlog_total += backlog
        m.backlog_max = max(m.backlog_max, backlog)


def hand_over(m: Exchange, connection: Connection, now: int) -> tuple[int, int]:
    """ProducerConnection.data_to_send: what the readers of a connection may send, up to a batch,
    and nothing if enough waits for the socket; each buffer by itself if the room in the socket
    limits them. Returns: messages, and their bytes."""
    mask, room = connection.slots_mask, m.link_bytes - connection.unread_bytes
    may_wait = room < m.narrow_bytes or connection.is_pressed > 0
    if may_wait:
        _settle(m, connection)
    for place in range(connection.notified_count):
        channel = connection.notified[place]
        channel.is_notified = 0
        if not channel.is_enqueued and ends.may_send(channel):
            ends.append_reader(connection, channel)
    connection.notified_count = 0
    has_readers = connection.readers_begin < connection.readers_end
    if not has_readers or connection.is_unwritable:
        return 0, 0
    left, messages, sent_bytes = m.batch_bytes, 0, 0
    is_limited, is_in_run = room < left, False
    if is_limited:
        left = min(left, room + m.high_bytes + 1)
    while left > 0 and connection.readers_begin < connection.readers_end:
        channel = connection.readers[connection.readers_begin & connection.width_mask]
        connection.readers_begin += 1
        channel.is_enqueued = 0
        polled, segments, runs = channel.polled, 0, False
        if may_wait:
            segments = channel.segments
            is_alone = connection.readers_begin == connection.readers_end
            runs = is_alone and not is_limited and channel.elements > 1
        kind, size, backlog, following = ends.poll(m, channel)
        if may_wait:
            segments -= channel.segments
            end_bytes = connection.sent_bytes + sent_bytes + size + m.header_bytes
            continues = _stage(m, connection, channel, kind, segments, end_bytes, is_in_run & runs)
            is_in_run = runs and continues
        if kind == kernel.NOTHING:
            continue
        records = 0
        if kind == kernel.DATA:
            channel.credit -= 1
            records = (polled + size) // m.record_bytes - polled // m.record_bytes
            count_message(m, now, backlog)
        if following and (channel.credit > 0 or following == 2):
            ends.append_reader(connection, channel)
        entry = connection.down[connection.down_end & mask]
        entry.channel, entry.kind, entry.backlog = channel, kind, backlog
        entry.size, entry.piece = size + m.header_bytes, connection.pieces
        if m.without_credit:  # its channel has no room for it until there is a buffer
            entry.backlog = records
            if connection.down_end - connection.undelivered >= mask:
                m.ended = kernel.ROOM_MISSING
        elif kind != kernel.PRIORITY_BARRIER:
            message = channel.ring[channel.sent & m.ring_mask]
            channel.sent += 1
            message.kind, message.records, message.size = kind, records, size
        connection.down_end += 1
        size += m.header_bytes
        messages += 1
        sent_bytes += size
        left -= size
    if messages:
        connection.pieces += 1
        m.has_sent = 1
        connection.unread_bytes += sent_bytes
        connection.sent_bytes += sent_bytes
    return messages, sent_bytes


def pump_up(m: Exchange, connection: Connection, now: int) -> int:
    """Send what the readers of a connection may, until enough waits for the socket. Returns: when
    the sender is done with it."""
    mask = connection.slots_mask
    while True:
        first = connection.down_end
        messages, sent_bytes = hand_over(m, connection, now)
        if messages == 0:
            return now
        now += int(m.send_ns_per_message * messages + m.send_ns_per_byte * sent_bytes)
        arrival_ns = now + m.latency_ns
        for number in range(first, connection.down_end):
            connection.down[number & mask].arrives_ns = arrival_ns
        oldest = connection.down[connection.down_begin & mask]
        if _is_stopped(connection):
            wake(m, connection.downstream, max(oldest.arrives_ns, m.turn_ns))
            continue
        announce(m, connection.downstream, connection.downstream_place, oldest.arrives_ns)


def announce(m: Exchange, task_manager: TaskManager, place: int, at_ns: int) -> None:
    """Something is on its way to an end of a connection."""
    set_due(task_manager.arrivals, place, at_ns)
    wake(m, task_manager, at_ns)


def receive_up(m: Exchange, connection: Connection, now: int) -> int:
    """Credit comes back, and channels that were blocked go on. Returns: when the next arrives.
    Queues that run empty begin at their first slot again, here and below: the memory that is used
    stays small, however many connections there are."""
    while connection.up_begin < connection.up_end:
        entry = connection.up[connection.up_begin & connection.slots_mask]
        if entry.arrives_ns > now:
            return entry.arrives_ns
        connection.up_begin += 1
        channel = entry.channel
        if entry.says > 0:
            channel.credit += entry.says
            if not channel.is_enqueued and ends.may_send(channel):
                ends.append_reader(connection, channel)
        elif entry.says == kernel.RESUME:
            channel.is_blocked = 0
            ends.note(m, channel)
            ends.notify(channel)
        elif entry.says == kernel.ACKNOWLEDGE:
            channel.source.unacknowledged -= 1
        elif entry.says <= kernel.BUFFER_SIZE:
            channel.buffer_bytes = kernel.BUFFER_SIZE - entry.says
    connection.up_begin = connection.up_end = 0
    return kernel.NEVER


def _append_up(connection: Connection, channel: Channel, credit: int, at_ns: int) -> None:
    entry = connection.up[connection.up_end & connection.slots_mask]
    connection.up_end += 1
    entry.channel, entry.says, entry.arrives_ns = channel, credit, at_ns


def pump_down(m: Exchange, connection: Connection, now: int) -> None:
    """Send the announcements of the consumers."""
    sent = connection.up_end
    at_ns = now + m.back_ns
    is_counted = m.counted_from_ns <= now < m.counted_to_ns
    control, creditors = connection.control, connection.creditors
    for place in range(connection.control_count):
        channel, what = control[place].channel, control[place].says
        if what == kernel.BUFFER_SIZE:
            what -= channel.to_announce
            channel.to_announce = 0
        _append_up(connection, channel, what, at_ns)
    connection.control_count = 0
    for place in range(connection.creditors_count):
        channel = creditors[place]
        credit = channel.unannounced
        channel.unannounced = 0
        if channel.is_released:
            continue
        _append_up(connection, channel, credit, at_ns)
        if is_counted:
            m.credits += credit
    connection.creditors_count = 0
    if connection.up_end > sent:
        m.has_sent = 1
        oldest = connection.up[connection.up_begin & connection.slots_mask]
        announce(m, connection.upstream, connection.upstream_place, oldest.arrives_ns)


def _settle(m: Exchange, connection: Connection) -> None:
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
            ends.lend(m, entry.channel, -entry.segments)
    waits = connection.staged_begin < connection.staged_end
    connection.is_pressed = 1 if waits or connection.is_unwritable else 0


def _stage(
    m: Exchange,
    connection: Connection,
    channel: Channel,
    kind: int,
    segments: int,
    sent_bytes: int,
    is_in_run: bool,
) -> bool:
    """Keep the segments of a message that was polled until the socket has taken it: its own, and
    empty rests of earlier ones. Within a run it comes back together with the one before it.
    Returns: whether more may come back together with it."""
    own = channel.is_taken_whole if kind == kernel.DATA else 0
    rests = segments - own
    if rests and channel.last_staged > connection.staged_begin:
        _staged(connection, channel.last_staged - 1).segments += rests
        ends.lend(m, channel, rests)
    if kind != kernel.DATA:
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
        ends.lend(m, channel, own)
    channel.last_staged = connection.staged_end
    connection.is_pressed = 1
    return rests == 0


def _staged(connection: Connection, number: int) -> Staged:
    return connection.staged[number & connection.slots_mask]


def _is_stopped(connection: Connection) -> bool:
    """Whether a message waits for a buffer, so that the socket is not read."""
    return connection.undelivered < connection.down_begin


def receive_down(m: Exchange, connection: Connection, now: int) -> int:
    """Read messages that have arrived, piece by piece, until one of them has to wait, and wake the
    sender if its socket was full. Returns: when the next piece arrives that is to be read."""
    if connection.unread_bytes >= m.link_bytes:
        wake(m, connection.upstream, now)
    mask, left, piece = connection.slots_mask, m.receive_bytes, -1
    while connection.down_begin < connection.down_end:
        entry = connection.down[connection.down_begin & mask]
        if entry.piece != piece:
            if _is_stopped(connection):
                return kernel.NEVER
            if left <= 0 or entry.arrives_ns > now:
                return entry.arrives_ns
            piece = entry.piece
        left -= entry.size
        connection.unread_bytes -= entry.size
        connection.down_begin += 1
        if connection.undelivered < connection.down_begin - 1:
            continue
        if _deliver(m, connection):
            connection.undelivered += 1
        else:
            m.stops += 1
    if not _is_stopped(connection):
        connection.down_begin = connection.down_end = connection.undelivered = 0
    return kernel.NEVER


def deliver_waiting(m: Exchange, connection: Connection) -> None:
    """PartitionRequestClientHandler.handle_deadline: pass on what waits, until a buffer is missing
    again; after the last message the socket is read again."""
    connection.is_due = 0
    m.has_delivered = 1
    while _is_stopped(connection):
        if not _deliver(m, connection):
            return
        connection.undelivered += 1
    if connection.down_begin == connection.down_end:
        connection.down_begin = connection.down_end = connection.undelivered = 0
        return
    entry = connection.down[connection.down_begin & connection.slots_mask]
    set_due(connection.downstream.arrivals, connection.downstream_place, entry.arrives_ns)


def _finds_buffer(connection: Connection, sink: Sink) -> bool:
    """StagedBuffer.find_memory: take a buffer for the first message that has none, or wait for one.
    Returns: whether there is one."""
    if connection.waits_for_buffer == kernel.HAS_BUFFER:
        connection.waits_for_buffer = 0
        return True
    if connection.waits_for_buffer:
        return False
    if sink.pool_free > 0:
        sink.pool_free -= 1
        return True
    connection.waits_for_buffer = kernel.IS_LISTENING
    sink.listeners[sink.listeners_end & sink.gate_mask] = connection.at
    sink.listeners_end += 1
    return False


def _deliver(m: Exchange, connection: Connection) -> bool:
    """RemoteInputChannel.receive_buffer: pass the first message that has not been delivered to its
    channel, and ask for the buffers that its backlog needs. Returns: False if it has to wait."""
    number = connection.undelivered & connection.slots_mask
    entry, has_credit = connection.down[number], m.without_credit == 0
    channel, kind = entry.channel, entry.kind
    if kind == kernel.DATA and not has_credit and not _finds_buffer(connection, channel.sink):
        return False
    if kind == kernel.PRIORITY_BARRIER:  # is read before the messages that have come
        channel.barrier_behind = channel.received
        ends.queue_barrier(channel)
    else:
        message = channel.ring[channel.received & m.ring_mask]
        channel.received += 1
        if not has_credit:
            channel.sent = channel.received
            message.kind, message.records, message.is_floating = kind, entry.backlog, 1
            message.size = entry.size - m.header_bytes
        elif kind == kernel.DATA:  # BufferManager.take
            message.is_floating = 1 if channel.free_floating > 0 else 0
            channel.free_floating -= message.is_floating
            channel.free_exclusive -= 1 - message.is_floating
        if not channel.is_queued:
            ends.queue_channel(channel)
        if kind == kernel.BARRIER and m.aligned_timeout_ns:
            channel.has_announcement = 1
            ends.queue_barrier(channel)
    if has_credit:
        channel.required = entry.backlog + m.exclusive_buffers
        if not channel.is_waiting:
            gained = ends.request_floating(channel)
            if gained:
                ends.notify_credit(channel, gained)
    return True


compile_all(globals(), hand_over, _deliver)
