"""A source: when it steps, and what it writes and flushes then."""

from __future__ import annotations

from . import words as w
from .compiling import compiled
from .ramps import instant, records_until
from .subpartition import elements_of, emit, flush, is_data_available, notify, segments_of
from .words import Numbers, Words


@compiled
def _next_instant(m: Words, source: int) -> int:
    """The next record of a source, then its end."""
    next_ns = w.NEVER
    for place in range(m[source + w.OUTPUTS], m[source + w.OUTPUTS] + m[source + w.OUTPUTS_COUNT]):
        channel = m[place]
        ramp = m[channel + w.RAMP]
        if ramp < m[channel + w.RAMP_END]:
            next_ns = min(next_ns, instant(m, ramp, m[channel + w.POSITION]))
    return m[source + w.END_NS] if next_ns == w.NEVER else next_ns


@compiled
def _end_ns(m: Words, source: int) -> int:
    """When a source ends; NEVER while it has records."""
    for place in range(m[source + w.OUTPUTS], m[source + w.OUTPUTS] + m[source + w.OUTPUTS_COUNT]):
        channel = m[place]
        if m[channel + w.RAMP] < m[channel + w.RAMP_END]:
            return w.NEVER
    return m[source + w.END_NS]


@compiled
def _emit_until(m: Words, source: int, until_ns: int) -> int:
    """Write all records that came up to an instant. Returns: their number."""
    emitted = 0
    for place in range(m[source + w.OUTPUTS], m[source + w.OUTPUTS] + m[source + w.OUTPUTS_COUNT]):
        channel = m[place]
        records = records_until(m, channel, until_ns)
        if records:
            emitted += records
            emit(m, channel, records)
            if m[w.TIMEOUT_NS] == 0:
                flush(m, channel)
    return emitted


@compiled
def _opens_ns(m: Words, channel: int) -> int:
    """When a record opens the next segment of a channel."""
    emitted = m[channel + w.EMITTED]
    if m[channel + w.OPENS_RECORD] * m[w.RECORD_BYTES] >= emitted:
        return m[channel + w.OPENS_AT_NS]
    opens_at = (emitted + m[w.SEGMENT_BYTES] - 1) >> m[w.SEGMENT_BITS] << m[w.SEGMENT_BITS]
    record = opens_at // m[w.RECORD_BYTES]
    ramp, base, end = m[channel + w.OPENS_RAMP], m[channel + w.OPENS_BASE], m[channel + w.RAMP_END]
    while ramp < end and base + m[ramp] <= record:
        base += m[ramp]
        ramp += w.RAMP_WORDS
    m[channel + w.OPENS_RAMP] = ramp
    m[channel + w.OPENS_BASE] = base
    m[channel + w.OPENS_RECORD] = record
    m[channel + w.OPENS_AT_NS] = w.NEVER if ramp == end else instant(m, ramp, record - base)
    return m[channel + w.OPENS_AT_NS]


@compiled
def _await_acknowledgement(m: Words, source: int, now: int) -> int:
    """Finish when every channel has acknowledged the end of data; until then the flusher beats on.

    Returns: when to step again.
    """
    if m[source + w.STATE] == w.FINISHED:
        return w.NEVER
    low = m[source + w.OUTPUTS]
    high = low + m[source + w.OUTPUTS_COUNT]
    if m[source + w.BEAT_NS] <= now:
        for place in range(low, high):
            flush(m, m[place])
        m[source + w.BEAT_NS] = now + m[w.PERIOD_NS]
    if m[source + w.UNACKNOWLEDGED] > 0:
        return m[source + w.BEAT_NS]
    m[source + w.STATE] = w.FINISHED
    for place in range(low, high):
        m[m[place] + w.IS_FINISHED] = m[m[place] + w.TAIL_EVENT] = 1
        notify(m, m[place])
    return w.NEVER


@compiled
def step_source(m: Words, f: Numbers, source: int, now: int, idle_ns: int) -> tuple[int, int]:
    """SimulatedSource.step.

    Returns: when that is done, and when to step again; -1 if the writer would wait for buffers.
    """
    if m[source + w.STATE] != w.RUNNING:
        return now, _await_acknowledgement(m, source, now)
    low = m[source + w.OUTPUTS]
    high = low + m[source + w.OUTPUTS_COUNT]
    timeout_ns = m[w.TIMEOUT_NS]
    if timeout_ns != 0 and now < m[source + w.AGAIN_NS]:
        can_leave = False
        for place in range(low, high):
            if is_data_available(m, m[place]):
                can_leave = True
                break
        if not can_leave:
            return now, m[source + w.AGAIN_NS]
    first_ns = _next_instant(m, source)
    emitted = 0
    if m[source + w.BEAT_NS] <= now:
        emitted += _emit_until(m, source, m[source + w.BEAT_NS] - 1)
        for place in range(low, high):
            flush(m, m[place])
        m[source + w.BEAT_NS] = now + m[w.PERIOD_NS]
    emitted += _emit_until(m, source, now)
    held = 0
    for place in range(low, high):
        segments = segments_of(m, m[place])
        held += segments
        if segments >= m[w.QUOTA_BUFFERS] or held >= m[source + w.POOL_BUFFERS]:
            return now, -1
    next_ns = _next_instant(m, source) if timeout_ns == 0 else _end_ns(m, source)
    if next_ns <= now:
        m[source + w.STATE] = w.AWAITING_ACKNOWLEDGEMENT
        next_ns = m[source + w.BEAT_NS]
        for place in range(low, high):
            channel = m[place]
            m[channel + w.TAIL_EVENT] = 1
            is_told = m[channel + w.FLUSH_REQUESTED] or elements_of(m, channel) > 2
            if not is_told and not m[channel + w.IS_BLOCKED]:
                notify(m, channel)
    elif timeout_ns != 0:
        next_ns = min(m[source + w.END_NS], m[source + w.BEAT_NS])
        for place in range(low, high):
            next_ns = min(next_ns, _opens_ns(m, m[place]))
    m[source + w.AGAIN_NS] = next_ns
    if emitted:
        spare_ns = min(idle_ns - m[source + w.IDLE_SEEN_NS], now - first_ns)
        now += max(0, int(emitted * f[w.EMIT_NS_PER_RECORD]) - spare_ns)
    m[source + w.IDLE_SEEN_NS] = idle_ns
    return now, next_ns
