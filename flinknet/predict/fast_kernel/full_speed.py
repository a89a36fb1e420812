"""The highest rate: sources that write a batch after another as long as there are buffers; and
processes that their machine keeps from their work now and then.
"""

from __future__ import annotations

from . import words as w
from .acknowledgements import watch_barriers
from .compiling import compiled
from .source import await_acknowledgement, end_data, flush_all
from .words import Numbers, Words
from .writer import is_blocked, write_waiting


@compiled
def _write_batch(m: Words, source: int, now: int) -> int:
    """Write the next batch as far as there are buffers. Returns: its records."""
    outputs, batch, written = m[source + w.OUTPUTS], m[source + w.BATCH], 0
    for place in range(m[source + w.OUTPUTS_COUNT]):
        records = m[batch + place]
        if records == 0:
            continue
        channel = m[outputs + place]
        ramp = m[channel + w.RAMP_END]
        m[ramp] = records
        m[ramp + 1] = m[ramp + 2] = now
        m[channel + w.RAMP_END] = ramp + w.RAMP_WORDS
        m[channel + w.WAITING_UNTIL] = m[channel + w.EMITTED] + records * m[w.RECORD_BYTES]
        written += records
    m[source + w.BATCH] = batch + m[source + w.OUTPUTS_COUNT]
    write_waiting(m, source, 0)
    return written


@compiled
def step_at_max_rate(m: Words, f: Numbers, source: int, now: int) -> tuple[int, int]:
    """SimulatedSource's steps in one turn. Returns: when they are done, and when to step again."""
    for _ in range(m[w.STEPS_PER_TURN]):
        if m[source + w.STATE] != w.RUNNING:
            return now, await_acknowledgement(m, f, source, now)
        if m[source + w.FLUSH_NS] <= now:
            flush_all(m, source, now)
        if m[w.HAS_BARRIERS]:
            watch_barriers(m, f, source, now)
        if m[source + w.WAITS_AT]:
            write_waiting(m, source, m[source + w.WAITS_AT] - 1)
        m[source + w.HAS_WAITED] = 1 if is_blocked(m, source) else 0
        if m[source + w.HAS_WAITED]:
            return now, min(m[source + w.FLUSH_NS], m[source + w.TIMES_OUT_NS])
        if m[source + w.BATCH] == m[source + w.BATCHES_END]:
            end_data(m, source)
            continue
        records = _write_batch(m, source, now)
        m[source + w.HAS_WAITED] = 1 if is_blocked(m, source) else 0
        now += int(records * f[w.EMIT_NS_PER_RECORD])
    return now, now


@compiled
def held_up_until(m: Words, task_manager: int, now: int) -> int:
    """When a turn begins that is to begin now: later if its process has to get going first, or is
    kept from its work.
    """
    count = m[task_manager + w.WAKEUPS_COUNT]
    if count and now > m[task_manager + w.FREE_SINCE_NS]:
        now += m[m[task_manager + w.WAKEUPS] + m[task_manager + w.NEXT_WAKEUP]]
        m[task_manager + w.NEXT_WAKEUP] = (m[task_manager + w.NEXT_WAKEUP] + 1) % count
    place = m[task_manager + w.PREEMPTION]
    while place < m[task_manager + w.PREEMPTIONS_END] and m[place] <= now:
        now = max(now, max(m[place], m[task_manager + w.FREE_SINCE_NS]) + m[place + 1])
        place += 2
    m[task_manager + w.PREEMPTION] = place
    return now
