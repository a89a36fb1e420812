"""A plan of a job as Flink's web page and `flink info` print it, or one saved answer about a job.

A JobGraph's plan has vertices with hexadecimal ids. A StreamGraph's plan, which `flink info`
prints, has numbered operators; their exchanges show which of them Flink chains.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

PLAN = "PLAN"
"""State of a job that no JobManager knows."""

_LINE = re.compile(r"\s*<[^>]*>[\s:+-]*")
"""Separator of operators in a vertex's description, which is a tree."""


def job_answer(text: str, name: str) -> dict[str, Any]:
    """The answer to /jobs/ID, from the text of a saved answer or a plan.

    Args:
        name: the job's name, if the text has none.

    Raises: KeyError, TypeError, ValueError, AttributeError or RecursionError for any other text.
    """
    begin, end = text.find("{"), text.rfind("}") + 1  # `flink info` prints a frame around it
    document = json.loads(text[begin:end] if end else text)
    plan = document.get("plan", document)
    nodes: Sequence[Mapping[str, Any]] = plan["nodes"]
    if not nodes:
        raise ValueError("it has no nodes")
    if "pact" in nodes[0]:
        nodes = _chained({int(each["id"]): each for each in nodes})
    vertices = [
        {
            "id": each["id"],
            "name": _name(str(each.get("description") or each["id"])),
            "parallelism": each["parallelism"],
        }
        for each in nodes
    ]
    return {
        "jid": plan.get("jid", "0" * 32),
        "name": plan.get("name") or name,
        "state": PLAN,
        "start-time": 0,
        "vertices": vertices,
        **document,
        "plan": {**plan, "nodes": nodes},
    }


def _name(description: str) -> str:
    return " -> ".join(filter(None, _LINE.split(html.unescape(description).strip())))


def _chained(operators: Mapping[int, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Chain operators to vertices: an operator joins its input's vertex if this is its only input,
    with a forward exchange and equal parallelism."""
    nodes: dict[int, dict[str, Any]] = {}
    head_of: dict[int, int] = {}
    for number in sorted(operators):
        operator = operators[number]
        inputs: Sequence[Mapping[str, Any]] = operator.get("predecessors") or ()
        before = int(inputs[0]["id"]) if inputs else number
        if (
            len(inputs) == 1
            and inputs[0]["ship_strategy"] == "FORWARD"
            and operators[before]["parallelism"] == operator["parallelism"]
            and before in head_of
        ):
            head_of[number] = head_of[before]
            nodes[head_of[number]]["description"] += f" -> {operator['contents']}"
            continue
        head_of[number] = number
        nodes[number] = {
            "id": f"{number:032x}",
            "description": str(operator["contents"]),
            "parallelism": operator["parallelism"],
            "inputs": inputs,
        }
    for node in nodes.values():
        node["inputs"] = [
            {
                "num": at,
                "id": f"{head_of[int(each['id'])]:032x}",
                "ship_strategy": each["ship_strategy"],
            }
            for at, each in enumerate(node["inputs"])
        ]
    return list(nodes.values())
