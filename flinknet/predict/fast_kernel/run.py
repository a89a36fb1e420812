"""A run: the TaskManagers take turns, whichever has something to do first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from . import words as w
from .compiling import compiled, digest_of, kept_on_disk, pointer
from .connection import pump_down, pump_up, receive_down, receive_up, wake
from .sink import step_sink
from .source import step_source
from .subpartition import notify
from .words import Floats, Ints, Numbers, Words


@compiled
def _turn(m: Words, f: Numbers, slopes: int, task_manager: int, now: int) -> bool:
    """SimulatedTaskManager's turn. Returns: False if a writer would have to wait for buffers."""
    m[task_manager + w.WAKE_NS] = w.NEVER
    m[task_manager + w.IDLE_NS] += now - m[task_manager + w.FREE_SINCE_NS]
    outgoing, outgoing_count = m[task_manager + w.OUTGOING], m[task_manager + w.OUTGOING_COUNT]
    incoming, incoming_count = m[task_manager + w.INCOMING], m[task_manager + w.INCOMING_COUNT]
    next_ns = w.NEVER
    for place in range(outgoing, outgoing + outgoing_count):
        next_ns = min(next_ns, receive_up(m, m[place], now))
    for place in range(incoming, incoming + incoming_count):
        next_ns = min(next_ns, receive_down(m, m[place], now))
    sources = m[task_manager + w.SOURCES]
    for place in range(sources, sources + m[task_manager + w.SOURCES_COUNT]):
        now, again_ns = step_source(m, f, m[place], now, m[task_manager + w.IDLE_NS])
        if again_ns < 0:
            return False
        next_ns = min(next_ns, again_ns)
    sinks = m[task_manager + w.SINKS]
    for place in range(sinks, sinks + m[task_manager + w.SINKS_COUNT]):
        now, again_ns = step_sink(m, f, slopes, m[place], now)
        next_ns = min(next_ns, again_ns)
    for place in range(outgoing, outgoing + outgoing_count):
        now = pump_up(m, f, m[place], now)
    for place in range(incoming, incoming + incoming_count):
        pump_down(m, m[place], now)
    m[task_manager + w.FREE_SINCE_NS] = now
    if next_ns != w.NEVER:
        wake(m, task_manager, next_ns)
    return True


def _run_of(sources: int) -> Callable[[Ints, Floats, int], int]:
    """Compiled of sources with that digest, or kept on disk since."""

    @kept_on_disk
    def run(memory: Ints, numbers: Floats, buckets: int) -> int:
        _ = sources  # see kept_on_disk
        m: Words = pointer(memory)
        f: Numbers = pointer(numbers)
        for number in range(m[w.CHANNELS]):
            notify(m, m[w.FIRST_CHANNEL] + number * w.CHANNEL_WORDS)
        while True:
            task_manager, now = 0, w.NEVER
            each = m[w.FIRST_TASK_MANAGER]
            for _ in range(m[w.TASK_MANAGERS]):
                if m[each + w.WAKE_NS] < now:
                    task_manager, now = each, m[each + w.WAKE_NS]
                each += w.TASK_MANAGER_WORDS
            if now == w.NEVER:
                return w.DONE
            m[w.TURNS] += 1
            if m[w.TURNS] > m[w.TURNS_MAX]:
                return w.TOO_LONG
            if not _turn(m, f, w.COUNTS + buckets, task_manager, now):
                return w.WRITER_WAITS

    return run


run = _run_of(digest_of(Path(__file__).parent))
"""Run an exchange to its end.

Args:
    memory: laid out by `fast_path`.
    numbers: costs, and room for twice as many numbers as there are buckets.
    buckets: of a latency histogram.

Returns: DONE, or why it must be run by the simulator.
"""
