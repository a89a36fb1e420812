"""Names for channels that were open before the capture, from where the tasks of jobs run.

Only a PartitionRequest names a partition. Without it, the connection shows the two TaskManagers,
and each buffer its subpartition. The plan says which channels of that kind go from the one to the
other. Where several do, the number of buffers decides between edges: Flink counts those that each
subtask received, and sequence numbers count those of a channel. Buffers that leave together belong
to one producer, because a flusher serves all channels of its task. Which one, records decide where
producers differ in them; where they do not, nothing on the wire or in Flink's metrics does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from math import log
from typing import Final

from flinknet.core.wire import ids
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.graph.running_job import RunningJob, RunningTaskManager, RunningVertex, wiring_of

from ..channels import ObservedChannel

TOGETHER_NS: Final = 1_000_000
"""Longest time between the buffers of one flush, in ns."""

FLUSHES_COMPARED: Final = 12
"""Fewest looks that two channels are compared in."""

TIMES_BETTER: Final = 2.0
"""Factor by which the number of buffers must fit an edge better than any other to be certain."""

APART_S, APART_MIN = 20.0, 0.02
"""Share by which producers of one TaskManager must differ in records to be certain: this time, in
which Flink's counters and the channels may count different records, divided by the time compared,
but not less than this minimum. Both must agree on it by half of that."""

RECORDS_MIN: Final = 1_000
"""Fewest records of a producer that are compared."""

Subtask = tuple[str, str, int]
"""Id of the job, id of the vertex, and index."""


@dataclass(frozen=True, slots=True)
class _Slot:
    """A channel of the plan between two TaskManagers."""

    job: RunningJob
    source: RunningVertex
    target: RunningVertex
    input_number: int
    producer: int
    consumer: int
    subpartition: int

    @property
    def edge(self) -> tuple[str, str, int]:
        return self.job.id, str(self.target.id), self.input_number

    @property
    def receiver(self) -> Subtask:
        return self.job.id, str(self.target.id), self.consumer

    @property
    def partition_id(self) -> ResultPartitionID:
        """A partition of this producer. Ids of data set and execution are those of consumer and
        job, as the real ones are not known."""
        raw = self.target.id.raw
        data_set = ids.IntermediateDataSetID(raw[:-1] + bytes([raw[-1] ^ (1 + self.input_number)]))
        attempts = {each.index: each.attempt for each in self.source.subtasks}
        return ResultPartitionID(
            ids.IntermediateResultPartitionID(data_set, self.producer),
            ids.ExecutionAttemptID(
                ids.ExecutionGraphID(bytes.fromhex(self.job.id)),
                ids.ExecutionVertexID(self.source.id, self.producer),
                attempts.get(self.producer, 0),
            ),
        )


@dataclass(slots=True)
class Places:
    """Places channels, again and again, as more is known of them."""

    placed: set[int] = field(default_factory=set)  # numbers of channels with a name in this way
    uncertain: set[int] = field(default_factory=set)  # of these, where several tasks fit
    _together: Counter[tuple[int, int]] = field(default_factory=Counter)
    _looks: Counter[tuple[int, int]] = field(default_factory=Counter)
    _last_ns: dict[int, int] = field(default_factory=dict)
    _before: dict[int, tuple[int, int]] = field(default_factory=dict)  # records, instant
    _sent_before: dict[Subtask, float] = field(default_factory=dict)

    def look(self, channels: Iterable[ObservedChannel]) -> None:
        """Compare the newest buffers of channels of one connection; to be called several times a
        second."""
        moved: dict[str, list[ObservedChannel]] = {}
        for each in channels:
            if self._is_open(each) and each.last_ns != self._last_ns.get(each.index):
                self._last_ns[each.index] = each.last_ns or 0
                moved.setdefault(each.ends.connection, []).append(each)
        for group in moved.values():
            for one, other in combinations(group[:64], 2):
                self._looks[one.index, other.index] += 1
                apart_ns = abs((one.last_ns or 0) - (other.last_ns or 0))
                self._together[one.index, other.index] += apart_ns <= TOGETHER_NS

    def place(
        self,
        channels: Iterable[ObservedChannel],
        jobs: Sequence[RunningJob],
        task_managers: Sequence[RunningTaskManager],
        received: Mapping[Subtask, float],
        sent: Mapping[Subtask, float],
    ) -> None:
        """Give partitions to channels whose request was missed, by the buffers that each subtask
        has received from other TaskManagers, and the records that it has sent."""
        slots: dict[tuple[str, str], list[_Slot]] = {}
        remote: Counter[Subtask] = Counter()
        for ends, slot in _slots(jobs):
            slots.setdefault(ends, []).append(slot)
            remote[slot.receiver] += 1
        of_connection: dict[str, list[ObservedChannel]] = {}
        for each in channels:
            if self._is_open(each) and each.subpartitions is not None:
                of_connection.setdefault(each.ends.connection, []).append(each)
        groups: dict[tuple[str, str], dict[int, list[ObservedChannel]]] = {}
        for ends, own in _with_task_managers(of_connection.values(), task_managers, slots):
            at = groups.setdefault(ends, {})
            for each in own:
                assert each.subpartitions is not None
                at.setdefault(each.subpartitions[0], []).append(each)
                self._before.setdefault(each.index, (each.records, each.last_ns or 0))
        self._sent_before = {**sent, **self._sent_before}
        for ends, of_subpartition in groups.items():
            siblings: set[int] = set()
            for subpartition, group in of_subpartition.items():
                fitting = [one for one in slots.get(ends, ()) if one.subpartition == subpartition]
                siblings |= self._assign(group, fitting, received, remote)
            unsure = self.uncertain  # other channels keep their names
            doubtful = [[x for x in own if x.index in unsure] for own in of_subpartition.values()]
            self._agree(doubtful)
            self.uncertain -= siblings & self._order(chain.from_iterable(doubtful), sent)

    def _is_open(self, channel: ObservedChannel) -> bool:
        is_unnamed = channel.partition_id is None or channel.index in self.placed
        return is_unnamed and not channel.is_ended

    def _assign(
        self,
        group: list[ObservedChannel],
        slots: list[_Slot],
        received: Mapping[Subtask, float],
        remote: Mapping[Subtask, int],
    ) -> set[int]:
        """Assign channels to slots in the order of their numbers of buffers. Returns: the channels
        of which only the producer among several tasks of an edge is not certain."""

        def expected(slot: _Slot) -> float:
            return received.get(slot.receiver, 0.0) / remote[slot.receiver]

        edges = {each.edge: expected(each) for each in slots}
        if len(group) != len(slots) or (len(edges) > 1 and not all(edges.values())):
            return set()
        group.sort(key=_sent)
        slots.sort(key=lambda each: (edges[each.edge], each.edge, each.producer))
        siblings = set()
        for channel, slot in zip(group, slots, strict=True):
            fits = [
                abs(log(max(_sent(channel), 1) / edges[each])) if edges[each] else 0.0
                for each in (slot.edge, *(other for other in edges if other != slot.edge))
            ]
            is_one = len(edges) == 1 or fits[0] * TIMES_BETTER < min(fits[1:])
            is_only = sum(each.edge == slot.edge for each in slots) == 1
            (self.uncertain.discard if is_one and is_only else self.uncertain.add)(channel.index)
            if is_one:
                siblings.add(channel.index)
            self.placed.add(channel.index)
            channel.partition_id = slot.partition_id
        return siblings

    def _agree(self, groups: list[list[ObservedChannel]]) -> None:
        """Let channels of one edge whose buffers leave together have one producer: those of the
        first subpartition keep theirs."""
        first: dict[bytes, list[ObservedChannel]] = {}
        for group in groups:
            own: dict[bytes, list[ObservedChannel]] = {}
            for each in group:
                if each.partition_id is not None:
                    partition = each.partition_id.partition_id
                    own.setdefault(partition.intermediate_data_set_id.raw, []).append(each)
            for data_set, members in own.items():
                leaders = first.setdefault(data_set, members)
                if leaders is members or len(leaders) != len(members) or len(members) < 2:
                    continue
                pairs = sorted(
                    ((self._share(one, other), one.index, other.index) for one in leaders
                     for other in members),
                    reverse=True,
                )  # fmt: skip
                free = {each.index: each.partition_id for each in leaders}
                left = {each.index: each for each in members}
                for _, one, other in pairs:
                    if one in free and other in left:
                        left.pop(other).partition_id = free.pop(one)

    def _share(self, one: ObservedChannel, other: ObservedChannel) -> float:
        """Share of looks in which the buffers of two channels had left together."""
        key = min(one.index, other.index), max(one.index, other.index)
        looks = self._looks[key]
        return self._together[key] / looks if looks >= FLUSHES_COMPARED else 0.0

    def _order(
        self, channels: Iterable[ObservedChannel], sent: Mapping[Subtask, float]
    ) -> set[int]:
        """Exchange the producers of an edge so that those that have sent most have the channels
        with most records, since the first call or, before anything has been counted since, in all.
        Returns: the channels of which this makes the producer certain."""

        def sent_by(partition: ResultPartitionID) -> tuple[float, float]:
            producer = partition.producer_id
            vertex = producer.execution_vertex_id
            key = str(producer.execution_graph_id), str(vertex.job_vertex_id), vertex.subtask_index
            count = sent.get(key, 0.0)
            return count - self._sent_before.get(key, 0.0), count

        def passed(*group: ObservedChannel) -> tuple[int, int]:
            count = sum(each.records for each in group)
            return count - sum(self._before[each.index][0] for each in group), count

        edges: dict[bytes, dict[ResultPartitionID, list[ObservedChannel]]] = {}
        for each in channels:
            if (found := each.partition_id) is not None:
                data_set = found.partition_id.intermediate_data_set_id.raw
                edges.setdefault(data_set, {}).setdefault(found, []).append(each)
        certain: set[int] = set()
        for of_producer in edges.values():
            partitions = sorted(of_producer, key=sent_by)
            groups = sorted(of_producer.values(), key=lambda group: passed(*group))
            by_subpartition: dict[tuple[int, int] | None, list[int]] = {}
            for partition, group in zip(partitions, groups, strict=True):
                for each in group:
                    each.partition_id = partition
                    by_subpartition.setdefault(each.subpartitions, []).append(passed(each)[0])
            counted = [sent_by(each)[0] for each in partitions]
            own = [each for group in groups for each in group]
            least_ns = min((each.last_ns or 0) - self._before[each.index][1] for each in own)
            apart = max(APART_S * 1e9 / max(least_ns, 1), APART_MIN)
            if all(_are_apart(each, counted, apart) for each in by_subpartition.values()):
                certain |= {each.index for each in own}
        return certain


def _are_apart(passed: Sequence[float], sent: Sequence[float], apart: float) -> bool:
    """Whether the records of channels grow by the same large steps as those of their producers."""
    if len(passed) != len(sent) or min(*passed, *sent) < RECORDS_MIN:
        return False
    steps = [(sent[at] / sent[at - 1], passed[at] / passed[at - 1]) for at in range(1, len(sent))]
    alike = 1 + apart / 2
    return all(min(pair) >= 1 + apart and max(pair) <= alike * min(pair) for pair in steps)


def _sent(channel: ObservedChannel) -> int:
    return channel.next_sequence_number or 0


def _slots(jobs: Iterable[RunningJob]) -> Iterator[tuple[tuple[str, str], _Slot]]:
    for job, target in ((each, vertex) for each in jobs for vertex in each.vertices):
        for number, joined in enumerate(target.inputs):
            source = job.vertex(joined.source)
            if source is None:
                continue
            senders, receivers = source.task_managers, target.task_managers
            for producer, consumer, subpartition in wiring_of(source, target, joined):
                sender, receiver = senders[producer], receivers[consumer]
                if sender is not None and receiver is not None and sender != receiver:
                    slot = _Slot(job, source, target, number, producer, consumer, subpartition)
                    yield (sender, receiver), slot


def _with_task_managers(
    connections: Iterable[list[ObservedChannel]],
    known: Sequence[RunningTaskManager],
    slots: Mapping[tuple[str, str], Sequence[_Slot]],
) -> Iterator[tuple[tuple[str, str], list[ObservedChannel]]]:
    """The TaskManagers of each connection's two ends, where addresses and the plan leave no choice:
    of several TaskManagers on the consumer's host, the one to which the plan leads these
    subpartitions, and that has no other connection to the producer."""
    open_ones = []
    for own in connections:
        producer, consumers = _task_managers_of(own[0], known)
        if len(consumers) > 1:
            seen = Counter(each.subpartitions for each in own)
            consumers = {
                each
                for each in consumers
                if seen
                <= Counter((slot.subpartition,) * 2 for slot in slots.get((producer, each), ()))
            }
        open_ones.append((producer, consumers, own))
    while open_ones:
        certain = [each for each in open_ones if len(each[1]) == 1]
        open_ones = [each for each in open_ones if len(each[1]) > 1]
        for producer, consumers, own in certain:
            yield (producer, next(iter(consumers))), own
            for other, left, _ in open_ones:
                if other == producer:
                    left -= consumers
        if not certain:
            return


def _task_managers_of(
    channel: ObservedChannel, known: Sequence[RunningTaskManager]
) -> tuple[str, set[str]]:
    """The TaskManager of a channel's producer, and those that its consumer's address may be; none
    where the producer is not certain."""
    host, _, port = channel.ends.producer.rpartition(":")
    producers = [each for each in known if str(each.data_port) == port]
    if len(producers) > 1:
        producers = [each for each in producers if host.strip("[]") in each.addresses]
    if len(producers) != 1:
        return "", set()
    others = [each for each in known if each is not producers[0]]
    host = channel.ends.consumer.rpartition(":")[0].strip("[]")
    consumers = [each for each in others if host in each.addresses] if len(others) > 1 else others
    return producers[0].id, {each.id for each in consumers}
