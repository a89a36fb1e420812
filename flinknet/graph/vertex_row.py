"""A job of which only the parallelism matters: vertices in a row, and each exchange between two of
them joins every subtask with every other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flinknet.options.keys import RUNTIME_MODE

from .data_stream import DataStream
from .environment import StreamExecutionEnvironment
from .program import Program


def vertex_row(parallelism: Sequence[int], settings: Mapping[str, str]) -> Program:
    """The job with a vertex of each parallelism, from its source to its last vertex."""
    environment = StreamExecutionEnvironment(settings)
    first, *others = parallelism
    records = 1 if settings.get(RUNTIME_MODE, "").upper() == "BATCH" else None  # it has to end
    stream: DataStream = (
        environment.generate(records=records).set_parallelism(first).name("vertex 1")
    )
    for number, subtasks in enumerate(others, start=2):
        kept = stream.rebalance().filter(_keep)
        stream = kept.set_parallelism(subtasks).name(f"vertex {number}")
    environment.execute(f"{len(parallelism)} vertices")
    return Program(environment.executed[0], environment.warnings)


def _keep(record: object) -> bool:
    return True
