"""Which exchange goes with which scheduling, and when a vertex may start."""

from __future__ import annotations

import itertools

import pytest

from flinknet.config import PARTITION_TYPES, SCHEDULINGS, Scenario, WorkloadConfig
from flinknet.core.producer import ResultPartitionType
from flinknet.errors import ConfigError
from flinknet.graph.job_config import ALL, ANY
from flinknet.job.load.plan import load_plan_of
from flinknet.job.scheduling import (
    USES,
    SchedulingType,
    is_consumable,
    may_start,
    scheduling_of,
)
from tests.pair import partition_of, records_of

CLASSIC = {
    ("pipelined", "all-at-once"): "streaming",
    ("pipelined-bounded", "first-output"): "batch",
    ("blocking", "complete-output"): "batch",
}
REGIONS = {
    ("pipelined-bounded", "all-at-once"): "streaming",
    ("pipelined-approximate", "all-at-once"): "streaming",
}


def scenario_of(partition_type: str, scheduling: str | None) -> Scenario:
    return Scenario(workload=WorkloadConfig(partition_type=partition_type, scheduling=scheduling))


def test_the_table_is_flinks() -> None:
    table = {(kind.label, when.value): use for (kind, when), use in USES.items()}
    assert table == CLASSIC | REGIONS
    assert [when.value for when in SchedulingType] == list(SCHEDULINGS)


@pytest.mark.row("S019")
@pytest.mark.parametrize(
    ("partition_type", "scheduling"), list(itertools.product(PARTITION_TYPES, SCHEDULINGS))
)
def test_what_is_not_in_the_table_is_refused(partition_type: str, scheduling: str) -> None:
    scenario = scenario_of(partition_type, scheduling)
    if (partition_type, scheduling) in CLASSIC | REGIONS:
        assert scheduling_of(scenario).value == scheduling
        load_plan_of(scenario)
        return
    words = f"{scheduling} does not go with {partition_type} exchanges; they have "
    with pytest.raises(ConfigError, match=words):
        load_plan_of(scenario)


def test_a_scheduling_that_is_none_is_told() -> None:
    with pytest.raises(ConfigError, match="'soon' is not known; choose from all-at-once"):
        scheduling_of(scenario_of("pipelined", "soon"))


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


def test_a_partition_can_be_consumed_at_once_with_its_first_record_or_at_its_end() -> None:
    partition, _ = partition_of()
    assert partition.partition_type is ResultPartitionType.PIPELINED_BOUNDED

    def states() -> list[bool]:
        return [is_consumable(partition, when) for when in SchedulingType]

    assert states() == [True, False, False]
    partition.emit(0, records_of([10]))
    assert states() == [True, True, False]
    partition.finish()
    assert states() == [True, True, True]
