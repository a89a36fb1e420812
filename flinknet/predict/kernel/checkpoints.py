"""Checkpoints: the coordinator begins them, sources write barriers, and sinks align them, or take
those that overtake data, until all tasks have done their part.
"""

from __future__ import annotations

from . import ANSWER_MISSING, CHECKPOINT_EXPIRES, DATA, FINISHED, NEVER
from .channel import queue_barrier, resume_consumption, time_barrier_out, write_barrier
from .compiling import compile_all
from .connection import wake
from .memory import NO_CHANNEL, Barrier, Channel, Exchange, Histogram, Sink, Source
from .times import count_at, set_due
from .writer import is_inside_record

NS_PER_MS = 1_000_000


def counts(m: Exchange) -> bool:
    """Whether the checkpoint that is under way began in the time that counts."""
    return m.counted_from_ns <= m.began_ns < m.counted_to_ns


def count_time(m: Exchange, times: Histogram, time_ns: int) -> None:
    """Count a duration of a checkpoint that counts."""
    if counts(m):
        count_at(times, time_ns, 1)


def plan(m: Exchange, at_ns: int) -> None:
    """Let the coordinator have a turn, as a TaskManager behind the others."""
    place = m.task_managers
    m.turns_asked += 1
    m.managers[place].asked = m.turns_asked
    set_due(m.wakes, place, at_ns)


def complete(m: Exchange) -> None:
    """All have confirmed the checkpoint."""
    m.is_pending = 0
    if counts(m):
        m.completed += 1
        m.unaligned_total += m.was_unaligned
        m.overtaken_total += m.overtaken_bytes
        m.overtaken_max = max(m.overtaken_max, m.overtaken_bytes)
    count_time(m, m.checkpoint_times, m.turn_ns - m.began_ns)
    for number in range(m.channels_count):  # how long barriers travelled, once they were written
        channel = m.channels[number]
        source, travelled = channel.source, channel.travelled
        channel.travelled = 0
        if travelled > 0:
            count_time(m, m.travels, travelled - 1)
            if source.state == FINISHED and source.is_watched:
                m.ended = ANSWER_MISSING  # it says only when they have left how long they travelled
    plan(m, max(m.next_checkpoint_ns, m.turn_ns))


def acknowledge(m: Exchange) -> None:
    """A task has done its part of the checkpoint that is under way."""
    if not m.is_pending:  # what is behind another exchange is asked from there
        return
    m.unconfirmed -= 1
    if m.unconfirmed == 0:
        complete(m)


def timeout_ns(m: Exchange) -> int:
    """When the barriers of the checkpoint that is under way are to overtake data, if they are still
    on their way; NEVER if they are aligned for good. Timestamps are whole milliseconds."""
    if m.aligned_timeout_ns == 0:
        return NEVER
    return m.began_ns // NS_PER_MS * NS_PER_MS + m.aligned_timeout_ns


def _write_barriers(m: Exchange, source: Source, is_unaligned: bool) -> None:
    """Write a barrier behind the data of each channel; the next record opens a segment."""
    for place in range(source.outputs_count):
        write_barrier(m, source.outputs[place], is_unaligned)


def write_checkpoint(m: Exchange, source: Source, now: int) -> None:
    """OutputCheckpoints.write: barriers that may time out are watched until they have left."""
    for place in range(source.outputs_count if m.is_unaligned else 0):
        channel = source.outputs[place]
        m.overtaken_bytes += channel.emitted - channel.polled
    _write_barriers(m, source, m.is_unaligned > 0)
    source.written_ns = now
    if m.aligned_timeout_ns:
        source.is_watched, source.times_out_ns = 1, timeout_ns(m)
        m.unconfirmed += 1


def pass_barriers(m: Exchange, source: Source, barrier: Barrier) -> None:
    """InputCheckpoints.trigger_checkpoint: barriers that have overtaken data go on doing so,
    where the data of an edge may be overtaken; others may time out."""
    m.began_ns = max(m.began_ns, barrier.began_ns)
    has_overtaken = barrier.is_overtaking > 0 and m.aligned_timeout_ns > 0
    is_unaligned = m.is_unaligned > 0 or has_overtaken
    _write_barriers(m, source, is_unaligned)
    if m.aligned_timeout_ns and not is_unaligned:
        source.is_watched, source.times_out_ns = 1, timeout_ns(m)


def watch_barriers(m: Exchange, source: Source, now: int) -> None:
    """OutputCheckpoints.advance: barriers that waited for the end of a record are written. A source
    has done its part when those that may time out have left; those that are late overtake data."""
    if source.has_to_checkpoint and not is_inside_record(m, source):
        source.has_to_checkpoint = 0
        write_checkpoint(m, source, now)
        acknowledge(m)
    if not source.is_watched:
        return
    low = source.outputs
    if now >= source.times_out_ns:
        for place in range(source.outputs_count):
            if low[place].barrier_place:
                size = time_barrier_out(m, low[place])
                m.overtaken_bytes += 0 if source.state == FINISHED else size
    for place in range(source.outputs_count):
        if low[place].barrier_place:
            return
    source.is_watched, source.times_out_ns = 0, NEVER
    if source.state != FINISHED:
        acknowledge(m)


def take_coordinators_turn(m: Exchange, now: int) -> None:
    """CheckpointCoordinator.advance: begin a checkpoint, or end the run if one takes too long."""
    set_due(m.wakes, m.task_managers, NEVER)
    if m.is_pending:
        m.ended = CHECKPOINT_EXPIRES
        return
    running = 0
    for number in range(m.sources_count):
        running += 1 if m.sources[number].state != FINISHED else 0
    if running == 0:
        m.next_checkpoint_ns = NEVER
        return
    missed = (now - m.next_checkpoint_ns) // m.interval_ns
    m.next_checkpoint_ns += (missed + 1) * m.interval_ns
    m.checkpoint += 1
    m.is_pending, m.began_ns = 1, now
    m.triggered += 1 if counts(m) else 0
    m.overtaken_bytes = m.was_unaligned = 0
    m.unconfirmed = m.answers_behind
    for number in range(m.sinks_count):
        if m.sinks[number].open_inputs > 0:
            m.unconfirmed += 1
    for number in range(m.sources_count):
        source = m.sources[number]
        if source.state != FINISHED and is_inside_record(m, source):
            source.has_to_checkpoint = 1
            m.unconfirmed += 1
        elif source.state != FINISHED:
            write_checkpoint(m, source, now)
    for number in range(m.task_managers):
        wake(m, m.managers[number], now)
    if m.unconfirmed == 0:
        complete(m)
    else:
        plan(m, now + m.expires_ns)


def _begin(m: Exchange, sink: Sink, now: int) -> None:
    """A sink hears of a checkpoint for the first time."""
    sink.is_aligning, sink.to_align = 1, sink.open_inputs
    sink.aligned = sink.counted_bytes = sink.has_barrier = 0
    sink.is_overtaking = sink.is_triggered = 0
    if m.aligned_timeout_ns:
        sink.deadline_ns = max(now, timeout_ns(m))
    for place in range(sink.inputs_count):
        sink.inputs[place].is_missing = 1
        sink.inputs[place].is_counted = 0


def _mark_aligned(m: Exchange, channel: Channel, now: int) -> None:
    """The barrier of a channel has come, or never will."""
    sink = channel.sink
    channel.is_missing = 0
    sink.aligned += 1
    if sink.aligned == 1:
        sink.begun_ns = now
        sink.start_delay_ns = max(now - m.began_ns // NS_PER_MS * NS_PER_MS, 0)


def _trigger(m: Exchange, sink: Sink, now: int) -> None:
    """A task takes the checkpoint, and passes the barrier on; note when, where that is wanted."""
    sink.is_triggered = 1
    barrier = sink.alignments
    if barrier < sink.alignments_end:
        barrier.at_ns, barrier.began_ns = now, m.began_ns
        barrier.is_overtaking = sink.is_overtaking
        sink.alignments = sink.alignments.next


def _count_overtaken(m: Exchange, channel: Channel, until: int) -> None:
    """CheckpointedInput: what a channel's task has read since the checkpoint was taken,
    and what waits for it before a message."""
    if not channel.is_counted:
        return
    channel.is_counted = 0
    size = channel.channel_bytes - channel.counted_from_bytes
    if channel.connection:
        for number in range(channel.consumed, until):
            message = channel.ring[number & m.ring_mask]
            if message.kind == DATA:
                size += message.size
    channel.sink.counted_bytes += size


def _take_unaligned(m: Exchange, sink: Sink, channel: Channel, until: int, now: int) -> None:
    """SingleCheckpointBarrierHandler._start_unaligned: from now on data that comes before barriers
    belongs to the checkpoint; the barrier of one channel has come behind `until` messages."""
    for place in range(sink.inputs_count):
        sink.inputs[place].is_counted = 1
        sink.inputs[place].counted_from_bytes = sink.inputs[place].channel_bytes
    if channel:
        _count_overtaken(m, channel, until)
    _trigger(m, sink, now)


def _prioritize(channel: Channel) -> None:
    """RemoteInputChannel.convert_to_priority_event: a barrier that was announced is read before the
    data that it came behind. Nothing has come behind it: its producer waits."""
    sink = channel.sink
    sink.blocked[sink.blocked_count] = channel
    sink.blocked_count += 1
    channel.received -= 1
    channel.sent -= 1
    if channel.consumed == channel.sent:
        channel.consumed = channel.received = channel.sent = 0
    channel.barrier_behind = channel.received
    queue_barrier(channel)


def time_out(m: Exchange, sink: Sink, channel: Channel, until: int, now: int) -> None:
    """SingleCheckpointBarrierHandler._time_out: from now on barriers overtake data."""
    sink.deadline_ns, sink.is_overtaking = NEVER, 1
    for place in range(sink.announced_count):
        _prioritize(sink.announced[place])
    sink.announced_count = 0
    if sink.aligned > 0:
        _take_unaligned(m, sink, channel, until, now)


def receive_announcement(m: Exchange, channel: Channel, now: int) -> None:
    """A barrier that may time out has come behind data."""
    sink = channel.sink
    if not sink.is_aligning:
        _begin(m, sink, now)
    if sink.is_overtaking:
        _prioritize(channel)
        return
    sink.announced[sink.announced_count] = channel
    sink.announced_count += 1


def receive_barrier(
    m: Exchange, channel: Channel, is_unaligned: bool, until: int, now: int
) -> None:
    """SingleCheckpointBarrierHandler.receive_barrier: the channel of one that is aligned waits for
    those of the others; CheckpointBarrierTracker's, if it does not. It came behind `until`
    messages."""
    sink = channel.sink
    if not sink.is_aligning:
        _begin(m, sink, now)
    if not sink.has_barrier:
        sink.has_barrier, sink.begun_bytes = 1, sink.read_bytes
    _count_overtaken(m, channel, until)
    if m.is_pending:
        channel.travelled = 1 + now - channel.source.written_ns
    _mark_aligned(m, channel, now)
    if m.aligned_timeout_ns:  # the channel's announced barrier has arrived
        kept = 0
        for place in range(sink.announced_count):
            if sink.announced[place] != channel:
                sink.announced[kept] = sink.announced[place]
                kept += 1
        sink.announced_count = kept
    if m.is_blocking and not is_unaligned:
        sink.blocked[sink.blocked_count] = channel
        sink.blocked_count += 1
    is_complete = sink.aligned >= sink.to_align
    if not sink.is_overtaking:
        is_late = m.aligned_timeout_ns > 0 and now > timeout_ns(m) and not is_complete
        if is_unaligned or is_late:
            time_out(m, sink, channel, until, now)
        elif is_complete:
            _trigger(m, sink, now)
    if sink.is_overtaking and not sink.is_triggered:
        _take_unaligned(m, sink, channel, until, now)
    _finish_if_aligned(m, sink, now)


def _finish_if_aligned(m: Exchange, sink: Sink, now: int) -> None:
    """With the last barrier all channels go on, in the order in which theirs came."""
    if sink.aligned < sink.to_align:
        return
    sink.is_aligning = 0
    sink.finished_alignments += 1
    sink.deadline_ns = NEVER
    for place in range(sink.blocked_count):
        resume_consumption(m, sink.blocked[place])
    sink.blocked_count = 0
    count_time(m, m.alignments, now - sink.begun_ns)
    if m.is_pending:
        count_time(m, m.start_delays, sink.start_delay_ns)
        if counts(m):
            m.processed_bytes += sink.read_bytes - sink.begun_bytes
        if sink.is_overtaking:
            m.was_unaligned = 1
            m.overtaken_bytes += sink.counted_bytes
        sink.confirmed = m.checkpoint
        acknowledge(m)


def end_input(m: Exchange, channel: Channel, now: int) -> None:
    """End a channel: its barrier is not waited for, and a sink without others confirms all."""
    sink = channel.sink
    _count_overtaken(m, channel, 0)
    sink.open_inputs -= 1
    if sink.is_aligning and channel.is_missing:
        _mark_aligned(m, channel, now)
        if sink.is_overtaking:
            if not sink.is_triggered:
                _take_unaligned(m, sink, NO_CHANNEL, 0, now)
        elif sink.aligned >= sink.to_align:
            _trigger(m, sink, now)
        _finish_if_aligned(m, sink, now)
    is_over = sink.open_inputs == 0 and sink.confirmed != m.checkpoint
    if m.is_pending and is_over:
        sink.confirmed = m.checkpoint
        acknowledge(m)


compile_all(globals())
