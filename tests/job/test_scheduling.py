"""When a vertex may start, and what becomes of a channel whose producer has no partition yet."""

from __future__ import annotations

import itertools
from functools import partial

import pytest

from flinknet.config import PARTITION_TYPES, SCHEDULINGS, Scenario, WorkloadConfig
from flinknet.core.consumer.request_backoff import RequestBackoffPolicy
from flinknet.core.producer import ResultPartitionType
from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.core.wire.java_errors import PARTITION_NOT_FOUND_EXCEPTION, JavaThrowable
from flinknet.core.wire.messages import ErrorResponse, PartitionRequest
from flinknet.errors import ConfigError, PartitionError, PartitionNotFoundError
from flinknet.graph.execution_graph import ExecutionState
from flinknet.graph.job_config import ALL, ANY
from flinknet.job.load.plan import load_plan_of
from flinknet.job.scheduling import (
    ANSWER_WAIT_NS,
    PartitionState,
    ProducerStateChecks,
    RequestPartitionState,
    has_output,
    may_start,
    scheduling_of,
)
from tests.pair import Consumer, partition_id, partition_of, records_of

VALID = {
    ("pipelined", "all-at-once"),
    ("pipelined-bounded", "first-output"),
    ("blocking", "complete-output"),
    # since pipelined regions
    ("pipelined-bounded", "all-at-once"),
    ("pipelined-approximate", "all-at-once"),
}


def scenario_of(partition_type: str, scheduling: str | None) -> Scenario:
    return Scenario(workload=WorkloadConfig(partition_type=partition_type, scheduling=scheduling))


@pytest.mark.row("S019")
@pytest.mark.parametrize(
    ("partition_type", "scheduling"), list(itertools.product(PARTITION_TYPES, SCHEDULINGS))
)
def test_what_is_not_in_the_table_is_refused(partition_type: str, scheduling: str) -> None:
    scenario = scenario_of(partition_type, scheduling)
    if (partition_type, scheduling) in VALID:
        assert scheduling_of(scenario).value == scheduling
        load_plan_of(scenario)
        return
    words = f"{scheduling} does not go with {partition_type} exchanges; they have "
    with pytest.raises(ConfigError, match=words):
        load_plan_of(scenario)


@pytest.mark.parametrize("partition_type", PARTITION_TYPES)
def test_without_being_asked_only_blocking_exchanges_wait(partition_type: str) -> None:
    expected = "complete-output" if partition_type == "blocking" else "all-at-once"
    assert scheduling_of(scenario_of(partition_type, None)).value == expected


@pytest.mark.row("S020")
@pytest.mark.parametrize(
    ("inputs", "with_all", "with_any"),
    [
        ([], True, True),
        ([False], False, False),
        ([True], True, True),
        ([True, False], False, True),
        ([False, False], False, False),
        ([True, True], True, True),
    ],
)
def test_a_vertex_waits_for_all_or_for_any_of_its_inputs(
    inputs: list[bool], with_all: bool, with_any: bool
) -> None:
    assert may_start(inputs, ALL) == with_all
    assert may_start(inputs, ANY) == with_any


def test_a_partition_has_output_from_its_first_record_on_and_at_its_end() -> None:
    partition, _ = partition_of()
    assert partition.partition_type is ResultPartitionType.PIPELINED_BOUNDED
    assert not has_output(partition)
    partition.emit(0, records_of([10]))
    assert has_output(partition)
    partition.finish()
    assert has_output(partition)


ATTEMPT = partition_id(1).producer_id
ASKED = RequestPartitionState(ATTEMPT, partition_id())
_S = ExecutionState


class Asking:
    """An attempt whose channels were all refused the one partition that they read."""

    def __init__(self, channels: int = 2) -> None:
        self.questions: list[RequestPartitionState] = []
        self.canceled: list[ExecutionAttemptID] = []
        self.checks = ProducerStateChecks(self.questions.append, self.canceled.append)
        self.input = Consumer(channels=channels)
        for channel in self.input.channels:
            channel.check_producer = partial(self.checks.check, ATTEMPT)
        self.input.sent()
        self.refuse()

    def refuse(self) -> None:
        cause = JavaThrowable(PARTITION_NOT_FOUND_EXCEPTION, "not there")
        self.input.receive(*(ErrorResponse(cause, each.receiver_id) for each in self.channels))

    @property
    def channels(self) -> list:  # type: ignore[type-arg]
        return self.input.channels

    def answer(self, state: ExecutionState | None, error: str = "") -> None:
        self.checks.receive(PartitionState(ATTEMPT, partition_id(), state, error), now_ns=1)

    def requests(self) -> int:
        sent = self.input.sent()
        assert all(isinstance(each, PartitionRequest) for each in sent)
        return len(sent)

    def errors(self) -> list[type]:
        return [type(each.error) for each in self.channels]


def test_nothing_is_requested_and_nothing_fails_before_the_producer_was_asked_for() -> None:
    asking = Asking()
    assert asking.questions == [ASKED]  # once, for both
    assert asking.requests() == 0
    assert asking.errors() == [type(None)] * 2


@pytest.mark.parametrize(
    "state", [_S.SCHEDULED, _S.DEPLOYING, _S.INITIALIZING, _S.RUNNING, _S.FINISHED]
)
def test_a_producer_that_has_it_or_will_is_asked_again_while_patience_lasts(
    state: ExecutionState,
) -> None:
    asking = Asking()
    asking.answer(state)
    assert asking.requests() == 2
    asking.refuse()
    assert asking.questions == [ASKED] * 2
    asking.answer(state)  # by default one repetition is all
    assert asking.requests() == 0
    assert asking.errors() == [PartitionNotFoundError] * 2
    assert not asking.canceled


@pytest.mark.parametrize("state", [_S.CANCELING, _S.CANCELED, _S.FAILED, None])
def test_a_producer_that_is_over_takes_its_consumer_along(state: ExecutionState | None) -> None:
    asking = Asking()
    asking.answer(state)
    assert asking.canceled == [ATTEMPT]
    assert asking.requests() == 0
    assert asking.errors() == [type(None)] * 2


@pytest.mark.parametrize(("state", "error"), [(_S.CREATED, ""), (None, "no such data set")])
def test_an_answer_that_makes_no_sense_fails_the_consumer(
    state: ExecutionState | None, error: str
) -> None:
    asking = Asking()
    asking.answer(state, error)
    assert asking.errors() == [PartitionError] * 2
    assert (error or "unexpected state") in str(asking.channels[0].error)
    assert not asking.canceled


def test_no_answer_in_time_counts_as_a_producer_that_runs() -> None:
    asking = Asking()
    assert asking.checks.next_deadline_ns() == ANSWER_WAIT_NS
    asking.checks.handle_deadline(now_ns=ANSWER_WAIT_NS - 1)
    assert asking.requests() == 0
    asking.checks.handle_deadline(now_ns=ANSWER_WAIT_NS)
    assert asking.requests() == 2
    assert asking.checks.next_deadline_ns() is None
    asking.answer(_S.FAILED)  # late: nobody waits for it
    assert not asking.canceled


def test_an_answer_to_a_consumer_that_is_over_does_nothing() -> None:
    asking = Asking()
    for channel in asking.channels:
        channel.release()
    asking.input.sent()
    for state in (_S.RUNNING, _S.FAILED, _S.CREATED):
        asking.refuse()
        asking.answer(state)
    assert asking.requests() == 0
    assert not asking.canceled


def test_a_request_waits_where_producers_refuse_at_once() -> None:
    asking = Asking(channels=1)
    asking.input.connection.backoff_policy = RequestBackoffPolicy(listener_timeout_ns=0)
    asking.answer(_S.RUNNING)
    assert asking.requests() == 0
    due_ns = asking.input.connection.next_deadline_ns()
    assert due_ns == 1 + 100_000_000
    asking.input.connection.handle_deadline(now_ns=due_ns)
    assert asking.requests() == 1
