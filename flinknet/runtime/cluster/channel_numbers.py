"""ChannelNumbers: how the channels of a job are counted in its traces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from flinknet.job import TaskDeploymentDescriptor


class ChannelNumbers:
    """Numbers of channels in traces: those of the plan at first, and new ones for every channel
    whose reader begins again, so that attempts do not mix.
    """

    def __init__(self, channels: int) -> None:
        self._next = channels
        self._number_of: dict[int, int] = {}

    def numbered(self, tasks: Iterable[TaskDeploymentDescriptor]) -> list[TaskDeploymentDescriptor]:
        """Tasks that are about to begin, with the numbers of their channels."""
        known = list(tasks)
        for task in known:
            for gate in task.inputs:
                for channel in gate.channels:
                    if channel.index in self._number_of:
                        self._number_of[channel.index] = self._next
                        self._next += 1
                    else:
                        self._number_of[channel.index] = channel.index
        return [self._with_numbers(task) for task in known]

    def _with_numbers(self, task: TaskDeploymentDescriptor) -> TaskDeploymentDescriptor:
        number_of = self._number_of
        return replace(
            task,
            outputs=tuple(
                replace(each, channels=tuple(number_of.get(at, at) for at in each.channels))
                for each in task.outputs
            ),
            inputs=tuple(
                replace(
                    gate,
                    channels=tuple(replace(at, index=number_of[at.index]) for at in gate.channels),
                )
                for gate in task.inputs
            ),
        )
