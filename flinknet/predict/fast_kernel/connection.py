"""A connection: buffers go down, credit comes up, each when its reader has a turn."""

from __future__ import annotations

from . import words as w
from .compiling import compiled, inlined
from .input_channel import notify_credit, queue_barrier, queue_channel, request_floating
from .latencies import longest_wait_ns
from .sockets import batch_limit, is_narrow, settle, stage
from .subpartition import append_reader, may_send, note, notify, poll
from .tcp_mode import is_stopped, lay_down, receive_without_credit
from .timetable import due_ns, set_due
from .words import Numbers, Words


@compiled
def _has_passed(m: Words, request: int) -> bool:
    """Whether the place among others that an instant and the number behind it stand for is no more,
    since others at that instant that come behind it have had their turn."""
    return m[request] == m[w.PASSED_NS] and m[request + 1] < m[w.PASSED_ASKED]


@compiled
def wake(m: Words, task_manager: int, at_ns: int) -> None:
    """Ask for a turn, unless an earlier one is asked for. Who has asked for this instant before,
    and then for an earlier one, has its place among those of this instant still, once, unless that
    was before the turn that is taken.
    """
    at_ns = max(at_ns, m[task_manager + w.FREE_SINCE_NS])
    due = due_ns(m, m[w.WAKES], m[task_manager + w.NUMBER])
    if at_ns >= due:
        return
    m[w.TURNS_ASKED] += 1
    asked = m[w.TURNS_ASKED]
    if at_ns == m[task_manager + w.LATER_NS] and not _has_passed(m, task_manager + w.LATER_NS):
        asked = m[task_manager + w.LATER_ASKED]
        m[task_manager + w.LATER_ASKED] = m[w.TURNS_ASKED]
    elif at_ns == m[task_manager + w.LATEST_NS] and not _has_passed(m, task_manager + w.LATEST_NS):
        asked = m[task_manager + w.LATEST_ASKED]
        m[task_manager + w.LATEST_ASKED] = m[w.TURNS_ASKED]
    if due != w.NEVER:
        m[task_manager + w.LATEST_NS] = m[task_manager + w.LATER_NS]
        m[task_manager + w.LATEST_ASKED] = m[task_manager + w.LATER_ASKED]
        m[task_manager + w.LATER_NS] = due
        m[task_manager + w.LATER_ASKED] = m[task_manager + w.ASKED]
    m[task_manager + w.ASKED] = asked
    set_due(m, m[w.WAKES], m[task_manager + w.NUMBER], at_ns)


@compiled
def count_message(m: Words, now: int, backlog: int) -> None:
    """A data buffer is sent."""
    if m[w.COUNTED_FROM_NS] <= now < m[w.COUNTED_TO_NS]:
        m[w.MESSAGES] += 1
        m[w.BACKLOG_TOTAL] += backlog
        m[w.BACKLOG_MAX] = max(m[w.BACKLOG_MAX], backlog)


@inlined
def hand_over(m: Words, connection: int, now: int) -> tuple[int, int]:
    """ProducerConnection.data_to_send: what the readers of a connection may send, up to a batch,
    and nothing if enough waits for the socket. Returns: messages, and their bytes.
    """
    mask, is_tcp = m[connection + w.SLOTS_MASK], m[w.WITHOUT_CREDIT]
    may_wait = is_narrow(m, connection)
    if may_wait:
        settle(m, connection)
    notified = m[connection + w.NOTIFIED]
    for place in range(notified, notified + m[connection + w.NOTIFIED_COUNT]):
        channel = m[place]
        m[channel + w.IS_NOTIFIED] = 0
        if not m[channel + w.IS_ENQUEUED] and may_send(m, channel):
            append_reader(m, connection, channel)
    m[connection + w.NOTIFIED_COUNT] = 0
    has_readers = m[connection + w.READERS_BEGIN] < m[connection + w.READERS_END]
    if not has_readers or m[connection + w.IS_UNWRITABLE]:
        return 0, 0
    left, messages, sent_bytes = m[w.BATCH_BYTES], 0, 0
    is_limited = is_in_run = False
    if may_wait:
        left, is_limited = batch_limit(m, connection)
    while left > 0 and m[connection + w.READERS_BEGIN] < m[connection + w.READERS_END]:
        place = m[connection + w.READERS_BEGIN] & m[connection + w.WIDTH_MASK]
        channel = m[m[connection + w.READERS] + place]
        m[connection + w.READERS_BEGIN] += 1
        m[channel + w.IS_ENQUEUED] = 0
        polled, segments, runs = m[channel + w.POLLED], 0, False
        if may_wait:
            segments = m[channel + w.SEGMENTS]
            is_alone = m[connection + w.READERS_BEGIN] == m[connection + w.READERS_END]
            runs = is_alone and not is_limited and m[channel + w.ELEMENTS] > 1
        kind, size, backlog, following = poll(m, channel)
        if may_wait:
            segments -= m[channel + w.SEGMENTS]
            end_bytes = m[connection + w.SENT_BYTES] + sent_bytes + size + m[w.HEADER_BYTES]
            continues = stage(m, connection, channel, kind, segments, end_bytes, is_in_run and runs)
            is_in_run = runs and continues
        if kind == w.NOTHING:
            continue
        records = 0
        if kind == w.DATA:
            m[channel + w.CREDIT] -= 1
            records = (polled + size) // m[w.RECORD_BYTES] - polled // m[w.RECORD_BYTES]
            count_message(m, now, backlog)
        if following and (m[channel + w.CREDIT] > 0 or following == 2):
            append_reader(m, connection, channel)
        entry = m[connection + w.DOWN] + (m[connection + w.DOWN_END] & mask) * w.DOWN_WORDS
        m[connection + w.DOWN_END] += 1
        m[entry] = channel
        m[entry + 1] = backlog
        m[entry + 2] = size + m[w.HEADER_BYTES]
        m[entry + 3] = m[connection + w.PIECES]
        m[entry + 5] = kind
        if is_tcp:
            longest_ns = 0
            if kind == w.DATA and not m[w.HAS_INSTANTS]:
                longest_ns = longest_wait_ns(m, channel, records, backlog, now)
            lay_down(m, connection, entry, records, now, longest_ns)
        elif kind != w.PRIORITY_BARRIER:
            slot = m[channel + w.SENT] & m[w.RING_MASK]
            message = m[channel + w.RING] + slot * w.MESSAGE_WORDS
            m[channel + w.SENT] += 1
            m[message] = kind
            m[message + 1] = records
            m[message + 5] = size
            if kind == w.DATA and not m[w.HAS_INSTANTS]:
                m[message + 3] = now
                m[message + 4] = longest_wait_ns(m, channel, records, backlog, now)
        size += m[w.HEADER_BYTES]
        messages += 1
        sent_bytes += size
        left -= size
    if messages:
        m[connection + w.PIECES] += 1
        m[w.HAS_SENT] = 1
        m[connection + w.UNREAD_BYTES] += sent_bytes
        m[connection + w.SENT_BYTES] += sent_bytes
    return messages, sent_bytes


@compiled
def pump_up(m: Words, f: Numbers, connection: int, now: int) -> int:
    """Send what the readers of a connection may, until enough waits for the socket.

    Returns: when the sender is done with it.
    """
    mask, is_tcp = m[connection + w.SLOTS_MASK], m[w.WITHOUT_CREDIT]
    while True:
        first = m[connection + w.DOWN_END]
        messages, sent_bytes = hand_over(m, connection, now)
        if messages == 0:
            return now
        now += int(f[w.SEND_NS_PER_MESSAGE] * messages + f[w.SEND_NS_PER_BYTE] * sent_bytes)
        arrival_ns = now + m[w.LATENCY_NS]
        for number in range(first, m[connection + w.DOWN_END]):
            m[m[connection + w.DOWN] + (number & mask) * w.DOWN_WORDS + 4] = arrival_ns
        oldest = m[connection + w.DOWN] + (m[connection + w.DOWN_BEGIN] & mask) * w.DOWN_WORDS
        if is_tcp and is_stopped(m, connection):
            wake(m, m[connection + w.DOWNSTREAM], max(m[oldest + 4], m[w.TURN_NS]))
            continue
        announce(m, m[connection + w.DOWNSTREAM], m[connection + w.DOWNSTREAM_PLACE], m[oldest + 4])


@compiled
def announce(m: Words, task_manager: int, place: int, at_ns: int) -> None:
    """Something is on its way to an end of a connection."""
    set_due(m, m[task_manager + w.ARRIVALS], place, at_ns)
    wake(m, task_manager, at_ns)


@compiled
def receive_up(m: Words, connection: int, now: int) -> int:
    """Credit comes back, and channels that were blocked go on. Returns: when the next arrives.

    Queues that run empty begin at their first slot again, here and below: the memory that is used
    stays small, however many connections there are.
    """
    while m[connection + w.UP_BEGIN] < m[connection + w.UP_END]:
        slot = m[connection + w.UP_BEGIN] & m[connection + w.SLOTS_MASK]
        entry = m[connection + w.UP] + slot * w.UP_WORDS
        if m[entry + 2] > now:
            return m[entry + 2]
        m[connection + w.UP_BEGIN] += 1
        channel = m[entry]
        if m[entry + 1] > 0:
            m[channel + w.CREDIT] += m[entry + 1]
            if not m[channel + w.IS_ENQUEUED] and may_send(m, channel):
                append_reader(m, connection, channel)
        elif m[entry + 1] == w.RESUME:
            m[channel + w.IS_BLOCKED] = 0
            note(m, channel)
            notify(m, channel)
        elif m[entry + 1] == w.ACKNOWLEDGE:
            m[m[channel + w.SOURCE] + w.UNACKNOWLEDGED] -= 1
        elif m[entry + 1] <= w.BUFFER_SIZE:
            m[channel + w.BUFFER_BYTES] = w.BUFFER_SIZE - m[entry + 1]
    m[connection + w.UP_BEGIN] = m[connection + w.UP_END] = 0
    return w.NEVER


@compiled
def _append_up(m: Words, connection: int, channel: int, credit: int, at_ns: int) -> None:
    entry = (
        m[connection + w.UP]
        + (m[connection + w.UP_END] & m[connection + w.SLOTS_MASK]) * w.UP_WORDS
    )
    m[connection + w.UP_END] += 1
    m[entry] = channel
    m[entry + 1] = credit
    m[entry + 2] = at_ns


@compiled
def pump_down(m: Words, connection: int, now: int) -> bool:
    """Send what the consumers announce. Returns: whether there was anything."""
    sent = m[connection + w.UP_END]
    at_ns = now + m[w.BACK_NS]
    is_counted = m[w.COUNTED_FROM_NS] <= now < m[w.COUNTED_TO_NS]
    control, creditors = m[connection + w.CONTROL], m[connection + w.CREDITORS]
    for entry in range(
        control, control + m[connection + w.CONTROL_COUNT] * w.CONTROL_WORDS, w.CONTROL_WORDS
    ):
        channel, what = m[entry], m[entry + 1]
        if what == w.BUFFER_SIZE:
            what -= m[channel + w.TO_ANNOUNCE]
            m[channel + w.TO_ANNOUNCE] = 0
        _append_up(m, connection, channel, what, at_ns)
    m[connection + w.CONTROL_COUNT] = 0
    for place in range(creditors, creditors + m[connection + w.CREDITORS_COUNT]):
        channel = m[place]
        credit = m[channel + w.UNANNOUNCED]
        m[channel + w.UNANNOUNCED] = 0
        if m[channel + w.IS_RELEASED]:
            continue
        _append_up(m, connection, channel, credit, at_ns)
        if is_counted:
            m[w.CREDITS] += credit
            m[w.CREDIT_MESSAGES] += 1
    m[connection + w.CREDITORS_COUNT] = 0
    if m[connection + w.UP_END] == sent:
        return False
    m[w.HAS_SENT] = 1
    slot = m[connection + w.UP_BEGIN] & m[connection + w.SLOTS_MASK]
    oldest_ns = m[m[connection + w.UP] + slot * w.UP_WORDS + 2]
    announce(m, m[connection + w.UPSTREAM], m[connection + w.UPSTREAM_PLACE], oldest_ns)
    return True


@compiled
def queue_message(m: Words, channel: int, kind: int) -> None:
    """RemoteInputChannel.receive_buffer: the next message of a channel is there."""
    m[channel + w.RECEIVED] += 1
    if not m[channel + w.IS_QUEUED]:
        queue_channel(m, channel)
    if kind == w.BARRIER and m[w.ALIGNED_TIMEOUT_NS]:
        m[channel + w.HAS_ANNOUNCEMENT] = 1
        queue_barrier(m, channel)


@compiled
def take_free(m: Words, channel: int) -> int:
    """BufferManager.take: a buffer for what comes. Returns: whether it is a floating one."""
    m[channel + w.REQUIRED] -= 1
    if m[channel + w.FREE_FLOATING] > 0:
        m[channel + w.FREE_FLOATING] -= 1
        return 1
    m[channel + w.FREE_EXCLUSIVE] -= 1
    return 0


@compiled
def receive_barrier_before_all(m: Words, channel: int) -> None:
    """A barrier that has overtaken data is read before what has come."""
    m[channel + w.BARRIER_BEHIND] = m[channel + w.RECEIVED]
    queue_barrier(m, channel)


@compiled
def receive_backlog(m: Words, channel: int, backlog: int) -> int:
    """RemoteInputChannel.receive_backlog. Returns: floating buffers gained."""
    required = backlog + m[w.EXCLUSIVE_BUFFERS]
    m[channel + w.REQUIRED] = required
    free = m[channel + w.FREE_FLOATING] + m[channel + w.FREE_EXCLUSIVE]
    gained = 0
    if not m[channel + w.IS_WAITING] and free < required:
        gained = request_floating(m, channel)
        if gained:
            notify_credit(m, channel, gained)
    return gained


@compiled
def receive_down(m: Words, connection: int, now: int) -> int:
    """Read what has arrived, piece by piece, and tell the sender if its socket was full. Returns:
    when the next piece arrives.
    """
    if m[connection + w.UNREAD_BYTES] >= m[w.LINK_BYTES]:
        wake(m, m[connection + w.UPSTREAM], now)
    if m[w.WITHOUT_CREDIT]:
        return receive_without_credit(m, connection, now)
    mask, left, piece = m[connection + w.SLOTS_MASK], m[w.RECEIVE_BYTES], -1
    while m[connection + w.DOWN_BEGIN] < m[connection + w.DOWN_END]:
        entry = m[connection + w.DOWN] + (m[connection + w.DOWN_BEGIN] & mask) * w.DOWN_WORDS
        if m[entry + 3] != piece:
            if left <= 0 or m[entry + 4] > now:
                return m[entry + 4]
            piece = m[entry + 3]
        m[connection + w.DOWN_BEGIN] += 1
        left -= m[entry + 2]
        m[connection + w.UNREAD_BYTES] -= m[entry + 2]
        channel, kind = m[entry], m[entry + 5]
        if kind == w.PRIORITY_BARRIER:
            receive_barrier_before_all(m, channel)
        else:
            if kind == w.DATA:
                slot = m[channel + w.RECEIVED] & m[w.RING_MASK]
                message = m[channel + w.RING] + slot * w.MESSAGE_WORDS
                m[message + 2] = take_free(m, channel)
            queue_message(m, channel, kind)
        receive_backlog(m, channel, m[entry + 1])
    m[connection + w.DOWN_BEGIN] = m[connection + w.DOWN_END] = 0
    return w.NEVER
