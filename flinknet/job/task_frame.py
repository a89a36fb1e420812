"""TaskFrame: what every task has around its chain, whether of a program (`program_tasks`) or of a
load (`load.load_tasks`): a context and its checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from flinknet.config import NetworkConfig
from flinknet.core.consumer import SingleInputGate, UnionInputGate
from flinknet.core.probe import Probe

from .barriers import (
    INPUT,
    CheckpointResponder,
    InputCheckpoints,
    OutputCheckpoints,
    TaskAcknowledgements,
    barrier_of,
    output_name,
)
from .context import ProcessingContext
from .descriptor import Start, TaskDeploymentDescriptor
from .network_input import NetworkInput
from .sources import RecordSource
from .stream_task import StreamTask
from .task_chain import TaskChain, TaskOutput, TaskWorker
from .task_ends import TaskOutputs


class TaskFrame:
    """Assembles a task around any chain: `set_outputs`, then `input_checkpoints`, then `task`. Its
    checkpoint answers have its execution_vertex_id.
    """

    def __init__(
        self,
        descriptor: TaskDeploymentDescriptor,
        name: str,
        network: NetworkConfig,
        probe: Probe,
        respond: CheckpointResponder,
        start: Start,
    ) -> None:
        self.descriptor = descriptor
        self.context = ProcessingContext(epoch_ns=start.timestamp_epoch_ns)
        self.start = start
        self.probe = probe
        self.network = network
        self._name = name
        self._outputs: Sequence[TaskOutput] = ()
        self._checkpoints: Sequence[OutputCheckpoints] = ()
        parts = [output_name(each.edge) for each in descriptor.outputs]
        parts += [INPUT] if descriptor.inputs else []
        self._acknowledgements = TaskAcknowledgements(
            descriptor.execution_vertex_id, parts, respond
        )

    def set_outputs(self, outputs: Sequence[TaskOutput], partitioners: Sequence[str]) -> None:
        """Set the outputs of the task, whose partitioners determine how barriers are aligned."""
        self._outputs = outputs
        self._checkpoints = [
            OutputCheckpoints(
                output_name(output.edge),
                output.writer,
                output.channels,
                self._acknowledgements.receive,
                partial(barrier_of, self.network, partitioner),
                epoch_ns=self.start.timestamp_epoch_ns,
            )
            for output, partitioner in zip(outputs, partitioners, strict=True)
        ]

    def input_checkpoints(self, gate: SingleInputGate | UnionInputGate) -> InputCheckpoints:
        """The checkpoints of the task's input."""
        return InputCheckpoints(
            INPUT,
            gate,
            self._checkpoints,
            self.network,
            self._acknowledgements.receive,
            self._write_outputs,
            epoch_ns=self.start.timestamp_epoch_ns,
        )

    def task(
        self,
        chain: TaskChain,
        sources: Mapping[str, RecordSource],
        network_input: NetworkInput[Any] | None,
        worker: TaskWorker | None = None,
    ) -> StreamTask:
        """Create the task, with its chain opened, or being opened by its worker."""
        return StreamTask(
            self._name,
            self.descriptor.subtask,
            chain,
            sources,
            network_input,
            TaskOutputs(self._outputs, self._checkpoints, self.context, self.probe),
            self._acknowledgements,
            self.context,
            start_ns=self.start.start_ns,
            worker=worker,
        )

    def _write_outputs(self) -> None:
        for output in self._outputs:
            output.write()
