"""A job that fails again and again waits longer and longer."""

from __future__ import annotations

import pytest

from flinknet.graph.job_config import job_config
from flinknet.runtime.cluster.job_state import (
    INITIAL_NS,
    MAX_NS,
    RESET_NS,
    ExponentialDelay,
    RestartStrategy,
)

S = 1_000_000_000


def test_the_delay_grows_by_half_up_to_a_minute() -> None:
    delay, now_ns, waits = ExponentialDelay(), 0, []
    for _ in range(13):
        restart_at_ns = delay.restart_at_ns(now_ns=now_ns)
        waits.append(restart_at_ns - now_ns)
        now_ns = restart_at_ns + 1
    assert waits[:4] == [S, 3 * S // 2, 9 * S // 4, 27 * S // 8]
    assert waits[-2:] == [MAX_NS, MAX_NS]


def test_failures_while_it_passes_share_a_restart() -> None:
    delay = ExponentialDelay()
    assert [delay.restart_at_ns(now_ns=at) for at in (0, S // 2, S)] == [INITIAL_NS] * 3
    assert delay.restart_at_ns(now_ns=S + 1) == S + 1 + 3 * S // 2


def test_after_an_hour_without_failure_it_begins_anew() -> None:
    delay = ExponentialDelay()
    delay.restart_at_ns(now_ns=0)
    again_ns = delay.restart_at_ns(now_ns=2 * S)
    late_ns = again_ns + RESET_NS + 3 * S // 2
    assert delay.restart_at_ns(now_ns=late_ns) == late_ns + INITIAL_NS


@pytest.mark.parametrize(
    ("name", "may_restart"),
    [
        ("off", False),
        ("exponential-delay", True),
        ("exponentialdelay", True),
        ("failurerate", True),
    ],
)
def test_a_strategy_of_flink_has_the_nearest_of_flinknets(name: str, may_restart: bool) -> None:
    config, warnings = job_config({"restart-strategy.type": name})
    assert RestartStrategy(config).may_restart(1000) is may_restart
    assert len(warnings) == (name == "failurerate")
