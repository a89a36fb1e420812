"""ChannelNumbers: the numbers of channels in traces, and their share of the connections."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from flinknet.job import TaskDeploymentDescriptor


class ClusterNumbers:
    """Numbers shared by the jobs of a cluster: no two channels have the same, and data sets of all
    jobs take turns on the connections.
    """

    def __init__(self) -> None:
        self._channels = 0
        self._data_sets = 0

    def take_channels(self, count: int) -> int:
        """Reserve `count` channel numbers. Returns: the first of them."""
        first, self._channels = self._channels, self._channels + count
        return first

    def take_data_sets(self, count: int) -> int:
        """Reserve turns for `count` data sets. Returns: the number of turns taken before."""
        first, self._data_sets = self._data_sets, self._data_sets + count
        return first


class ChannelNumbers:
    """Numbers of the channels of a job: those of its plan, offset by the numbers in use on the
    cluster. A channel whose reader restarts gets a new number, so that attempts do not mix.

    Args:
        channels, data_sets: how many the job has.
        max_connections: between two TaskManagers.
    """

    def __init__(
        self, cluster: ClusterNumbers, channels: int, data_sets: int, max_connections: int
    ) -> None:
        self._cluster = cluster
        self._first = cluster.take_channels(channels)
        self._turn = cluster.take_data_sets(data_sets)
        self._max_connections = max_connections
        self._number_of: dict[int, int] = {}

    def numbered(self, tasks: Iterable[TaskDeploymentDescriptor]) -> list[TaskDeploymentDescriptor]:
        """Return tasks that are about to start, with the numbers of their channels."""
        known = list(tasks)
        for task in known:
            for gate in task.inputs:
                for channel in gate.channels:
                    if channel.index in self._number_of:
                        self._number_of[channel.index] = self._cluster.take_channels(1)
                    else:
                        self._number_of[channel.index] = self._first + channel.index
        return [self._with_numbers(task) for task in known]

    def _with_numbers(self, task: TaskDeploymentDescriptor) -> TaskDeploymentDescriptor:
        number_of, first = self._number_of, self._first
        return replace(
            task,
            outputs=tuple(
                replace(each, channels=tuple(number_of.get(at, first + at) for at in each.channels))
                for each in task.outputs
            ),
            inputs=tuple(
                replace(
                    gate,
                    channels=tuple(
                        replace(
                            at,
                            index=number_of[at.index],
                            connection_index=(at.connection_index + self._turn)
                            % self._max_connections,
                        )
                        for at in gate.channels
                    ),
                )
                for gate in task.inputs
            ),
        )
