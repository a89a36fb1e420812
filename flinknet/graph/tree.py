"""Every layer as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from flinknet.units import counted, format_duration_ns, format_size_bytes

from .execution_graph import ConnectedEdge, ExecutionGraph
from .job_graph import JobGraph
from .physical_plan import PhysicalPlan
from .placements import buffers_in_words, placement_bounds, verdict
from .stream_graph import StreamGraph
from .transformations import UNKNOWN

LINES_MAX = 16
"""Most subtasks, slots or TaskManagers to list; the rest is counted."""

CHANNELS_MAX = 64
"""Most channels to list one by one; above it they are listed by TaskManager."""


def stream_tree(graph: StreamGraph) -> str:
    """Nodes with their outgoing edges."""
    kind = "batch" if graph.is_batch else "streaming"
    lines = [
        f'StreamGraph "{graph.job_name}" ({kind}): {counted(len(graph.nodes), "node")},'
        f" {counted(len(graph.edges), 'edge')}"
    ]
    for node in graph.nodes.values():
        maximum = "" if node.max_parallelism is None else f" of {node.max_parallelism}"
        lines.append(
            f"  {node.id} {node.operator_name}  parallelism {node.parallelism}{maximum}, slot"
            f" sharing group {node.slot_sharing_group}, buffer timeout"
            f" {format_duration_ns(node.buffer_timeout_ns)}"
        )
        for edge in node.out_edges:
            number = f", input {edge.type_number}" if edge.type_number else ""
            side = f", side output {edge.output_tag}" if edge.output_tag else ""
            target = f"{edge.target_id} {edge.target.operator_name}"
            lines.append(f"    -> {target}  {edge.partitioner}{number}{side}")
    return "\n".join(lines)


def job_tree(job: JobGraph) -> str:
    """Vertices with their outgoing edges."""
    vertices = job.sorted_vertices()
    kind = "batch" if job.is_batch else "streaming"
    lines = [
        f'JobGraph "{job.name}" ({kind}, scheduled {job.schedule}):'
        f" {counted(len(vertices), 'vertex', 'vertices')}, {counted(len(job.edges), 'edge')}"
    ]
    for vertex in vertices:
        group = vertex.slot_sharing_group.name if vertex.slot_sharing_group else "none"
        lines.append(f"  {vertex.id} {vertex.name}")
        needs = f", needs {vertex.min_resources}" if vertex.min_resources != UNKNOWN else ""
        if vertex.preferred_resources not in (UNKNOWN, vertex.min_resources):
            needs += f" (preferred: {vertex.preferred_resources})"
        lines.append(f"    parallelism {vertex.parallelism}, slot sharing group {group}{needs}")
        for data_set in vertex.results:
            lines += [
                f"    -> {edge.target.name}  {edge.ship_strategy}, {edge.pattern.value},"
                f" {data_set.partition_type.name}, data set {data_set.id}"
                for edge in data_set.consumers
            ]
    if job.checkpoints:
        interval = format_duration_ns(job.checkpoints["interval_ns"])
        how = ", unaligned" if job.checkpoints["is_unaligned"] else ""
        lines.append(f"  checkpoints every {interval}, {job.checkpoints['mode']}{how}")
    lines += [f"  artifact {name}: {path}" for name, path in job.artifacts.items()]
    return "\n".join(lines)


def execution_tree(graph: ExecutionGraph) -> str:
    """Vertices with their subtasks, and the inputs of each subtask."""
    lines = [
        f'ExecutionGraph "{graph.job.name}":'
        f" {counted(graph.total_vertices, 'execution vertex', 'execution vertices')},"
        f" {counted(graph.channels, 'execution edge')}"
    ]
    for vertex in graph.vertices.values():
        lines.append(
            f"  {vertex.name}  {counted(vertex.parallelism, 'subtask')},"
            f" {vertex.max_parallelism} key groups, {vertex.state.name}"
        )
        for edge in vertex.inputs:
            wiring = edge.wiring
            lines.append(
                f"    reads {edge.result.producer.name}  {wiring.pattern.value}"
                f" {wiring.producers} to {wiring.consumers}: {counted(wiring.channels, 'channel')},"
                f" {edge.result.partition_type.name}"
            )
            lines += _shortened(
                (f"      {_reads(edge, consumer)}" for consumer in range(wiring.consumers)),
                wiring.consumers,
                "      ",
                "subtasks",
            )
    return "\n".join(lines)


def physical_tree(plan: PhysicalPlan, channels_max: int = CHANNELS_MAX) -> str:
    """TaskManagers with their slots, the channels, the sockets, the buffers, and a verdict."""
    total, local = plan.channels_total, plan.local_channels
    connections = plan.connections_total
    lines = [
        f'PhysicalPlan "{plan.graph.job.name}" on {counted(plan.task_managers, "TaskManager")} with'
        f" {counted(plan.slots_per_task_manager, 'slot')} each:"
        f" {counted(plan.tasks_total, 'task')},"
        f" {counted(total, 'channel')} ({local:,} local, {total - local:,} remote),"
        f" {counted(connections, 'TCP connection')}"
    ]
    if plan.stages > 1:
        lines.append(f"  {plan.stages} stages, one after the other")
    lines += ["", "slots", *_slot_lines(plan)]
    lines += ["", "channels", *_table(_TRAFFIC_COLUMNS, _traffic_rows(plan))]
    if 0 < total <= channels_max:
        lines += ["", *_table(_CHANNEL_COLUMNS, _channel_rows(plan))]
    elif total:
        lines.append(f"  ({total} channels; one by one with --channels {total})")
    lines += ["", "sockets"]
    lines += _shortened(
        (
            f"  {connection}  {counted(sum(counts.values()), 'channel')}, opened by"
            f" tm-{connection.consumer}"
            for connection, counts in plan.connections()
        ),
        connections,
        "  ",
        "connections",
    ) or ["  none: every channel is local"]
    size, bounds = format_size_bytes(plan.network.segment_size_bytes), placement_bounds(plan)
    buffers = _table(_BUFFER_COLUMNS, _buffer_rows(plan))
    lines += ["", f"buffers of {size}", buffers[0]]
    lines += _shortened(buffers[1:], plan.task_managers, "  ", "TaskManagers")
    lines += [f"  {line}" for line in (buffers_in_words(plan, bounds), *_BUFFER_LEGEND)]
    lines += ["", verdict(plan, bounds)]
    return "\n".join(lines)


_TRAFFIC_COLUMNS = (
    *("producers", "consumers", "partitioner", "type"),
    *("from", "to", "channels", "over"),
)
_CHANNEL_COLUMNS = ("channel", "producer", "on", "consumer", "on", "subpartition", "over")
_BUFFER_COLUMNS = (
    *("TaskManager", "buffers", "exclusive", "required by pools", "spare"),
    *("pools at maximum", "overdraft"),
)
_BUFFER_LEGEND = (
    "exclusive: for remote channels; required by pools: minimum to start; spare: the rest;",
    "pools at maximum: spare buffers that pools can use; overdraft: extra, to complete a record",
)


def _reads(edge: ConnectedEdge, consumer: int) -> str:
    wiring = edge.wiring
    partitions = wiring.partitions_of(consumer)
    if wiring.is_all_to_all and len(partitions) > 1:
        return f"{consumer}: p0..p{len(partitions) - 1}/{consumer}"
    read = [f"p{each}/{wiring.subpartition(each, consumer)}" for each in partitions[:LINES_MAX]]
    more = " …" if len(partitions) > LINES_MAX else ""
    return f"{consumer}: {' '.join(read)}{more}"


def _slot_lines(plan: PhysicalPlan) -> list[str]:
    lines = []
    for each in sorted(plan.slots, key=lambda x: (x.task_manager, x.shared.stage, x.slot)):
        shared = each.shared
        when = f" stage {shared.stage}" if plan.stages > 1 else ""
        held = ", ".join(plan.graph.subtask(subtask).name for subtask in shared.subtasks.values())
        needs = "" if shared.min_resources == UNKNOWN else f"; needs {shared.min_resources}"
        lines.append(f"  tm-{each.task_manager} slot {each.slot}{when}: {held}{needs}")
    return _shortened(lines, len(lines), "  ", "slots")


def _traffic_rows(plan: PhysicalPlan) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for edge in plan.edges:
        source, target = plan.vertices[edge.source].name, plan.vertices[edge.target].name
        head = (source, target, edge.partitioner.upper(), edge.partition_type.name)
        traffic = plan.traffic(edge)
        for producer, consumer, count in islice(traffic, LINES_MAX):
            over = "local" if producer == consumer else f"tm-{producer}->tm-{consumer}"
            rows.append((*head, f"tm-{producer}", f"tm-{consumer}", count, over))
        if traffic.pairs > LINES_MAX:
            hidden = traffic.pairs - LINES_MAX
            rows.append((f"… and {hidden} more pairs of TaskManagers", *[""] * 7))
    return rows


def _channel_rows(plan: PhysicalPlan) -> list[tuple[object, ...]]:
    return [
        (
            each.index,
            f"{plan.vertices[edge.source].name}.{each.producer}",
            f"tm-{each.producer_task_manager}",
            f"{plan.vertices[edge.target].name}.{each.consumer}",
            f"tm-{each.consumer_task_manager}",
            each.subpartition,
            "local" if each.is_local else each.connection,
        )
        for each in plan.channels()
        for edge in [plan.edges[each.edge]]
    ]


def _buffer_rows(plan: PhysicalPlan) -> list[tuple[object, ...]]:
    return [
        (
            *(f"tm-{x.task_manager}", x.total_buffers, x.exclusive_buffers, x.required_buffers),
            *(x.spare_buffers, x.optional_buffers, x.overdraft_buffers),
        )
        for x in plan.buffers()
    ]


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    everything = [columns, *([*map(str, row)] for row in rows)]
    widths = [max(len(row[at]) for row in everything) for at in range(len(columns))]
    return [
        (
            "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        ).rstrip()
        for row in everything
    ]


def _shortened(lines: Iterable[str], count: int, indent: str, what: str) -> list[str]:
    if count <= LINES_MAX:
        return list(lines)
    return [*islice(lines, LINES_MAX), f"{indent}… and {count - LINES_MAX} more {what}"]
