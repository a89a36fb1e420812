"""Every layer as plain data for JSON.

Channels are grouped by gate: a task reads a run of partitions, so a million channels take a few
thousand lines. Pairs of TaskManagers and connections are listed up to a limit; above it the lists
are null and can be derived from the tasks.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from .execution_graph import ExecutionGraph
from .job_graph import JobGraph, JobVertex
from .physical_plan import PhysicalPlan
from .placements import PlacementBounds, placement_bounds, shortage_in, verdict
from .stream_graph import StreamGraph
from .user_functions import type_name

PAIRS_MAX = 10_000
"""Most pairs of TaskManagers to list."""

SCHEMA_VERSION = 1
"""Version of the documents. History: 1, the first."""


_PARALLELISMS = ("parallelism", "max_parallelism")
_BUFFERS = ("total", "exclusive", "required", "optional", "overdraft")


def stream_document(graph: StreamGraph) -> dict[str, Any]:
    """Nodes and edges."""
    return {
        "job_name": graph.job_name,
        "job_type": "BATCH" if graph.is_batch else "STREAMING",
        "savepoint_restore": {
            "path": graph.config.savepoint_path,
            "claim_mode": graph.config.savepoint_claim_mode,
            "ignores_unclaimed_state": graph.config.ignores_unclaimed_state,
        },
        "approximate_local_recovery": graph.config.has_approximate_local_recovery,
        "nodes": [
            {
                "id": node.id,
                "name": node.operator_name,
                **_picked(node, *_PARALLELISMS, "slot_sharing_group", "buffer_timeout_ns"),
                "chaining_strategy": node.chaining_strategy.name,
                "output_type": type_name(node.output_type),
                "uid": node.uid,
            }
            for node in graph.nodes.values()
        ],
        "edges": [
            {
                "source": edge.source_id,
                "target": edge.target_id,
                "type_number": edge.type_number,
                "partitioner": edge.partitioner.name,
                "side_output": edge.tag_id,
                "exchange_mode": edge.exchange_mode.name,
                "buffer_timeout_ns": edge.buffer_timeout_ns,
            }
            for edge in graph.edges
        ],
    }


def job_document(job: JobGraph) -> dict[str, Any]:
    """Vertices with their operators, and the edges between them."""
    vertices = job.sorted_vertices()
    return {
        "job_name": job.name,
        "job_type": "BATCH" if job.is_batch else "STREAMING",
        "schedule": job.schedule,
        "vertices": [
            {
                "id": str(vertex.id),
                **_picked(vertex, "name", "description", *_PARALLELISMS, "invokable"),
                "slot_sharing_group": vertex.slot_sharing_group and vertex.slot_sharing_group.name,
                "co_location_group": vertex.co_location_group and vertex.co_location_group.name,
                "min_resources": asdict(vertex.min_resources),
                "preferred_resources": asdict(vertex.preferred_resources),
                "operators": [
                    {
                        "name": name,
                        "id": operator_id,
                        "user_hash": user_hash,
                        **_keyed_state(vertex, operator_id),
                    }
                    for name, (operator_id, user_hash) in zip(
                        vertex.operator_names, vertex.operator_ids, strict=True
                    )
                ],
            }
            for vertex in vertices
        ],
        "edges": [
            {
                "source": str(edge.source.producer.id),
                "target": str(vertex.id),
                "data_set": str(edge.source.id),
                "partition_type": edge.source.partition_type.name,
                "ship_strategy": edge.ship_strategy,
                "pattern": edge.pattern.name,
            }
            for vertex in vertices
            for edge in vertex.inputs
        ],
        "checkpoints": dict(job.checkpoints),
        "artifacts": dict(job.artifacts),
        "execution_config": dict(job.execution_config),
    }


def _keyed_state(vertex: JobVertex, operator_id: str) -> dict[str, str]:
    config = None if vertex.config is None else vertex.config.all[operator_id]
    has_keys = config is not None and config.key_selector
    return _picked(config, *(("key_selector", "key_type", "state_backend") if has_keys else ()))


def execution_document(graph: ExecutionGraph) -> dict[str, Any]:
    """Vertices with their subtasks and the inputs of these."""
    return {
        "job_name": graph.job.name,
        "id": str(graph.id),
        "plan": json.loads(graph.json_plan),
        "execution_vertices": graph.total_vertices,
        "execution_edges": graph.channels,
        "vertices": [
            {
                "id": str(vertex.id),
                **_picked(vertex, "name", *_PARALLELISMS),
                "state": vertex.state.name,
                "subtasks": [
                    {
                        "name": subtask.name,
                        "attempt": subtask.current.attempt_number,
                        "reads": [
                            {
                                "data_set": str(edge.result.id),
                                **_run(edge.wiring.partitions_of(subtask.subtask_index)),
                                "subpartition": edge.wiring.subpartition(
                                    edge.wiring.partitions_of(subtask.subtask_index)[0],
                                    subtask.subtask_index,
                                ),
                            }
                            for edge in vertex.inputs
                        ],
                    }
                    for subtask in vertex.task_vertices
                ],
            }
            for vertex in graph.vertices.values()
        ],
    }


def physical_document(plan: PhysicalPlan) -> dict[str, Any]:
    """Tasks with partitions and gates, channels by TaskManager, connections, buffers."""
    bounds = placement_bounds(plan)
    shortage = shortage_in(plan, bounds)
    local, connections = plan.local_channels, plan.connections_total
    return {
        "job_name": plan.graph.job.name,
        "task_managers": plan.task_managers,
        "slots_per_task_manager": plan.slots_per_task_manager,
        "stages": plan.stages,
        "local_channels": local,
        "remote_channels": plan.channels_total - local,
        "edges": [
            {
                "edge": edge.index,
                "source": plan.vertices[edge.source].name,
                "target": plan.vertices[edge.target].name,
                "partitioner": edge.partitioner,
                "partition_type": edge.partition_type.name,
                "pattern": edge.wiring.pattern.name,
                "channels": [
                    {"from": one, "to": other, "count": count, "is_local": one == other}
                    for one, other, count in traffic
                ]
                if traffic.pairs <= PAIRS_MAX
                else None,
            }
            for edge in plan.edges
            for traffic in [plan.traffic(edge)]
        ],
        "connections_total": connections,
        "connections": [
            {
                "connection": str(connection),
                "producer": connection.producer,
                "opened_by": connection.consumer,
                "channels": sum(counts.values()),
                "channels_by_edge": {str(edge): count for edge, count in counts.items()},
            }
            for connection, counts in plan.connections()
        ]
        if connections <= PAIRS_MAX
        else None,
        "slots": [
            {
                "task_manager": placed.task_manager,
                "slot": placed.slot,
                "stage": placed.shared.stage,
                "group": placed.shared.group,
                "tasks": [
                    plan.graph.subtask(each).name for each in placed.shared.subtasks.values()
                ],
                "min_resources": asdict(placed.shared.min_resources),
            }
            for placed in plan.slots
        ],
        "tasks": [
            {
                **_picked(task, "name", "task_manager", "slot"),
                "partitions": [
                    {
                        "id": str(partition.id),
                        "type": partition.partition_type.name,
                        "subpartitions": partition.subpartitions,
                        **asdict(partition.pool),
                        "overdraft_buffers": partition.overdraft_buffers,
                    }
                    for partition in task.partitions
                ],
                "gates": [
                    {
                        "edge": gate.edge,
                        "data_set": str(gate.data_set_id),
                        **_run(gate.partitions),
                        "channels": gate.channels,
                        "remote_channels": gate.remote_channels,
                        "exclusive_buffers_per_channel": gate.buffers.exclusive_per_channel,
                        **asdict(gate.buffers.pool),
                    }
                    for gate in task.gates
                ],
            }
            for task in plan.tasks()
        ],
        "buffers": [
            {
                "task_manager": each.task_manager,
                **{name: getattr(each, f"{name}_buffers") for name in _BUFFERS},
                "left": each.spare_buffers,
            }
            for each in plan.buffers()
        ],
        "placements": placements_document(bounds),
        "would_start": shortage is None,
        "shortage": shortage,
        "verdict": verdict(plan, bounds),
    }


def placements_document(bounds: PlacementBounds) -> dict[str, int]:
    """Buffers of the most demanding TaskManager over the placements that Flink may choose."""
    return {
        "worst_needed_buffers": bounds.worst.needed_buffers,
        "best_needed_buffers": bounds.best_buffers,
        "wanted_buffers": bounds.fastest.wanted_buffers,
        "most_buffers": bounds.most_buffers,
    }


def _picked(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _run(partitions: range) -> dict[str, int]:
    return {"first_partition": partitions[0], "last_partition": partitions[-1]}
