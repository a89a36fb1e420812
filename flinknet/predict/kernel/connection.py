"""A connection: buffers go down, credit comes up, each when its reader has a turn."""

from __future__ import annotations

from . import (
    ACKNOWLEDGE,
    BUFFER_SIZE,
    DATA,
    NEVER,
    NOTHING,
    PRIORITY_BARRIER,
    RESUME,
    SEND_NS_PER_BYTE,
    SEND_NS_PER_MESSAGE,
)
from .compiling import Numbers, compile_all
from .ends import (
    batch_limit,
    is_narrow,
    is_stopped,
    lay_down,
    queue_message,
    receive_backlog,
    receive_barrier_before_all,
    receive_without_credit,
    settle,
    stage,
    take_free,
)
from .memory import Channel, Connection, Exchange, TaskManager
from .subpartition import append_reader, may_send, note, notify, poll
from .times import due_ns, longest_wait_ns, set_due


def _has_passed(m: Exchange, at_ns: int, asked: int) -> bool:
    """Whether a request has lost its place among those for an instant, since others behind it have
    had their turn."""
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
    if due != NEVER:
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
    and nothing if enough waits for the socket. Returns: messages, and their bytes."""
    mask, is_tcp = connection.slots_mask, m.without_credit
    may_wait = is_narrow(m, connection)
    if may_wait:
        settle(m, connection)
    for place in range(connection.notified_count):
        channel = connection.notified[place]
        channel.is_notified = 0
        if not channel.is_enqueued and may_send(channel):
            append_reader(connection, channel)
    connection.notified_count = 0
    has_readers = connection.readers_begin < connection.readers_end
    if not has_readers or connection.is_unwritable:
        return 0, 0
    left, messages, sent_bytes = m.batch_bytes, 0, 0
    is_limited = is_in_run = False
    if may_wait:
        left, is_limited = batch_limit(m, connection)
    while left > 0 and connection.readers_begin < connection.readers_end:
        channel = connection.readers[connection.readers_begin & connection.width_mask]
        connection.readers_begin += 1
        channel.is_enqueued = 0
        polled, segments, runs = channel.polled, 0, False
        if may_wait:
            segments = channel.segments
            is_alone = connection.readers_begin == connection.readers_end
            runs = is_alone and not is_limited and channel.elements > 1
        kind, size, backlog, following = poll(m, channel)
        if may_wait:
            segments -= channel.segments
            end_bytes = connection.sent_bytes + sent_bytes + size + m.header_bytes
            continues = stage(m, connection, channel, kind, segments, end_bytes, is_in_run and runs)
            is_in_run = runs and continues
        if kind == NOTHING:
            continue
        records = 0
        if kind == DATA:
            channel.credit -= 1
            records = (polled + size) // m.record_bytes - polled // m.record_bytes
            count_message(m, now, backlog)
        if following and (channel.credit > 0 or following == 2):
            append_reader(connection, channel)
        entry = connection.down[connection.down_end & mask]
        connection.down_end += 1
        entry.channel, entry.kind, entry.backlog = channel, kind, backlog
        entry.size, entry.piece = size + m.header_bytes, connection.pieces
        if is_tcp:
            longest_ns = 0
            if kind == DATA and not m.has_instants:
                longest_ns = longest_wait_ns(m, channel, records, backlog, now)
            lay_down(m, connection, entry, records, now, longest_ns)
        elif kind != PRIORITY_BARRIER:
            message = channel.ring[channel.sent & m.ring_mask]
            channel.sent += 1
            message.kind, message.records, message.size = kind, records, size
            if kind == DATA and not m.has_instants:
                message.sent_ns = now
                message.wait_ns = longest_wait_ns(m, channel, records, backlog, now)
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


def pump_up(m: Exchange, f: Numbers, connection: Connection, now: int) -> int:
    """Send what the readers of a connection may, until enough waits for the socket.

    Returns: when the sender is done with it."""
    mask, is_tcp = connection.slots_mask, m.without_credit
    while True:
        first = connection.down_end
        messages, sent_bytes = hand_over(m, connection, now)
        if messages == 0:
            return now
        now += int(f[SEND_NS_PER_MESSAGE] * messages + f[SEND_NS_PER_BYTE] * sent_bytes)
        arrival_ns = now + m.latency_ns
        for number in range(first, connection.down_end):
            connection.down[number & mask].arrives_ns = arrival_ns
        oldest = connection.down[connection.down_begin & mask]
        if is_tcp and is_stopped(connection):
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
            if not channel.is_enqueued and may_send(channel):
                append_reader(connection, channel)
        elif entry.says == RESUME:
            channel.is_blocked = 0
            note(m, channel)
            notify(channel)
        elif entry.says == ACKNOWLEDGE:
            channel.source.unacknowledged -= 1
        elif entry.says <= BUFFER_SIZE:
            channel.buffer_bytes = BUFFER_SIZE - entry.says
    connection.up_begin = connection.up_end = 0
    return NEVER


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
        if what == BUFFER_SIZE:
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
            m.credit_messages += 1
    connection.creditors_count = 0
    if connection.up_end > sent:
        m.has_sent = 1
        oldest = connection.up[connection.up_begin & connection.slots_mask]
        announce(m, connection.upstream, connection.upstream_place, oldest.arrives_ns)


def receive_down(m: Exchange, connection: Connection, now: int) -> int:
    """Read messages that have arrived, piece by piece, and wake the sender if its socket was full.
    Returns: the instant at which the next piece arrives."""
    if connection.unread_bytes >= m.link_bytes:
        wake(m, connection.upstream, now)
    if m.without_credit:
        return receive_without_credit(m, connection, now)
    mask, left, piece = connection.slots_mask, m.receive_bytes, -1
    while connection.down_begin < connection.down_end:
        entry = connection.down[connection.down_begin & mask]
        if entry.piece != piece:
            if left <= 0 or entry.arrives_ns > now:
                return entry.arrives_ns
            piece = entry.piece
        connection.down_begin += 1
        left -= entry.size
        connection.unread_bytes -= entry.size
        channel, kind = entry.channel, entry.kind
        if kind == PRIORITY_BARRIER:
            receive_barrier_before_all(channel)
        else:
            if kind == DATA:
                message = channel.ring[channel.received & m.ring_mask]
                message.is_floating = take_free(channel)
            queue_message(m, channel, kind)
        receive_backlog(m, channel, entry.backlog)
    connection.down_begin = connection.down_end = 0
    return NEVER


compile_all(globals(), hand_over)
