"""A source: when it steps, and what it writes and flushes then."""

from __future__ import annotations

from . import words as w
from .acknowledgements import end_source, pass_barriers, watch_barriers
from .buffer_pool import is_pool_available
from .compiling import compiled
from .subpartition import flush, note, notify, notify_of_event
from .timetable import earliest_ns, set_due
from .words import Numbers, Words
from .writer import (
    emit_until,
    follow_segment,
    is_blocked,
    is_inside_record,
    next_record_ns,
    skip_segments,
)


@compiled
def start_source(m: Words, source: int) -> None:
    """Lay down when the records of each channel come."""
    for place in range(m[source + w.OUTPUTS_COUNT]):
        channel = m[m[source + w.OUTPUTS] + place]
        note(m, channel)
        set_due(m, m[source + w.RECORDS_DUE], place, next_record_ns(m, channel))
        follow_segment(m, source, channel, m[channel + w.EMITTED])


@compiled
def flush_all(m: Words, source: int, now: int) -> None:
    """The beat of the flusher: the next one is a timeout after the end of its round, which takes
    no less than what the period is longer.
    """
    if m[source + w.ALL_ELEMENTS] > 0:
        low = m[source + w.OUTPUTS]
        for place in range(low, low + m[source + w.OUTPUTS_COUNT]):
            flush(m, m[place])
    m[source + w.FLUSH_NS] = max(now + m[w.TIMEOUT_NS], m[source + w.FLUSH_NS] + m[w.PERIOD_NS])


@compiled
def _next_barrier_ns(m: Words, source: int) -> int:
    """When a source passes on the next barrier. One waits for the end of a record, and until those
    before it have left: a checkpoint begins only when the one before it is complete.
    """
    if m[source + w.NEXT_BARRIER] == m[source + w.BARRIERS_END] or is_inside_record(m, source):
        return w.NEVER
    low = m[source + w.OUTPUTS]
    for place in range(low, low + m[source + w.OUTPUTS_COUNT]):
        if m[m[place] + w.BARRIER_PLACE] or m[m[place] + w.HAS_PRIORITY_BARRIER]:
            return w.NEVER
    return m[m[source + w.NEXT_BARRIER]]


@compiled
def watches_barriers(m: Words, source: int) -> bool:
    """Whether any turn may see that barriers of a source have left, and what follows from that."""
    if m[source + w.IS_WATCHED]:
        return True
    is_last = m[source + w.NEXT_BARRIER] == m[source + w.BARRIERS_END]
    return not is_last and _next_barrier_ns(m, source) == w.NEVER


@compiled
def _barriers_due_ns(m: Words, source: int) -> int:
    """When a source has barriers to pass on, or some that overtake data from then on."""
    return min(m[source + w.TIMES_OUT_NS], _next_barrier_ns(m, source))


@compiled
def _pass_barriers(m: Words, source: int, until_ns: int) -> int:
    """Write the barriers that have come up to an instant, each behind the records before it; one
    of them may have to wait for buffers. Returns: the number of records.
    """
    emitted = 0
    barrier_ns = _next_barrier_ns(m, source)
    while barrier_ns <= until_ns:
        emitted += emit_until(m, source, barrier_ns)
        if is_inside_record(m, source):
            return emitted
        pass_barriers(m, source, m[source + w.NEXT_BARRIER])
        m[source + w.NEXT_BARRIER] += w.BARRIER_WORDS
        barrier_ns = _next_barrier_ns(m, source)
    return emitted


@compiled
def await_acknowledgement(m: Words, f: Numbers, source: int, now: int) -> int:
    """Finish when every channel has acknowledged the end of data; until then the flusher beats on.

    Returns: when to step again.
    """
    if m[source + w.STATE] == w.FINISHED:
        watch_barriers(m, f, source, now)
        return m[source + w.TIMES_OUT_NS]
    if m[source + w.FLUSH_NS] <= now:
        flush_all(m, source, now)
    watch_barriers(m, f, source, now)
    if m[source + w.UNACKNOWLEDGED] > 0:
        _pass_barriers(m, source, now)
        return min(m[source + w.FLUSH_NS], _barriers_due_ns(m, source))
    end_source(m, f, source)
    low = m[source + w.OUTPUTS]
    for place in range(low, low + m[source + w.OUTPUTS_COUNT]):
        m[m[place] + w.IS_FINISHED] = m[m[place] + w.TAIL_EVENT] = 1
        note(m, m[place])
        notify(m, m[place])
    return m[source + w.TIMES_OUT_NS]


@compiled
def may_go_on(m: Words, source: int) -> bool:
    """Whether a source has only waited for its end of data to be acknowledged, or for a buffer that
    it may have now.
    """
    if m[source + w.STATE] == w.AWAITING_ACKNOWLEDGEMENT:
        return m[source + w.UNACKNOWLEDGED] == 0
    return m[source + w.HAS_WAITED] > 0 and is_pool_available(m, source)


@compiled
def may_any_go_on(m: Words, sources: int, sources_end: int) -> bool:
    """Whether any source has only waited for what it has now."""
    count = 0
    for place in range(sources, sources_end):
        count += 1 if may_go_on(m, m[place]) else 0
    return count > 0


@compiled
def is_any_blocked(m: Words, sources: int, sources_end: int) -> bool:
    """Whether the pool of any source has no buffer to begin a record in, as that of one that has
    finished."""
    count = 0
    for place in range(sources, sources_end):
        if m[m[place] + w.STATE] == w.FINISHED or is_blocked(m, m[place]):
            count += 1
    return count > 0


@compiled
def end_data(m: Words, source: int) -> None:
    """Behind the records of each channel comes the end of data."""
    m[source + w.STATE] = w.AWAITING_ACKNOWLEDGEMENT
    low = m[source + w.OUTPUTS]
    for place in range(low, low + m[source + w.OUTPUTS_COUNT]):
        channel = m[place]
        m[channel + w.TAIL_EVENT] = 1
        note(m, channel)
        notify_of_event(m, channel)


@compiled
def write_until(m: Words, f: Numbers, source: int, until_ns: int) -> int:
    """Write the records and barriers that came up to an instant. Returns: the number of records."""
    if not m[w.HAS_BARRIERS]:
        return emit_until(m, source, until_ns)
    watch_barriers(m, f, source, until_ns)
    emitted = _pass_barriers(m, source, until_ns)
    return emitted + emit_until(m, source, until_ns)


@compiled
def step_source(m: Words, f: Numbers, source: int, now: int, idle_ns: int) -> tuple[int, int]:
    """SimulatedSource.step. Returns: when that is done, and when to step again."""
    if m[source + w.STATE] != w.RUNNING:
        return now, await_acknowledgement(m, f, source, now)
    is_idle = now < m[source + w.AGAIN_NS] and m[source + w.AVAILABLE] == 0
    if is_idle and not m[w.STEPS_AT_RECORDS]:
        return now, m[source + w.AGAIN_NS]
    first_ns = min(earliest_ns(m, m[source + w.RECORDS_DUE]), m[source + w.END_NS])
    emitted = 0
    if m[source + w.FLUSH_NS] <= now:
        if not m[source + w.HAS_ENDED]:
            emitted += write_until(m, f, source, m[source + w.FLUSH_NS] - 1)
        flush_all(m, source, now)
    emitted += write_until(m, f, source, now)
    next_ns = min(earliest_ns(m, m[source + w.RECORDS_DUE]), m[source + w.END_NS])
    has_records = earliest_ns(m, m[source + w.RECORDS_DUE]) != w.NEVER
    timers_ns = m[source + w.FLUSH_NS]
    if m[w.HAS_BARRIERS]:
        timers_ns = min(timers_ns, _barriers_due_ns(m, source))
    if m[source + w.HAS_WAITED]:
        next_ns = w.NEVER
    elif next_ns <= now and not has_records:
        end_data(m, source)
        next_ns = w.NEVER
    if m[w.CATCHES_UP] and next_ns != w.NEVER:
        next_ns = min(m[source + w.END_NS], earliest_ns(m, m[source + w.SEGMENTS_DUE]))
    if not m[w.STEPS_AT_RECORDS] and m[source + w.STATE] == w.RUNNING:
        skip_segments(m, source, now)
        next_ns = m[source + w.END_NS] if m[source + w.END_NS] > now else w.NEVER
        next_ns = min(next_ns, earliest_ns(m, m[source + w.SEGMENTS_DUE]))
    next_ns = min(next_ns, timers_ns)
    m[source + w.AGAIN_NS] = 0 if m[source + w.HAS_WAITED] else next_ns
    if emitted:
        spare_ns = min(idle_ns - m[source + w.IDLE_SEEN_NS], now - first_ns)
        now += max(0, int(emitted * f[w.EMIT_NS_PER_RECORD]) - spare_ns)
    m[source + w.IDLE_SEEN_NS] = idle_ns
    return now, next_ns
