"""The manifest of a run on this host, and its entries for the channels of deployed tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flinknet.config import NetworkConfig
from flinknet.job import TaskDeploymentDescriptor
from flinknet.options import effective_flink_keys
from flinknet.trace.manifest import ChannelInfo, ClockInfo, ProcessInfo, RunManifest

from .host import host_id, versions_of


def manifest_of(
    scenario: Mapping[str, Any],
    network: NetworkConfig,
    processes: Iterable[ProcessInfo],
    channels: Iterable[ChannelInfo],
    *,
    seed: int,
    host: Mapping[str, Any],
    started_at: str,
    measured_from_ns: int | None,
    measured_to_ns: int | None,
) -> RunManifest:
    """Return the manifest of a run whose processes are on this host.

    Args:
        host: `host.environment`, and more facts.
    """
    return RunManifest(
        scenario=dict(scenario),
        flink_keys=dict(effective_flink_keys(network)),
        host=dict(host),
        versions=versions_of(host),
        seed=seed,
        clock=ClockInfo(host_id=host_id()),
        started_at=started_at,
        measured_from_ns=measured_from_ns,
        measured_to_ns=measured_to_ns,
        processes=tuple(processes),
        channels=tuple(channels),
    )


def channel_infos(tasks: Iterable[TaskDeploymentDescriptor]) -> Iterator[ChannelInfo]:
    """The channels that tasks read."""
    for task in tasks:
        for gate in task.inputs:
            for channel in gate.channels:
                producer, consumer = f"tm-{channel.task_manager}", f"tm-{task.task_manager}"
                number = f"#{channel.connection_index}" if channel.connection_index else ""
                yield ChannelInfo(
                    index=channel.index,
                    receiver_id=channel.receiver_id.hex(),
                    producer=channel.producer,
                    consumer=task.subtask,
                    producer_process=producer,
                    consumer_process=consumer,
                    connection=f"{producer}->{consumer}{number}",
                    subpartition=channel.subpartition,
                    partition=channel.partition_id.encode().hex(),
                    is_local=channel.is_local,
                    edge=gate.edge,
                )
