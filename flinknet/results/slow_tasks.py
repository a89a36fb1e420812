"""Rules on tasks without time left: which of them holds the job up, and why it in particular.

Pressure is followed from producers to consumers: the last task that works nearly always while its
producers wait for it is the cause, and what happens before it is a symptom. Mirrors the reading of
busy and back-pressured time in Flink's web interface; the causes are those that Dhalion (VLDB 2017)
keeps apart: all instances, one slow instance, skew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from flinknet.units import human_duration

from .bottleneck import (
    CHECK_HOST,
    HELD_FROM,
    IDLE_BELOW,
    LOADED_FROM,
    PRESSED_FROM,
    SATURATED_FROM,
    SLOW_HOST_FROM,
    STALLED_FROM,
    Bottleneck,
    Cause,
    Remedy,
    Symptom,
    named,
)
from .ledger import CREDIT, WITHOUT_CREDIT, EdgeTime, InputTime, Ledger, TaskTime

ALIKE_FROM = 0.8
"""Busy share of siblings that count as slow as well, relative to the busiest one."""

FURTHER = 1.25
"""Ratio of records or of times between siblings from which it is no chance."""

LONGER_MAX = 100
"""Ratios of times per record above this say nothing: the siblings had next to nothing to do."""

NO_NETWORK = "network settings do not help"

# 1. Tasks without time left


def saturated(ledger: Ledger) -> Bottleneck | None:
    """The saturated task furthest downstream. Contradicted by time left, and by waiting for its own
    output."""
    found = [
        vertex
        for vertex, each in ledger.vertices.items()
        if any(
            task.works >= SATURATED_FROM
            or (task.works >= LOADED_FROM and ledger.waits_for(vertex)[1] >= PRESSED_FROM)
            for task in each.tasks
            if (task.waits_for_output or 0.0) < task.works
        )
    ]
    if not found:
        return None
    before = {behind for each in found for behind in ledger.before(each)}
    last = [each for each in found if each not in before] or found
    return slow_tasks(ledger, max(last, key=lambda each: ledger.vertices[each].works))


def slow_tasks(ledger: Ledger, vertex: int) -> Bottleneck:
    """The verdict on the busiest subtasks of a vertex: which of them, and why."""
    tasks = ledger.vertices[vertex].tasks
    most = ledger.vertices[vertex].works
    slow = [place for place, each in enumerate(tasks) if each.works >= ALIKE_FROM * most]
    slow.sort(key=lambda each: -tasks[each].works)
    edge, _ = ledger.waits_for(vertex)
    cause, place, evidence, remedy, helps = _why(ledger, vertex, slow)
    return Bottleneck(
        cause=cause,
        tasks=tuple(tasks[each].name for each in slow),
        vertex=ledger.vertices[vertex].name,
        subtasks=tuple(slow),
        share=most,
        evidence=(evidence,),
        remedy=remedy,
        symptoms=symptoms(ledger, vertex),
        edge=None if edge is None else edge.name,
        place=place,
        helps=(helps,),
    )


def _why(
    ledger: Ledger, vertex: int, slow: Sequence[int]
) -> tuple[Cause, str | None, str, tuple[str, ...], Remedy]:
    name, tasks = ledger.vertices[vertex].name, ledger.vertices[vertex].tasks
    others = [each for each in range(len(tasks)) if each not in slow]
    share = f"busy {_shares([tasks[each].works for each in slow])} of the time"
    names = named([tasks[each].name for each in slow])
    if not others:
        all_of = f"{names} is" if len(tasks) == 1 else f"all {len(tasks)} subtasks of {name} are"
        helps = ("a higher parallelism or less work for each record helps", NO_NETWORK)
        return Cause.SLOW_TASKS, None, f"{all_of} {share}", helps, Remedy.PARALLELISM
    siblings = "its sibling" if len(slow) == 1 else "the other subtask"
    siblings += "s" if len(others) > 1 else ""
    idle = fmean(tasks[each].works for each in others)
    text = f"{names} {'is' if len(slow) == 1 else 'are'} {share}, {siblings} {idle:.0%}"
    more, longer = _ratios(tasks, slow, others)
    if more is not None and more >= FURTHER and more >= longer:
        records = [each.records or 0.0 for each in tasks]
        part = sum(records[each] for each in slow) / (sum(records) or 1.0)
        text = f"skew: {text}, with {part:.0%} of the records of {name}"
        return Cause.SKEW, None, text, ("other keys or a rebalance help",), Remedy.BALANCE
    if more is not None:
        text += ", with about as many records" if more >= 1 / FURTHER else ", with fewer records"
        if FURTHER <= longer <= LONGER_MAX:
            text += f", each of which takes {longer:.1f} times as long"
    place = ledger.place_of(vertex, slow)
    is_elsewhere = all(tasks[each].task_manager != place for each in others)
    if place is not None and (
        (is_elsewhere and place in stopping(ledger)) or _is_slow_host(ledger, vertex, place, longer)
    ):
        text = f"TaskManager {place} is slow: {text}"
        return Cause.SLOW_HOST, place, text, (CHECK_HOST,), Remedy.HOST
    host = "its host" if place is None else f"its host ({place})"
    remedy = (f"check its calls to other systems, its data and {host}",)
    return Cause.SLOW_SUBTASK, place, text, remedy, Remedy.HOST


def _ratios(
    tasks: Sequence[TaskTime], slow: Sequence[int], others: Sequence[int]
) -> tuple[float | None, float]:
    works, records = [each.works for each in tasks], [each.records or 0.0 for each in tasks]
    busier, more = (
        fmean(x[each] for each in slow) / max(fmean(x[each] for each in others), 1e-9)
        for x in (works, records)
    )
    if any(each.records is None for each in tasks):
        return None, busier
    return more, busier / max(more, 1e-9)


def _is_slow_host(ledger: Ledger, vertex: int, place: str, longer: float) -> bool:
    """Whether the tasks of other vertices on a TaskManager are slow as well, as much as this one.
    Contradicted by one that is not, or by far less; tasks that work for less than PRESSED_FROM of
    the time show nothing."""
    ratios = []
    for other, each in ledger.vertices.items():
        there = [at for at, task in enumerate(each.tasks) if task.task_manager == place]
        elsewhere = [at for at in range(len(each.tasks)) if at not in there]
        shows = min((each.tasks[at].works for at in there), default=0.0) >= PRESSED_FROM
        if other != vertex and there and elsewhere and shows:
            ratios.append(_ratios(each.tasks, there, elsewhere)[1])
    return bool(ratios) and min(ratios) >= max(SLOW_HOST_FROM, longer / 2)


def _shares(known: Iterable[float | None]) -> str:
    """Shares of the subtasks of a vertex: "93%", or "90 to 93%" if they differ."""
    shares = [f"{each:.0%}" for each in sorted(x for x in known if x is not None)]
    return shares[0] if shares[0] == shares[-1] else f"{shares[0][:-1]} to {shares[-1]}"


def symptoms(ledger: Ledger, vertex: int) -> tuple[Symptom, ...]:
    """Consequences of a task that holds the job up, the gravest first: checkpoints that do not
    complete, and back pressure before it."""
    before = [ledger.vertices[each] for each in ledger.before(vertex) if each in ledger.vertices]
    pressed = [
        f"{each.name} {_shares([x.waits_for_output for x in each.tasks])}"
        for each in before
        if (each.waits_for_output or 0.0) >= PRESSED_FROM
    ]
    back_pressure = [Symptom(f"Back-pressured before it: {named(pressed)}")] if pressed else []
    return (*checkpoint_symptoms(ledger, ledger.vertices[vertex].tasks), *back_pressure)


def checkpoint_symptoms(ledger: Ledger, tasks: Sequence[TaskTime] = ()) -> tuple[Symptom, ...]:
    counts, found = ledger.checkpoints, []
    if counts.expired:
        text = f"{counts.expired} of {counts.ended} checkpoints expired after"
        text += f" {human_duration(counts.timeout_ns)}"
        queued = max((each.queued_buffers or 0.0 for each in tasks), default=0.0)
        why = f"their barriers wait behind {queued:.0f} buffers in its input queues"
        found.append(Symptom(text, why if queued >= 1 else None))
    if counts.failed:
        found.append(Symptom(f"{counts.failed} of {counts.ended} checkpoints failed"))
    return tuple(found)


# 2. Where nobody saw the tasks: consumers without a free buffer


def unseen(ledger: Ledger) -> Bottleneck | None:
    """The consumers that leave their producers without credit, by messages alone. Contradicted by
    any figure of the tasks: these say who works."""
    if any(each.working is not None for each in ledger.tasks):
        return None
    pressed = pressed_edges(ledger)
    last = [each for each, edge in pressed.items() if not edge.behind & pressed.keys()]
    if not last:
        return None
    edge = max((pressed[each] for each in last), key=lambda each: pressure(each)[0])
    share, slow = pressure(edge)
    tasks = [ledger.task_of(edge, each.consumer) for each in slow]
    names = tuple(each.name for each in tasks)
    cause, place, why, helps = _why_unseen(ledger, edge, slow)
    who = f"{named(names)} {'does' if len(names) == 1 else 'do'}"
    if len(slow) == len(edge.inputs):
        who = "its consumers do"
    seen = "there was no credit for a channel, so all its buffers lay at the receiver"
    if edge.most(CREDIT) >= share:
        seen = "data waited at a producer and the receiver had no free buffer"
    text = f"on {edge.name}: {who} not keep up: {share:.0%} of the time {seen}"
    return Bottleneck(
        cause=cause,
        tasks=names,
        vertex=ledger.vertices[edge.target].name if edge.target in ledger.vertices else None,
        subtasks=tuple(each.consumer for each in slow),
        share=share,
        evidence=(*why, text),
        remedy=("more buffers help only if they are idle meanwhile, which --rest shows",),
        edge=edge.name,
        place=place,
        helps=helps,
    )


def pressed_edges(ledger: Ledger) -> dict[int, EdgeTime]:
    """The edges whose producers wait for credit, by place."""
    return {place: each for place, each in enumerate(ledger.edges) if pressure(each)[1]}


def pressure(edge: EdgeTime) -> tuple[float, list[InputTime]]:
    """Inputs whose producers mostly wait for credit, and the share of the one that waits most."""
    for what, least in ((CREDIT, IDLE_BELOW), (WITHOUT_CREDIT, HELD_FROM)):
        slow = [each for each in edge.inputs if each.most.get(what, 0.0) >= least]
        if slow:
            slow.sort(key=lambda each: (-each.most[what], each.consumer))
            return slow[0].most[what], slow
    return 0.0, []


def is_order_unknown(ledger: Ledger) -> bool:
    """Whether it is unknown which of the pressed edges is the last one."""
    if any(each.working is not None for each in ledger.tasks):
        return False
    pressed = pressed_edges(ledger)
    return any(
        each.unsure & pressed.keys() and not each.behind & pressed.keys()
        for each in pressed.values()
    )


def _why_unseen(
    ledger: Ledger, edge: EdgeTime, slow: Sequence[InputTime]
) -> tuple[Cause, str | None, tuple[str, ...], tuple[Remedy, ...]]:
    others = [each for each in edge.inputs if each not in slow]
    if not others:
        return Cause.SLOW_TASKS, None, (), (Remedy.PARALLELISM, Remedy.BUFFERS)
    taken = sum(each.records for each in slow)
    if taken / len(slow) >= SLOW_HOST_FROM * max(fmean(each.records for each in others), 1):
        share = taken / (sum(each.records for each in edge.inputs) or 1)
        why = (f"skew, {share:.0%} of the records go there",)
        return Cause.SKEW, None, why, (Remedy.BALANCE,)
    places = {each.task_manager for each in slow}
    place = places.pop() if len(places) == 1 else None
    others_pressed = pressed_edges(ledger).values()
    pressed = [own for each in others_pressed for own in pressure(each)[1]]
    there = [x for each in others_pressed for x in each.inputs if x.task_manager == place]
    if len(there) > 1 and all(each in pressed for each in there):
        return Cause.SLOW_HOST, place, (f"{place} is slow",), (Remedy.HOST,)
    return Cause.SLOW_SUBTASK, place, (), (Remedy.HOST,)


def stopping(ledger: Ledger) -> dict[str, float]:
    """TaskManagers that stand still at times, clearly more than others, with the share. The longest
    silence counts: a task behind others of its TaskManager gets nothing to answer while these stand
    still. Contradicted by a task of it that always answers."""
    shares: dict[str, list[float]] = {}
    for each in ledger.tasks:
        if each.task_manager is not None and each.stood_still is not None:
            shares.setdefault(each.task_manager, []).append(each.stood_still)
    return {
        place: max(own)
        for place, own in shares.items()
        if max(own) >= PRESSED_FROM
        and min(own) >= STALLED_FROM
        and all(max(each) <= min(own) / 2 for other, each in shares.items() if other != place)
    }
