"""A sink: buffers are taken in turn, and their records with what they cost."""

from __future__ import annotations

from . import words as w
from .compiling import compiled
from .input_channel import queue_channel, recycle_held, release, say
from .latencies import take_records
from .words import Numbers, Words


@compiled
def _resume_all(m: Words, sink: int) -> None:
    """Every channel of a sink has told its recovery: all may go on."""
    for place in range(m[sink + w.INPUTS], m[sink + w.INPUTS] + m[sink + w.INPUTS_COUNT]):
        say(m, m[place], w.RESUME)


@compiled
def step_sink(m: Words, f: Numbers, slopes: int, sink: int, now: int) -> tuple[int, int]:
    """SimulatedSink.step. Returns: when the loop is done with that, and when to step again."""
    if now < m[sink + w.BUSY_UNTIL_NS]:
        return now, m[sink + w.BUSY_UNTIL_NS]
    delay_ns = m[sink + w.CONSUME_NS]
    for _ in range(m[w.STEPS_PER_TURN]):
        is_ready = m[sink + w.READY_BEGIN] < m[sink + w.READY_END]
        if is_ready:
            now += m[w.RECEIVE_NS]
        recycle_held(m, sink)
        if not is_ready:
            return now, w.NEVER
        channel = m[m[sink + w.READY] + (m[sink + w.READY_BEGIN] & m[sink + w.GATE_MASK])]
        m[sink + w.READY_BEGIN] += 1
        m[channel + w.IS_QUEUED] = 0
        message = m[channel + w.RING] + (m[channel + w.CONSUMED] & m[w.RING_MASK]) * w.MESSAGE_WORDS
        m[channel + w.CONSUMED] += 1
        if m[channel + w.CONSUMED] < m[channel + w.RECEIVED]:
            queue_channel(m, channel)
        done_ns = now
        if m[message] == w.DATA:
            records = m[message + 1]
            if records:
                take_records(m, f, slopes, channel, records, now, delay_ns)
            done_ns = now + delay_ns * records
            m[sink + w.HELD] = channel
            m[sink + w.IS_HELD_FLOATING] = m[message + 2]
            if done_ns == now:
                recycle_held(m, sink)
        elif m[message] == w.RECOVERY:
            m[sink + w.RECOVERED] += 1
            if m[sink + w.RECOVERED] == m[sink + w.INPUTS_COUNT]:
                _resume_all(m, sink)
        elif m[message] == w.END_OF_DATA:
            say(m, channel, w.ACKNOWLEDGE)
        else:
            release(m, channel)
        if done_ns == now and m[sink + w.READY_BEGIN] == m[sink + w.READY_END]:
            return now, w.NEVER
        if done_ns - now > m[w.BUSY_NS]:
            m[sink + w.BUSY_UNTIL_NS] = done_ns
            return now, done_ns
        now = done_ns
    return now, now
