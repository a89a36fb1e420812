"""A sink: buffers are taken in turn, and their records with what they cost."""

from __future__ import annotations

from . import words as w
from .alignment import end_input, receive_announcement, receive_barrier, time_alignment_out
from .buffer_pool import lend
from .compiling import compiled
from .connection import count_message
from .debloating import resume
from .input_channel import queue_channel, recycle_held, release, say
from .latencies import count_bounds, longest_wait_ns, take_records
from .subpartition import poll, resume_consumption
from .words import Numbers, Words


@compiled
def _resume_all(m: Words, sink: int) -> None:
    """Every channel of a sink has told its recovery: all may go on."""
    for place in range(m[sink + w.INPUTS], m[sink + w.INPUTS] + m[sink + w.INPUTS_COUNT]):
        resume_consumption(m, m[place])


@compiled
def _acknowledge(m: Words, channel: int) -> None:
    if m[channel + w.CONNECTION]:
        say(m, channel, w.ACKNOWLEDGE)
    else:
        m[m[channel + w.SOURCE] + w.UNACKNOWLEDGED] -= 1


@compiled
def _poll_local(m: Words, channel: int, now: int) -> int:
    """LocalInputChannel.poll_view: sent, received and read at one instant, and laid down as a
    message that came. Returns: its address; 0 if there is none.
    """
    polled = m[channel + w.POLLED]
    kind, size, backlog, following = poll(m, channel)
    if kind == w.NOTHING:
        return 0
    message = m[channel + w.RING]
    m[message] = kind
    m[message + 1] = m[message + 2] = 0
    if kind == w.DATA:
        records = (polled + size) // m[w.RECORD_BYTES] - polled // m[w.RECORD_BYTES]
        count_message(m, now, backlog)
        if m[w.COUNTED_FROM_NS] <= now < m[w.COUNTED_TO_NS]:
            m[w.LOCAL_MESSAGES] += 1
        m[message + 1] = records
        m[message + 5] = size
        if not m[w.HAS_INSTANTS]:
            m[message + 3] = now
            m[message + 4] = longest_wait_ns(m, channel, records, backlog, now)
        m[message + 2] = m[channel + w.IS_TAKEN_WHOLE]
        lend(m, channel, m[message + 2])
    if following and not m[channel + w.IS_QUEUED]:
        queue_channel(m, channel)
    return message


@compiled
def has_barriers(m: Words, sink: int) -> bool:
    """Whether unaligned barriers, or announcements of others, wait to be read."""
    return m[sink + w.PRIORITIES_BEGIN] < m[sink + w.PRIORITIES_END]


@compiled
def is_available(m: Words, sink: int) -> bool:
    """Whether anything waits to be read."""
    return has_barriers(m, sink) or m[sink + w.READY_BEGIN] < m[sink + w.READY_END]


@compiled
def poll_gate(m: Words, sink: int, now: int) -> tuple[int, int]:
    """SingleInputGate.poll. Returns: a channel and its message; 0 if none has one."""
    while m[sink + w.READY_BEGIN] < m[sink + w.READY_END]:
        channel = m[m[sink + w.READY] + (m[sink + w.READY_BEGIN] & m[sink + w.GATE_MASK])]
        m[sink + w.READY_BEGIN] += 1
        m[channel + w.IS_QUEUED] = 0
        if m[channel + w.CONNECTION] == 0:
            message = _poll_local(m, channel, now)
            if message:
                return channel, message
            continue
        message = m[channel + w.RING] + (m[channel + w.CONSUMED] & m[w.RING_MASK]) * w.MESSAGE_WORDS
        m[channel + w.CONSUMED] += 1
        if m[channel + w.CONSUMED] < m[channel + w.RECEIVED]:
            queue_channel(m, channel)
        elif m[channel + w.CONSUMED] == m[channel + w.SENT]:
            m[channel + w.CONSUMED] = m[channel + w.RECEIVED] = m[channel + w.SENT] = 0
        return channel, message
    return 0, 0


@compiled
def take_priority_barriers(m: Words, f: Numbers, sink: int, now: int) -> None:
    """TaskInputs.take_priority_events."""
    m[sink + w.MAIL_NS] = 0
    while m[sink + w.PRIORITIES_BEGIN] < m[sink + w.PRIORITIES_END]:
        place = m[sink + w.PRIORITIES_BEGIN] & m[sink + w.GATE_MASK]
        channel = m[m[sink + w.PRIORITIES] + place]
        m[sink + w.PRIORITIES_BEGIN] += 1
        m[channel + w.IS_BARRIER_RECEIVED] = m[channel + w.IS_QUEUED] = 0
        if m[channel + w.CONNECTION] == 0:
            _poll_local(m, channel, now)
        elif m[channel + w.CONSUMED] < m[channel + w.RECEIVED]:
            queue_channel(m, channel)
        if m[channel + w.HAS_ANNOUNCEMENT]:
            m[channel + w.HAS_ANNOUNCEMENT] = 0
            receive_announcement(m, channel, now)
        else:
            receive_barrier(m, f, channel, True, m[channel + w.BARRIER_BEHIND], now)


@compiled
def _read_mail(m: Words, f: Numbers, sink: int, now: int) -> int:
    """Unaligned barriers are read between records. Returns: when to step again, at work."""
    until_ns, record_ns = m[sink + w.BUSY_UNTIL_NS], max(m[sink + w.CONSUME_NS], 1)
    if not has_barriers(m, sink) and now < m[sink + w.DEADLINE_NS]:
        return min(until_ns, m[sink + w.DEADLINE_NS])
    if m[sink + w.MAIL_NS] == 0:
        m[sink + w.MAIL_NS] = until_ns - (until_ns - now) // record_ns * record_ns
    if now < m[sink + w.MAIL_NS]:
        return min(m[sink + w.MAIL_NS], until_ns)
    time_alignment_out(m, sink, now)
    take_priority_barriers(m, f, sink, now)
    return min(until_ns, m[sink + w.DEADLINE_NS])


@compiled
def _hand_on(m: Words, sink: int, channel: int, records: int, now: int, done_ns: int) -> int:
    """Note a buffer whose records a task writes to others when it is done with each. Returns: when
    it takes the next one.
    """
    m[sink + w.TOOK] = channel
    m[sink + w.TOOK_RECORDS] = records
    m[sink + w.TOOK_NS] = now
    m[sink + w.HAS_TAKEN] = 1
    m[sink + w.BUSY_UNTIL_NS] = done_ns
    return done_ns


@compiled
def take_event(m: Words, f: Numbers, channel: int, message: int, now: int) -> None:
    """NetworkInput.take_event."""
    if m[message] == w.RECOVERY:
        sink = m[channel + w.SINK]
        m[sink + w.RECOVERED] += 1
        if m[sink + w.RECOVERED] == m[sink + w.INPUTS_COUNT]:
            _resume_all(m, sink)
    elif m[message] == w.END_OF_DATA:
        _acknowledge(m, channel)
    elif m[message] == w.BARRIER:
        receive_barrier(m, f, channel, False, 0, now)
    else:
        release(m, channel)
        end_input(m, f, channel, now)


@compiled
def step_sink(m: Words, f: Numbers, slopes: int, sink: int, now: int) -> tuple[int, int]:
    """SimulatedSink.step. Returns: when the loop is done with that, and when to step again."""
    if now < m[sink + w.BUSY_UNTIL_NS]:
        return now, _read_mail(m, f, sink, now)
    if m[sink + w.IS_HELD_UP]:
        time_alignment_out(m, sink, now)
        take_priority_barriers(m, f, sink, now)
        return now, m[sink + w.DEADLINE_NS]
    delay_ns = m[sink + w.CONSUME_NS]
    for _ in range(m[w.STEPS_PER_TURN]):
        may_overtake, is_ready = has_barriers(m, sink), is_available(m, sink)
        if is_ready:
            resume(m, sink, now)
            now += m[w.RECEIVE_NS]
        if may_overtake or now >= m[sink + w.DEADLINE_NS]:
            time_alignment_out(m, sink, now)
            take_priority_barriers(m, f, sink, now)
        recycle_held(m, sink)
        if not is_ready:
            return now, m[sink + w.DEADLINE_NS]
        channel, message = poll_gate(m, sink, now)
        if channel == 0:
            return now, m[sink + w.DEADLINE_NS]
        done_ns = now
        if m[message] == w.DATA:
            records = m[message + 1]
            m[sink + w.READ_BYTES] += m[message + 5]
            m[channel + w.CHANNEL_BYTES] += m[message + 5]
            if records:
                take_records(m, f, slopes, channel, records, now, delay_ns)
            done_ns = now + delay_ns * records
            if records and not m[w.HAS_INSTANTS]:
                low_ns = done_ns - m[message + 3]
                count_bounds(m, f, slopes, records, low_ns, low_ns + m[message + 4])
            m[sink + w.HELD] = channel
            m[sink + w.IS_HELD_FLOATING] = m[message + 2]
            if m[sink + w.RELAY]:
                return now, _hand_on(m, sink, channel, records, now, done_ns)
            if done_ns == now:
                recycle_held(m, sink)
        else:
            take_event(m, f, channel, message, now)
        is_done = done_ns == now and now < m[sink + w.DEADLINE_NS]
        if is_done and not is_available(m, sink):
            return now, m[sink + w.DEADLINE_NS]
        if done_ns - now > m[w.BUSY_NS]:
            m[sink + w.BUSY_UNTIL_NS] = done_ns
            return now, min(done_ns, m[sink + w.DEADLINE_NS])
        now = done_ns
    return now, now
