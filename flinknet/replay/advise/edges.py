"""Edges of a run with several exchanges: their channels, and tasks without names."""

from __future__ import annotations

import numpy as np

from flinknet.arrays import IntArray
from flinknet.trace import RunManifest
from flinknet.trace.job_names import edges_in_flow

NOT_FROM_SOURCES = (
    "its records come when the task before it has processed them, not at instants of their own; its"
    " predictions are with those of the job from end to end"
)


def task_of(vertex: str, subtask: int, count: int) -> str:
    """A subtask of a vertex that has a name and whose subtasks have none: consumer 3 of 4."""
    singular, _, number = vertex.partition(" ")
    number = f"{number}." if number else ""
    return f"{singular.removesuffix('s')} {number}{subtask} of {count}"


def is_from_sources(manifest: RunManifest, edge: int | None) -> bool:
    """Whether the records of an edge came at instants of their own, or were captured."""
    if edge is None or manifest.is_from_between:
        return True
    edges = edges_in_flow(manifest)
    own = next(each for each in edges if each.index == edge)
    return all(each.target != own.source for each in edges)


def channel_ends(manifest: RunManifest) -> tuple[IntArray, IntArray, IntArray]:
    """The channels of a manifest with the subtasks at their ends: index, producer, consumer."""
    channels = manifest.channels
    index, producer, consumer = (
        np.fromiter((getattr(each, name) for each in channels), np.int64, len(channels))
        for name in ("index", "producer", "consumer")
    )
    return index, producer, consumer
