"""Tasks that read one exchange and write others: what they take from the one comes to the others,
and where they wait for buffers there, they take nothing more.

A record is done with, and written, one after the other. While a writer waits, the records that its
task has taken and not begun are withheld; it goes on with them where it stopped.
"""

from __future__ import annotations

from . import joint_words as joint
from . import words as w
from .acknowledgements import complete
from .compiling import compiled, moved
from .connection import wake
from .source import write_until
from .timetable import due_ns, earliest_ns, set_due
from .words import Numbers, Words
from .writer import next_record_ns


@compiled
def memory_of(memory: Words, j: Words, exchange: int) -> Words:
    """The words of an exchange of a job."""
    words: Words = moved(memory, j[joint.EXCHANGE_AT + 2 * exchange])
    return words


@compiled
def numbers_of(numbers: Numbers, j: Words, exchange: int) -> Numbers:
    """Its floating-point numbers."""
    own: Numbers = moved(numbers, j[joint.EXCHANGE_AT + 2 * exchange + 1])
    return own


@compiled
def next_exchange(memory: Words, j: Words) -> int:
    """The exchange that has the next turn; of several at one instant the one farthest down."""
    found, found_ns = 0, w.NEVER
    for exchange in range(j[joint.EXCHANGES]):
        m = memory_of(memory, j, exchange)
        at_ns = earliest_ns(m, m[w.WAKES])
        if at_ns <= found_ns:
            found, found_ns = exchange, at_ns
    return found


@compiled
def _follow_segments(m: Words, source: int, channel: int, from_ns: int) -> None:
    """Lay down when a record opens the next segment of a channel, if that is new, not before an
    instant.
    """
    place = m[channel + w.PLACE]
    if due_ns(m, m[source + w.SEGMENTS_DUE], place) != w.NEVER:
        return
    ramp, base, end = m[channel + w.OPENS_RAMP], m[channel + w.OPENS_BASE], m[channel + w.RAMP_END]
    while ramp < end and base + m[ramp] <= m[channel + w.OPENS_RECORD]:
        base += m[ramp]
        ramp += w.RAMP_WORDS
    m[channel + w.OPENS_RAMP] = ramp
    m[channel + w.OPENS_BASE] = base
    if ramp < end:
        set_due(m, m[source + w.SEGMENTS_DUE], place, max(m[ramp + 1], from_ns))


@compiled
def _wake_writer(j: Words, m: Words, link: int, now: int) -> None:
    """Let a TaskManager have a turn when there is something to write, or the data ends."""
    source = j[link + joint.WRITING_SOURCE]
    due = m[source + w.RECORDS_DUE] if m[w.STEPS_AT_RECORDS] else m[source + w.SEGMENTS_DUE]
    at_ns = min(earliest_ns(m, due), m[source + w.END_NS])
    if m[source + w.NEXT_BARRIER] < m[source + w.BARRIERS_END]:
        at_ns = min(at_ns, m[m[source + w.NEXT_BARRIER]])
    if at_ns == w.NEVER:
        return
    m[source + w.AGAIN_NS] = min(m[source + w.AGAIN_NS], at_ns)
    wake(m, j[link + joint.WRITING_TASK_MANAGER], max(at_ns, now))


@compiled
def _write_onwards(
    j: Words, m: Words, link: int, taken: int, records: int, at_ns: int, delay_ns: int
) -> None:
    """Let what follows from records come to the channels of a link, one after the other, when each
    record is done.

    Args:
        taken: before these.
        at_ns, delay_ns: when the first is begun, and what each takes.
    """
    source = j[link + joint.WRITING_SOURCE]
    written = j[j[link + joint.WRITTEN_AFTER] + taken - 1] if taken else 0
    for number in range(records):
        until = j[j[link + joint.WRITTEN_AFTER] + taken + number]
        at_ns += delay_ns
        while written < until:
            channel = j[j[link + joint.ROUTES] + j[link + joint.NEXT_ROUTE]]
            j[link + joint.NEXT_ROUTE] += 1
            if j[link + joint.NEXT_ROUTE] == j[link + joint.ROUTES_COUNT]:
                j[link + joint.NEXT_ROUTE] = 0
            ramp = m[channel + w.RAMP_END]
            m[ramp] = 1
            m[ramp + 1] = m[ramp + 2] = at_ns
            m[channel + w.RAMP_END] = ramp + w.RAMP_WORDS
            if m[channel + w.RAMP] == ramp:
                set_due(m, m[source + w.RECORDS_DUE], m[channel + w.PLACE], at_ns)
            _follow_segments(m, source, channel, at_ns)
            written += 1
    if taken + records == j[j[link + joint.LINK_RELAY] + joint.ALL_RECORDS]:
        m[source + w.END_NS] = (
            max(at_ns, j[link + joint.ENDS_FROM_NS]) + j[link + joint.ENDS_AFTER_NS]
        )


@compiled
def _hand_on(memory: Words, j: Words, m: Words, sink: int, now: int) -> None:
    """What a task has taken in its turn comes to the exchanges that it writes."""
    m[sink + w.HAS_TAKEN] = 0
    relay, records = m[sink + w.RELAY], m[sink + w.TOOK_RECORDS]
    taken = j[relay + joint.TAKEN_RECORDS]
    for number in range(taken, taken + records):
        j[j[relay + joint.TAKEN_FROM] + number] = m[sink + w.TOOK]
    j[relay + joint.TAKEN_RECORDS] = taken + records
    link = j[relay + joint.FIRST_LINK]
    while link:
        behind = memory_of(memory, j, j[link + joint.WRITES])
        begun_ns, record_ns = m[sink + w.TOOK_NS], m[sink + w.CONSUME_NS]
        _write_onwards(j, behind, link, taken, records, begun_ns, record_ns)
        _wake_writer(j, behind, link, now)
        link = j[link + joint.NEXT_LINK]


@compiled
def _pass_barriers_on(memory: Words, j: Words, m: Words, sink: int, now: int) -> None:
    """What a task has aligned in its turn it passes on."""
    relay = m[sink + w.RELAY]
    count = m[sink + w.ALIGNMENTS] - j[relay + joint.SEEN_BARRIERS]  # words
    link = j[relay + joint.FIRST_LINK]
    while link:
        behind = memory_of(memory, j, j[link + joint.WRITES])
        source = j[link + joint.WRITING_SOURCE]
        for number in range(count):
            word = m[j[relay + joint.SEEN_BARRIERS] + number]
            behind[behind[source + w.BARRIERS_END] + number] = word
        behind[source + w.BARRIERS_END] += count
        _wake_writer(j, behind, link, now)
        link = j[link + joint.NEXT_LINK]
    j[relay + joint.SEEN_BARRIERS] = m[sink + w.ALIGNMENTS]


@compiled
def _withhold(m: Words, j: Words, link: int, from_ns: int) -> None:
    """Take back the arrivals of a link after an instant."""
    source, withheld = j[link + joint.WRITING_SOURCE], j[link + joint.WITHHELD]
    for place in range(m[source + w.OUTPUTS_COUNT]):
        channel = m[m[source + w.OUTPUTS] + place]
        end = m[channel + w.RAMP_END]
        j[withheld + place] = end
        ramp = m[channel + w.RAMP]
        while ramp < end and m[ramp + 1] <= from_ns:
            ramp += w.RAMP_WORDS
        if ramp == end:
            continue
        m[channel + w.RAMP_END] = ramp
        if m[channel + w.RAMP] == ramp:
            set_due(m, m[source + w.RECORDS_DUE], place, w.NEVER)
        if m[channel + w.OPENS_RAMP] >= ramp:
            set_due(m, m[source + w.SEGMENTS_DUE], place, w.NEVER)


@compiled
def _release(m: Words, j: Words, link: int, since_ns: int, now: int) -> None:
    """Let the arrivals that were withheld come, as much later as they were."""
    source, withheld = j[link + joint.WRITING_SOURCE], j[link + joint.WITHHELD]
    for place in range(m[source + w.OUTPUTS_COUNT]):
        channel = m[m[source + w.OUTPUTS] + place]
        end = j[withheld + place]
        for ramp in range(m[channel + w.RAMP_END], end, w.RAMP_WORDS):
            m[ramp + 1] += now - since_ns
            m[ramp + 2] += now - since_ns
        if m[channel + w.RAMP_END] < end:
            m[channel + w.RAMP_END] = end
            set_due(m, m[source + w.RECORDS_DUE], place, next_record_ns(m, channel))
            _follow_segments(m, source, channel, now)
    if since_ns < m[source + w.END_NS] < w.NEVER:
        m[source + w.END_NS] += now - since_ns
    _wake_writer(j, m, link, now)


@compiled
def _wait(memory: Words, j: Words, link: int, since_ns: int) -> None:
    """A writer waits for buffers: its task stops where it is."""
    j[link + joint.WAITS_SINCE_NS] = since_ns
    relay = j[link + joint.LINK_RELAY]
    reader = memory_of(memory, j, j[relay + joint.READS])
    if reader[j[relay + joint.READING_SINK] + w.IS_HELD_UP]:
        return
    reader[j[relay + joint.READING_SINK] + w.IS_HELD_UP] = 1
    j[relay + joint.HELD_UP_NS] = since_ns
    other = j[relay + joint.FIRST_LINK]
    while other:
        _withhold(memory_of(memory, j, j[other + joint.WRITES]), j, other, since_ns)
        other = j[other + joint.NEXT_LINK]


@compiled
def _go_on(memory: Words, j: Words, link: int, now: int) -> None:
    """A writer has buffers again: with the last of its task, that goes on."""
    j[link + joint.WAITED_NS] += now - j[link + joint.WAITS_SINCE_NS]
    j[link + joint.WAITS_SINCE_NS] = w.NEVER
    relay = j[link + joint.LINK_RELAY]
    other = j[relay + joint.FIRST_LINK]
    while other:
        if j[other + joint.WAITS_SINCE_NS] != w.NEVER:
            return
        other = j[other + joint.NEXT_LINK]
    since_ns = j[relay + joint.HELD_UP_NS]
    m, sink = memory_of(memory, j, j[relay + joint.READS]), j[relay + joint.READING_SINK]
    m[sink + w.IS_HELD_UP] = m[sink + w.MAIL_NS] = 0
    if m[sink + w.BUSY_UNTIL_NS] > since_ns:
        m[sink + w.BUSY_UNTIL_NS] += now - since_ns
    channel = m[sink + w.TOOK]
    if channel:
        end = m[channel + w.DEPARTURES]
        for departure in range(end - m[sink + w.TOOK_RECORDS], end):
            if m[departure] > since_ns:
                m[departure] += now - since_ns
    other = j[relay + joint.FIRST_LINK]
    while other:
        _release(memory_of(memory, j, j[other + joint.WRITES]), j, other, since_ns, now)
        other = j[other + joint.NEXT_LINK]
    wake(m, j[relay + joint.READING_TASK_MANAGER], max(now, m[sink + w.BUSY_UNTIL_NS]))


@compiled
def _has_to_follow(m: Words, source: int, task_manager: int) -> bool:
    """Whether a TaskManager has something to do now that records were written before its turn: not
    where they only went into open buffers.
    """
    if m[source + w.HAS_WAITED] or m[w.HAS_BARRIERS] or m[task_manager + w.HAS_LOCAL_CHANNELS]:
        return True
    return earliest_ns(m, m[task_manager + w.UNSENT]) != w.NEVER


@compiled
def write_before(
    memory: Words, numbers: Numbers, j: Words, m: Words, task_manager: int, now: int
) -> None:
    """Tasks that may read in this turn first write what they have: for more they need buffers."""
    sinks = m[task_manager + w.OWN_SINKS]
    for place in range(sinks, sinks + m[task_manager + w.OWN_SINKS_COUNT]):
        sink = m[place]
        if m[sink + w.RELAY] == 0 or m[sink + w.IS_HELD_UP] or now < m[sink + w.BUSY_UNTIL_NS]:
            continue
        link = j[m[sink + w.RELAY] + joint.FIRST_LINK]
        while link:
            behind = memory_of(memory, j, j[link + joint.WRITES])
            source, writer = j[link + joint.WRITING_SOURCE], j[link + joint.WRITING_TASK_MANAGER]
            if earliest_ns(behind, behind[source + w.RECORDS_DUE]) <= now:
                write_until(behind, numbers_of(numbers, j, j[link + joint.WRITES]), source, now)
                if _has_to_follow(behind, source, writer):
                    wake(behind, writer, now)
            if behind[source + w.HAS_WAITED] and j[link + joint.WAITS_SINCE_NS] == w.NEVER:
                _wait(memory, j, link, now)
            link = j[link + joint.NEXT_LINK]


@compiled
def pass_on(memory: Words, numbers: Numbers, j: Words, exchange: int, owner: int, now: int) -> None:
    """What a turn of a TaskManager comes to in the other exchanges."""
    m = memory_of(memory, j, exchange)
    sinks = m[owner + w.OWN_SINKS]
    for place in range(sinks, sinks + m[owner + w.OWN_SINKS_COUNT]):
        sink = m[place]
        if m[sink + w.RELAY] and m[sink + w.HAS_TAKEN]:
            _hand_on(memory, j, m, sink, now)
        if (
            m[sink + w.RELAY]
            and m[sink + w.ALIGNMENTS] != j[m[sink + w.RELAY] + joint.SEEN_BARRIERS]
        ):
            _pass_barriers_on(memory, j, m, sink, now)
        if m[sink + w.OWES_ALIGNMENT]:
            _acknowledge(memory, numbers, j, m, sink, now)
    sources = m[owner + w.OWN_SOURCES]
    for place in range(sources, sources + m[owner + w.OWN_SOURCES_COUNT]):
        link = m[m[place] + w.LINK]
        if link == 0:
            continue
        if m[m[place] + w.OWES_FROM] and _have_barriers_left(m, m[place]):
            m[m[place] + w.OWES_FROM] = 0
            _confirm(memory, numbers, j, now)
        waits = j[link + joint.WAITS_SINCE_NS] != w.NEVER
        if m[m[place] + w.HAS_WAITED] and not waits:
            _wait(memory, j, link, now)
        elif waits and not m[m[place] + w.HAS_WAITED]:
            _go_on(memory, j, link, now)


@compiled
def ask_tasks_behind(memory: Words, j: Words) -> None:
    """A checkpoint begins: the sinks of all exchanges have to align it, and where it may time out,
    what has been written before it has to leave."""
    count = 0
    for exchange in range(1, j[joint.EXCHANGES]):
        m = memory_of(memory, j, exchange)
        for number in range(m[w.SINKS]):
            sink = m[w.FIRST_SINK] + number * w.SINK_WORDS
            m[sink + w.OWES_ALIGNMENT] = 0
            if m[sink + w.OPEN_INPUTS] > 0:
                m[sink + w.OWES_ALIGNMENT] = 1
                m[sink + w.SEEN_ALIGNMENTS] = m[sink + w.FINISHED_ALIGNMENTS]
                count += 1
        for number in range(m[w.SOURCES] if m[w.ALIGNED_TIMEOUT_NS] else 0):
            source = m[w.FIRST_SOURCE] + number * w.SOURCE_WORDS
            m[source + w.OWES_FROM] = 0
            if m[source + w.STATE] != w.FINISHED:
                m[source + w.OWES_FROM] = m[source + w.NEXT_BARRIER]
                count += 1
    memory_of(memory, j, 0)[w.ANSWERS_BEHIND] = count


@compiled
def _acknowledge(memory: Words, numbers: Numbers, j: Words, m: Words, sink: int, now: int) -> None:
    """A sink of an exchange behind the first has done its part of a checkpoint."""
    has_aligned = m[sink + w.FINISHED_ALIGNMENTS] != m[sink + w.SEEN_ALIGNMENTS]
    if not has_aligned and m[sink + w.OPEN_INPUTS] > 0:
        return
    m[sink + w.OWES_ALIGNMENT] = 0
    _confirm(memory, numbers, j, now)


@compiled
def _have_barriers_left(m: Words, source: int) -> bool:
    """Whether the barriers of the checkpoint that is under way have been written and have left, or
    have overtaken data; or never will.
    """
    if m[source + w.STATE] == w.FINISHED:
        return True
    return m[source + w.NEXT_BARRIER] != m[source + w.OWES_FROM] and not m[source + w.IS_WATCHED]


@compiled
def _confirm(memory: Words, numbers: Numbers, j: Words, now: int) -> None:
    """A part of a task behind the first exchange has done its part of a checkpoint."""
    first = memory_of(memory, j, 0)
    first[w.UNCONFIRMED] -= 1
    if first[w.UNCONFIRMED] == 0:
        first[w.TURN_NS] = now
        complete(first, numbers_of(numbers, j, 0))
