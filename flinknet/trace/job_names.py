"""Names of channels and their ends, from the job in a manifest.

`scenario.job` names vertices and edges; it exists for flinknet's own jobs, and for traces with
names from Flink's REST API. Edges have the same numbers as in channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .manifest import ChannelInfo, RunManifest


@dataclass(frozen=True, slots=True)
class NamedEdge:
    """One edge of a job; None for unknown values.

    Attributes:
        index: number of the edge, as in its channels.
        source, target: numbers of the vertices in the job.
        source_tasks, target_tasks: names of the subtasks.
        channels, local_channels: number of channels, and of those within a TaskManager.
    """

    index: int
    source: int
    target: int
    source_name: str
    target_name: str
    source_tasks: tuple[str, ...]
    target_tasks: tuple[str, ...]
    channels: int | None
    local_channels: int | None

    @property
    def name(self) -> str:
        """Displayed name of the edge."""
        return f"{self.source_name} → {self.target_name}"

    def channel_name(self, channel: ChannelInfo) -> str | None:
        """Displayed name of one of its channels, such as `Enrich (3/8) → Sink (1/4)`."""
        source = _at(self.source_tasks, channel.producer)
        target = _at(self.target_tasks, channel.consumer)
        if source is None and target is None:
            return None
        return f"{source or self.source_name} → {target or self.target_name}"


def named_edges(manifest: RunManifest) -> dict[int, NamedEdge]:
    """The edges of the job, by number; empty without a job."""
    job = manifest.scenario.get("job")
    if not isinstance(job, Mapping):
        return {}
    vertices = {each["index"]: each for each in job["vertices"]}
    found = {}
    for edge in job["edges"]:
        source, target = vertices[edge["source"]], vertices[edge["target"]]
        found[edge["index"]] = NamedEdge(
            edge["index"],
            edge["source"],
            edge["target"],
            source["name"],
            target["name"],
            tuple(source.get("tasks", ())),
            tuple(target.get("tasks", ())),
            _count(edge, "channels"),
            _count(edge, "local_channels"),
        )
    return found


def channel_names(manifest: RunManifest) -> dict[int, str]:
    """Name of each channel whose tasks have names."""
    edges = named_edges(manifest)
    found = {}
    for channel in manifest.channels:
        edge = edges.get(channel.edge)
        name = None if edge is None else edge.channel_name(channel)
        if name is not None:
            found[channel.index] = name
    return found


def _at(names: tuple[str, ...], index: int) -> str | None:
    return names[index] if 0 <= index < len(names) else None


def _count(edge: Mapping[str, Any], name: str) -> int | None:
    value = edge.get(name)
    return value if isinstance(value, int) else None
