"""InputSplits: the splits of a job's sources, which the master creates and hands out on request."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from typing import Any

from flinknet.core.wire.ids import ExecutionAttemptID, JobVertexID
from flinknet.errors import ConfigError

from .endpoints import SplitSource
from .execution_graph import ExecutionGraph, ExecutionVertex
from .operators import SourceOperator


class InputSplits:
    """The splits of all sources of a job (Flink: ExecutionJobVertex with its InputSplitAssigner).

    Raises: ConfigError if the program cannot create them, or they are no JSON values.
    """

    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph
        self._left: dict[tuple[JobVertexID, str], deque[Any]] = {}
        self._assigned: dict[tuple[ExecutionVertex, str], list[Any]] = {}
        for vertex in graph.vertices.values():
            for operator_id, _ in vertex.job_vertex.operator_ids:
                made = graph.job.factories.get(operator_id)
                if made is None or made.kind is not SourceOperator:
                    continue
                source = made.create().function  # type: ignore[attr-defined]
                if isinstance(source, SplitSource):
                    splits = _created(source, vertex.name, vertex.parallelism)
                    self._left[vertex.id, operator_id] = deque(splits)

    def next(self, attempt_id: ExecutionAttemptID, operator_id: str) -> tuple[Any, ...]:
        """Hand out a split to an attempt; none if no split is left, or the attempt is over."""
        subtask = self._graph.subtask(attempt_id.execution_vertex_id)
        left = self._left.get((subtask.job_vertex.id, operator_id))
        if not left or subtask.current.attempt_id != attempt_id:
            return ()
        split = left.popleft()
        self._assigned.setdefault((subtask, operator_id), []).append(split)
        return (split,)

    def give_back(self, subtasks: Iterable[ExecutionVertex]) -> None:
        """Take back the splits of subtasks that restart (Flink: returnInputSplit)."""
        chosen = set(subtasks)
        for subtask, operator_id in [each for each in self._assigned if each[0] in chosen]:
            splits = self._assigned.pop((subtask, operator_id))
            self._left[subtask.job_vertex.id, operator_id].extendleft(reversed(splits))


def _created(source: SplitSource, name: str, parallelism: int) -> list[Any]:
    try:
        splits = list(source.create_splits(parallelism))
        json.dumps(splits, allow_nan=False)
    except Exception as error:
        raise ConfigError(f"{name}: its splits cannot be created: {error}") from error
    return splits
