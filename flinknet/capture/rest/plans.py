"""A plan of a job as Flink's web page and `flink info` print it, or one saved answer about a job.

A JobGraph's plan has vertices with hexadecimal ids. That of a StreamGraph, which `flink info`
prints, has operators with numbers: which of them Flink chains follows from their exchanges.
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
"""Between the operators of a vertex, in its description as a tree."""


def job_answer(text: str, name: str) -> dict[str, Any]:
    """The answer to /jobs/ID that a saved one or a plan amounts to.

    Args:
        name: of the job, unless the text has one.

    Raises: KeyError, TypeError, ValueError, AttributeError or RecursionError for another text.
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
    """Vertices of operators: one with a single forward input of its own parallelism is chained to
    the operator before it."""
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
