"""Search for buffer timeouts task by task, with which a job keeps a limit from end to end at the
fewest buffers per second, and so at the least CPU time.

It begins with the best timeout for all tasks. Each round tries shorter and longer timeouts of one
task at a time, then exchanges between two tasks that promise most if effects add up. It ends when
no timeout can be longer by a fifth or more without breaking the limit, and no exchange promises to
be cheaper.
Flink's `setBufferTimeout` applies to what an operator sends, so edges behind one task share its
timeout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import sub

from flinknet.results import Choice, ModelError, TaskTimeouts
from flinknet.units import NS_PER_MS, format_duration_ns

from .advise.advice import EQUAL
from .advise.targets import Target
from .plans import Plan, Settings, with_timeouts
from .predictions import WHOLE_JOB, Predictions

Timeouts = tuple[int, ...]
"""Buffer timeout of each task that sends, in ns."""

SETTINGS_TRIED_MAX = 120
FACTORS = 1.5, 1.2
"""Factors of longer and shorter timeouts: first coarse ones, then finer ones."""


@dataclass(frozen=True, slots=True)
class Tried:
    """Outcome of timeouts: shares of the limit that are free, beyond the reserve (`spare`) and in
    all."""

    spare: float | None
    buffers_per_s: float | None
    margin: float | None = None

    @property
    def holds(self) -> bool:
        return self.spare is not None and self.spare >= 0 and bool(self.buffers_per_s)

    def costs(self, other: Tried) -> float:
        """Buffers per second in comparison with those of another outcome that holds."""
        return (self.buffers_per_s or 0.0) / (other.buffers_per_s or 1.0)


def best_of(tried: Mapping[Timeouts, Tried]) -> Timeouts | None:
    """The timeouts that hold at the least cost, longer ones at an equal cost; None if none hold."""
    holding = [each for each, found in tried.items() if found.holds]
    if not holding:
        return None
    best = holding[0]
    for timeouts in holding[1:]:
        cost = tried[timeouts].costs(tried[best])
        is_longer = all(map(int.__ge__, timeouts, best))
        if cost < 1 - EQUAL or (is_longer and cost <= 1 + EQUAL):
            best = timeouts
    return best


def to_try(tried: Mapping[Timeouts, Tried], longest_ns: int) -> list[Timeouts]:
    """The timeouts to simulate next, at most `longest_ns`; none at the end of the search."""
    best = best_of(tried)
    if best is None or min(best) < 0:
        return []
    for factor in FACTORS:
        steps = [[*_steps(each, factor, longest_ns)] for each in best]
        near = [_put(best, {n: step}) for n, own in enumerate(steps) for step in own]
        near += _without_effect(tried, best, longest_ns)
        found = [each for each in dict.fromkeys(near) if each not in tried]
        found = found or _promising(tried, best, steps, longest_ns)
        if found:
            return found
    return []


def _steps(timeout_ns: int, factor: float, longest_ns: int) -> Iterator[int]:
    """A shorter timeout and longer ones, in whole milliseconds."""
    timeout_ms = timeout_ns // NS_PER_MS
    if timeout_ms:
        yield min(round(timeout_ms / factor), timeout_ms - 1) * NS_PER_MS
    for longer_ms in (max(round(timeout_ms * factor), timeout_ms + 1), 2 * timeout_ms):
        if timeout_ns < longer_ms * NS_PER_MS <= longest_ns:
            yield longer_ms * NS_PER_MS


def _put(timeouts: Timeouts, changes: Mapping[int, int]) -> Timeouts:
    return tuple(changes.get(n, each) for n, each in enumerate(timeouts))


def _without_effect(
    tried: Mapping[Timeouts, Tried], best: Timeouts, longest_ns: int
) -> list[Timeouts]:
    """The longest timeout of each task whose last longer one changed nothing: buffers fill
    before."""
    found = []
    for other, outcome in tried.items():
        differing = [n for n, (own, its) in enumerate(zip(best, other, strict=True)) if own != its]
        if len(differing) != 1 or other[differing[0]] > best[differing[0]]:
            continue
        own = tried[best]
        is_equal = abs(outcome.costs(own) - 1) <= EQUAL and outcome.spare is not None
        if is_equal and abs((outcome.spare or 0.0) - (own.spare or 0.0)) <= EQUAL:
            found.append(_put(best, {differing[0]: longest_ns}))
    return found


def _promising(
    tried: Mapping[Timeouts, Tried],
    best: Timeouts,
    steps: Sequence[Sequence[int]],
    longest_ns: int,
) -> list[Timeouts]:
    """Timeouts that would hold at a lower cost if the effects of single changes added up, the
    cheapest first: one task gets what is free of the limit, and what a shorter timeout of another
    sets free. Latency is linear in a timeout, buffers in beats per second."""
    own = tried[best]

    def effect(place: int, step: int) -> tuple[float, float] | None:
        found = tried[_put(best, {place: step})]
        if found.spare is None or own.spare is None or not found.buffers_per_s:
            return None
        return found.spare - own.spare, found.costs(own) - 1

    free: list[tuple[dict[int, int], float, float]] = [({}, own.spare or 0.0, 0.0)]
    longer: dict[int, tuple[int, float, float]] = {}
    for place, timeout_ns in enumerate(best):
        for step in steps[place]:
            if (found := effect(place, step)) is None:
                continue
            if step < timeout_ns:
                free.append(({place: step}, (own.spare or 0.0) + found[0], found[1]))
            else:
                longer.setdefault(place, (step, *found))
    expected: dict[Timeouts, float] = {}
    for changes, spare, cost in free:
        for place, (step, lost, saved) in longer.items():
            if place in changes or spare < 0:
                continue
            more = (step - best[place]) / NS_PER_MS
            more_ms = int(more * min(spare / -lost, 1 / EQUAL) + EQUAL) if lost < 0 else more
            wanted_ns = min(best[place] + int(more_ms) * NS_PER_MS, longest_ns)
            timeouts = _put(best, changes | {place: wanted_ns})
            beats, its, fewest = (1 / max(t, NS_PER_MS / 2) for t in (best[place], wanted_ns, step))
            cost_then = cost + saved * (beats - its) / (beats - fewest)
            if cost_then < -EQUAL and timeouts not in tried:
                expected[timeouts] = cost_then
    return sorted(expected, key=lambda each: (expected[each], each))[:6]


@dataclass(frozen=True, slots=True)
class TaskSearch:
    """The search in one job: the best timeout for all tasks (`chosen`, `choice`, `cost` in buffers
    per second), and the outcomes of others with the other settings as chosen."""

    plan: Plan
    chosen: Settings
    choice: Choice
    cost: float | None
    tried: Mapping[Timeouts, Tried]

    @classmethod
    def of(
        cls,
        plan: Plan,
        predictions: Predictions,
        choice: Choice | None,
        targets: Sequence[Target],
        error: ModelError,
    ) -> TaskSearch | None:
        """The search so far; None if no timeout meets the targets, and if one task alone sends."""
        if choice is None or choice.point is None or len(plan.tasks) == 1:
            return None
        number = plan.order[choice.point]
        chosen = plan.candidates[number]
        timeouts_ns = [each.network.buffer_timeout_ns for each in chosen]
        tried = {}
        for other, settings in enumerate(plan.candidates):
            timeouts = plan.task_timeouts(settings)
            if timeouts is None or with_timeouts(settings, timeouts_ns) != chosen:
                continue
            point = predictions.of(plan, other, WHOLE_JOB).point
            margins = [each.margin(point) for each in targets]
            known = [each for each in margins if each is not None]
            margin = spare = None
            if len(known) == len(targets):
                reserves = [each.reserve(error) * choice.is_safe for each in targets]
                margin, spare = min(known), min(map(sub, known, reserves))
            tried[timeouts] = Tried(spare, point.buffers_per_s, margin)
        cost = predictions.of(plan, number, WHOLE_JOB).point.buffers_per_s
        return cls(plan, chosen, choice, cost, tried)

    @property
    def _left(self) -> list[Timeouts]:
        return to_try(self.tried, longest_ns=max(map(max, self.tried), default=0))

    @property
    def further(self) -> Plan:
        room = max(SETTINGS_TRIED_MAX - len(self.plan.searched), 0)
        found = map(self._settings, self._left[:room])
        more = tuple(each for each in found if each not in self.plan.candidates)
        return replace(
            self.plan,
            candidates=(*self.plan.candidates, *more),
            searched=(*self.plan.searched, *more),
        )

    def _settings(self, timeouts: Timeouts) -> Settings:
        return with_timeouts(self.chosen, self.plan.edge_timeouts(timeouts))

    def ended(self) -> tuple[Plan, TaskTimeouts] | None:
        """The best timeouts, and the plan that shows them and twice that of each task; None without
        any."""
        best = best_of(self.tried)
        if best is None:
            return None
        doubled = [_put(best, {n: 2 * each or NS_PER_MS}) for n, each in enumerate(best)]
        wanted = {each: self._settings(each) for each in (best, *doubled)}
        more = [each for each in wanted.values() if each in self.plan.searched]
        plan = replace(self.plan, by_edge=(*self.plan.by_edge, *dict.fromkeys(more)))
        shown = {plan.candidates[number]: place for place, number in enumerate(plan.order)}
        longer = [
            (shown[wanted[each]], self.tried[each].margin) if wanted[each] in shown else None
            for each in doubled
        ]
        found, names = self.tried[best], plan.tasks.values()
        call = '{}: .set_buffer_timeout("{}")'
        values = [format_duration_ns(each) for each in best]
        if plan.run.manifest.is_from_between:
            call, values = "{}: .setBufferTimeout({})", [str(each // NS_PER_MS) for each in best]
        calls = [call.format(*pair) for pair in zip(names, values, strict=True)]
        choice = replace(
            self.choice,
            point=shown[wanted[best]],
            margin=found.margin,
            patch="\n".join(calls),
            next_longer_ns=None,
            next_longer_margin=None,
        )
        saved = 1 - (found.buffers_per_s or 0.0) / self.cost if self.cost else None
        timeouts = TaskTimeouts(
            tasks=tuple(names),
            timeouts_ns=best,
            choice=choice,
            longer=tuple(longer),
            saved=saved,
            settings=len(plan.searched),
            is_ended=not self._left,
        )
        return plan, timeouts
