"""One job on two TaskManagers, and what its trace, dump and result say of many rows: partitions and
gates, records that span buffers, sequence numbers, backlog and credit at every message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.results import TaskManagerDump
from flinknet.trace import open_run
from flinknet.trace.run import Run
from flinknet.trace.verify import verify_run
from tests.runtime.cluster.live_job import start_job

pytestmark = [pytest.mark.socket, pytest.mark.slow("real processes, for rules tested without")]

RECORDS = 2000
SIZE = 40 << 10
"""Bytes of a payload: with its key, more than a buffer of 32 KiB."""

JOB = f"""
SIZE = {SIZE}


def main(env):
    env.set_parallelism(2)
    made = env.generate(rate="200/s", records={RECORDS}, record_size="40kb").name("Made")
    made.rebalance().map(checked).name("Read").discard()
    env.execute("Rows")


def checked(record: tuple[int, bytes]) -> int:
    assert len(record[1]) == SIZE and not any(record[1][8:]), "its bytes are not its own"
    return record[0]
"""


@dataclass(frozen=True)
class Ended:
    """The run, its dump in mid-run, and its result."""

    run: Run
    dump: tuple[TaskManagerDump, ...]
    result: dict[str, Any]

    def of(self, point: TracePoint, kind: MessageKind, channel: int) -> dict[str, np.ndarray]:
        """The events of one channel, in order."""
        names = ("channel", "point", "kind", "data_type", "sequence_number", "backlog_buffers")
        names += ("credit_before", "credit_after", "value", "at_ns")
        found: dict[str, list[np.ndarray]] = {name: [] for name in names}
        for reader in self.run.readers():
            with reader:
                for block in reader.events(names):
                    chosen = (block["channel"] == channel) & (block["point"] == point)
                    chosen &= block["kind"] == kind
                    for name in names:
                        found[name].append(np.asarray(block[name])[chosen])
        return {name: np.concatenate(parts) for name, parts in found.items()}

    @property
    def remote(self) -> list[int]:
        """The channels over the network."""
        assert self.run.manifest is not None
        return [each.index for each in self.run.manifest.channels if not each.is_local]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    settings = {"taskmanager.load-balance.mode": "SLOTS"}
    job = start_job(tmp_path_factory.mktemp("rows"), JOB, task_managers=2, settings=settings)
    try:
        job.until_running(records=100)
        dump = job.client.dump().task_managers
        assert job.ended().state == "FINISHED"
        yield Ended(open_run(job.run_dir), dump, job.result())
    finally:
        job.kill()


@pytest.mark.row("S021")
@pytest.mark.row("S040")
@pytest.mark.row("S045")
def test_each_consumer_has_a_subpartition_of_each_producer_and_a_local_channel_at_home(
    ended: Ended,
) -> None:
    tasks = {each.name: each for one in ended.dump for each in one.tasks}
    for number in (1, 2):
        (partition,) = tasks[f"Source: Made ({number}/2)"].partitions
        assert partition.subpartitions == 2
        (gate,) = tasks[f"Read -> Sink: Discard ({number}/2)"].gates
        assert len(gate.channels) == 2
    assert ended.run.manifest is not None
    channels = ended.run.manifest.channels
    assert {(each.producer, each.consumer, each.subpartition) for each in channels} == {
        (producer, consumer, consumer) for producer in (0, 1) for consumer in (0, 1)
    }
    for each in channels:
        assert each.is_local == (each.producer_process == each.consumer_process)
    assert len(ended.remote) == 2


@pytest.mark.row("S025")
@pytest.mark.row("S054")
@pytest.mark.row("S055")
def test_records_that_span_buffers_of_two_channels_arrive_whole(ended: Ended) -> None:
    assert ended.result["state"] == "finished"  # else a record had bytes of another
    made, read = ended.result["vertices"]
    assert made["records_out"] == read["records_in"] == RECORDS


@pytest.mark.row("S023")
def test_round_robin_gives_every_consumer_the_same_number_of_records(ended: Ended) -> None:
    (_, read) = ended.result["vertices"]
    counts = [task["metrics"]["numRecordsIn"] for task in read["tasks"]]
    assert sum(counts) == RECORDS
    assert abs(counts[0] - counts[1]) <= 2


@pytest.mark.row("S048")
@pytest.mark.row("S082")
@pytest.mark.row("S089")
def test_buffers_of_a_channel_are_numbered_and_arrive_in_that_order(ended: Ended) -> None:
    assert verify_run(ended.run).is_ok
    for channel in ended.remote:
        for point in (TracePoint.SENT, TracePoint.RECEIVED):
            found = ended.of(point, MessageKind.BUFFER_RESPONSE, channel)["sequence_number"]
            assert len(found) > RECORDS / 4
            assert np.array_equal(found, np.arange(len(found)))


@pytest.mark.row("S087")
@pytest.mark.row("S099")
@pytest.mark.row("S109")
def test_a_data_buffer_costs_one_credit_an_event_none_and_announced_credit_adds_up(
    ended: Ended,
) -> None:
    for channel in ended.remote:
        sent = ended.of(TracePoint.SENT, MessageKind.BUFFER_RESPONSE, channel)
        is_data = np.isin(sent["data_type"], list(IS_BUFFER))
        cost = (sent["credit_before"] - sent["credit_after"])[is_data]
        assert (cost == 1).all()
        assert (sent["credit_before"][is_data] >= 1).all()
        added = ended.of(TracePoint.RECEIVED, MessageKind.ADD_CREDIT, channel)
        assert np.array_equal(added["credit_after"] - added["credit_before"], added["value"])
        first = (
            sent["credit_before"][is_data][0]
            - added["value"][added["at_ns"] <= sent["at_ns"][is_data][0]].sum()
        )
        assert first == 2  # exclusive buffers
        left = first + added["value"].sum() - is_data.sum()
        assert left >= 0


@pytest.mark.row("S034")
@pytest.mark.row("S059")
def test_the_backlog_travels_with_each_data_buffer_and_is_announced_as_credit(ended: Ended) -> None:
    for channel in ended.remote:
        sent = ended.of(TracePoint.SENT, MessageKind.BUFFER_RESPONSE, channel)
        is_data = np.isin(sent["data_type"], list(IS_BUFFER))
        assert (sent["backlog_buffers"][is_data] >= 0).all()
        assert sent["backlog_buffers"][is_data].max() >= 1
        received = ended.of(TracePoint.RECEIVED, MessageKind.BUFFER_RESPONSE, channel)
        assert np.array_equal(received["backlog_buffers"], sent["backlog_buffers"])
        announced = ended.of(TracePoint.SENT, MessageKind.ADD_CREDIT, channel)["value"]
        assert announced.max() >= 2  # floating buffers, for a backlog
