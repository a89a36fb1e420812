"""Buffer debloating: gates are looked at now and then, and say how large buffers are to be."""

from __future__ import annotations

from . import words as w
from .compiling import compiled
from .connection import wake
from .input_channel import say
from .timetable import set_due
from .words import Numbers, Words

_NS_PER_MS = 1_000_000


@compiled
def resume(m: Words, sink: int, now: int) -> None:
    """TaskTimes.resume: a sink has something to read."""
    if m[sink + w.IDLE_SINCE_NS] < 0:
        return
    m[sink + w.MARKED_NS] = max(now, m[sink + w.MARKED_NS])
    m[sink + w.IDLE_BEFORE_NS] += m[sink + w.MARKED_NS] - m[sink + w.IDLE_SINCE_NS]
    m[sink + w.IDLE_SINCE_NS] = -1


@compiled
def rest(m: Words, sink: int, now: int) -> None:
    """StreamTask.rest: a sink that does nothing waits, unless there is something to read, or its
    output holds it up."""
    if m[sink + w.IDLE_SINCE_NS] >= 0 or now < m[sink + w.BUSY_UNTIL_NS] or m[sink + w.IS_HELD_UP]:
        return
    has_barriers = m[sink + w.PRIORITIES_BEGIN] < m[sink + w.PRIORITIES_END]
    if has_barriers or m[sink + w.READY_BEGIN] < m[sink + w.READY_END]:
        return
    m[sink + w.MARKED_NS] = max(now, m[sink + w.MARKED_NS])
    m[sink + w.IDLE_SINCE_NS] = m[sink + w.MARKED_NS]


@compiled
def _buffers_in_use(m: Words, channel: int) -> int:
    """InputChannel.buffers_in_use."""
    if m[channel + w.CONNECTION] == 0:
        return m[channel + w.SEGMENTS]
    received = (
        m[channel + w.RECEIVED] - m[channel + w.CONSUMED] + m[channel + w.IS_BARRIER_RECEIVED]
    )
    return received + max(0, m[channel + w.REQUIRED] - m[w.EXCLUSIVE_BUFFERS])


@compiled
def _measure(m: Words, sink: int, now: int) -> int:
    """ThroughputCalculator.evaluate. Returns: bytes per second since the last look."""
    idle_ns = m[sink + w.IDLE_BEFORE_NS]
    if m[sink + w.IDLE_SINCE_NS] >= 0:
        idle_ns += now - m[sink + w.IDLE_SINCE_NS]
    counted_ms = (now - m[sink + w.SEEN_NS] - idle_ns + m[sink + w.SEEN_IDLE_NS]) // _NS_PER_MS
    if counted_ms > 0:
        size = m[sink + w.READ_BYTES] - m[sink + w.SEEN_BYTES]
        m[sink + w.SEEN_RATE] = size * 1000 // counted_ms
    m[sink + w.SEEN_NS] = now
    m[sink + w.SEEN_BYTES] = m[sink + w.READ_BYTES]
    m[sink + w.SEEN_IDLE_NS] = idle_ns
    return m[sink + w.SEEN_RATE]


@compiled
def _size(m: Words, f: Numbers, sink: int, place: int, now: int) -> int:
    """BufferDebloater.recalculate. Returns: the size to announce; 0 for none."""
    inputs, buffers = m[sink + w.INPUTS], 0
    for number in range(inputs, inputs + m[sink + w.INPUTS_COUNT]):
        buffers += _buffers_in_use(m, m[number])
    wanted = _measure(m, sink, now) * m[w.TARGET_MS] // 1000
    size = f[place]
    size += f[w.NEWEST_SHARE] * (min(wanted / max(1, buffers), 2 * size) - size)
    smallest, largest = m[w.SMALLEST_BYTES], m[w.SEGMENT_BYTES]
    f[place] = min(max(size, float(smallest)), float(largest))
    new, announced = int(f[place] + 0.5), m[sink + w.ANNOUNCED_BYTES]
    change = abs(new - announced)
    is_at_end = (new <= smallest or new >= largest) and change > 0
    if is_at_end or change >= max(announced * m[w.THRESHOLD_PERCENT] // 100, 1):
        m[sink + w.ANNOUNCED_BYTES] = new
        return new
    return 0


@compiled
def _announce(m: Words, sink: int, size: int) -> None:
    """Tell the producers of a sink, those of the same TaskManager at once."""
    for place in range(m[sink + w.INPUTS], m[sink + w.INPUTS] + m[sink + w.INPUTS_COUNT]):
        channel = m[place]
        if m[channel + w.IS_RELEASED]:
            continue
        if m[channel + w.CONNECTION] == 0:
            m[channel + w.BUFFER_BYTES] = size
            continue
        if m[channel + w.TO_ANNOUNCE] == 0:
            say(m, channel, w.BUFFER_SIZE)
        m[channel + w.TO_ANNOUNCE] = size


@compiled
def _is_over(m: Words) -> bool:
    """Whether every task has ended."""
    for number in range(m[w.SOURCES]):
        if m[m[w.FIRST_SOURCE] + number * w.SOURCE_WORDS + w.STATE] != w.FINISHED:
            return False
    for number in range(m[w.SINKS]):
        if m[m[w.FIRST_SINK] + number * w.SINK_WORDS + w.OPEN_INPUTS] > 0:
            return False
    return True


@compiled
def timed_task_manager(m: Words, timer: int) -> int:
    """The TaskManager whose gates a timer is for."""
    place = m[timer + w.NUMBER] - m[w.TASK_MANAGERS] - 1
    return m[w.FIRST_TASK_MANAGER] + place * w.TASK_MANAGER_WORDS


@compiled
def take_debloaters_turn(m: Words, f: Numbers, timer: int, now: int) -> None:
    """BufferDebloating.handle_deadline, for the gates of a TaskManager."""
    set_due(m, m[w.WAKES], m[timer + w.NUMBER], w.NEVER)
    if _is_over(m):
        return
    task_manager = timed_task_manager(m, timer)
    sinks = m[task_manager + w.OWN_SINKS]
    for place in range(sinks, sinks + m[task_manager + w.OWN_SINKS_COUNT]):
        sink = m[place]
        if m[sink + w.OPEN_INPUTS] > 0:
            number = (sink - m[w.FIRST_SINK]) // w.SINK_WORDS
            size = _size(m, f, sink, m[w.SIZES] + number, now)
            if size:
                _announce(m, sink, size)
    wake(m, task_manager, now)
    m[w.TURNS_ASKED] += 1
    m[timer + w.ASKED] = m[w.TURNS_ASKED]
    set_due(m, m[w.WAKES], m[timer + w.NUMBER], now + m[w.DEBLOAT_NS])
