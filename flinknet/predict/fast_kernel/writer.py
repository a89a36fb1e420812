"""A source's writer: what the buffers of its pool take at once, and what waits for more."""

from __future__ import annotations

from . import words as w
from .buffer_pool import is_pool_available
from .compiling import compiled
from .ramps import instant, records_until
from .subpartition import close_buffer, emit, flush, note, notify, open_end
from .timetable import earliest_ns, next_due, set_due
from .words import Words


@compiled
def next_record_ns(m: Words, channel: int) -> int:
    """When the next record of a channel comes; NEVER if there is none."""
    ramp = m[channel + w.RAMP]
    return instant(m, ramp, m[channel + w.POSITION]) if ramp < m[channel + w.RAMP_END] else w.NEVER


@compiled
def is_blocked(m: Words, source: int) -> bool:
    """SimulatedSource.is_blocked."""
    return m[source + w.WAITS_AT] > 0 or not is_pool_available(m, source)


@compiled
def is_inside_record(m: Words, source: int) -> bool:
    """Whether a record is partly written, so that no barrier may follow."""
    if m[source + w.WAITS_AT] == 0:
        return False
    channel = m[m[source + w.OUTPUTS] + m[source + w.WAITS_AT] - 1]
    return m[channel + w.EMITTED] % m[w.RECORD_BYTES] > 0


@compiled
def _write(m: Words, source: int, channel: int, end: int) -> None:
    """BufferWritingResultPartition.emit: up to a byte, as far as there are buffers. When none is to
    be had any more, the record that was begun takes what it needs, also from the overdraft.
    """
    before, emitted = m[channel + w.ELEMENTS], m[channel + w.EMITTED]
    used = m[source + w.ALL_SEGMENTS] + m[source + w.LENT]
    count = m[channel + w.SEGMENTS] + m[channel + w.LENT_BUFFERS]
    others = m[source + w.AT_QUOTA] - (1 if count >= m[w.QUOTA_BUFFERS] else 0)
    is_available = is_pool_available(m, source)
    most = m[source + w.POOL_BUFFERS] + m[source + w.OVERDRAFT_BUFFERS]
    size = m[w.SEGMENT_BYTES]
    while emitted < end:
        into = emitted % m[w.RECORD_BYTES]
        record_end = emitted - into + m[w.RECORD_BYTES]
        written = (emitted - m[channel + w.OPEN_FROM]) & (size - 1)
        if written == 0:
            if (into == 0 and not is_available) or used >= most:
                break
            used += 1
            count += 1
            is_available = others == 0 and count < m[w.QUOTA_BUFFERS]
            is_available = is_available and used < m[source + w.POOL_BUFFERS]
            capacity = size
            if m[w.DEBLOAT_NS]:
                capacity = min(max(record_end - emitted, m[channel + w.BUFFER_BYTES]), size)
            m[channel + w.OPEN_UNTIL] = emitted + capacity
            if into == 0 and not is_available and capacity == record_end - emitted:
                m[channel + w.OPEN_UNTIL] = emitted + min(capacity + 1, size)
        elif not is_available:
            if into == 0:
                break
            if m[w.DEBLOAT_NS] and record_end >= m[channel + w.OPEN_UNTIL]:
                m[channel + w.OPEN_UNTIL] = min(record_end + 1, emitted - written + size)
        limit = end if is_available else min(end, record_end)
        until = m[channel + w.OPEN_UNTIL] if m[w.DEBLOAT_NS] else emitted - written + size
        emitted = m[channel + w.EMITTED] = min(limit, until)
        if m[w.DEBLOAT_NS] and emitted == until:
            close_buffer(m, channel)
    note(m, channel)
    may_tell = before < 2 and not m[channel + w.FLUSH_REQUESTED] and not m[channel + w.IS_BLOCKED]
    if may_tell and m[channel + w.ELEMENTS] >= 2:
        notify(m, channel)
    if m[w.TIMEOUT_NS] == 0:
        flush(m, channel)
    elif m[w.CATCHES_UP] and m[channel + w.EMITTED] >= m[channel + w.WAITING_UNTIL]:
        follow_segment(m, source, channel, m[channel + w.EMITTED])


@compiled
def write_waiting(m: Words, source: int, first: int) -> None:
    """Write what waits, from a channel on, until something has to wait."""
    low = m[source + w.OUTPUTS]
    m[source + w.WAITS_AT] = 0
    for place in range(first, m[source + w.OUTPUTS_COUNT]):
        channel = m[low + place]
        if m[channel + w.WAITING_UNTIL] > m[channel + w.EMITTED]:
            _write(m, source, channel, m[channel + w.WAITING_UNTIL])
            if m[channel + w.WAITING_UNTIL] > m[channel + w.EMITTED]:
                m[source + w.WAITS_AT] = place + 1
                return


@compiled
def _resume(m: Words, source: int, now: int) -> bool:
    """TaskOutputs.resume: write what waited. Returns: whether new records may be written."""
    if m[source + w.WAITS_AT]:
        write_waiting(m, source, m[source + w.WAITS_AT] - 1)
    if is_blocked(m, source):
        return False
    m[source + w.HAS_WAITED] = 0
    m[w.RESUMED_NS] = now
    return True


@compiled
def take_until(m: Words, source: int, until_ns: int, most: int) -> int:
    """Take the records of a source that came up to an instant, to be written later. Returns: their
    number.

    Args:
        most: of a channel; more are taken where they have come evenly.
    """
    outputs, due, taken = m[source + w.OUTPUTS], m[source + w.RECORDS_DUE], 0
    place = next_due(m, due, 0, until_ns)
    while place >= 0:
        channel = m[outputs + place]
        _touch(m, source, channel)
        records = records_until(m, channel, until_ns, most)
        m[channel + w.TAKEN] += records
        taken += records
        set_due(m, due, place, next_record_ns(m, channel))
        place = next_due(m, due, place + 1, until_ns)
    return taken


@compiled
def _touch(m: Words, source: int, channel: int) -> None:
    """Note a channel of which records are taken, and where its arrivals stand."""
    if m[channel + w.TAKEN] > 0:
        return
    m[m[source + w.TOUCHED] + m[source + w.TOUCHED_COUNT]] = channel
    m[source + w.TOUCHED_COUNT] += 1
    m[channel + w.SAVED_RAMP] = m[channel + w.RAMP]
    m[channel + w.SAVED_POSITION] = m[channel + w.POSITION]


@compiled
def _put_back(m: Words, source: int) -> None:
    """Put back what was taken."""
    touched = m[source + w.TOUCHED]
    for place in range(touched, touched + m[source + w.TOUCHED_COUNT]):
        channel = m[place]
        m[channel + w.RAMP] = m[channel + w.SAVED_RAMP]
        m[channel + w.POSITION] = m[channel + w.SAVED_POSITION]
        m[channel + w.TAKEN] = 0
        set_due(m, m[source + w.RECORDS_DUE], m[channel + w.PLACE], next_record_ns(m, channel))
    m[source + w.TOUCHED_COUNT] = 0


@compiled
def _fits(m: Words, source: int) -> bool:
    """Whether all that was taken finds buffers, and leaves one of each kind."""
    used, touched = m[source + w.ALL_SEGMENTS] + m[source + w.LENT], m[source + w.TOUCHED]
    for place in range(touched, touched + m[source + w.TOUCHED_COUNT]):
        channel = m[place]
        size = m[channel + w.TAKEN] * m[w.RECORD_BYTES]
        more = 1 + (size >> m[w.SEGMENT_BITS])
        if m[w.DEBLOAT_NS]:
            capacity = max(m[w.RECORD_BYTES], m[channel + w.BUFFER_BYTES])
            more = 1 + size // min(capacity, m[w.SEGMENT_BYTES])
        used += more
        if m[channel + w.SEGMENTS] + m[channel + w.LENT_BUFFERS] + more >= m[w.QUOTA_BUFFERS]:
            return False
    return used < m[source + w.POOL_BUFFERS] and m[source + w.AT_QUOTA] == 0


@compiled
def _take_batch(m: Words, source: int) -> int:
    """Take the first records of a source, as many as are written at once. Returns: their number."""
    outputs, due, most = m[source + w.OUTPUTS], m[source + w.RECORDS_DUE], m[w.BATCH_RECORDS]
    for _ in range(most):
        place = next_due(m, due, 0, earliest_ns(m, due))
        channel = m[outputs + place]
        _touch(m, source, channel)
        m[channel + w.TAKEN] += 1
        m[channel + w.POSITION] += 1
        if m[channel + w.POSITION] == m[m[channel + w.RAMP]]:
            m[channel + w.RAMP] += w.RAMP_WORDS
            m[channel + w.POSITION] = 0
        set_due(m, due, place, next_record_ns(m, channel))
    return most


@compiled
def write_taken(m: Words, source: int) -> None:
    """Write what was taken, for which there are buffers."""
    touched = m[source + w.TOUCHED]
    is_followed = m[w.CATCHES_UP] or not m[w.STEPS_AT_RECORDS]
    for place in range(touched, touched + m[source + w.TOUCHED_COUNT]):
        channel = m[place]
        emit(m, channel, m[channel + w.TAKEN])
        m[channel + w.TAKEN] = 0
        if m[w.TIMEOUT_NS] == 0:
            flush(m, channel)
        elif is_followed:
            follow_segment(m, source, channel, m[channel + w.EMITTED])
    m[source + w.TOUCHED_COUNT] = 0


@compiled
def _write_batch(m: Words, source: int, records: int) -> int:
    """Write what was taken as far as there are buffers; no more of it than is written at once, the
    rest is put back. Returns: how many records are taken then.
    """
    if records > m[w.BATCH_RECORDS]:
        _put_back(m, source)
        records = _take_batch(m, source)
    touched = m[source + w.TOUCHED]
    for place in range(touched, touched + m[source + w.TOUCHED_COUNT]):
        channel = m[place]
        size = m[channel + w.TAKEN] * m[w.RECORD_BYTES]
        m[channel + w.WAITING_UNTIL] = m[channel + w.EMITTED] + size
        m[channel + w.TAKEN] = 0
    m[source + w.TOUCHED_COUNT] = 0
    write_waiting(m, source, 0)
    return records


@compiled
def _take(m: Words, source: int, until_ns: int) -> int:
    """Write records that came up to an instant: all, if there are buffers for them; if not, one
    batch, of which the rest may have to wait. Returns: their number.
    """
    records = take_until(m, source, until_ns, m[source + w.MOST_RECORDS])
    if _fits(m, source):
        write_taken(m, source)
    else:
        records = _write_batch(m, source, records)
    is_last = earliest_ns(m, m[source + w.RECORDS_DUE]) == w.NEVER
    if is_last and until_ns >= m[source + w.END_NS]:
        m[source + w.HAS_ENDED] = 1
    return records


@compiled
def _emit_at_once(m: Words, source: int, until_ns: int) -> int:
    """Write all records that came up to an instant, where none may wait: the run ends if one would
    have to. Returns: their number.
    """
    outputs, due = m[source + w.OUTPUTS], m[source + w.RECORDS_DUE]
    is_followed = m[w.CATCHES_UP] or not m[w.STEPS_AT_RECORDS]
    emitted = 0
    place = next_due(m, due, 0, until_ns)
    while place >= 0:
        channel = m[outputs + place]
        records = records_until(m, channel, until_ns, w.NEVER)
        emitted += records
        emit(m, channel, records)
        if m[w.TIMEOUT_NS] == 0:
            flush(m, channel)
        elif is_followed:
            follow_segment(m, source, channel, m[channel + w.EMITTED])
        if m[channel + w.SEGMENTS] + m[channel + w.LENT_BUFFERS] >= m[w.QUOTA_BUFFERS]:
            m[w.ENDED] = w.WRITER_WAITS
        set_due(m, due, place, next_record_ns(m, channel))
        place = next_due(m, due, place + 1, until_ns)
    if m[source + w.ALL_SEGMENTS] + m[source + w.LENT] >= m[source + w.POOL_BUFFERS]:
        m[w.ENDED] = w.WRITER_WAITS
    return emitted


@compiled
def follow_segment(m: Words, source: int, channel: int, reached: int) -> None:
    """Lay down when a record opens the next segment of a channel, once the last one is open."""
    if m[channel + w.OPENS_RECORD] * m[w.RECORD_BYTES] >= reached:
        return
    opens_at = (reached + m[w.SEGMENT_BYTES] - 1) >> m[w.SEGMENT_BITS] << m[w.SEGMENT_BITS]
    if m[w.CATCHES_UP]:
        opens_at = open_end(m, channel)
    record = opens_at // m[w.RECORD_BYTES]
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
def skip_segments(m: Words, source: int, now: int) -> None:
    """Segments that records have opened by now, or would have, are no reason for another step."""
    due, size = m[source + w.SEGMENTS_DUE], m[w.SEGMENT_BYTES]
    place = next_due(m, due, 0, now)
    while place >= 0:
        channel = m[m[source + w.OUTPUTS] + place]
        opened = m[channel + w.OPENS_RECORD] * m[w.RECORD_BYTES]
        follow_segment(m, source, channel, (opened + size - 1) // size * size + 1)
        place = next_due(m, due, place, now)


@compiled
def emit_until(m: Words, source: int, until_ns: int) -> int:
    """Write what came up to an instant, as far as there are buffers. Returns: the records taken."""
    if not m[w.MAY_WAIT]:
        return _emit_at_once(m, source, until_ns)
    emitted = 0
    if m[source + w.HAS_WAITED] and not _resume(m, source, until_ns):
        return 0
    while earliest_ns(m, m[source + w.RECORDS_DUE]) <= until_ns:
        emitted += _take(m, source, until_ns)
        if is_blocked(m, source):
            m[source + w.HAS_WAITED] = 1
            return emitted
    return emitted
