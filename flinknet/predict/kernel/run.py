"""A run: TaskManagers and the coordinator take turns, in the order in which they have work.

In a run of several exchanges, tasks read one and write others: records that they take from the one
come to the others; where they wait for buffers there, they take no more. A record is done with, and
written, one after the other. While a writer waits, the records that its task has taken and not
begun are withheld; it goes on with them where it stopped.
"""

from __future__ import annotations

from . import DONE, FINISHED, NEVER, TOO_LONG
from . import source as steps
from .channel import notify
from .checkpoints import complete, take_coordinators_turn
from .compiling import Ints, Words, compile_all, kept_on_disk, moved_list, pointer
from .connection import deliver_waiting, pump_down, pump_up, receive_down, receive_up, wake
from .memory import FIRST, NO_BARRIER, Channel, End, Exchange, Job, Link, Sink, Source, TaskManager
from .sink import rest, step_sink, take_debloaters_turn
from .times import due_ns, earliest_ns, next_due, set_due
from .writer import next_record_ns, opening_ramp


def _follow_segments(source: Source, channel: Channel, from_ns: int) -> None:
    """Lay down when a record opens the next segment, if that is new, not before an instant."""
    if due_ns(source.segments_due, channel.place) != NEVER:
        return
    ramp = opening_ramp(channel, channel.opens_record)
    if ramp < channel.ramp_end:
        set_due(source.segments_due, channel.place, max(ramp.first_ns, from_ns))


def _wake_writer(link: Link, now: int) -> None:
    """Let a TaskManager have a turn when there is something to write, or the data ends."""
    m, source = link.exchange, link.source
    due = source.records_due if m.steps_at_records else source.segments_due
    at_ns = min(earliest_ns(due), source.end_ns)
    if source.next_barrier < source.barriers_end:
        at_ns = min(at_ns, source.next_barrier.at_ns)
    if at_ns != NEVER:
        source.again_ns = min(source.again_ns, at_ns)
        wake(m, link.task_manager, max(at_ns, now))


def _write_onwards(link: Link, taken: int, records: int, at_ns: int, delay_ns: int) -> None:
    """Let records that a task makes of others come to the channels of a link, one after the other,
    when each is done: after `taken` others, from an instant on, with a cost for each."""
    source = link.source
    written = link.written_after[taken - 1] if taken else 0
    for number in range(records):
        until = link.written_after[taken + number]
        at_ns += delay_ns
        while written < until:
            channel = link.routes[link.next_route]
            link.next_route += 1
            if link.next_route == link.routes_count:
                link.next_route = 0
            ramp = channel.ramp_end
            ramp.records, ramp.first_ns, ramp.last_ns = 1, at_ns, at_ns
            channel.ramp_end = ramp.next
            if channel.ramp == ramp:
                set_due(source.records_due, channel.place, at_ns)
            _follow_segments(source, channel, at_ns)
            written += 1
    if taken + records == link.relay.all_records:
        source.end_ns = max(at_ns, link.ends_from_ns) + link.ends_after_ns


def _hand_on(sink: Sink, now: int) -> None:
    """Records that a task has taken in its turn come to the exchanges that it writes."""
    sink.has_taken = 0
    relay, records = sink.relay, sink.took_records
    taken = relay.taken_records
    for number in range(taken, taken + records):
        relay.taken_from[number] = sink.took
    relay.taken_records = taken + records
    for number in range(relay.links_count):
        _write_onwards(relay.links[number], taken, records, sink.took_ns, sink.consume_ns)
        _wake_writer(relay.links[number], now)


def _pass_barriers_on(sink: Sink, now: int) -> None:
    """A task passes on barriers that it has aligned in its turn."""
    for number in range(sink.relay.links_count):
        link = sink.relay.links[number]
        source, passed = link.source, sink.relay.seen_barriers
        while passed < sink.alignments:
            barrier = source.barriers_end
            barrier.at_ns, barrier.began_ns = passed.at_ns, passed.began_ns
            barrier.is_overtaking = passed.is_overtaking
            source.barriers_end, passed = barrier.next, passed.next
        _wake_writer(link, now)
    sink.relay.seen_barriers = sink.alignments


def _release(link: Link, since_ns: int, now: int) -> None:
    """Let the arrivals that were withheld come, as much later as they were."""
    source = link.source
    for place in range(source.outputs_count):
        channel, end = source.outputs[place], link.withheld[place]
        ramp = channel.ramp_end
        while ramp < end:
            ramp.first_ns += now - since_ns
            ramp.last_ns += now - since_ns
            ramp = ramp.next
        if channel.ramp_end < end:
            channel.ramp_end = end
            set_due(source.records_due, place, next_record_ns(channel))
            _follow_segments(source, channel, now)
    if since_ns < source.end_ns < NEVER:
        source.end_ns += now - since_ns
    _wake_writer(link, now)


def _wait(link: Link, since_ns: int) -> None:
    """A writer waits for a buffer: its task stops and writes to no exchange until it has one."""
    link.waits_since_ns = since_ns
    relay = link.relay
    if relay.sink.is_held_up:
        return
    relay.sink.is_held_up = 1
    relay.held_up_ns = since_ns
    for number in range(relay.links_count):
        own = relay.links[number]
        source = own.source
        for place in range(source.outputs_count):
            channel = source.outputs[place]
            ramp, end = channel.ramp, channel.ramp_end
            own.withheld[place] = end
            while ramp < end and ramp.first_ns <= since_ns:
                ramp = ramp.next
            if ramp == end:
                continue
            channel.ramp_end = ramp
            if channel.ramp == ramp:
                set_due(source.records_due, place, NEVER)
            if channel.opens_ramp >= ramp:
                set_due(source.segments_due, place, NEVER)


def _go_on(link: Link, now: int) -> None:
    """A writer has buffers again: with the last of its task, the task goes on."""
    link.waits_since_ns = NEVER
    relay = link.relay
    for number in range(relay.links_count):
        if relay.links[number].waits_since_ns != NEVER:
            return
    since_ns, sink = relay.held_up_ns, relay.sink
    sink.is_held_up = sink.mail_ns = 0
    if sink.busy_until_ns > since_ns:
        sink.busy_until_ns += now - since_ns
    if sink.took:
        departures = moved_list(sink.took.departures, -sink.took_records)
        for number in range(sink.took_records):
            if departures[number] > since_ns:
                departures[number] += now - since_ns
    for number in range(relay.links_count):
        _release(relay.links[number], since_ns, now)
    wake(relay.exchange, relay.task_manager, max(now, sink.busy_until_ns))


def _write_before(task_manager: TaskManager, now: int) -> None:
    """Let tasks that may read in this turn first write the records that they have."""
    for place in range(task_manager.own_sinks_count):
        sink = task_manager.own_sinks[place]
        if not sink.relay or sink.is_held_up or now < sink.busy_until_ns:
            continue
        for number in range(sink.relay.links_count):
            link = sink.relay.links[number]
            behind, source = link.exchange, link.source
            if earliest_ns(source.records_due) <= now:
                steps.write_until(behind, source, now)
                has_unsent = earliest_ns(link.task_manager.unsent) != NEVER
                has_more = source.has_waited or link.task_manager.has_local_channels
                if has_unsent or has_more or behind.has_barriers:  # else only in open buffers
                    wake(behind, link.task_manager, now)
            if source.has_waited and link.waits_since_ns == NEVER:
                _wait(link, now)


def _pass_on(job: Job, owner: TaskManager, now: int) -> None:
    """Effects of a turn of a TaskManager on the other exchanges."""
    for place in range(owner.own_sinks_count):
        sink = owner.own_sinks[place]
        if sink.relay and sink.has_taken:
            _hand_on(sink, now)
        if sink.relay and sink.alignments != sink.relay.seen_barriers:
            _pass_barriers_on(sink, now)
        has_aligned = sink.finished_alignments != sink.seen_alignments or sink.open_inputs == 0
        if sink.owes_alignment and has_aligned:
            sink.owes_alignment = 0
            _confirm(job, now)
    for place in range(owner.own_sources_count):
        source = owner.own_sources[place]
        link = source.link
        if not link:
            continue
        has_written = source.next_barrier != source.owes_from and not source.is_watched
        if source.owes_from and (has_written or source.state == FINISHED):
            source.owes_from = NO_BARRIER
            _confirm(job, now)
        waits = link.waits_since_ns != NEVER
        if source.has_waited and not waits:
            _wait(link, now)
        elif waits and not source.has_waited:
            _go_on(link, now)


def _ask_tasks_behind(job: Job) -> None:
    """A checkpoint begins: the sinks of all exchanges have to align it, and where it may time out,
    all data before it has to leave."""
    count = 0
    for exchange in range(1, job.exchanges_count):
        m = job.exchanges[exchange]
        for number in range(m.sinks_count):
            sink = m.sinks[number]
            sink.owes_alignment = 1 if sink.open_inputs > 0 else 0
            sink.seen_alignments = sink.finished_alignments
            count += sink.owes_alignment
        for number in range(m.sources_count if m.aligned_timeout_ns else 0):
            source = m.sources[number]
            source.owes_from = NO_BARRIER
            if source.state != FINISHED:
                source.owes_from = source.next_barrier
                count += 1
    job.exchanges[0].answers_behind = count


def _confirm(job: Job, now: int) -> None:
    """A part of a task behind the first exchange has done its part of a checkpoint."""
    first = job.exchanges[0]
    first.unconfirmed -= 1
    if first.unconfirmed == 0:
        first.turn_ns = now
        complete(first)


def _pump(m: Exchange, end: End, now: int) -> int:
    """Send what waits at the end of a connection. Returns: when that is done."""
    if end.is_upstream:
        return pump_up(m, end.connection, now)
    pump_down(m, end.connection, now)
    return now


def _pump_all(m: Exchange, task_manager: TaskManager, now: int) -> int:
    """Send what waits at the ends of connections. Returns: when that is done."""
    ends, unsent = task_manager.ends, task_manager.unsent
    place = next_due(unsent, 0, 0)
    while place >= 0:
        end = ends[place]
        now = _pump(m, end, now)
        if not end.is_upstream and end.connection.is_due:
            deliver_waiting(m, end.connection)
        if not end.connection.is_pressed or not end.is_upstream:
            set_due(unsent, place, NEVER)
        place = next_due(unsent, place + 1, 0)
    return now


def _turn(m: Exchange, task_manager: TaskManager, now: int) -> None:
    """SimulatedTaskManager's turn."""
    m.turn_ns = now
    set_due(m.wakes, task_manager.number, NEVER)
    task_manager.idle_ns += now - task_manager.free_since_ns
    ends, arrivals = task_manager.ends, task_manager.arrivals
    has_slept = m.wake_ns > 0 and now - task_manager.free_since_ns > m.sleeps_after_ns
    if has_slept and earliest_ns(arrivals) <= now:
        task_manager.sleeps += 1
        now += m.wake_ns * (task_manager.sleeps * 40503 & 0xFFFF) >> 15  # as in the simulator
    if m.is_disturbed:
        now = steps.held_up_until(task_manager, now)
    place = next_due(arrivals, 0, now)
    while place >= 0:
        end = ends[place]
        if end.is_upstream:
            next_ns = receive_up(m, end.connection, now)
        else:
            next_ns = receive_down(m, end.connection, now)
        set_due(arrivals, place, next_ns)
        if m.wake_ns and due_ns(task_manager.unsent, place) != NEVER:
            now = _pump(m, end, now)
        place = next_due(arrivals, place + 1, now)
    next_ns = earliest_ns(arrivals)
    for place in range(task_manager.own_sources_count):
        source = task_manager.own_sources[place]
        if m.is_max_rate:
            now, again_ns = steps.step_at_max_rate(m, source, now)
        else:
            now, again_ns = steps.step_source(m, source, now, task_manager.idle_ns)
        next_ns = min(next_ns, again_ns)
    sinks = task_manager.own_sinks
    for place in range(task_manager.own_sinks_count):
        now, again_ns = step_sink(m, sinks[place], now)
        if m.debloat_ns and again_ns > now:
            rest(sinks[place], now)
        next_ns = min(next_ns, again_ns)
    if task_manager.has_local_channels and steps.may_any_go_on(task_manager):
        next_ns = now  # a local consumer has let it
    waiting = steps.is_any_blocked(task_manager)
    m.has_sent = m.has_delivered = 0
    now = _pump_all(m, task_manager, now)
    if m.has_delivered:
        next_ns = now
    if waiting and (m.has_sent or steps.may_any_go_on(task_manager)):
        next_ns = now  # buffers came back to the writer
    task_manager.free_since_ns = now
    if next_ns != NEVER:
        wake(m, task_manager, next_ns)


def _next_task_manager(m: Exchange, now: int) -> TaskManager:
    """The next TaskManager to have a turn: the first to ask."""
    first = m.managers
    place = next_due(m.wakes, 0, now)
    found = first[place]
    place = next_due(m.wakes, place + 1, now)
    while place >= 0:
        if first[place].asked < found.asked:
            found = first[place]
        place = next_due(m.wakes, place + 1, now)
    return found


@kept_on_disk
def run(memory: Ints) -> int:
    """Run the exchanges of a job to their end; several wait for each other. The memory has the Job
    at its first word. There is one call of `_turn`, so that it becomes part of the loop, which
    saves a tenth. Returns: DONE, or why it must be run otherwise, or by the simulator."""
    words: Words = pointer(memory)
    job = Job(words, FIRST)
    for number in range(job.exchanges_count):
        m = job.exchanges[number]
        for place in range(m.sources_count):
            steps.start_source(m, m.sources[place])
        for place in range(m.channels_count):
            notify(m.channels[place])
    m, is_joined = job.exchanges[0], job.exchanges_count > 1
    while True:
        if is_joined:  # the exchange that is due first; of several the one farthest down
            m = job.exchanges[0]
            for number in range(1, job.exchanges_count):
                if earliest_ns(job.exchanges[number].wakes) <= earliest_ns(m.wakes):
                    m = job.exchanges[number]
        now = earliest_ns(m.wakes)
        if now == NEVER:
            break
        m.turns += 1
        if m.turns > m.turns_max:
            m.ended = TOO_LONG
        if m.ended != DONE:
            break
        owner = _next_task_manager(m, now)
        if owner.number >= m.task_managers:
            is_coordinator = owner.number == m.task_managers
            if is_joined and is_coordinator and m == job.exchanges[0]:
                _ask_tasks_behind(job)
            m.turn_ns, m.passed_ns, m.passed_asked = now, now, owner.asked
            if is_coordinator:
                take_coordinators_turn(m, now)
            else:
                take_debloaters_turn(m, owner, now)
            continue
        if is_joined:
            _write_before(owner, now)
        _turn(m, owner, now)
        if is_joined:
            _pass_on(job, owner, now)
    return m.ended


compile_all(globals())
