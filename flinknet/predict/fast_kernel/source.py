"""A source: when it steps, and what it writes and flushes then."""

from __future__ import annotations

from . import words as w
from .acknowledgements import end_source, watch_barriers
from .compiling import compiled
from .ramps import instant, records_until
from .subpartition import emit, flush, note, notify, notify_of_event, open_end, write_barrier
from .timetable import earliest_ns, next_due, set_due
from .words import Numbers, Words


@compiled
def start_source(m: Words, source: int) -> None:
    """Lay down when the records of each channel come."""
    for place in range(m[source + w.OUTPUTS_COUNT]):
        channel = m[m[source + w.OUTPUTS] + place]
        note(m, channel)
        set_due(m, m[source + w.RECORDS_DUE], place, _next_record_ns(m, channel))
        _follow_segment(m, source, channel)


@compiled
def _next_record_ns(m: Words, channel: int) -> int:
    """When the next record of a channel comes; NEVER if there is none."""
    ramp = m[channel + w.RAMP]
    return instant(m, ramp, m[channel + w.POSITION]) if ramp < m[channel + w.RAMP_END] else w.NEVER


@compiled
def _follow_segment(m: Words, source: int, channel: int) -> None:
    """Lay down when a record opens the next segment of a channel, once the last one is open."""
    if m[channel + w.OPENS_RECORD] * m[w.RECORD_BYTES] >= m[channel + w.EMITTED]:
        return
    record = open_end(m, channel) // m[w.RECORD_BYTES]
    ramp, base, end = m[channel + w.OPENS_RAMP], m[channel + w.OPENS_BASE], m[channel + w.RAMP_END]
    while ramp < end and base + m[ramp] <= record:
        base += m[ramp]
        ramp += w.RAMP_WORDS
    m[channel + w.OPENS_RAMP] = ramp
    m[channel + w.OPENS_BASE] = base
    m[channel + w.OPENS_RECORD] = record
    opens_ns = w.NEVER if ramp == end else instant(m, ramp, record - base)
    set_due(m, m[source + w.SEGMENTS_DUE], m[channel + w.PLACE], opens_ns)


@compiled
def emit_until(m: Words, source: int, until_ns: int) -> int:
    """Write all records that came up to an instant; the run ends if a writer would wait for
    buffers. Returns: their number.
    """
    outputs, due = m[source + w.OUTPUTS], m[source + w.RECORDS_DUE]
    emitted = 0
    place = next_due(m, due, 0, until_ns)
    while place >= 0:
        channel = m[outputs + place]
        records = records_until(m, channel, until_ns)
        emitted += records
        emit(m, channel, records)
        if m[w.TIMEOUT_NS] == 0:
            flush(m, channel)
        elif m[w.CATCHES_UP] or not m[w.STEPS_AT_RECORDS]:
            _follow_segment(m, source, channel)
        is_lent = m[channel + w.CONNECTION] == 0 and m[source + w.LENT] > 0
        if m[channel + w.SEGMENTS] + (1 if is_lent else 0) >= m[w.QUOTA_BUFFERS]:
            m[w.ENDED] = w.WRITER_WAITS
        set_due(m, due, place, _next_record_ns(m, channel))
        place = next_due(m, due, place + 1, until_ns)
    if m[source + w.ALL_SEGMENTS] + m[source + w.LENT] >= m[source + w.POOL_BUFFERS]:
        m[w.ENDED] = w.WRITER_WAITS
    return emitted


@compiled
def _flush_all(m: Words, source: int, now: int) -> None:
    """The beat of the flusher: the next one is a timeout after the end of its round, which takes
    no less than what the period is longer.
    """
    if m[source + w.ALL_ELEMENTS] > 0:
        low = m[source + w.OUTPUTS]
        for place in range(low, low + m[source + w.OUTPUTS_COUNT]):
            flush(m, m[place])
    m[source + w.FLUSH_NS] = max(now + m[w.TIMEOUT_NS], m[source + w.FLUSH_NS] + m[w.PERIOD_NS])


@compiled
def write_barriers(m: Words, source: int) -> None:
    """Behind what was written to each channel comes the barrier of a checkpoint; the next record
    opens a segment.
    """
    outputs = m[source + w.OUTPUTS]
    for place in range(m[source + w.OUTPUTS_COUNT]):
        channel = m[outputs + place]
        write_barrier(m, channel)
        if m[w.CATCHES_UP]:
            record = m[channel + w.EMITTED] // m[w.RECORD_BYTES]
            m[channel + w.OPENS_RAMP] = m[channel + w.RAMP]
            m[channel + w.OPENS_BASE] = record - m[channel + w.POSITION]
            m[channel + w.OPENS_RECORD] = record
            set_due(m, m[source + w.SEGMENTS_DUE], place, _next_record_ns(m, channel))


@compiled
def _next_barrier_ns(m: Words, source: int) -> int:
    """When a source passes on the next barrier. One waits until those before it have left: a
    checkpoint begins only when the one before it is complete.
    """
    if m[source + w.NEXT_BARRIER] == m[source + w.BARRIERS_END]:
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
    """Write the barriers that have come up to an instant, each behind the records before it.
    Returns: the number of these.
    """
    emitted = 0
    barrier_ns = _next_barrier_ns(m, source)
    while barrier_ns <= until_ns:
        emitted += emit_until(m, source, barrier_ns)
        write_barriers(m, source)
        m[source + w.NEXT_BARRIER] += 1
        barrier_ns = _next_barrier_ns(m, source)
    return emitted


@compiled
def _await_acknowledgement(m: Words, f: Numbers, source: int, now: int) -> int:
    """Finish when every channel has acknowledged the end of data; until then the flusher beats on.

    Returns: when to step again.
    """
    if m[source + w.STATE] == w.FINISHED:
        watch_barriers(m, f, source, now)
        return m[source + w.TIMES_OUT_NS]
    if m[source + w.FLUSH_NS] <= now:
        _flush_all(m, source, now)
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
def may_finish(m: Words, source: int) -> bool:
    """Whether a source has only waited for its end of data to be acknowledged."""
    is_waiting = m[source + w.STATE] == w.AWAITING_ACKNOWLEDGEMENT
    return is_waiting and m[source + w.UNACKNOWLEDGED] == 0


@compiled
def _end_data(m: Words, source: int) -> None:
    """Behind the records of each channel comes the end of data."""
    m[source + w.STATE] = w.AWAITING_ACKNOWLEDGEMENT
    low = m[source + w.OUTPUTS]
    for place in range(low, low + m[source + w.OUTPUTS_COUNT]):
        channel = m[place]
        m[channel + w.TAIL_EVENT] = 1
        note(m, channel)
        notify_of_event(m, channel)


@compiled
def step_source(m: Words, f: Numbers, source: int, now: int, idle_ns: int) -> tuple[int, int]:
    """SimulatedSource.step. Returns: when that is done, and when to step again."""
    if m[source + w.STATE] != w.RUNNING:
        return now, _await_acknowledgement(m, f, source, now)
    is_idle = now < m[source + w.AGAIN_NS] and m[source + w.AVAILABLE] == 0
    if is_idle and not m[w.STEPS_AT_RECORDS]:
        return now, m[source + w.AGAIN_NS]
    first_ns = min(earliest_ns(m, m[source + w.RECORDS_DUE]), m[source + w.END_NS])
    emitted = 0
    if m[source + w.FLUSH_NS] <= now:
        watch_barriers(m, f, source, m[source + w.FLUSH_NS] - 1)
        emitted += _pass_barriers(m, source, m[source + w.FLUSH_NS] - 1)
        emitted += emit_until(m, source, m[source + w.FLUSH_NS] - 1)
        _flush_all(m, source, now)
    watch_barriers(m, f, source, now)
    emitted += _pass_barriers(m, source, now)
    emitted += emit_until(m, source, now)
    next_ns = min(earliest_ns(m, m[source + w.RECORDS_DUE]), m[source + w.END_NS])
    has_records = earliest_ns(m, m[source + w.RECORDS_DUE]) != w.NEVER
    if next_ns <= now and not has_records:
        _end_data(m, source)
        next_ns = min(m[source + w.FLUSH_NS], _barriers_due_ns(m, source))
    elif m[w.STEPS_AT_RECORDS]:
        if m[w.CATCHES_UP]:
            next_ns = min(m[source + w.END_NS], earliest_ns(m, m[source + w.SEGMENTS_DUE]))
        next_ns = min(next_ns, m[source + w.FLUSH_NS], _barriers_due_ns(m, source))
    else:
        next_ns = min(m[source + w.END_NS], m[source + w.FLUSH_NS])
        next_ns = min(next_ns, earliest_ns(m, m[source + w.SEGMENTS_DUE]))
    m[source + w.AGAIN_NS] = next_ns
    if emitted:
        spare_ns = min(idle_ns - m[source + w.IDLE_SEEN_NS], now - first_ns)
        now += max(0, int(emitted * f[w.EMIT_NS_PER_RECORD]) - spare_ns)
    m[source + w.IDLE_SEEN_NS] = idle_ns
    return now, next_ns
