"""Sinks: buffers are taken in turn, with the cost of their records; and debloating, which looks at
gates now and then, and announces the size of buffers.
"""

from __future__ import annotations

from . import ACKNOWLEDGE, BARRIER, BUFFER_SIZE, DATA, END_OF_DATA, NEVER, NOTHING, RECOVERY
from .channel import lend, poll, queue_channel, recycle_held, release, resume_consumption, say
from .checkpoints import end_input, receive_announcement, receive_barrier, time_out
from .compiling import compile_all
from .connection import count_message, wake
from .memory import NO_CHANNEL, NO_MESSAGE, Channel, Exchange, Message, Sink, TaskManager
from .times import set_due, take_records

_NS_PER_MS = 1_000_000


def rest(sink: Sink, now: int) -> None:
    """StreamTask.rest: a sink waits if nothing is there to read and no output holds it up."""
    is_waiting = sink.idle_since_ns >= 0
    if is_waiting or now < sink.busy_until_ns or sink.is_held_up or is_available(sink):
        return
    sink.marked_ns = max(now, sink.marked_ns)
    sink.idle_since_ns = sink.marked_ns


def _size(m: Exchange, sink: Sink, now: int) -> int:
    """BufferDebloater.recalculate. Returns: the size to announce; 0 for none."""
    idle_ns = sink.idle_before_ns  # ThroughputCalculator.evaluate: the rate since the last look
    if sink.idle_since_ns >= 0:
        idle_ns += now - sink.idle_since_ns
    counted_ms = (now - sink.seen_ns - idle_ns + sink.seen_idle_ns) // _NS_PER_MS
    if counted_ms > 0:
        sink.seen_rate = (sink.read_bytes - sink.seen_bytes) * 1000 // counted_ms
    sink.seen_ns, sink.seen_bytes, sink.seen_idle_ns = now, sink.read_bytes, idle_ns
    inputs, buffers = sink.inputs, 0
    for number in range(sink.inputs_count):  # InputChannel.buffers_in_use
        channel = inputs[number]
        if channel.connection:
            buffers += channel.received - channel.consumed + channel.is_barrier_received
            buffers += max(0, channel.required - m.exclusive_buffers)
        else:
            buffers += channel.segments
    wanted = sink.seen_rate * m.target_ms // 1000
    size = sink.wanted_bytes
    size += m.newest_share * (min(wanted / max(1, buffers), 2 * size) - size)
    smallest, largest = m.smallest_bytes, m.segment_bytes
    size = sink.wanted_bytes = min(max(size, float(smallest)), float(largest))
    new, announced = int(size + 0.5), sink.announced_bytes
    change = abs(new - announced)
    is_at_end = (new <= smallest or new >= largest) and change > 0
    if is_at_end or change >= max(announced * m.threshold_percent // 100, 1):
        sink.announced_bytes = new
        return new
    return 0


def take_debloaters_turn(m: Exchange, timer: TaskManager, now: int) -> None:
    """BufferDebloating.handle_deadline, for the gates of a TaskManager. Producers in the same
    TaskManager hear of a new size at once."""
    set_due(m.wakes, timer.number, NEVER)
    open_inputs = 0
    for place in range(m.sinks_count):
        open_inputs += m.sinks[place].open_inputs
    if open_inputs == 0:
        return
    task_manager = m.managers[timer.number - m.task_managers - 1]
    for place in range(task_manager.own_sinks_count):
        sink = task_manager.own_sinks[place]
        size = _size(m, sink, now) if sink.open_inputs > 0 else 0
        for number in range(sink.inputs_count if size else 0):
            channel = sink.inputs[number]
            if channel.is_released:
                continue
            if not channel.connection:
                channel.buffer_bytes = size
                continue
            if channel.to_announce == 0:
                say(channel, BUFFER_SIZE)
            channel.to_announce = size
    wake(m, task_manager, now)
    m.turns_asked += 1
    timer.asked = m.turns_asked
    set_due(m.wakes, timer.number, now + m.debloat_ns)


def _poll_local(m: Exchange, channel: Channel, now: int) -> Message:
    """LocalInputChannel.poll_view: sent, received and read at one instant, and laid down as a
    message that came. Returns: the message; NO_MESSAGE if there is none."""
    polled = channel.polled
    kind, size, backlog, following = poll(m, channel)
    if kind == NOTHING:
        return NO_MESSAGE
    message = channel.ring[0]
    message.kind = kind
    message.records = message.is_floating = 0
    if kind == DATA:
        records = (polled + size) // m.record_bytes - polled // m.record_bytes
        count_message(m, now, backlog)
        if m.counted_from_ns <= now < m.counted_to_ns:
            m.local_messages += 1
        message.records, message.size = records, size
        message.is_floating = channel.is_taken_whole
        lend(m, channel, message.is_floating)
    if following and not channel.is_queued:
        queue_channel(channel)
    return message


def has_barriers(sink: Sink) -> bool:
    """Whether unaligned barriers, or announcements of others, wait to be read."""
    return sink.priorities_begin < sink.priorities_end


def is_available(sink: Sink) -> bool:
    """Whether anything waits to be read."""
    return has_barriers(sink) or sink.ready_begin < sink.ready_end


def poll_gate(m: Exchange, sink: Sink, now: int) -> tuple[Channel, Message]:
    """SingleInputGate.poll. Returns: a channel and its message; none if no channel has one."""
    while sink.ready_begin < sink.ready_end:
        channel = sink.ready[sink.ready_begin & sink.gate_mask]
        sink.ready_begin += 1
        channel.is_queued = 0
        if not channel.connection:
            message = _poll_local(m, channel, now)
            if message:
                return channel, message
            continue
        message = channel.ring[channel.consumed & m.ring_mask]
        channel.consumed += 1
        if channel.consumed < channel.received:
            queue_channel(channel)
        elif channel.consumed == channel.sent:
            channel.consumed = channel.received = channel.sent = 0
        return channel, message
    return NO_CHANNEL, NO_MESSAGE


def take_priority_barriers(m: Exchange, sink: Sink, now: int) -> None:
    """TaskInputs.take_priority_events, after an alignment that has taken too long."""
    if now >= sink.deadline_ns:
        time_out(m, sink, NO_CHANNEL, 0, now)
    sink.mail_ns = 0
    while sink.priorities_begin < sink.priorities_end:
        channel = sink.priorities[sink.priorities_begin & sink.gate_mask]
        sink.priorities_begin += 1
        channel.is_barrier_received = channel.is_queued = 0
        if not channel.connection:
            _poll_local(m, channel, now)
        elif channel.consumed < channel.received:
            queue_channel(channel)
        if channel.has_announcement:
            channel.has_announcement = 0
            receive_announcement(m, channel, now)
        else:
            receive_barrier(m, channel, True, channel.barrier_behind, now)


def _read_mail(m: Exchange, sink: Sink, now: int) -> int:
    """Unaligned barriers are read between records. Returns: when to step again, at work."""
    until_ns, record_ns = sink.busy_until_ns, max(sink.consume_ns, 1)
    if not has_barriers(sink) and now < sink.deadline_ns:
        return min(until_ns, sink.deadline_ns)
    if sink.mail_ns == 0:
        sink.mail_ns = until_ns - (until_ns - now) // record_ns * record_ns
    if now < sink.mail_ns:
        return min(sink.mail_ns, until_ns)
    take_priority_barriers(m, sink, now)
    return min(until_ns, sink.deadline_ns)


def take_event(m: Exchange, channel: Channel, message: Message, now: int) -> None:
    """NetworkInput.take_event."""
    if message.kind == RECOVERY:
        sink = channel.sink
        sink.recovered += 1
        if sink.recovered == sink.inputs_count:
            for place in range(sink.inputs_count):
                resume_consumption(m, sink.inputs[place])
    elif message.kind == END_OF_DATA:
        if channel.connection:
            say(channel, ACKNOWLEDGE)
        else:
            channel.source.unacknowledged -= 1
    elif message.kind == BARRIER:
        receive_barrier(m, channel, False, 0, now)
    else:
        release(m, channel)
        end_input(m, channel, now)


def step_sink(m: Exchange, sink: Sink, now: int) -> tuple[int, int]:
    """SimulatedSink.step. Returns: when the loop is done with that, and when to step again."""
    if now < sink.busy_until_ns:
        return now, _read_mail(m, sink, now)
    if sink.is_held_up:
        take_priority_barriers(m, sink, now)
        return now, sink.deadline_ns
    delay_ns = sink.consume_ns
    for _ in range(m.steps_per_turn):
        may_overtake, is_ready = has_barriers(sink), is_available(sink)
        if is_ready:
            if sink.idle_since_ns >= 0:  # TaskTimes.resume
                sink.marked_ns = max(now, sink.marked_ns)
                sink.idle_before_ns += sink.marked_ns - sink.idle_since_ns
                sink.idle_since_ns = -1
            now += m.receive_ns
        if may_overtake or now >= sink.deadline_ns:
            take_priority_barriers(m, sink, now)
        recycle_held(m, sink)
        if not is_ready:
            return now, sink.deadline_ns
        channel, message = poll_gate(m, sink, now)
        if not channel:
            return now, sink.deadline_ns
        done_ns = now
        if message.kind == DATA:
            records = message.records
            sink.read_bytes += message.size
            channel.channel_bytes += message.size
            if records:
                take_records(m, channel, records, now, delay_ns)
            done_ns = now + delay_ns * records
            sink.held, sink.is_held_floating = channel, message.is_floating
            if sink.relay:  # writes the records to others when it is done with each
                sink.took, sink.took_records, sink.took_ns = channel, records, now
                sink.has_taken, sink.busy_until_ns = 1, done_ns
                return now, done_ns
            if done_ns == now:
                recycle_held(m, sink)
        else:
            take_event(m, channel, message, now)
        is_done = done_ns == now and now < sink.deadline_ns
        if is_done and not is_available(sink):
            return now, sink.deadline_ns
        if done_ns - now > m.busy_ns:
            sink.busy_until_ns = done_ns
            return now, min(done_ns, sink.deadline_ns)
        now = done_ns
    return now, now


compile_all(globals())
