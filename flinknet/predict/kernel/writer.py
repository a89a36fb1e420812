"""The writer of a source: records that the buffers of its pool take, and records that wait."""

from __future__ import annotations

from . import NEVER
from .channel import close_buffer, emit, flush, is_pool_available, note_written
from .compiling import compile_all
from .memory import Channel, Exchange, Ramp, Source
from .times import earliest_ns, instant, next_due, records_until, set_due


def next_record_ns(channel: Channel) -> int:
    """When the next record of a channel comes; NEVER if there is none."""
    ramp = channel.ramp
    return instant(ramp, channel.position) if ramp < channel.ramp_end else NEVER


def is_blocked(source: Source) -> bool:
    """SimulatedSource.is_blocked."""
    return source.waits_at > 0 or not is_pool_available(source)


def is_inside_record(m: Exchange, source: Source) -> bool:
    """Whether a record is partly written, so that no barrier may follow."""
    if source.waits_at == 0:
        return False
    channel = source.outputs[source.waits_at - 1]
    return channel.emitted % m.record_bytes > 0


def _write(m: Exchange, source: Source, channel: Channel, end: int) -> None:
    """PipelinedResultPartition.emit: up to a byte, as far as there are buffers. When there
    are no more, the record that was begun takes those that it needs, also from the overdraft."""
    before, emitted = channel.elements, channel.emitted
    used = source.all_segments + source.lent
    count = channel.segments + channel.lent_buffers
    others = source.at_quota - (1 if count >= m.quota_buffers else 0)
    is_available = is_pool_available(source)
    most = source.pool_buffers + source.overdraft_buffers
    size = m.segment_bytes
    while emitted < end:
        into = emitted % m.record_bytes
        record_end = emitted - into + m.record_bytes
        written = (emitted - channel.open_from) & (size - 1)
        if written == 0:
            if (into == 0 and not is_available) or used >= most:
                break
            used += 1
            count += 1
            is_available = others == 0 and count < m.quota_buffers
            is_available = is_available and used < source.pool_buffers
            capacity = size
            if m.debloat_ns:
                capacity = min(max(record_end - emitted, channel.buffer_bytes), size)
            channel.open_until = emitted + capacity
            if into == 0 and not is_available and capacity == record_end - emitted:
                channel.open_until = emitted + min(capacity + 1, size)
        elif not is_available:
            if into == 0:
                break
            if m.debloat_ns and record_end >= channel.open_until:
                channel.open_until = min(record_end + 1, emitted - written + size)
        limit = end if is_available else min(end, record_end)
        until = channel.open_until if m.debloat_ns else emitted - written + size
        emitted = channel.emitted = min(limit, until)
        if m.debloat_ns and emitted == until:
            close_buffer(m, channel)
    note_written(m, channel, before)
    if m.timeout_ns == 0:
        flush(m, channel)


def write_waiting(m: Exchange, source: Source, first: int) -> None:
    """Write what waits, from a channel on, until something has to wait."""
    source.waits_at = 0
    for place in range(first, source.outputs_count):
        channel = source.outputs[place]
        if channel.waiting_until > channel.emitted:
            _write(m, source, channel, channel.waiting_until)
            if channel.waiting_until > channel.emitted:
                source.waits_at = place + 1
                return


def _touch(source: Source, channel: Channel) -> None:
    """Note a channel whose records are taken, and the position of its arrivals."""
    if channel.taken > 0:
        return
    source.touched[source.touched_count] = channel
    source.touched_count += 1
    channel.saved_ramp, channel.saved_position = channel.ramp, channel.position


def _fits(m: Exchange, source: Source) -> bool:
    """Whether all that was taken finds buffers, and leaves one of each kind."""
    used, touched = source.all_segments + source.lent, source.touched
    for place in range(source.touched_count):
        channel = touched[place]
        size = channel.taken * m.record_bytes
        more = 1 + (size >> m.segment_bits)
        if m.debloat_ns:
            capacity = max(m.record_bytes, channel.buffer_bytes)
            more = 1 + size // min(capacity, m.segment_bytes)
        used += more
        if channel.segments + channel.lent_buffers + more >= m.quota_buffers:
            return False
    return used < source.pool_buffers and source.at_quota == 0


def _take_batch(m: Exchange, source: Source) -> int:
    """Put back the records that were taken, but for the first batch. Returns: its records."""
    due, most = source.records_due, m.batch_records
    for place in range(source.touched_count):
        channel = source.touched[place]
        channel.ramp, channel.position = channel.saved_ramp, channel.saved_position
        channel.taken = 0
        set_due(due, channel.place, next_record_ns(channel))
    source.touched_count = 0
    for _ in range(most):
        place = next_due(due, 0, earliest_ns(due))
        channel = source.outputs[place]
        _touch(source, channel)
        channel.taken += 1
        channel.position += 1
        if channel.position == channel.ramp.records:
            channel.ramp, channel.position = channel.ramp.next, 0
        set_due(due, place, next_record_ns(channel))
    return most


def _write_batch(m: Exchange, source: Source, records: int) -> int:
    """Write records that were taken as far as there are buffers, one batch at most; the others are
    put back. Returns: the number of records in the batch."""
    if records > m.batch_records:
        records = _take_batch(m, source)
    for place in range(source.touched_count):
        channel = source.touched[place]
        size = channel.taken * m.record_bytes
        channel.waiting_until, channel.taken = channel.emitted + size, 0
    source.touched_count = 0
    write_waiting(m, source, 0)
    return records


def _take(m: Exchange, source: Source, until_ns: int) -> int:
    """Write records that came up to an instant: all, if there are buffers for them; if not, one
    batch, whose rest may have to wait. Returns: their number."""
    outputs, due, records = source.outputs, source.records_due, 0
    place = next_due(due, 0, until_ns)
    while place >= 0:
        channel = outputs[place]
        _touch(source, channel)
        taken = records_until(channel, until_ns, source.most_records)
        channel.taken += taken
        records += taken
        set_due(due, place, next_record_ns(channel))
        place = next_due(due, place + 1, until_ns)
    if _fits(m, source):
        for place in range(source.touched_count):
            channel = source.touched[place]
            emit(m, channel, channel.taken)
            channel.taken = 0
            if m.timeout_ns == 0:
                flush(m, channel)
            elif not m.steps_at_records:
                follow_segment(m, source, channel, channel.emitted)
        source.touched_count = 0
    else:
        records = _write_batch(m, source, records)
    is_last = earliest_ns(source.records_due) == NEVER
    if is_last and until_ns >= source.end_ns:
        source.has_ended = 1
    return records


def follow_segment(m: Exchange, source: Source, channel: Channel, reached: int) -> None:
    """Lay down when a record opens the next segment of a channel, once the last one is open."""
    if channel.opens_record * m.record_bytes >= reached:
        return
    opens_at = (reached + m.segment_bytes - 1) >> m.segment_bits << m.segment_bits
    record = opens_at // m.record_bytes
    ramp = opening_ramp(channel, record)
    is_known = ramp < channel.ramp_end
    opens_ns = instant(ramp, record - channel.opens_base) if is_known else NEVER
    set_due(source.segments_due, channel.place, opens_ns)


def opening_ramp(channel: Channel, record: int) -> Ramp:
    """Note the record that opens the next segment. Returns: its ramp, or the end of all."""
    ramp, base, end = channel.opens_ramp, channel.opens_base, channel.ramp_end
    while ramp < end and base + ramp.records <= record:
        base += ramp.records
        ramp = ramp.next
    channel.opens_ramp, channel.opens_base, channel.opens_record = ramp, base, record
    return ramp


def skip_segments(m: Exchange, source: Source, now: int) -> None:
    """Segments that records have opened by now, or would have, are no reason for another step."""
    due, size = source.segments_due, m.segment_bytes
    place = next_due(due, 0, now)
    while place >= 0:
        channel = source.outputs[place]
        opened = channel.opens_record * m.record_bytes
        follow_segment(m, source, channel, (opened + size - 1) // size * size + 1)
        place = next_due(due, place, now)


def emit_until(m: Exchange, source: Source, until_ns: int) -> int:
    """Write records that came up to an instant, if there are buffers. Returns: their number."""
    emitted = 0
    if source.has_waited:  # TaskOutputs.resume
        if source.waits_at:
            write_waiting(m, source, source.waits_at - 1)
        if is_blocked(source):
            return 0
        source.has_waited, m.resumed_ns = 0, until_ns
    while earliest_ns(source.records_due) <= until_ns:
        emitted += _take(m, source, until_ns)
        if is_blocked(source):
            source.has_waited = 1
            return emitted
    return emitted


compile_all(globals(), next_record_ns, opening_ramp)
