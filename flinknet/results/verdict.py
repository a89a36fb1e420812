"""Rules that say what holds a job up, over its ledger, in the order in which they are asked.

Each rule names what would contradict it, and does not speak where a figure of the ledger does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil

from flinknet.units import human_duration

from .bottleneck import (
    CHECK_HOST,
    HELD_FROM,
    IDLE_BELOW,
    LOADED_FROM,
    NOTHING,
    PRESSED_FROM,
    STOOD_STILL,
    STOPS,
    Bottleneck,
    Cause,
    Remedy,
    Symptom,
    named,
)
from .ledger import BARRIER, CREDIT, LATE, SOCKET, UNANSWERED, EdgeTime, InputTime, Ledger, SeenBy
from .slow_tasks import (
    checkpoint_symptoms,
    is_order_unknown,
    saturated,
    slow_tasks,
    stopping,
    symptoms,
    unseen,
)

LACKED_FROM = 0.05
"""Share of the time in which a TaskManager lacks a processor from which others disturb it."""

LACKED_AT_ALL = 0.01
"""Share of the time without a processor that explains records taken late where nothing else does:
a sleeper that is woken and gets none at once counts as asleep."""

MORE_BUFFERS_MAX = 10
"""Factor of the buffers that are recommended, at most."""

BUFFER_KEYS = (
    "keys up to Flink 1.20: taskmanager.network.memory.floating-buffers-per-gate,"
    " .buffers-per-channel and, from 10 on, .max-buffers-per-channel; 2.x, where they are fixed,"
    " has a larger taskmanager.memory.segment-size, a higher parallelism or fewer channels per gate"
)


def verdict(ledger: Ledger) -> Bottleneck | None:
    """The verdict of the first rule that speaks; None where the order of the edges is unknown, or
    too little was seen to call the job healthy."""
    if is_order_unknown(ledger):
        return None
    return next(iter(verdicts(ledger)), None)


def verdicts(ledger: Ledger) -> list[Bottleneck]:
    """What the rules say, in their order, each cause once: that nothing holds the job up where no
    other rule speaks, and nothing else of a blocking exchange."""
    found: dict[Cause, Bottleneck] = {}
    for said in (said for rule in RULES if (said := rule(ledger)) is not None):
        if not (found and said.is_healthy) and Cause.BLOCKING not in found:
            found.setdefault(said.cause, said)
    return list(found.values())


def written_first(ledger: Ledger) -> Bottleneck | None:
    """An exchange that is read only when all of it is written. Nothing contradicts it."""
    for edge in ledger.edges:
        if edge.written is not None:
            share = f"{edge.written:.0%} of the time"
            text = f"a blocking exchange: it was read only once all was written, which took {share}"
            more = "latency counts it", "credit and the buffer timeout have no part in it"
            evidence = (text, *more)
            return Bottleneck(
                cause=Cause.BLOCKING, share=edge.written, evidence=evidence, edge=edge.name
            )
    return None


# 3. Between the tasks: the network, TaskManagers, buffers, barriers


def on_the_way(ledger: Ledger) -> Bottleneck | None:
    """A connection on which buffers, or the credit for them, are long on their way. Contradicted by
    consumers that are busy or back-pressured, for these answer late, and by producers that do not
    wait if silence is the only evidence."""
    found = [
        (share, edge, each)
        for edge, each in ledger.inputs
        if (share := _long_way(ledger, edge, each))
    ]
    if not found:
        return None
    share, edge, slow = max(found, key=lambda each: each[0])
    readers = [
        ledger.task_of(other, each.consumer).name
        for _, other, each in found
        if (each.connection, each.task_manager) == (slow.connection, slow.task_manager)
    ]
    names = tuple(dict.fromkeys(readers))
    what = f"senders wait {share:.0%} of the time for credit of"
    if LATE in slow.most:
        what = f"{slow.most[LATE]:.0%} of the buffers take over 2 ms to"
    to_check = "round trip" if slow.is_loopback else "bandwidth and round trip"
    way = f"{slow.sender or edge.source_name} to {slow.task_manager}"
    text = f"the network from {way}: {what} {named(names)}, which have little to do"
    return Bottleneck(
        cause=Cause.NETWORK,
        tasks=names,
        share=share,
        evidence=(text,),
        remedy=(
            f"check its {to_check}",
            "more buffers help against a long round trip",
            *_credit([edge]),
        ),
        edge=edge.name,
        place=slow.connection or slow.task_manager,
        helps=(Remedy.NETWORK, Remedy.BUFFERS),
    )


def _long_way(ledger: Ledger, edge: EdgeTime, each: InputTime) -> float:
    task = ledger.task_of(edge, each.consumer)
    if task.works >= IDLE_BELOW or (task.waits_for_output or 0.0) >= PRESSED_FROM:
        return 0.0
    if LATE in each.most:
        return each.most.get(SOCKET, 0.0) if each.most[LATE] >= HELD_FROM else 0.0
    silent = each.most.get(UNANSWERED, 0.0)
    is_seen = task.working is not None and ledger.waits_before(edge) >= HELD_FROM
    return silent if is_seen and silent >= HELD_FROM else 0.0


def loaded_host(ledger: Ledger) -> Bottleneck | None:
    """A TaskManager whose event loop has no time left for all its tasks together, or no processor.
    Contradicted by buffers that are read in time, records that are taken when due, and writers that
    get their buffers, unless the sources emit as fast as they can."""
    late = {each.task_manager for _, each in ledger.inputs if each.most.get(LATE, 0.0) >= HELD_FROM}
    waits = max((each.waits_for_output or 0.0 for each in ledger.vertices.values()), default=0.0)
    loads = {
        place: max(host.busy, min(ledger.works_at(place), 1.0) * (host.busy >= HELD_FROM))
        for place, host in ledger.hosts.items()  # the loop waits while a task is delayed on purpose
    }
    for place in sorted(loads, key=lambda each: -max(loads[each], ledger.hosts[each].lacked)):
        lacked, busy = ledger.hosts[place].lacked, loads[place]
        is_late = place in late or ledger.is_behind or waits >= HELD_FROM
        if is_late and lacked >= LACKED_FROM:
            why = f"wanted a processor that others had for {lacked:.0%} of the time"
        elif busy >= LOADED_FROM and (is_late or ledger.is_unpaced):
            why = f"has an event loop that is busy {busy:.0%} of the time"
        else:
            continue
        return _slow_host(ledger, place, max(lacked, busy), why, _MORE_CORES)
    return None


def stopped_host(ledger: Ledger) -> Bottleneck | None:
    """A TaskManager whose process stood still; nothing contradicts it, for whoever waits for it or
    seems busy meanwhile is a consequence."""
    place = max(ledger.hosts, key=lambda each: ledger.hosts[each].stood_still, default="")
    if not place or (share := ledger.hosts[place].stood_still) < PRESSED_FROM:
        return None
    why = f"{STOOD_STILL} for {share:.0%} of the time"
    remedy = "it was stopped, frozen, or asleep with its machine: run again"
    return _slow_host(ledger, place, share, why, remedy)


_MORE_CORES = "more cores or further TaskManagers help"


def _slow_host(ledger: Ledger, place: str, share: float, why: str, remedy: str) -> Bottleneck:
    return Bottleneck(
        cause=Cause.SLOW_HOST,
        tasks=tuple(each.name for each in ledger.tasks if each.task_manager == place),
        share=share,
        evidence=(f"{place} {why}",),
        remedy=(remedy,),
        place=place,
        helps=(Remedy.HOST,),
    )


def standing_still(ledger: Ledger) -> Bottleneck | None:
    """A TaskManager that answers none of its senders at times. Contradicted by others that are as
    silent, and by tasks of it that are busy or back-pressured: these keep their buffers for a
    reason of their own."""
    found = stopping(ledger)
    if not found:
        return None
    place = max(found, key=lambda each: found[each])
    tasks = [each for each in ledger.tasks if each.task_manager == place]
    is_held = all(
        each.works >= IDLE_BELOW or (each.waits_for_output or 0.0) >= HELD_FROM
        for each in tasks
        if each.stood_still is not None
    )
    if ledger.tasks_by is SeenBy.FLINK and is_held:
        return None
    edge = next(edge for edge, each in ledger.inputs if each.task_manager == place)
    why = f"{STOPS}: {found[place]:.0%} of the time it answers on no channel"
    seen = tuple(each.name for each in tasks if each.stood_still is not None)
    return replace(
        _slow_host(ledger, place, found[place], why, CHECK_HOST), tasks=seen, edge=edge.name
    )


def starved(ledger: Ledger) -> Bottleneck | None:
    """Tasks that mostly wait for their output while no task behind them has much to do: they lack
    buffers. With few of them a task waits for one channel after the other, for a short time each.
    Contradicted by a busy task behind them, and by barriers that hold the channels."""
    for vertex in sorted(ledger.vertices, key=lambda each: -len(ledger.before(each))):
        edges = [each for each in ledger.edges if each.source == vertex]
        share = ledger.vertices[vertex].waits_for_output or 0.0
        reached = [each for each in ledger.vertices if vertex in ledger.before(each)]
        behind = [task for each in reached for task in ledger.vertices[each].tasks]
        if share < HELD_FROM or not edges or any(each.working is None for each in behind):
            continue
        most = max((each.works for each in behind), default=1.0)
        if most >= IDLE_BELOW or max(each.most(BARRIER) for each in edges) >= share / 2:
            return None
        name = ledger.vertices[vertex].name
        targets = named([ledger.vertices[each.target].name for each in edges])
        text = (
            f"few buffers behind {name}: it waits for its output {share:.0%} of the time, while no"
            f" task behind it is busy for more than {most:.0%}"
        )
        more, buffers = "more buffers", edges[0].buffers
        if buffers is not None:  # with so many the writer would not wait
            wanted = ceil(min(1 / max(1 - share, 1e-9), MORE_BUFFERS_MAX) * buffers)
            more = f"{wanted} buffers for each channel instead of {buffers:g}"
        tasks = [task for each in edges for task in ledger.vertices[each.target].tasks]
        return Bottleneck(
            cause=Cause.FEW_BUFFERS,
            tasks=tuple(each.name for each in tasks),
            share=share,
            evidence=(text,),
            remedy=(
                f"{more} to {targets} or a shorter round trip help",
                *_credit(edges),
                BUFFER_KEYS,
            ),
            symptoms=symptoms(ledger, vertex),
            edge=edges[0].name,
            helps=(Remedy.BUFFERS, Remedy.NETWORK),
        )
    return None


def _credit(edges: Sequence[EdgeTime]) -> tuple[str, ...]:
    limits = [path for each in edges for path in each.credit if path.is_limit]
    most = max(limits, key=lambda each: each.waits, default=None)
    return () if most is None else (most.text,)


def pressing(ledger: Ledger) -> Bottleneck | None:
    """The busiest task behind one that mostly waits for its output, although it has time left: its
    work comes in bursts, or takes time that does not count as busy. Contradicted by waiting for its
    own output."""
    waits = {vertex: each.waits_for_output or 0.0 for vertex, each in ledger.vertices.items()}
    works = {
        vertex: each.works
        for vertex, each in ledger.vertices.items()
        if each.works >= max(IDLE_BELOW, waits[vertex])
        and any(waits.get(before, 0.0) >= HELD_FROM for before in ledger.before(vertex))
    }
    return slow_tasks(ledger, max(works, key=lambda each: works[each])) if works else None


def aligning(ledger: Ledger) -> Bottleneck | None:
    """Checkpoint barriers that keep channels blocked. Contradicted by the first checkpoints of a
    job alone: these wait for tasks that still start. For less than half of the time also by tasks
    before the barriers that never wait for their output."""
    edges = [each for each in ledger.edges if each.has_barriers]
    edge = max(edges, key=lambda each: each.most(BARRIER), default=None)
    if edge is None or (share := edge.most(BARRIER)) < PRESSED_FROM:
        return None
    before = ledger.vertices.get(edge.source)
    waits = [] if before is None else [each.waits_for_output for each in before.tasks]
    flows = bool(waits) and all(each is not None and each < PRESSED_FROM for each in waits)
    if flows and share < HELD_FROM and not ledger.checkpoints.expired:
        return None
    slow = [each for each in edge.inputs if each.most.get(BARRIER, 0.0) >= share / 2]
    slow.sort(key=lambda each: -each.most[BARRIER])
    names = tuple(ledger.task_of(edge, each.consumer).name for each in slow)
    text = f"barriers keep a channel to {named(names)} blocked for {share:.0%} of the time"
    return Bottleneck(
        cause=Cause.ALIGNMENT,
        tasks=names,
        vertex=ledger.vertices[edge.target].name if edge.target in ledger.vertices else None,
        subtasks=tuple(each.consumer for each in slow),
        share=share,
        evidence=(f"alignment of checkpoints: {text}",),
        remedy=("unaligned checkpoints, an aligned timeout or a longer interval help",),
        symptoms=checkpoint_symptoms(ledger),
        edge=edge.name,
        helps=(Remedy.CHECKPOINTS,),
    )


# 4. Nothing


def lasting(ledger: Ledger) -> Bottleneck | None:
    """The busiest task of a job that goes on after its sources have ended. Contradicted by tasks
    that have more time than that."""
    vertex = max(ledger.vertices, key=lambda each: ledger.vertices[each].works, default=None)
    if not ledger.overtime_ns or vertex is None or ledger.vertices[vertex].works < HELD_FROM:
        return None
    found = slow_tasks(ledger, vertex)
    text = f"The job goes on for {human_duration(ledger.overtime_ns)} after its sources have ended"
    return replace(found, symptoms=(*found.symptoms, Symptom(text)))


def machine(ledger: Ledger) -> Bottleneck | None:
    """A machine on which TaskManagers that are woken wait for a processor, where records are taken
    later than they are due and no other rule speaks. Contradicted by records that are taken when
    due, and by processors that are free."""
    lacked = {place: each.lacked for place, each in ledger.hosts.items()}
    place = max(lacked, key=lambda each: lacked[each], default="")
    if not ledger.is_behind or lacked.get(place, 0.0) < LACKED_AT_ALL:
        return None
    most = max((each.works for each in ledger.tasks), default=0.0)
    why = f"no task is busy for more than {most:.0%}, and none waits long for its output"
    text = f"the machine: records are taken later than they are due, though {why}"
    waited = f"waited {lacked[place]:.0%} of the time for a processor"
    remedy = "repeat it with less else on the machine, or at a lower rate"
    found = _slow_host(ledger, place, lacked[place], waited, remedy)
    return replace(found, tasks=(), evidence=(text, *found.evidence))


def _without_sample(ledger: Ledger) -> list[str]:
    """Vertices that read an edge and of which nobody saw how busy a single task is."""
    targets = dict.fromkeys(each.target for each in ledger.edges if each.target in ledger.vertices)
    found = [ledger.vertices[each] for each in targets]
    return [own.name for own in found if all(each.working is None for each in own.tasks)]


def healthy(ledger: Ledger) -> Bottleneck | None:
    """A job that nothing holds up, with the task that would saturate next; None where neither the
    tasks nor the credit of all channels were seen. Contradicted by a task that waits for its
    output, where Flink's metrics lack one that reads it; where nobody saw the tasks, by data that
    waits for credit, and by metrics of Flink that have no sample near: it is then unknown."""
    if ledger.tasks_by is SeenBy.FLINK and (unseen := _without_sample(ledger)):
        why = "Flink's metrics have too few samples near this part to show how busy"
        return Bottleneck(cause=Cause.UNKNOWN, evidence=(f"{why} {named(unseen)} was",))
    if all(each.working is None for each in ledger.tasks):
        if not all(each.is_credit_known for each in ledger.edges):
            return None
        most = max((each.most(CREDIT) for each in ledger.edges), default=0.0)
        most_waited = f"data waits for credit {most:.0%} of the time at most"
        why = ""
        if ledger.tasks_by is SeenBy.FLINK:
            why = (
                "Flink's metrics have too few samples near this part to show how busy the tasks are"
            )
        elif most >= PRESSED_FROM:
            why = "slow consumers or few buffers: how busy the tasks are was not recorded"
        if why:
            return Bottleneck(cause=Cause.UNKNOWN, evidence=(why, most_waited))
        seen = (
            "the network holds nothing up",
            "how busy the tasks are was not recorded",
            f"{most_waited}, and no barrier blocks a channel for long",
        )
        return Bottleneck(cause=Cause.NONE, evidence=seen)
    waits = {number: each.waits_for_output or 0.0 for number, each in ledger.vertices.items()}
    partly = {n for n, own in ledger.vertices.items() if any(t.working is None for t in own.tasks)}
    is_hidden = [
        e.target in partly and waits.get(e.source, 0) >= PRESSED_FROM for e in ledger.edges
    ]
    if any(is_hidden) and ledger.tasks_by is SeenBy.FLINK:
        return None
    most_waiting = max(waits, key=lambda each: waits[each])
    busiest = max(ledger.tasks, key=lambda each: each.works)
    evidence, free = [NOTHING], ["no task waits for its output"]
    if ledger.is_unpaced:
        free = []
        text = "the sources: they emit as fast as they can, and no task behind them is saturated"
        evidence = [text]
    elif waits[most_waiting] >= PRESSED_FROM:
        free = []
        name = ledger.vertices[most_waiting].name
        said = f"{name} waits for its output {waits[most_waiting]:.0%} of the time"
        has_output = any(each.source == most_waiting for each in ledger.edges)
        downstream = f"{said}, for a reason further downstream"
        evidence.append(f"no task is saturated; {said}" if has_output else downstream)
    if busiest.works >= PRESSED_FROM:
        evidence.append(f"{busiest.name} is busiest, {busiest.works:.0%}")
    headroom = None
    if busiest.works >= IDLE_BELOW:
        headroom = 1 / busiest.works
        evidence.append(f"room for {headroom:.1f} times the rate")
    found = Bottleneck(
        cause=Cause.NONE,
        evidence=(*evidence, *free),
        symptoms=checkpoint_symptoms(ledger),
        headroom=headroom,
    )
    edge = max(ledger.edges, key=lambda each: each.flushing, default=None)
    if edge is None or (share := edge.flushing) < IDLE_BELOW:
        return found
    waiting = Symptom(
        f"On {edge.name} the oldest record waits for the flusher {share:.0%} of the time, so a"
        " shorter buffer timeout cuts latency"
    )
    return replace(
        found,
        cause=Cause.BUFFER_TIMEOUT,
        share=share,
        symptoms=(*found.symptoms, waiting),
        edge=edge.name,
        helps=(Remedy.TIMEOUT,),
    )


RULES: Sequence[Callable[[Ledger], Bottleneck | None]] = (
    *(written_first, stopped_host, saturated, unseen, loaded_host, on_the_way, standing_still),
    *(starved, aligning, pressing, lasting, machine, healthy),
)
"""Rules in their order; the first one that speaks is the verdict."""
