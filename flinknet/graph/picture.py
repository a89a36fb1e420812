"""A layer as boxes and arrows, for any renderer."""

from __future__ import annotations

from dataclasses import dataclass

from .execution_graph import ExecutionGraph
from .job_graph import JobGraph
from .physical_plan import PhysicalPlan
from .stream_graph import StreamGraph

BOXES_MAX, ARROWS_MAX = 64, 512
"""Most subtasks and channels to draw; above it only vertices and TaskManagers are drawn."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box with lines of text, in a group or alone."""

    id: str
    lines: tuple[str, ...]
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow between boxes; `is_strong` arrows go over the network."""

    source: str
    target: str
    label: str = ""
    is_strong: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes and arrows with a title."""

    title: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def stream_picture(graph: StreamGraph) -> Picture:
    """Operators and streams."""
    boxes = [
        Box(str(node.id), (f"{node.id} {node.operator_name}", f"parallelism {node.parallelism}"))
        for node in graph.nodes.values()
    ]
    arrows = [
        Arrow(str(edge.source_id), str(edge.target_id), str(edge.partitioner))
        for edge in graph.edges
    ]
    return Picture(f"StreamGraph: {graph.job_name}", tuple(boxes), tuple(arrows))


def job_picture(job: JobGraph) -> Picture:
    """Vertices and data sets."""
    vertices = job.sorted_vertices()
    boxes = [
        Box(str(vertex.id), (vertex.name, f"parallelism {vertex.parallelism}", str(vertex.id)))
        for vertex in vertices
    ]
    arrows = [
        Arrow(
            str(edge.source.producer.id),
            str(vertex.id),
            f"{edge.ship_strategy} {edge.source.partition_type.label}",
        )
        for vertex in vertices
        for edge in vertex.inputs
    ]
    return Picture(f"JobGraph: {job.name}", tuple(boxes), tuple(arrows))


def execution_picture(graph: ExecutionGraph) -> Picture:
    """Subtasks and channels; for a large job, vertices and numbers of channels."""
    title = f"ExecutionGraph: {graph.job.name}"
    if graph.total_vertices > BOXES_MAX or graph.channels > ARROWS_MAX:
        boxes = [
            Box(str(vertex.id), (vertex.name, f"{vertex.parallelism} subtasks"))
            for vertex in graph.vertices.values()
        ]
        arrows = [
            Arrow(
                str(edge.result.producer.id),
                str(edge.target.id),
                f"{edge.wiring.pattern.value}, {edge.wiring.channels} channels",
            )
            for edge in graph.edges
        ]
        return Picture(title, tuple(boxes), tuple(arrows))
    return Picture(
        title,
        tuple(Box(str(each.id), (each.name,), each.job_vertex.name) for each in graph.subtasks()),
        tuple(
            Arrow(str(each.source.producer.id), str(each.target.id))
            for edge in graph.edges
            for each in edge.execution_edges()
        ),
    )


def physical_picture(plan: PhysicalPlan) -> Picture:
    """Tasks on their TaskManagers and channels, strong over the network; for a large job,
    TaskManagers and connections.
    """
    title = f"PhysicalPlan: {plan.graph.job.name}"
    if plan.tasks_total > BOXES_MAX or plan.channels_total > ARROWS_MAX:
        return _connections_picture(plan, title)
    boxes = [
        Box(_task(task.vertex, task.subtask), (task.name,), f"tm-{task.task_manager}")
        for task in plan.tasks()
    ]
    arrows = []
    for channel in plan.channels():
        edge = plan.edges[channel.edge]
        arrows.append(
            Arrow(
                _task(edge.source, channel.producer),
                _task(edge.target, channel.consumer),
                is_strong=channel.connection is not None,
            )
        )
    return Picture(title, tuple(boxes), tuple(arrows))


def _connections_picture(plan: PhysicalPlan, title: str) -> Picture:
    tasks = [0] * plan.task_managers
    for vertex in plan.vertices:
        for task_manager in vertex.task_managers:
            tasks[task_manager] += 1
    boxes = [
        Box(f"tm-{index}", (f"tm-{index}", f"{count} tasks")) for index, count in enumerate(tasks)
    ]
    if plan.connections_total > ARROWS_MAX:
        text = f"{title} ({plan.connections_total} connections, not drawn)"
        return Picture(text, tuple(boxes), ())
    connections = {each: sum(counts.values()) for each, counts in plan.connections()}
    if len(set(connections.values())) == 1:
        title = f"{title} ({max(connections.values())} channels on each connection)"
    arrows = [
        Arrow(
            f"tm-{connection.producer}",
            f"tm-{connection.consumer}",
            f"{count} channels",
            is_strong=True,
        )
        for connection, count in connections.items()
    ]
    return Picture(title, tuple(boxes), tuple(arrows))


def _task(vertex: int, subtask: int) -> str:
    return f"{vertex}.{subtask}"
