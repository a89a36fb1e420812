"""Both ends of a channel: buffers that wait in its subpartition and whether their reader may send
them; at the consumer free buffers, credit to announce, and the place in its gate.
"""

from __future__ import annotations

from .. import kernel
from .compiling import compile_all
from .memory import NO_CHANNEL, Channel, Connection, Exchange, Sink, Source
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


def recycle_floating(m: Exchange, sink: Sink) -> None:
    """LocalBufferPool.recycle: to the first waiting channel that still needs it."""
    while sink.listeners_begin < sink.listeners_end:
        listener = sink.listeners[sink.listeners_begin & sink.gate_mask]
        sink.listeners_begin += 1
        if m.without_credit:
            connection = Connection(m.words, listener)
            connection.waits_for_buffer, connection.is_due = kernel.HAS_BUFFER, 1
            _has_something_to_say(connection)
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
    say(channel, kernel.CANCEL)
    connection = channel.connection
    if connection.undelivered < connection.down_begin:
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
    """SingleInputGate.queue_channel: a channel with an unaligned barrier comes first."""
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


def _count_segments(m: Exchange, channel: Channel) -> int:
    """Data buffers of a subpartition, the open one too."""
    if channel.boundaries_begin == channel.boundaries_end:
        size = channel.emitted - channel.segments_from
        return _segments(m, size) - channel.head
    open_bytes = channel.emitted - channel.open_from
    return channel.closed_segments + _segments(m, open_bytes)


def _segments(m: Exchange, size: int) -> int:
    """Segments that a number of bytes takes."""
    return (size + m.segment_bytes - 1) >> m.segment_bits


def close_buffer(m: Exchange, channel: Channel) -> None:
    """Let the next bytes begin another segment."""
    emitted = channel.emitted
    if emitted == channel.open_from:
        return
    segments = _count_segments(m, channel)
    channel.open_from = emitted
    if segments == 0:
        channel.segments_from, channel.head = emitted, 0
        return
    channel.boundaries[channel.boundaries_end & m.boundaries_mask] = emitted
    channel.boundaries_end += 1
    channel.closed_segments = segments


def note(m: Exchange, channel: Channel) -> None:
    """Count buffers and events in a subpartition, also for its source, after a change."""
    source, segments = channel.source, _count_segments(m, channel)
    elements = segments + channel.front_event + channel.tail_event
    elements += channel.has_priority_barrier + (1 if channel.barrier_place else 0)
    is_available = 0
    if not channel.is_blocked:
        has_whole = elements > 1 or (elements == 1 and segments == 0)
        is_available = 1 if has_whole or channel.flush_requested else 0
    source.all_segments += segments - channel.segments
    source.all_elements += elements - channel.elements
    source.available += is_available - channel.is_available
    if segments != channel.segments:
        charge(m, channel, segments - channel.segments)
    channel.segments, channel.elements = segments, elements
    channel.is_available = is_available


def notify(channel: Channel) -> None:
    """Notify the connection that a reader may have data, or the gate of a local channel."""
    connection = channel.connection
    if not connection:
        if channel.has_priority_barrier:
            queue_barrier(channel)
        elif not channel.is_queued and not channel.is_released:
            queue_channel(channel)
    elif not channel.is_notified:
        channel.is_notified = 1
        connection.notified[connection.notified_count] = channel
        connection.notified_count += 1
        set_due(connection.upstream.unsent, connection.upstream_place, 0)


def write_barrier(m: Exchange, channel: Channel, is_unaligned: bool) -> None:
    """Close the open buffer, and append an aligned barrier, or put an unaligned one in front."""
    close_buffer(m, channel)
    if is_unaligned:
        channel.has_priority_barrier = 1
        note(m, channel)
        notify(channel)
        return
    channel.segments_before = _count_segments(m, channel)
    channel.bytes_before = channel.emitted
    is_last = channel.tail_event == 0
    channel.barrier_place = kernel.BEFORE_TAIL if is_last else kernel.BEHIND_TAIL
    note(m, channel)
    notify_of_event(channel)


def time_barrier_out(m: Exchange, channel: Channel) -> int:
    """PipelinedSubpartition.alignment_timeout: a barrier overtakes data. Returns: its bytes."""
    channel.barrier_place, channel.has_priority_barrier = kernel.NOWHERE, 1
    note(m, channel)
    notify(channel)
    return channel.bytes_before - channel.polled


def notify_of_event(channel: Channel) -> None:
    """Tell the reader of an event that was appended, unless it knows that there is something."""
    if not channel.flush_requested and channel.elements <= 2 and not channel.is_blocked:
        notify(channel)


def resume_consumption(m: Exchange, channel: Channel) -> None:
    """Let the producer of a channel go on behind an event that blocks it."""
    if channel.connection:
        say(channel, kernel.RESUME)
        return
    channel.is_blocked = 0
    note(m, channel)
    if channel.is_available:
        notify(channel)


def emit(m: Exchange, channel: Channel, records: int) -> None:
    """Write records, and notify the reader when a second buffer is opened. Buffers of an announced
    size are longer to hold a whole record."""
    before, end = channel.elements, channel.emitted + records * m.record_bytes
    while m.debloat_ns and channel.emitted < end:
        emitted = channel.emitted
        if emitted == channel.open_from:
            rest = m.record_bytes - emitted % m.record_bytes
            capacity = min(max(rest, channel.buffer_bytes), m.segment_bytes)
            channel.open_until = emitted + capacity
        channel.emitted = min(end, channel.open_until)
        if channel.emitted == channel.open_until:
            close_buffer(m, channel)
    channel.emitted = end
    note_written(m, channel, before)


def note_written(m: Exchange, channel: Channel, elements_before: int) -> None:
    """Count written buffers, and notify the reader of a second one."""
    note(m, channel)
    may_tell = elements_before < 2 and not channel.flush_requested and not channel.is_blocked
    if may_tell and channel.elements >= 2:
        notify(channel)


def flush(m: Exchange, channel: Channel) -> None:
    """PipelinedSubpartition.flush."""
    elements = channel.elements
    if elements == 0 or channel.flush_requested:
        return
    is_fresh = elements == 1 and (channel.emitted > channel.polled or channel.segments == 0)
    if is_fresh or elements > 1:
        channel.flush_requested = 1
        note(m, channel)
    if is_fresh and not channel.is_blocked:
        notify(channel)


def may_send(channel: Channel) -> bool:
    if channel.credit > 0:
        return channel.is_available > 0
    if channel.is_blocked:
        return channel.has_priority_barrier > 0
    return channel.elements > 0 and _is_event_next(channel, channel.segments)


def _is_event_next(channel: Channel, segments: int) -> bool:
    """Whether an event comes first in a subpartition with a number of data buffers."""
    if channel.front_event or channel.has_priority_barrier:
        return True
    if channel.barrier_place == kernel.BEFORE_TAIL and channel.segments_before == 0:
        return True
    return segments == 0


def append_reader(connection: Connection, channel: Channel) -> None:
    channel.is_enqueued = 1
    place = connection.readers_end & connection.width_mask
    connection.readers[place] = channel
    connection.readers_end += 1
    set_due(connection.upstream.unsent, connection.upstream_place, 0)


def poll(m: Exchange, channel: Channel) -> tuple[int, int, int, int]:
    """PipelinedSubpartition.poll. Returns: kind (NOTHING for none), bytes, backlog, and the next
    message: 0 none, 1 data, 2 an event."""
    polled = _poll(m, channel)
    note(m, channel)
    return polled


def _poll(m: Exchange, channel: Channel) -> tuple[int, int, int, int]:
    if channel.is_blocked and not channel.has_priority_barrier:
        return kernel.NOTHING, 0, 0, 0
    count, segments = channel.elements, channel.segments
    if count == 0:
        channel.flush_requested = 0
        return kernel.NOTHING, 0, 0, 0
    while True:
        if count == 1:
            channel.flush_requested = 0
        if channel.has_priority_barrier:
            channel.has_priority_barrier = 0
            count -= 1
            kind, size = kernel.PRIORITY_BARRIER, m.barrier_bytes
            break
        if channel.front_event:
            channel.front_event, channel.is_blocked = 0, 1
            count -= 1
            kind, size = kernel.RECOVERY, m.recovery_bytes
            break
        is_before_tail = channel.barrier_place == kernel.BEFORE_TAIL
        if is_before_tail and channel.segments_before == 0:
            channel.barrier_place, channel.is_blocked = kernel.NOWHERE, m.is_blocking
            count -= 1
            kind, size = kernel.BARRIER, m.barrier_bytes
            break
        if segments == 0:
            channel.tail_event = 0
            if channel.barrier_place:
                channel.barrier_place = kernel.BEFORE_TAIL
            count -= 1
            if channel.is_finished:
                kind, size = kernel.END_OF_PARTITION, m.end_of_partition_bytes
            else:
                kind, size = kernel.END_OF_DATA, m.end_of_data_bytes
            break
        kind = kernel.DATA
        is_closed, end = channel.tail_event == 1, channel.emitted
        has_boundary = channel.boundaries_begin < channel.boundaries_end
        if has_boundary:
            place = channel.boundaries_begin & m.boundaries_mask
            is_closed, end = True, channel.boundaries[place]
        stretch = _segments(m, end - channel.segments_from) - channel.head
        whole = channel.segments_from + ((channel.head + 1) << m.segment_bits)
        reached = min(whole, end)
        size = reached - channel.polled
        channel.polled, channel.is_taken_whole = reached, 0
        if reached == whole or (is_closed and stretch == 1):
            channel.is_taken_whole = 1
            channel.head += 1
            count -= 1
            segments -= 1
            channel.segments_before = max(channel.segments_before - 1, 0)
            if has_boundary:
                channel.closed_segments -= 1
            if has_boundary and stretch == 1:
                channel.boundaries_begin += 1
                channel.segments_from, channel.head = end, 0
        elif size == 0:
            return kernel.NOTHING, 0, 0, 0
        if size > 0:
            break
        if count == 0:
            return kernel.NOTHING, 0, 0, 0
    backlog = following = 0
    if count and not channel.is_blocked:
        is_all = channel.flush_requested or channel.tail_event
        if channel.barrier_place and segments == channel.segments_before:
            is_all = 1  # the barrier is last
        backlog = segments if is_all else max(segments - 1, 0)
        if count > 1 or channel.flush_requested or segments == 0:
            following = 2 if _is_event_next(channel, segments) else 1
    return kind, size, backlog, following


_inlined = note, flush, emit, note_written, append_reader, notify, may_send, queue_channel, charge
compile_all(globals(), *_inlined)
