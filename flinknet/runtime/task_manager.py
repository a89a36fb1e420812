# mypyc
"""A TaskManager: one OS process with network memory, a data port, an event loop and some tasks.

Life: bind -> connect (channels are opened) -> start (tasks run) -> report -> exit. The launcher
leads, over a control pipe; when the pipe breaks the launcher is gone, and so is this process.
"""

from __future__ import annotations

import gc
import json
import shutil
import signal
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from flinknet.core.consumer import ConsumerConnection, SingleInputGate
from flinknet.core.producer import ResultPartition
from flinknet.errors import FlinknetError, PartitionConnectionError, TraceError
from flinknet.job.checkpoint_coordinator import AbortCheckpoint, TriggerCheckpoint
from flinknet.job.debloating import BufferDebloating, GateDebloating, debloated_gates
from flinknet.job.descriptor import InputChannelDescriptor
from flinknet.job.gates import blocking_storage, create_gates, create_partitions
from flinknet.job.load.assembly import create_load_task, run_input_of
from flinknet.job.load.plan import load_plan_of
from flinknet.job.task_metrics import TaskManagerMetrics
from flinknet.plain_values import from_plain

from . import messages as say
from .client_factory import ConnectionID
from .clock import monotonic_ns, process_time_ns
from .control_pipe import ControlPipe
from .fill_levels import FillMeter
from .host import stay_on_core
from .measured_part import MeasuredPart
from .reporting import Sampler, report_of
from .running_tasks import RunningTasks
from .shuffle_environment import ShuffleEnvironment
from .spill_file import create_spill_file
from .stages import Stages, is_staged

STAGE_CHECK_NS = 1_000_000
"""How late the end of a stage may be noticed: no socket tells of it."""


class TaskManager:
    """Everything one process owns."""

    def __init__(self, pipe: ControlPipe, spec: say.TaskManagerSpec) -> None:
        self._pipe = pipe
        self._spec = spec
        self._load = load_plan_of(spec.scenario)
        self._descriptors = self._load.tasks_on(spec.index)
        self._scenario = spec.scenario
        self._network = self._scenario.network
        self._environment = ShuffleEnvironment(
            self._network,
            self._scenario.flow_control,
            spec.name,
            task_managers=self._load.task_managers,
            trace_path=Path(spec.trace_path) if spec.trace_path is not None else None,
            channels=len(self._load.channels),
            channel_of={each.receiver_id: each.index for each in self._load.channels},
            may_spin=spec.has_own_core,
        )
        self._loop = self._environment.loop
        self._pool = self._environment.pool
        self._partitions = self._environment.partitions
        self._spills = self._environment.spills
        self._statistics = self._environment.statistics
        self._recorder = self._environment.recorder
        self._connections = self._environment.connections
        self._own_partitions: dict[tuple[int, int], ResultPartition] = {}
        self._gates: dict[tuple[int, int], SingleInputGate] = {}
        self._tasks = RunningTasks()
        self._inbox: list[object] = []
        spill_dir = Path(spec.spill_dir) if spec.spill_dir is not None else None
        self._storage = blocking_storage(self._network, partial(create_spill_file, spill_dir))
        self._debloated_gates: Sequence[GateDebloating] = ()
        self._busy_share = 0.0
        self._stolen_share = 0.0
        self._stages: Stages | None = None
        if is_staged(self._scenario):
            self._stages = Stages(self._load, self._own_partitions, self._gates, pipe.send)

    def run(self) -> None:
        """Live from bind to exit."""
        self._loop.add_reader(self._pipe.fileno(), self._receive_control)
        self._pipe.send(say.Bound(self._connections.start()))
        self._open_channels(self._await(say.Connect))
        while not self._is_ready():
            self._turn()
            self._connections.check_accepting()
        self._pipe.send(say.Ready())
        start = self._await(say.Start)
        self._start_tasks(start)
        self._work(start)
        self._pipe.send(self._report())
        self._await(say.Exit)
        self._environment.close()

    def fail(self, error: FlinknetError) -> None:
        """A task of this process cannot go on: whoever reads its partitions is told why, as far as
        the sockets take it now.
        """
        for partition in self._own_partitions.values():
            partition.fail(str(error))
        for transport in self._loop.transports:
            transport.pump()

    def close_trace(self) -> None:
        """Save what was recorded; for the way out after an error."""
        self._recorder.close()

    def _await(self, kind: type) -> object:
        """Keep the loop going until the launcher says something of this kind."""
        while True:
            for message in self._inbox:
                if isinstance(message, kind):
                    self._inbox.remove(message)
                    return message
            self._turn()

    def _turn(self) -> None:
        """A turn of the loop while connections may be in the making."""
        self._loop.run_once(until_ns=self._connections.next_deadline_ns())
        self._connections.handle_deadline(now_ns=monotonic_ns())
        self._check_errors()

    def _receive_control(self) -> None:
        message = self._pipe.receive()  # EOFError ends the process: see main
        if isinstance(message, TriggerCheckpoint):
            for task in self._tasks.all:
                task.trigger_checkpoint(
                    message.checkpoint_id, message.timestamp_ms, now_ns=monotonic_ns()
                )
        elif isinstance(message, AbortCheckpoint):
            for task in self._tasks.all:
                task.abort_checkpoint(message.checkpoint_id)
        else:
            self._inbox.append(message)

    def _open_channels(self, connect: object) -> None:
        assert isinstance(connect, say.Connect)
        for each in self._descriptors:
            partitions = create_partitions(
                each,
                self._network,
                self._pool,
                self._partitions,
                storage=self._storage,
            )
            for output, partition in zip(each.outputs, partitions, strict=True):
                self._own_partitions[output.edge, each.subtask] = partition
        for each in self._descriptors:
            gates = create_gates(
                each,
                self._network,
                self._pool,
                partitions=self._partitions,
                connect=partial(self._client_of, connect),
                probe=self._recorder,
            )
            for described, gate in zip(each.inputs, gates, strict=True):
                self._gates[described.edge, each.subtask] = gate
                if self._stages is None:
                    gate.request_partitions(now_ns=monotonic_ns())

    def _client_of(
        self, connect: say.Connect, channel: InputChannelDescriptor
    ) -> ConsumerConnection:
        """The shared client that a channel is requested with."""
        address = connect.addresses[channel.task_manager]
        return self._connections.create_client(
            ConnectionID(channel.task_manager, address, channel.connection_index)
        )

    def _is_ready(self) -> bool:
        for gate in self._gates.values():
            gate.handle_deadline(now_ns=monotonic_ns())
        return self._stages is not None or all(
            subpartition.has_view
            for partition in self._own_partitions.values()
            for subpartition in partition.subpartitions
        )

    def _start_tasks(self, start: object) -> None:
        assert isinstance(start, say.Start)
        self._statistics.measured_from_ns = start.measured_from_ns
        created = [
            create_load_task(
                each,
                self._scenario,
                [self._own_partitions[output.edge, each.subtask] for output in each.outputs],
                [self._gates[gate.edge, each.subtask] for gate in each.inputs],
                self._recorder,
                self._pipe.send,
                start_ns=start.start_ns,
                end_ns=start.end_ns,
                measured_from_ns=start.measured_from_ns,
                measured_to_ns=start.measured_to_ns,
                give_up_ns=start.give_up_ns,
                timestamp_epoch_ns=start.timestamp_epoch_ns,
                spills=self._spills,
            )
            for each in self._descriptors
        ]
        self._tasks = RunningTasks(
            tuple(task for task in created if task.is_source),
            tuple(task for task in created if not task.is_source and task.outputs),
            tuple(task for task in created if not task.outputs),
        )
        self._loop.tasks = self._tasks.all
        self._loop.has_local_channels = any(
            channel.is_local for gate in self._gates.values() for channel in gate.channels
        )

    def _work(self, start: object) -> None:
        """Run the tasks to their end, telling the launcher how far they are."""
        assert isinstance(start, say.Start)
        loop = self._loop
        begun_ns, used_ns = monotonic_ns(), process_time_ns()
        waited_ns, slept_ns = loop.waited_ns, loop.slept_ns
        debloating = self._start_debloating(start)
        self._measured = MeasuredPart(self._connections, self._tasks.sinks, self._metrics)
        milestones: list[tuple[int, Callable[[], None]]] = [
            (start.measured_from_ns, self._measured.begin)
        ]
        if start.measured_to_ns is not None:
            milestones.append((start.measured_to_ns, self._end_measured))
        slow_consumers = self._scenario.workload.slow_consumers
        milestones += self._tasks.changes_of_delay(slow_consumers, from_ns=start.measured_from_ns)
        milestones.sort(key=lambda milestone: milestone[0])
        next_sample_ns = flush_ns = start.start_ns
        self._fill_meter = self._create_fill_meter()
        sampler = Sampler(self._tasks, self._connections, loop, self._fill_meter, self._metrics)
        while not self._is_finished():
            due_ns = min(next_sample_ns, milestones[0][0]) if milestones else next_sample_ns
            if flush_ns < due_ns:
                due_ns = flush_ns
            debloat_ns = debloating.next_deadline_ns()
            if debloat_ns is not None and debloat_ns < due_ns:
                due_ns = debloat_ns
            until_ns = due_ns if self._stages is None else min(due_ns, self._advance_stages())
            loop.run_once(until_ns=until_ns)
            now_ns = monotonic_ns()
            if now_ns < due_ns:
                continue
            debloating.handle_deadline(now_ns=now_ns)
            flush_ns = self._environment.flush_trace(now_ns=now_ns)
            while milestones and milestones[0][0] <= now_ns:
                milestones.pop(0)[1]()
            if now_ns >= next_sample_ns:
                self._check_errors()
                self._pipe.send(sampler.sample())
                next_sample_ns = now_ns + self._spec.sample_interval_ns
        self._end_measured()
        total_ns = max(1, monotonic_ns() - begun_ns)
        self._busy_share = 1 - (loop.waited_ns - waited_ns) / total_ns
        awake_ns = total_ns - (loop.slept_ns - slept_ns)
        self._stolen_share = max(0.0, (awake_ns - (process_time_ns() - used_ns)) / total_ns)

    def _start_debloating(self, start: say.Start) -> BufferDebloating:
        """Debloat the gates from the start on, and begin to keep the metrics of all tasks."""
        network = self._network
        debloating = BufferDebloating(
            debloated_gates(self._tasks.reading, network, now_ns=start.start_ns),
            network.debloating_period_ns,
            start_ns=start.start_ns,
        )
        self._debloated_gates = debloating.gates
        self._metrics = TaskManagerMetrics(
            self._tasks.all,
            self._pool,
            debloating.gates,
            now_ns=start.start_ns,
            is_detailed=network.detailed_metrics,
        )
        return debloating

    def _advance_stages(self) -> int:
        """Begin what can begin. Returns: when to look again at the latest."""
        assert self._stages is not None
        self._stages.advance(self._inbox)
        self._connections.handle_deadline(now_ns=monotonic_ns())
        return monotonic_ns() + STAGE_CHECK_NS

    def _create_fill_meter(self) -> FillMeter:
        return FillMeter(
            list(self._own_partitions.values()),
            list(self._gates.values()),
            total_buffers=self._pool.total_buffers,
            segment_size_bytes=self._network.segment_size_bytes,
            is_broadcast=self._scenario.workload.is_broadcast,
        )

    def _end_measured(self) -> None:
        """The measured part is over; let paused consumers drain."""
        self._measured.end(is_drained=self._is_finished())
        for sink in self._tasks.sinks:
            run_input_of(sink).unpause()

    def _is_finished(self) -> bool:
        if self._stages is not None and not self._stages.is_last:
            return False
        for task in self._tasks.reading:  # asked each turn; as generators it takes twice as long
            if not task.is_finished:
                return False
        for partition in self._own_partitions.values():  # noqa: SIM110
            if not partition.is_consumed:
                return False
        return True

    def _check_errors(self) -> None:
        errors = [
            channel.error
            for gate in self._gates.values()
            for channel in gate.channels
            if channel.error is not None
        ]
        for error in errors:
            if isinstance(error, PartitionConnectionError):  # it names what its client's does not
                raise error
        for client in self._connections.clients:
            if client.error is not None:
                raise client.error
        for error in errors:
            raise error
        for accepted in self._connections.accepted:
            if accepted.connection.loss is not None:
                raise accepted.loss_error(self._load)

    def _report(self) -> say.Report:
        trace_error = None
        try:
            self._recorder.close()
        except TraceError as error:
            trace_error = str(error)
        return report_of(
            self._tasks,
            self._statistics,
            self._measured,
            busy_share=self._busy_share,
            stolen_share=self._stolen_share,
            trace_error=trace_error,
            fill_bounds=self._fill_meter.bounds(),
            debloated_gates=self._debloated_gates,
            strangers=self._connections.strangers(),
        )


def main(connection: Connection, spec_json: str) -> None:
    """Entry of the process.

    Args:
        connection: to the launcher.
        spec_json: a TaskManagerSpec as JSON.
    """
    pipe = ControlPipe(connection)
    spec: say.TaskManagerSpec = from_plain(say.TaskManagerSpec, json.loads(spec_json))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher decides when we end
    if spec.has_own_core:
        stay_on_core(spec.index)
    gc.freeze()  # what is alive now stays; cycle collection need not look at it again
    manager: TaskManager | None = None
    try:
        manager = TaskManager(pipe, spec)
        manager.run()
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the launcher is gone
        _save_trace(manager)
        if spec.spill_dir is not None:
            shutil.rmtree(spec.spill_dir, ignore_errors=True)  # it may not have been able to
    except FlinknetError as error:
        if manager is not None:
            manager.fail(error)
        _save_trace(manager)
        _tell(pipe, say.Failed(str(error), type(error).__name__))
    except Exception:  # a bug; the launcher shows the traceback
        _tell(pipe, say.Failed(traceback.format_exc(), ""))


def _save_trace(manager: TaskManager | None) -> None:
    if manager is not None:
        with suppress(FlinknetError):
            manager.close_trace()


def _tell(pipe: ControlPipe, message: object) -> None:
    with suppress(OSError):
        pipe.send(message)
