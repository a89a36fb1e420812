"""Sources: their steps at a rate and at the highest rate."""

from __future__ import annotations

from . import AWAITING_ACKNOWLEDGEMENT, FINISHED, NEVER, RUNNING, writer
from .channel import flush, is_pool_available, note, notify, notify_of_event
from .checkpoints import acknowledge, pass_barriers, watch_barriers
from .compiling import compile_all, moved_list
from .memory import Exchange, Source, TaskManager
from .times import earliest_ns, set_due


def start_source(m: Exchange, source: Source) -> None:
    """Lay down when the records of each channel come."""
    for place in range(source.outputs_count):
        channel = source.outputs[place]
        note(m, channel)
        set_due(source.records_due, place, writer.next_record_ns(channel))
        writer.follow_segment(m, source, channel, channel.emitted)


def flush_all(m: Exchange, source: Source, now: int) -> None:
    """The beat of the flusher: the next one is a timeout after the end of its round, which takes
    no less than what the period is longer."""
    if source.all_elements > 0:
        for place in range(source.outputs_count):
            flush(m, source.outputs[place])
    source.flush_ns = max(now + m.timeout_ns, source.flush_ns + m.period_ns)


def _next_barrier_ns(m: Exchange, source: Source) -> int:
    """When a source passes on the next barrier. One waits for the end of a record, and until those
    before it have left: a checkpoint begins only when the one before it is complete."""
    if source.next_barrier == source.barriers_end or writer.is_inside_record(m, source):
        return NEVER
    for place in range(source.outputs_count):
        if source.outputs[place].barrier_place or source.outputs[place].has_priority_barrier:
            return NEVER
    return source.next_barrier.at_ns


def _pass_barriers(m: Exchange, source: Source, until_ns: int) -> int:
    """Write the barriers that have come up to an instant, each behind the records before it; one
    of them may have to wait for buffers. Returns: the number of records."""
    emitted = 0
    barrier_ns = _next_barrier_ns(m, source)
    while barrier_ns <= until_ns:
        emitted += writer.emit_until(m, source, barrier_ns)
        if writer.is_inside_record(m, source):
            return emitted
        pass_barriers(m, source, source.next_barrier)
        source.next_barrier = source.next_barrier.next
        barrier_ns = _next_barrier_ns(m, source)
    return emitted


def await_acknowledgement(m: Exchange, source: Source, now: int) -> int:
    """Finish when every channel has acknowledged the end of data; until then the flusher beats on.
    Returns: when to step again."""
    if source.state == FINISHED:
        watch_barriers(m, source, now)
        return source.times_out_ns
    if source.flush_ns <= now:
        flush_all(m, source, now)
    watch_barriers(m, source, now)
    if source.unacknowledged > 0:
        _pass_barriers(m, source, now)
        return min(source.flush_ns, source.times_out_ns, _next_barrier_ns(m, source))
    source.state = FINISHED
    if source.is_watched:  # its part is done; its barriers may time out all the same
        acknowledge(m)
    for place in range(source.outputs_count):
        channel = source.outputs[place]
        channel.is_finished = channel.tail_event = 1
        note(m, channel)
        notify(channel)
    return source.times_out_ns


def may_any_go_on(task_manager: TaskManager) -> bool:
    """Whether a source of a TaskManager has only waited for an acknowledgement of its end of data,
    which has come, or for a buffer, which it may have now."""
    for place in range(task_manager.own_sources_count):
        source = task_manager.own_sources[place]
        if source.state == AWAITING_ACKNOWLEDGEMENT:
            if source.unacknowledged == 0:
                return True
        elif source.has_waited and is_pool_available(source):
            return True
    return False


def is_any_blocked(task_manager: TaskManager) -> bool:
    """Whether a source has finished, or its pool has no buffer to begin a record in."""
    for place in range(task_manager.own_sources_count):
        source = task_manager.own_sources[place]
        if source.state == FINISHED or writer.is_blocked(source):
            return True
    return False


def end_data(m: Exchange, source: Source) -> None:
    """Behind the records of each channel comes the end of data."""
    source.state = AWAITING_ACKNOWLEDGEMENT
    for place in range(source.outputs_count):
        channel = source.outputs[place]
        channel.tail_event = 1
        note(m, channel)
        notify_of_event(channel)


def write_until(m: Exchange, source: Source, until_ns: int) -> int:
    """Write the records and barriers that came up to an instant. Returns: the number of records."""
    if not m.has_barriers:
        return writer.emit_until(m, source, until_ns)
    watch_barriers(m, source, until_ns)
    emitted = _pass_barriers(m, source, until_ns)
    return emitted + writer.emit_until(m, source, until_ns)


def step_source(m: Exchange, source: Source, now: int, idle_ns: int) -> tuple[int, int]:
    """SimulatedSource.step. Returns: when that is done, and when to step again."""
    if source.state != RUNNING:
        return now, await_acknowledgement(m, source, now)
    if now < source.again_ns and source.available == 0 and not m.steps_at_records:
        return now, source.again_ns
    first_ns = min(earliest_ns(source.records_due), source.end_ns)
    emitted = 0
    if source.flush_ns <= now:
        if not source.has_ended:
            emitted += write_until(m, source, source.flush_ns - 1)
        flush_all(m, source, now)
    emitted += write_until(m, source, now)
    next_ns = min(earliest_ns(source.records_due), source.end_ns)
    has_records = earliest_ns(source.records_due) != NEVER
    timers_ns = source.flush_ns
    if m.has_barriers:
        timers_ns = min(timers_ns, source.times_out_ns, _next_barrier_ns(m, source))
    if source.has_waited:
        next_ns = NEVER
    elif next_ns <= now and not has_records:
        end_data(m, source)
        next_ns = NEVER
    if not m.steps_at_records and source.state == RUNNING:
        writer.skip_segments(m, source, now)
        next_ns = source.end_ns if source.end_ns > now else NEVER
        next_ns = min(next_ns, earliest_ns(source.segments_due))
    next_ns = min(next_ns, timers_ns)
    source.again_ns = 0 if source.has_waited else next_ns
    if emitted:
        spare_ns = min(idle_ns - source.idle_seen_ns, now - first_ns)
        now += max(0, int(emitted * m.emit_ns_per_record) - spare_ns)
    source.idle_seen_ns = idle_ns
    return now, next_ns


def step_at_max_rate(m: Exchange, source: Source, now: int) -> tuple[int, int]:
    """SimulatedSource's steps in one turn. Returns: when they are done, and when to step again."""
    for _ in range(m.steps_per_turn):
        if source.state != RUNNING:
            return now, await_acknowledgement(m, source, now)
        if source.flush_ns <= now:
            flush_all(m, source, now)
        if m.has_barriers:
            watch_barriers(m, source, now)
        if source.waits_at:
            writer.write_waiting(m, source, source.waits_at - 1)
        source.has_waited = 1 if writer.is_blocked(source) else 0
        if source.has_waited:
            return now, min(source.flush_ns, source.times_out_ns)
        if source.batch.at == source.batches_end:
            end_data(m, source)
            continue
        written, batch = 0, source.batch  # as far as there are buffers
        for place in range(source.outputs_count):
            records = batch[place]
            if records == 0:
                continue
            channel = source.outputs[place]
            ramp = channel.ramp_end
            ramp.records = records
            ramp.first_ns = ramp.last_ns = now
            channel.ramp_end = ramp.next
            channel.waiting_until = channel.emitted + records * m.record_bytes
            written += records
        source.batch = moved_list(batch, source.outputs_count)
        writer.write_waiting(m, source, 0)
        source.has_waited = 1 if writer.is_blocked(source) else 0
        now += int(written * m.emit_ns_per_record)
    return now, now


def held_up_until(task_manager: TaskManager, now: int) -> int:
    """When a turn begins that is to begin now: later if its process is kept from its work."""
    place = task_manager.preemption
    while place < task_manager.preemptions_end and place.starts_ns <= now:
        now = max(now, max(place.starts_ns, task_manager.free_since_ns) + place.length_ns)
        place = place.next
    task_manager.preemption = place
    return now


compile_all(globals())
