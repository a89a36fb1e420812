"""The consumer's end of a channel: exclusive and floating buffers, credit to announce."""

from __future__ import annotations

from . import words as w
from .buffer_pool import lend
from .compiling import compiled
from .timetable import set_due
from .words import Words


@compiled
def _has_something_to_say(m: Words, connection: int) -> None:
    set_due(m, m[m[connection + w.DOWNSTREAM] + w.UNSENT], m[connection + w.DOWNSTREAM_PLACE], 0)


@compiled
def notify_credit(m: Words, channel: int, credit: int) -> None:
    if m[channel + w.UNANNOUNCED] == 0:
        connection = m[channel + w.CONNECTION]
        m[m[connection + w.CREDITORS] + m[connection + w.CREDITORS_COUNT]] = channel
        m[connection + w.CREDITORS_COUNT] += 1
        _has_something_to_say(m, connection)
    m[channel + w.UNANNOUNCED] += credit


@compiled
def say(m: Words, channel: int, what: int) -> None:
    """Queue a message that is no credit."""
    connection = m[channel + w.CONNECTION]
    _has_something_to_say(m, connection)
    entry = m[connection + w.CONTROL] + m[connection + w.CONTROL_COUNT] * w.CONTROL_WORDS
    m[connection + w.CONTROL_COUNT] += 1
    m[entry] = channel
    m[entry + 1] = what


@compiled
def request_floating(m: Words, channel: int) -> int:
    sink = m[channel + w.SINK]
    missing = m[channel + w.REQUIRED] - m[channel + w.FREE_FLOATING] - m[channel + w.FREE_EXCLUSIVE]
    gained = 0
    while gained < missing:
        if m[sink + w.POOL_FREE] == 0:
            m[channel + w.IS_WAITING] = 1
            place = m[sink + w.LISTENERS_END] & m[sink + w.GATE_MASK]
            m[m[sink + w.LISTENERS] + place] = channel
            m[sink + w.LISTENERS_END] += 1
            break
        m[sink + w.POOL_FREE] -= 1
        m[channel + w.FREE_FLOATING] += 1
        gained += 1
    return gained


@compiled
def _hand_over(m: Words, connection: int) -> None:
    """Without credit: there is a buffer for the message that a connection waits with."""
    m[connection + w.WAITS_FOR_BUFFER] = w.HAS_BUFFER
    m[connection + w.IS_DUE] = 1
    _has_something_to_say(m, connection)


@compiled
def recycle_floating(m: Words, sink: int) -> None:
    """LocalBufferPool.recycle: to the first waiting channel that still needs it."""
    while m[sink + w.LISTENERS_BEGIN] < m[sink + w.LISTENERS_END]:
        channel = m[m[sink + w.LISTENERS] + (m[sink + w.LISTENERS_BEGIN] & m[sink + w.GATE_MASK])]
        m[sink + w.LISTENERS_BEGIN] += 1
        if m[w.WITHOUT_CREDIT]:
            _hand_over(m, channel)
            return
        m[channel + w.IS_WAITING] = 0
        missing = (
            m[channel + w.REQUIRED] - m[channel + w.FREE_FLOATING] - m[channel + w.FREE_EXCLUSIVE]
        )
        if missing > 0:
            m[channel + w.FREE_FLOATING] += 1
            more = request_floating(m, channel) if missing > 1 else 0
            notify_credit(m, channel, 1 + more)
            return
    m[sink + w.POOL_FREE] += 1


@compiled
def release(m: Words, channel: int) -> None:
    """The release of an input channel: nothing waits any more, what is free goes back."""
    m[channel + w.IS_RELEASED] = 1
    if m[channel + w.CONNECTION] == 0:
        return
    m[channel + w.REQUIRED] = 0
    floating = m[channel + w.FREE_FLOATING]
    m[channel + w.FREE_FLOATING] = 0
    for _ in range(floating):
        recycle_floating(m, m[channel + w.SINK])
    say(m, channel, w.CANCEL)
    connection = m[channel + w.CONNECTION]
    if m[connection + w.UNDELIVERED] < m[connection + w.DOWN_BEGIN] and m[w.WITHOUT_CREDIT]:
        m[connection + w.IS_DUE] = 1  # what waits may have been its own


@compiled
def recycle_held(m: Words, sink: int) -> None:
    """The buffer that the task is done with."""
    channel = m[sink + w.HELD]
    if channel == 0:
        return
    m[sink + w.HELD] = 0
    if m[channel + w.CONNECTION] == 0:
        lend(m, channel, -m[sink + w.IS_HELD_FLOATING])
        return
    if m[sink + w.IS_HELD_FLOATING]:
        recycle_floating(m, sink)
        return
    m[channel + w.FREE_EXCLUSIVE] += 1
    free = m[channel + w.FREE_FLOATING] + m[channel + w.FREE_EXCLUSIVE]
    if m[channel + w.FREE_FLOATING] > 0 and free > m[channel + w.REQUIRED]:
        m[channel + w.FREE_FLOATING] -= 1
        recycle_floating(m, sink)
    else:
        notify_credit(m, channel, 1)


@compiled
def queue_barrier(m: Words, channel: int) -> None:
    """SingleInputGate._queue_priority_channel: a channel with an unaligned barrier is read before
    others, also if it is queued."""
    if m[channel + w.IS_BARRIER_RECEIVED] or m[channel + w.IS_RELEASED]:
        return
    sink = m[channel + w.SINK]
    mask, ready = m[sink + w.GATE_MASK], m[sink + w.READY]
    if m[channel + w.IS_QUEUED]:
        place = m[sink + w.READY_BEGIN]
        while m[ready + (place & mask)] != channel:
            place += 1
        m[sink + w.READY_END] -= 1
        while place < m[sink + w.READY_END]:
            m[ready + (place & mask)] = m[ready + (place + 1 & mask)]
            place += 1
    m[channel + w.IS_QUEUED] = m[channel + w.IS_BARRIER_RECEIVED] = 1
    m[m[sink + w.PRIORITIES] + (m[sink + w.PRIORITIES_END] & mask)] = channel
    m[sink + w.PRIORITIES_END] += 1


@compiled
def queue_channel(m: Words, channel: int) -> None:
    sink = m[channel + w.SINK]
    m[channel + w.IS_QUEUED] = 1
    m[m[sink + w.READY] + (m[sink + w.READY_END] & m[sink + w.GATE_MASK])] = channel
    m[sink + w.READY_END] += 1
