"""What a replay advises, as lines for the terminal: for each situation the setting that holds the
targets, or the knee of the frontier, with the keys to set.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from flinknet.results import Choice, ReplayAnswer, SituationAdvice, TradeOffPoint
from flinknet.units import format_duration_ns, human_duration

from .settings_in_words import label_of, situation_label, situation_of, what_varies

FRONTIER = "no other setting is as good in all of p99, throughput, buffers/s and memory"
KNEE = (
    "smallest combined loss of p99, throughput, buffers/s and memory; if latency matters more, set"
    " --target"
)
UNSAFE = "closer to the limit than 5% or the model's error on the recorded setting: measure it"


def advice_lines(answer: ReplayAnswer) -> list[str]:
    """The advice of one run, with rich's markup; empty if there is none."""
    advice = answer.advice
    if advice.withheld:
        return [
            "",
            f"[bold red]no frontier, knee or setting is advised:[/bold red] {advice.withheld}",
            "",
        ]
    points = answer.trade_offs
    varied = what_varies(points)
    is_marked = any(is_on_frontier(answer, index) for index in advice.frontier)
    lines = [f"  [dim]◆ on the frontier: {FRONTIER}[/dim]"] if is_marked else []
    found = [
        each
        for situation in advice.situations
        if (each := _situation_lines(situation, points, varied))
    ]
    for above, own in pairwise([[], *found]):
        lines += own if len(above) == len(own) == 1 else ["", *own]
    return [*lines, ""] if lines else []


def _situation_lines(
    situation: SituationAdvice, points: Sequence[TradeOffPoint], varied: Sequence[str]
) -> list[str]:
    where = situation_label(situation, varied)
    if situation.choice is not None:
        return _choice_lines(situation.choice, situation.beyond_keys, points, varied, where)
    return _knee_lines(situation, points, varied, where)


def points_to_show(answer: ReplayAnswer) -> set[int]:
    """The settings that the advice speaks of."""
    found: set[int | None] = set()
    for situation in answer.advice.situations:
        found |= {situation.knee}
        found |= {situation.choice.point, situation.choice.nearest} if situation.choice else set()
    return {each for each in found if each is not None}


def marks_of(answer: ReplayAnswer, index: int) -> list[str]:
    """What the advice says of a setting, in a word each."""
    situations = answer.advice.situations
    marks = ["recorded"] if answer.trade_offs[index].is_recorded else []
    marks += ["knee"] if any(situation.knee == index for situation in situations) else []
    choices = [situation.choice for situation in situations if situation.choice]
    marks += ["choice"] if any(each.point == index for each in choices) else []
    return marks + (["nearest"] if any(each.nearest == index for each in choices) else [])


def is_on_frontier(answer: ReplayAnswer, index: int) -> bool:
    """Whether no other setting of its situation beats it; of one that is alone that says
    nothing.
    """
    if index not in answer.advice.frontier:
        return False
    points = answer.trade_offs
    own = situation_of(points[index])
    return any(other != index and situation_of(each) == own for other, each in enumerate(points))


def _knee_lines(
    situation: SituationAdvice, points: Sequence[TradeOffPoint], varied: Sequence[str], where: str
) -> list[str]:
    at = f" at {where}" if where else ""
    if situation.knee is None:
        why = situation.why_no_knee
        return [f"[bold]no knee[/bold]{at}: {why}"] if why else []
    lines = [
        f"[bold]knee[/bold] of the frontier: {label_of(points[situation.knee], varied)}"
        f" [dim]({KNEE})[/dim]"
    ]
    return [*lines, *_patch_lines(situation.knee_patch, situation.beyond_keys)]


def _choice_lines(
    choice: Choice,
    beyond_keys: Sequence[str],
    points: Sequence[TradeOffPoint],
    varied: Sequence[str],
    where: str,
) -> list[str]:
    targets = ", ".join(choice.targets)
    if choice.point is None:
        at = f" at {where}" if where else ""
        lines = [f"[bold red]no predicted setting meets {targets}{at}[/bold red]"]
        if choice.nearest is not None:
            near = points[choice.nearest]
            lines.append(f"  closest: {label_of(near, varied)}{_reached(choice, near)}")
        return lines
    point = points[choice.point]
    lines = [
        f"[bold]{targets}[/bold] is met with {label_of(point, varied)}{_reached(choice, point)}"
    ]
    if choice.next_longer_ns is not None:
        lines.append(
            "  [dim]next longer predicted timeout:"
            f" {format_duration_ns(choice.next_longer_ns)}[/dim]"
        )
    if not choice.is_safe:
        lines.append(f"  [yellow]![/yellow] {UNSAFE}")
    return [*lines, *_patch_lines(choice.patch, beyond_keys)]


def _reached(choice: Choice, point: TradeOffPoint) -> str:
    """The value of a single target, and how far from the limit it is; of several the closest."""
    margin = choice.margin or 0.0
    metric = re.split("[<>]", choice.targets[0])[0].strip().replace(".", "_")
    side = "above" if metric == "throughput" else "below"
    value = ""
    if len(choice.targets) > 1:
        side = "inside"
    elif metric != "throughput":
        latency_ns = getattr(point.latency_high_ns or point.latency_ns, metric)
        value = f"{human_duration(latency_ns)}, " if latency_ns is not None else ""
        if value and point.latency_high_ns:
            value = f"up to {value[:-2]} (90 % interval), "
    if margin < -1:
        return f": {value}{1 - margin:.3g} times the limit"
    return f": {value}{abs(margin):.0%} {side if margin >= 0 else 'past'} the limit"


def _patch_lines(patch: str, beyond_keys: Sequence[str]) -> list[str]:
    lines = [f"  [yellow]![/yellow] {each}" for each in beyond_keys]
    if patch:
        return [
            *lines,
            "  for Flink's config.yaml:",
            *(f"    {each}" for each in patch.splitlines()),
        ]
    return lines or ["  nothing to change: its keys are the recorded ones"]
