"""Advice: which of the predicted settings are worth having, and which one meets a target.

A setting is on the frontier when no other is at least as good in all of latency, throughput,
buffers per second and memory, and better in one; smaller differences than a prediction can
resolve do not count. Settings are named by their index among the predicted ones.

Each rate factor, consumer speed, round trip and flow control that is asked for is a situation of
its own, with a frontier and a choice of its own; the choice of the whole advice is that of the
recorded situation, or of the first.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from operator import le
from typing import Any

from flinknet import results
from flinknet.options import BUFFER_TIMEOUT, BUFFER_TIMEOUT_ENABLED, find_option, what_if
from flinknet.predict.fit.queued import CONTRADICTED
from flinknet.units import NS_PER_MS, format_duration_ns

from .targets import Target

EQUAL = 0.01
"""Figures that differ by less are equal: predictions are no better than that."""

Situation = tuple[tuple[str, Any], ...]
"""Names and values of what no key of Flink changes."""

Costs = tuple[float, float, float, float]
"""Logarithms of latency, time per record, buffers per second and memory, all to be small."""

UNKNOWN_ERROR = "the model's error is unknown"


def choose(
    points: Sequence[results.TradeOffPoint],
    targets: Sequence[Target],
    error: results.ModelError,
    situation: Situation | None = None,
) -> results.Choice:
    """The setting of a situation (None: the recorded one) that meets all targets with the longest
    timeout, then with the least memory and the fewest buffers per second; those that meet them
    safely come first. Where all are alike, what was recorded stays."""
    recorded = _recorded(points)
    situation = situation or situation_of(recorded)
    reserve = {each: each.reserve(error) for each in targets}
    scored: list[tuple[float, float, int]] = []  # margin, margin beyond the reserve, place
    is_known = True
    for index, point in enumerate(points):
        margins = {each: each.margin(point) for each in targets}
        if situation_of(point) != situation or not _can_be_set(point, recorded):
            continue
        known = {target: each for target, each in margins.items() if each is not None}
        is_missed = any(each < 0 for each in known.values())  # whatever figures are missing
        if len(known) < len(margins) and not is_missed:
            is_known &= point.throughput_records_per_s is None
            continue
        spare = min(each - reserve[target] for target, each in known.items())
        scored.append((min(known.values()), spare, index))
    texts = tuple(each.text for each in targets)
    holding = [each for each in scored if each[1] >= 0] or [each for each in scored if each[0] >= 0]
    if not holding:
        near = [each for each in scored if each[0] >= max(scored)[0] - EQUAL]
        margin, _, nearest = min(
            near,
            key=lambda each: (*_expense(points[each[2]]), -each[0]),
            default=(None, None, None),
        )
        return results.Choice(texts, None, False, margin, nearest, "", is_known=is_known)
    as_recorded = [each for each in holding if points[each[2]].config == recorded.config]
    own = [each for each in points if situation_of(each) == situation]
    if as_recorded and are_alike(own, error):
        holding = as_recorded
    of_recorded = next((each[0] for each in as_recorded if points[each[2]].is_recorded), None)
    margin, beyond, best = max(holding, key=lambda each: _cheapness(points[each[2]]))
    patch = patch_of(points[best], recorded)
    best_ns, timeouts_ns = timeout_of(points[best]), map(timeout_of, own)
    longer_ns = min((each for each in timeouts_ns if 0 <= best_ns < each), default=None)
    longer = [each for each in scored if timeout_of(points[each[2]]) == longer_ns]
    failing = [own for own, left, _ in longer if left < 0 or own < 0]
    longer_margin = max(failing) if len(failing) == len(longer) > 0 else None
    return results.Choice(
        texts,
        best,
        beyond >= 0,
        margin,
        None,
        patch,
        longer_ns,
        longer_margin,
        recorded_margin=of_recorded,
    )


def patch_of(point: results.TradeOffPoint, recorded: results.TradeOffPoint) -> str:
    """The keys that differ from the recorded setting, as lines of Flink's config.yaml."""
    lines = []
    is_never = point.config.get(BUFFER_TIMEOUT_ENABLED) == "false"
    for key, value in point.config.items():
        if recorded.config.get(key) == value or (key == BUFFER_TIMEOUT and is_never):
            continue
        if find_option(key).fixed_in_2_x is not None:
            lines.append("# Flink 2.x has no such option; up to 1.20:")
        lines.append(f"{key}: {value}")
    return "\n".join(lines)


def withheld(
    error: results.ModelError,
    points: Sequence[results.TradeOffPoint],
    found: results.Bottleneck | None = None,
) -> str | None:
    """Why nothing can be advised; None if it can, and where nothing is predicted. `found` is the
    verdict on the job."""
    if found is not None and found.why_unpredictable is not None:
        return found.why_unpredictable
    if _recorded(points).why_no_latency is not None:
        return CONTRADICTED
    known = error.counting
    if not known and any(each.throughput_records_per_s is not None for each in points):
        return f"{UNKNOWN_ERROR}: {results.why_unchecked(points)}"
    return error.misses


def advice(
    points: Sequence[results.TradeOffPoint],
    targets: Sequence[Target],
    error: results.ModelError,
    *,
    asked: Collection[int] | None = None,
    why_not: str | None = None,
) -> results.Advice:
    """Frontier and choices for the asked points (None: all); none with a `why_not`."""
    if why_not is not None:
        return results.Advice(withheld=why_not)
    frontier = frontier_of(points)
    recorded = situation_of(_recorded(points))
    wanted = range(len(points)) if asked is None else sorted(asked)
    advised = {
        situation: _situation_advice(points, targets, error, situation)
        for situation in [situation_of(points[index]) for index in wanted] or [recorded]
    }
    first = advised.get(recorded) or next(iter(advised.values()))
    return results.Advice(
        frontier=tuple(frontier),
        choice=first.choice,
        situations=tuple(advised.values()),
    )


def _situation_advice(
    points: Sequence[results.TradeOffPoint],
    targets: Sequence[Target],
    error: results.ModelError,
    situation: Situation,
) -> results.SituationAdvice:
    recorded = _recorded(points)
    own = [point for point in points if situation_of(point) == situation]
    flow_control, beyond_keys = dict(situation)["flow_control"], tuple[str, ...]()
    if flow_control != recorded.flow_control:
        since = "before 1.5" if flow_control == "tcp" else "since 1.5"
        what = f"flow control {flow_control} is that of Flink {since}"
        beyond_keys = (f"{what}: no key of a current Flink sets it",)
    return results.SituationAdvice(
        **dict(situation),
        is_alike=are_alike(own, error),
        choice=choose(points, targets, error, situation) if targets else None,
        beyond_keys=beyond_keys,
    )


def are_met(advice: Sequence[results.Advice]) -> bool | None:
    """Whether the targets are met in every predicted situation; None if that is unknown."""
    found: list[bool | None] = [False for each in advice if each.withheld]
    for choice in (situation.choice for each in advice for situation in each.situations):
        if choice is not None and _is_of_predicted(choice):
            found.append(choice.point is not None or (False if choice.is_known else None))
    if False in found:
        return False
    return True if found and None not in found else None


def all_meet(jobs: Sequence[results.JobAnswer]) -> bool | None:
    """Whether the targets are met: by each job as a whole, or by its edges where nothing is
    predicted for the whole. None if that is unknown."""
    found: list[results.Advice] = []
    for job in jobs:
        is_known = job.choice is not None and _is_of_predicted(job.choice)
        is_whole = is_known or job.advice.withheld is not None
        found += [job.advice] if is_whole else [each.advice for each in job.answers]
    return are_met(found)


def _is_of_predicted(choice: results.Choice) -> bool:
    return choice.point is not None or choice.nearest is not None or not choice.is_known


def timeout_of(point: results.TradeOffPoint) -> int:
    """The buffer timeout in ns; -1 for never."""
    return what_if.network_of(point.config).buffer_timeout_ns


def _recorded(points: Sequence[results.TradeOffPoint]) -> results.TradeOffPoint:
    return next(point for point in points if point.is_recorded)


def _can_be_set(point: results.TradeOffPoint, recorded: results.TradeOffPoint) -> bool:
    """Whether Flink can be given it: it reads the timeout in whole milliseconds."""
    timeout_ns = timeout_of(point)
    return timeout_ns < 0 or timeout_ns % NS_PER_MS == 0 or timeout_ns == timeout_of(recorded)


def _cheapness(point: results.TradeOffPoint) -> tuple[float, float, float]:
    timeout_ns = timeout_of(point)
    memory, buffers = _expense(point)
    return (math.inf if timeout_ns < 0 else timeout_ns), -memory, -buffers


def _expense(point: results.TradeOffPoint) -> tuple[float, float]:
    return point.memory_bytes or math.inf, point.buffers_per_s or math.inf


def set_by_operators(
    choice: results.Choice, points: Sequence[results.JobPoint], recorded: results.JobPoint
) -> results.Choice:
    """A choice in a job whose code sets buffer timeouts, which no key changes."""
    if choice.point is None:
        return choice
    own = (BUFFER_TIMEOUT, BUFFER_TIMEOUT_ENABLED)
    keys = [each for each in choice.patch.splitlines() if not each.startswith(own)]
    timeouts_ns = points[choice.point].timeouts_ns
    if timeouts_ns != recorded.timeouts_ns:
        timeout = format_duration_ns(timeouts_ns[0])
        call = f'set_buffer_timeout("{timeout}")'
        keys.insert(0, f"# in the code of the job, for each operator: {call}")
    return replace(choice, patch="\n".join(keys))


def chosen(
    points: Sequence[results.JobPoint], targets: Sequence[Target], error: results.ModelError
) -> results.Choice | None:
    """The setting of a job that meets the targets, as `choose`, among the recorded one and those
    with the same timeout on all edges. None without targets."""
    if not targets:
        return None
    places = [
        number
        for number, each in enumerate(points)
        if each.is_recorded or len({*each.timeouts_ns}) == 1
    ]
    choice = choose([points[place] for place in places], targets, error)
    point, nearest = (
        None if each is None else places[each] for each in (choice.point, choice.nearest)
    )
    return replace(choice, point=point, nearest=nearest)


def advice_of_job(choice: results.Choice | None, recorded: results.TradeOffPoint) -> results.Advice:
    if choice is None:
        return results.Advice()
    situation = results.SituationAdvice(**dict(situation_of(recorded)), choice=choice)
    return results.Advice(choice=choice, situations=(situation,))


def situation_of(point: results.TradeOffPoint) -> Situation:
    return tuple(what_if.situation_of(point).items())


def frontier_of(points: Sequence[results.TradeOffPoint]) -> list[int]:
    """Indices of the points on the frontier of their situation, ascending. Who is beaten is decided
    exactly; another point is left out if one that stays, the recorded and cheap ones first, is
    worse by no more than `EQUAL` in any cost."""
    situations: dict[Situation, list[tuple[Costs, int]]] = {}
    for index, point in enumerate(points):
        own = costs_of(point)
        if own is not None:
            situations.setdefault(situation_of(point), []).append((own, index))
    kept: list[int] = []
    for situation in situations.values():
        best = [
            (own, index)
            for own, index in situation
            if not any(other != own and all(map(le, other, own)) for other, _ in situation)
        ]
        best.sort(key=lambda each: (not points[each[1]].is_recorded, sum(each[0]), each[1]))
        stays: list[tuple[Costs, int]] = []
        for own, index in best:
            worse = ([a - b for a, b in zip(other, own, strict=True)] for other, _ in stays)
            if not any(max(each) <= EQUAL for each in worse):
                stays.append((own, index))
        kept += [index for _, index in stays]
    return sorted(kept)


def are_alike(points: Sequence[results.TradeOffPoint], error: results.ModelError) -> bool:
    """Whether two or more settings are known and all differ by less than the model's error."""
    costs = [own for point in points if (own := costs_of(point)) is not None]
    columns = zip(zip(*costs, strict=True), _tolerances(error), strict=False)
    return len(costs) > 1 and all(max(each) - min(each) <= most for each, most in columns)


def costs_of(point: results.TradeOffPoint) -> Costs | None:
    p99 = point.latency_ns.p99 or point.latency_ns.p50
    throughput, buffers = point.throughput_records_per_s, point.buffers_per_s
    memory = point.memory_bytes
    if not p99 or not throughput or not buffers or not memory:
        return None
    return math.log(p99), -math.log(throughput), math.log(buffers), math.log(memory)


def _tolerances(error: results.ModelError) -> Costs:
    """How far costs may differ and be the same; buffers are as sure as the records in them."""
    p99 = None if error.is_tail_off else error.p99
    latency = max(abs(p99 or 0.0), abs(error.p50 or 0.0))
    records = max(math.log1p(abs(error.throughput or 0.0)), EQUAL)
    return max(math.log1p(latency), EQUAL), records, records, EQUAL
