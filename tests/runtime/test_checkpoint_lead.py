"""CheckpointLead: what the launcher hears of checkpoints, and what it tells."""

from __future__ import annotations

from dataclasses import replace

from flinknet.job.checkpoint_coordinator import (
    AbortCheckpoint,
    DeclineCheckpoint,
    TriggerCheckpoint,
)
from flinknet.job.load.plan import load_plan_of
from flinknet.runtime.checkpoints import create_lead
from flinknet.runtime.messages import Start
from tests.simulation import MS, scenario


def test_a_checkpoint_that_a_task_declines_is_given_up_by_all() -> None:
    each = scenario()
    each = replace(each, network=replace(each.network, checkpoint_interval_ns=MS))
    told: list[object] = []
    lead = create_lead(load_plan_of(each), Start(0, 0, None, None), told.append)
    assert lead is not None
    lead.advance()  # the first beat was due long ago
    lead.receive("what is not about checkpoints")
    lead.receive(DeclineCheckpoint("sink 0", 1, "its input has ended"))
    first, second = told
    assert isinstance(first, TriggerCheckpoint)
    assert second == AbortCheckpoint(1)
    assert lead.summary().aborted == 1
