"""Exchanges that are not read from the beginning run in stages: a vertex starts to read when what
it reads is complete (blocking), or has begun to be written.

The launcher leads: it waits until every TaskManager has told that of its subtasks of a vertex, and
then lets the next vertex request its partitions. Differs from Flink, where the scheduler deploys
the tasks of a stage then; here they are there already and wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from flinknet.config import Scenario
from flinknet.core.consumer import SingleInputGate
from flinknet.core.producer import BoundedBlockingResultPartition, BufferWritingResultPartition
from flinknet.job.load.plan import LoadPlan
from flinknet.job.scheduling import SchedulingType, is_consumable, scheduling_of
from flinknet.results import BlockingExchange, RunResult

from . import messages as say
from .clock import monotonic_ns

_T = TypeVar("_T")


class Stages:
    """The stages as one TaskManager goes through them.

    Args:
        partitions: its partitions by edge and subtask.
        gates: its gates by edge and subtask.
        tell: says something to the launcher.
    """

    def __init__(
        self,
        load: LoadPlan,
        partitions: Mapping[tuple[int, int], BufferWritingResultPartition],
        gates: Mapping[tuple[int, int], SingleInputGate],
        tell: Callable[[object], None],
    ) -> None:
        self._last_vertex = load.last_vertex
        self._scheduling = scheduling_of(load.scenario)
        self._partitions = partitions
        self._gates = gates
        self._tell = tell
        self._vertex = 0
        self._is_waiting = False

    @property
    def is_last(self) -> bool:
        """Whether the last stage has begun: the launcher waits for reports from then on."""
        return self._vertex == self._last_vertex

    def advance(self, inbox: list[object]) -> None:
        """Tell what can be consumed, and request what the launcher says can be."""
        for message in inbox:
            if isinstance(message, say.Consume):
                inbox.remove(message)
                self._request(message.vertex)
                break
        if self._is_waiting or self.is_last:
            return
        own = [
            partition
            for (edge, _), partition in self._partitions.items()
            if edge == self._vertex  # of a chain of vertices, each writes the edge of its number
        ]
        if all(is_consumable(partition, self._scheduling) for partition in own):
            self._is_waiting = True
            blocking = [each for each in own if isinstance(each, BoundedBlockingResultPartition)]
            data_bytes = sum(each.data_bytes for each in blocking)
            stored_bytes = sum(each.stored_data_bytes for each in blocking)
            self._tell(say.Produced(self._vertex, monotonic_ns(), data_bytes, stored_bytes))

    def _request(self, vertex: int) -> None:
        self._vertex = vertex
        self._is_waiting = False
        for (edge, _), gate in self._gates.items():
            if edge == vertex - 1:
                gate.request_partitions(now_ns=monotonic_ns())


def is_staged(scenario: Scenario) -> bool:
    """Whether anything waits for what it reads."""
    return scheduling_of(scenario) is not SchedulingType.ALL_AT_ONCE


@dataclass(frozen=True, slots=True)
class Stage:
    """One exchange as the launcher saw it: instants at which it was complete, and at which its
    consumers were told so.
    """

    complete_ns: int
    consumed_from_ns: int
    data_bytes: int
    stored_bytes: int


class Leader(Protocol):
    """What the launcher can do with all TaskManagers."""

    def tell(self, message: object) -> None:
        """Say something to each."""

    def collect(self, kind: type[_T], other: Callable[[int, object], None], /) -> list[_T]:
        """Wait until each has said something of this kind."""


def lead_stages(
    leader: Leader, load: LoadPlan, other: Callable[[int, object], None]
) -> list[Stage]:
    """Lead the TaskManagers through all stages but the last, which ends with their reports."""
    stages = []
    for vertex in range(1, 1 + load.last_vertex):
        told = leader.collect(say.Produced, other)
        leader.tell(say.Consume(vertex))
        stages.append(
            Stage(
                max(each.at_ns for each in told),
                monotonic_ns(),
                sum(each.data_bytes for each in told),
                sum(each.stored_bytes for each in told),
            )
        )
    return stages


def with_stages(
    result: RunResult,
    load: LoadPlan,
    stages: Sequence[Stage],
    reports: Sequence[say.Report],
    start: say.Start,
) -> RunResult:
    """The result with what each exchange took, and with that as what limited the run."""
    sent = [each for report in reports for each in report.producer_channels]
    consumed = [each for report in reports for each in report.consumer_channels]
    last_ns = max((each.last_measured_ns for each in consumed), default=0)
    begun_ns = [start.start_ns, *(stage.consumed_from_ns for stage in stages)]
    ended_ns = [*(stage.complete_ns for stage in stages), last_ns]
    exchanges = []
    for index, stage in enumerate(stages):
        records = sum(
            each.sent_records for each in sent if load.channels[each.channel].edge == index
        )
        write_ns = max(1, ended_ns[index] - begun_ns[index])
        read_ns = max(1, ended_ns[index + 1] - begun_ns[index + 1])
        exchanges.append(
            BlockingExchange(
                records,
                write_ns,
                records / write_ns * 1e9,
                read_ns,
                records / read_ns * 1e9,
                stage.data_bytes,
                stage.stored_bytes,
                load.scenario.network.compression_codec,
            )
        )
    writing_ns = sum(each.write_duration_ns for each in exchanges[:1])
    total_ns = writing_ns + sum(each.read_duration_ns for each in exchanges)
    share = writing_ns / total_ns
    return replace(
        result,
        blocking=tuple(exchanges),
        limited_by=(
            "the exchange being blocking: nothing is read before all is written, which took"
            f" {share:.0%} of the time. Latency counts that wait."
        ),
    )
