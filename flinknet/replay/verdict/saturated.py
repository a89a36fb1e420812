"""Tasks that have no time left: which of them holds the job up, and why it in particular.

Pressure is followed from producers to consumers: the last task that works nearly always while its
producers wait for it is the source of it, and what happens before it is a symptom.

Mirrors the reading of busy and back-pressured time in Flink's web interface; the causes are those
that Dhalion (VLDB 2017) keeps apart: all instances, one slow instance, skew.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from flinknet.results import PRESSED_FROM, Bottleneck, Cause, Remedy, TaskMetrics
from flinknet.units import human_duration

from ..ledger import CheckpointCounts, Ledger, named, working

SATURATED_FROM = 0.95
"""Busy share from which a task is saturated, whether or not its producers wait yet: small records
queue in half-empty buffers, and the last of the buffers is filled much later."""

LOADED_FROM = 0.85
"""Busy share from which a task is saturated if its producers wait for it."""

HELD_FROM = 0.5
"""Back-pressured share from which a task is held up although nothing behind it is busy."""

IDLE_BELOW = 0.4
"""A task that is busy for less of its time than this is not the cause of its producers' waiting."""

PASSES_ON_FROM = 0.5
"""A task that waits for its output for this part of the time in which it is not idle passes the
pressure of the tasks behind it on."""

ALIKE_FROM = 0.8
"""Siblings at least this busy, relative to the busiest one, also count as slow."""

FURTHER = 1.25
"""Ratios of records or of times between siblings below this are chance."""

SLOW_HOST_FROM = 1.5
"""Ratio of times per record, against siblings on other TaskManagers, from which the tasks of a
TaskManager are slow."""

WORKS_FROM = 0.05
"""Busy share from which the time for a record can be compared."""

LONGER_MAX = 100
"""Ratios of times per record above this say nothing: the siblings had next to nothing to do."""

NO_NETWORK = "network settings do not help"


def saturated(ledger: Ledger) -> Bottleneck | None:
    """The verdict on the saturated task furthest downstream; None if no task is saturated."""
    found = [each for each in ledger.vertices if _is_saturated(ledger, each)]
    if not found:
        return None
    before = {behind for each in found for behind in ledger.before(each)}
    last = [each for each in found if each not in before] or found
    vertex = max(last, key=lambda each: max(map(working, ledger.vertices[each].tasks)))
    return slow_tasks(ledger, vertex)


def slow_tasks(ledger: Ledger, vertex: int) -> Bottleneck:
    """The verdict on the busiest subtasks of a vertex, which holds the job up."""
    tasks = ledger.vertices[vertex].tasks
    most = max(map(working, tasks))
    slow = [place for place, each in enumerate(tasks) if working(each) >= ALIKE_FROM * most]
    slow.sort(key=lambda each: -working(tasks[each]))
    link, _ = ledger.waiting_input(vertex)
    cause, place, text, help_text, remedy = _why(ledger, vertex, slow)
    sentences = [f"{text}; {help_text}", *symptoms(ledger, vertex)]
    return Bottleneck(
        cause,
        tuple(tasks[each].name for each in slow),
        most,
        ". ".join(sentences),
        None if link is None else link.name,
        place,
        (remedy,),
    )


def starved_of_buffers(ledger: Ledger) -> Bottleneck | None:
    """The verdict on tasks that wait for their output while no task behind them has much to do;
    None if there are none. With few buffers a task waits for one channel after the other, for a
    short time each."""
    for vertex in _downstream_first(ledger):
        links = [each for each in ledger.links if each.source == vertex]
        share = ledger.back_pressure(vertex) or 0.0
        reached = [each for each in ledger.vertices if vertex in ledger.before(each)]
        behind = [task for each in reached for task in ledger.vertices[each].tasks]
        if share < HELD_FROM or any(each.busy is None for each in behind):
            continue
        most = max(map(working, behind), default=1.0)
        if most >= IDLE_BELOW:
            return None
        name = ledger.vertices[vertex].name
        targets = named([ledger.vertices[each.target].name for each in links])
        text = (
            f"few buffers behind {name}: it is back-pressured {share:.0%} of the time, while no"
            f" task behind it is busy for more than {most:.0%}; more buffers to {targets} or a"
            " shorter round trip help"
        )
        tasks = [task for each in links for task in ledger.vertices[each.target].tasks]
        return Bottleneck(
            Cause.FEW_BUFFERS,
            tuple(each.name for each in tasks),
            share,
            ". ".join([text, *symptoms(ledger, vertex)]),
            links[0].name,
            None,
            (Remedy.BUFFERS, Remedy.NETWORK),
        )
    return None


def healthy(ledger: Ledger) -> Bottleneck:
    """The verdict on a job that nothing holds up, with the task that would saturate next."""
    waited = {each: ledger.back_pressure(each) for each in ledger.vertices}
    known = {each: share for each, share in waited.items() if share is not None}
    most = max(known, key=lambda each: known[each], default=None)
    text = "nothing holds the job up: no task is saturated"
    if most is not None and known[most] >= PRESSED_FROM:
        text += f"; {ledger.vertices[most].name} waits for its output {known[most]:.0%} of the time"
    else:
        text += " and none waits for its output"
    busiest = max(
        (task for vertex in ledger.vertices.values() for task in vertex.tasks), key=working
    )
    share = working(busiest)
    text += f"; the busiest, {busiest.name}, is busy {share:.0%} of the time"
    if share >= IDLE_BELOW:
        text += f" and would be saturated at {1 / share:.1f} times the rate"
    return Bottleneck(
        Cause.NONE, (), None, ". ".join([text, *_of_checkpoints(ledger.checkpoints, ())])
    )


def _downstream_first(ledger: Ledger) -> list[int]:
    return sorted(ledger.vertices, key=lambda each: -len(ledger.before(each)))


def symptoms(ledger: Ledger, vertex: int) -> list[str]:
    """Sentences on what follows from a task that holds the job up: back pressure of the tasks
    before it, and checkpoints that do not complete."""
    found = []
    pressed = [
        f"{ledger.vertices[each].name} {share:.0%}"
        for each in ledger.before(vertex)
        if (share := ledger.back_pressure(each) or 0.0) >= PRESSED_FROM
    ]
    if pressed:
        found.append(f"Back-pressured before it: {named(pressed)}")
    return found + _of_checkpoints(ledger.checkpoints, ledger.vertices[vertex].tasks)


def _of_checkpoints(counts: CheckpointCounts, tasks: Sequence[TaskMetrics]) -> list[str]:
    found = []
    if counts.expired:
        text = f"{counts.expired} of {counts.ended} checkpoints expired after"
        text += f" {human_duration(counts.timeout_ns)}"
        queued = max((each.input_queue_buffers or 0.0 for each in tasks), default=0.0)
        if queued >= 1:
            text += f": their barriers wait behind {queued:.0f} buffers in its input queues"
        found.append(text)
    if counts.failed:
        found.append(f"{counts.failed} of {counts.ended} checkpoints failed")
    return found


def _is_saturated(ledger: Ledger, vertex: int) -> bool:
    return any(
        working(task) >= LOADED_FROM
        and not _passes_on(task)
        and (working(task) >= SATURATED_FROM or ledger.waiting_input(vertex)[1] >= PRESSED_FROM)
        for task in ledger.vertices[vertex].tasks
    )


def _passes_on(task: TaskMetrics) -> bool:
    waits = task.back_pressured or 0.0
    return waits >= PASSES_ON_FROM * (waits + working(task))


def _why(
    ledger: Ledger, vertex: int, slow: Sequence[int]
) -> tuple[Cause, str | None, str, str, Remedy]:
    """Cause, TaskManager, what is seen, what helps."""
    metrics = ledger.vertices[vertex]
    tasks = metrics.tasks
    share = working(tasks[slow[0]])
    others = [each for each in range(len(tasks)) if each not in slow]
    names = named([tasks[each].name for each in slow])
    are = "is" if len(slow) == 1 else "are"
    if not others:
        all_of = names if len(tasks) == 1 else f"all {len(tasks)} subtasks of {metrics.name}"
        return (
            Cause.SLOW_TASKS,
            None,
            f"{all_of} {are} busy {share:.0%} of the time",
            f"a higher parallelism or less work for each record helps; {NO_NETWORK}",
            Remedy.PARALLELISM,
        )
    siblings = "its sibling" if len(others) == 1 else "its siblings"
    if len(slow) > 1:
        siblings = "the other subtask" if len(others) == 1 else "the other subtasks"
    text = f"{names} {are} busy {share:.0%} of the time, {siblings}"
    text += f" {fmean(working(tasks[each]) for each in others):.0%}"
    more, longer = _ratios(tasks, slow, others)
    if more is not None and more >= FURTHER and more >= longer:
        records = [each.records_in_per_s or 0.0 for each in tasks]
        part = sum(records[each] for each in slow) / (sum(records) or 1.0)
        return (
            Cause.SKEW,
            None,
            f"skew: {text}, with {part:.0%} of the records of {metrics.name}",
            f"other keys or a rebalance help; {NO_NETWORK}",
            Remedy.BALANCE,
        )
    if more is not None:
        text += ", with about as many records" if more >= 1 / FURTHER else ", with fewer records"
        if FURTHER <= longer <= LONGER_MAX:
            text += f", each of which takes {longer:.1f} times as long"
    place = ledger.place_of(vertex, slow)
    if place is not None and (place in ledger.stopped or _is_slow_host(ledger, vertex, place)):
        return (
            Cause.SLOW_HOST,
            place,
            f"TaskManager {place} is slow: {text}",
            "check its CPU, its garbage collection and what runs next to it",
            Remedy.HOST,
        )
    where = "its host" if place is None else f"its host ({place})"
    return (
        Cause.SLOW_SUBTASK,
        place,
        text,
        f"check its calls to other systems, its data and {where}; {NO_NETWORK}",
        Remedy.HOST,
    )


def _ratios(
    tasks: Sequence[TaskMetrics], slow: Sequence[int], others: Sequence[int]
) -> tuple[float | None, float]:
    """Records of the slow tasks relative to those of the others, and their times for a record."""
    records = [each.records_in_per_s for each in tasks]
    busier = _relative([working(each) for each in tasks], slow, others)
    if any(each is None for each in records):
        return None, busier
    more = _relative([each or 0.0 for each in records], slow, others)
    return more, busier / max(more, 1e-9)


def _relative(values: Sequence[float], slow: Sequence[int], others: Sequence[int]) -> float:
    return fmean(values[each] for each in slow) / max(fmean(values[each] for each in others), 1e-9)


def _is_slow_host(ledger: Ledger, vertex: int, place: str) -> bool:
    """Whether tasks of other vertices on a TaskManager are slower than their siblings elsewhere,
    and none is not; tasks with next to nothing to do show neither."""
    ratios = []
    for other, metrics in ledger.vertices.items():
        there = [at for at, each in enumerate(metrics.tasks) if each.task_manager == place]
        elsewhere = [at for at in range(len(metrics.tasks)) if at not in there]
        shows = max(map(working, metrics.tasks), default=0.0) >= WORKS_FROM
        if other != vertex and there and elsewhere and shows:
            ratios.append(_ratios(metrics.tasks, there, elsewhere)[1])
    return bool(ratios) and min(ratios) >= SLOW_HOST_FROM
