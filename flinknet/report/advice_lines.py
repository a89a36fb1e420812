"""What a replay advises, as lines for the terminal: the setting that holds the targets, or the knee
of the frontier, with the keys to set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Answer = dict[str, Any]
Label = Callable[[Answer], str]
"""A setting in words."""


def advice_lines(answer: Answer, label: Label) -> list[str]:
    """The advice of one run, with rich's markup; empty if there is none."""
    advice = answer.get("advice")
    if not advice:
        return []
    points, lines = answer["trade_offs"], []
    if advice["frontier"]:
        lines.append(
            "  [dim]◆ on the frontier: no other setting is as good in p99, throughput, buffers/s"
            " and memory[/dim]"
        )
    choice = advice["choice"]
    if choice is not None:
        return [*lines, "", *_choice_lines(choice, points, label), ""]
    if advice["knee"] is not None and advice["knee_patch"]:
        lines += ["", f"[bold]knee[/bold] of the frontier: {label(points[advice['knee']])}"]
        lines += [*_patch_lines(advice["knee_patch"]), ""]
    return lines


def mark_of(answer: Answer, index: int) -> str:
    """What stands beside a point of the trade-off: whether it is on the frontier."""
    return "◆" if index in answer.get("advice", {}).get("frontier", ()) else ""


def _choice_lines(choice: Answer, points: list[Answer], label: Label) -> list[str]:
    targets = ", ".join(choice["targets"])
    if choice["point"] is None:
        lines = [f"[bold red]no predicted setting holds {targets}[/bold red]"]
        if choice["nearest"] is not None:
            nearest = label(points[choice["nearest"]])
            lines.append(f"  nearest is {nearest}, off by {-choice['margin']:.0%} of the limit")
        return lines
    setting, spare = label(points[choice["point"]]), choice["margin"]
    lines = [f"[bold]{targets}[/bold] holds with {setting}, {spare:.0%} of the limit to spare"]
    if not choice["is_safe"]:
        lines.append("  [yellow]![/yellow] that is less than the model was off by; measure it")
    if not choice["patch"]:
        return [*lines, "  that is what was recorded: nothing to change"]
    return [*lines, *_patch_lines(choice["patch"])]


def _patch_lines(patch: str) -> list[str]:
    return ["  for Flink's config.yaml:", *(f"    {line}" for line in patch.splitlines())]
