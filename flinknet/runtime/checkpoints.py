"""The checkpoints of a run, over the control pipes: beats of the coordinator go out to every
TaskManager, answers of tasks come back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flinknet.config import Scenario
from flinknet.job.checkpoint_coordinator import (
    AcknowledgeCheckpoint,
    CheckpointCoordinator,
    DeclineCheckpoint,
)
from flinknet.job.load.plan import LoadPlan, task_name
from flinknet.results import CheckpointSummary, RunResult, RunWarning

from .clock import monotonic_ns
from .messages import Start


class CheckpointLead:
    """Drives the coordinator of a run.

    Args:
        tell: says something to every TaskManager.
    """

    def __init__(
        self,
        load: LoadPlan,
        interval_ns: int,
        start: Start,
        tell: Callable[[object], None],
    ) -> None:
        self._tell = tell
        self._end_ns = start.end_ns
        self._coordinator = CheckpointCoordinator(
            map(task_name, load.tasks),
            interval_ns=interval_ns,
            timeout_ns=load.scenario.network.checkpoint_timeout_ns,
            start_ns=start.start_ns,
            measured_from_ns=start.measured_from_ns,
            measured_to_ns=start.measured_to_ns,
            epoch_ns=start.timestamp_epoch_ns,
        )

    def next_deadline_ns(self) -> int | None:
        """When `advance` wants to be called, None for never."""
        return self._coordinator.next_deadline_ns()

    def advance(self) -> None:
        """Tell every TaskManager what is due. When the sources have stopped nothing more begins."""
        now_ns = monotonic_ns()
        if self._end_ns is not None and now_ns >= self._end_ns:
            self._coordinator.stop()
        for command in self._coordinator.advance(now_ns=now_ns):
            self._tell(command)

    def receive(self, message: object) -> None:
        """Take what a TaskManager said, if it is about checkpoints; what one task declines is given
        up by all.
        """
        if isinstance(message, AcknowledgeCheckpoint | DeclineCheckpoint):
            for command in self._coordinator.receive(message, now_ns=monotonic_ns()):
                self._tell(command)

    def summary(self) -> CheckpointSummary:
        """What became of the checkpoints."""
        return self._coordinator.summary()


def create_lead(
    load: LoadPlan, start: Start, tell: Callable[[object], None]
) -> CheckpointLead | None:
    """The lead of a run's checkpoints; None where there are none.

    A blocking exchange has none, as a batch job in Flink.
    """
    interval_ns = load.scenario.network.checkpoint_interval_ns
    if interval_ns is None or load.scenario.workload.is_blocking:
        return None
    return CheckpointLead(load, interval_ns, start, tell)


def with_checkpoints(
    result: RunResult, lead: CheckpointLead | None, scenario: Scenario
) -> RunResult:
    """The result with what became of the checkpoints, or with why there were none."""
    if lead is not None:
        measured = replace(result.measured, checkpoints=lead.summary())
        return replace(result, measured=measured)
    if scenario.network.checkpoint_interval_ns is None:
        return result
    text = (
        "a blocking exchange has no checkpoints: its consumers begin when its producers have ended;"
        " leave --checkpoint-interval out, or use --partition-type pipelined-bounded"
    )
    return replace(result, warnings=(*result.warnings, RunWarning("no-checkpoints", text)))
