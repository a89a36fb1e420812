"""Jobs with one thing wrong, or with nothing, drawn from a seed: which task is slow and why, how
many subtasks there are, how large records are, where tasks are placed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from bench.flink.exchange import Exchange, Stage
from bench.flink.slowed import FEW_BUFFERS, Case
from flinknet.errors import ConfigError

EXPIRING = {
    "execution.checkpointing.timeout": "3 s",
    "execution.checkpointing.tolerable-failed-checkpoints": "1000",
}
"""Checkpoints that a job survives although they expire."""

UNALIGNED = EXPIRING | {
    "execution.checkpointing.timeout": "500 ms",
    "execution.checkpointing.unaligned.enabled": "true",
}
"""Unaligned checkpoints wait for the record that a task works on, and expire."""

RESTARTING = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "3",
    "restart-strategy.fixed-delay.delay": "500 ms",
}
"""A job that fails goes on."""

STAGES = 3
"""Tasks behind the sources: two relays and a sink."""


def incidents(seed: int, count: int, base: Exchange, kinds: str = "") -> list[Case]:
    """Cases of all kinds in turn; the same ones for the same seed.

    Args:
        base: with duration, warm-up and buffer timeout.
        kinds: parts of their names, separated by commas; empty for all.

    Raises:
        ConfigError: there is no such kind.
    """
    random = Random(seed)
    wanted = [kind for kind in _KINDS if any(each in kind for each in kinds.split(","))]
    if not wanted:
        raise ConfigError(f"--kinds: none is {kinds!r}; there are {', '.join(_KINDS)}")
    return [
        replace(found, name=f"{number}: {kind}")
        for number in range(1, count + 1)
        for kind in [wanted[(number - 1) % len(wanted)]]
        for found in [_KINDS[kind](_Drawn(random, base))]
    ]


class _Drawn:
    """What the cases of one number have in common.

    Attributes:
        calm: a job that has time left everywhere.
        at: index of the stage with which something is wrong.
        name: of that stage's vertex.
        record_ns: the time that a subtask of a stage has for a record.
    """

    def __init__(self, random: Random, base: Exchange) -> None:
        self.random = random
        self.parallelism = random.choice((2, 3))
        rate_per_s = random.choice((200.0, 300.0, 400.0))
        self.record_ns = 1e9 / rate_per_s
        self.at = random.randrange(STAGES)
        self.name = f"stage-{self.at + 1}" if self.at < STAGES - 1 else "sink"
        self.subtask = random.randrange(self.parallelism)
        self.calm = replace(
            base,
            producers=self.parallelism,
            consumers=self.parallelism,
            rate_per_s=rate_per_s,
            value_bytes=random.choice((1_000, 4_000, 8_000)),
            arrivals="poisson",
            placement=random.choice(("split", "spread")),
            partitioner="rebalance",
            relays=(Stage(self.parallelism), Stage(self.parallelism)),
            seed=random.randrange(1_000),
        )

    @property
    def task(self) -> str:
        """Name of the slow subtask."""
        return f"{self.name} ({self.subtask + 1}/{self.parallelism})"

    def with_stage(self, at: int, stage: Stage, exchange: Exchange | None = None) -> Exchange:
        """The job with another stage."""
        exchange = exchange or self.calm
        if at < STAGES - 1:
            relays = (*exchange.relays[:at], stage, *exchange.relays[at + 1 :])
            return replace(exchange, relays=relays)
        return replace(
            exchange,
            partitioner=stage.partitioner,
            sink_delay_ns=stage.service_ns,
            slow_sink=stage.slow_subtask,
            hot_share=stage.hot_share,
        )

    def stage(self, load: float, **more: object) -> Stage:
        """A stage whose subtasks would be busy for so much of the time, or more than they have."""
        return Stage(self.parallelism, service_ns=round(load * self.record_ns), **more)  # type: ignore[arg-type]


def _one_slow(drawn: _Drawn) -> Case:
    stage = drawn.stage(drawn.random.uniform(1.3, 3.0), slow_subtask=drawn.subtask)
    return Case("", drawn.with_stage(drawn.at, stage), ("slow-subtask",), drawn.task)


def _all_slow(drawn: _Drawn) -> Case:
    stage = drawn.stage(drawn.random.uniform(1.2, 2.0))
    return Case("", drawn.with_stage(drawn.at, stage), ("slow-tasks",), drawn.name)


def _hot_key(drawn: _Drawn) -> Case:
    share = drawn.random.uniform(0.6, 0.8)
    load = drawn.random.uniform(1.2, 1.5) / (share * drawn.parallelism)
    stage = drawn.stage(load, partitioner="hash", hot_share=share)
    return Case("", drawn.with_stage(drawn.at, stage), ("skew",), drawn.name)


def _slow_behind_busy(drawn: _Drawn) -> Case:
    last = drawn.random.randrange(1, STAGES)
    busy = drawn.with_stage(last - 1, drawn.stage(drawn.random.uniform(0.6, 0.75)))
    slow = drawn.with_stage(last, drawn.stage(drawn.random.uniform(1.3, 2.0)), busy)
    return Case("", slow, ("slow-tasks",), f"stage-{last + 1}" if last < STAGES - 1 else "sink")


def _behind_local_channels(drawn: _Drawn) -> Case:
    relays = (Stage(drawn.parallelism), Stage(1))
    rate_per_s = (drawn.calm.rate_per_s or 0.0) / drawn.parallelism
    slow = replace(
        drawn.calm,
        rate_per_s=rate_per_s,
        consumers=1,
        relays=relays,
        placement="spread",
        sink_delay_ns=round(drawn.random.uniform(1.3, 2.0) * drawn.record_ns),
    )
    return Case("", slow, ("slow-tasks",), "sink")


def _expiring(drawn: _Drawn) -> Case:
    found = _one_slow(drawn)
    exchange = replace(found.exchange, checkpoint_interval_ms=1_000, value_bytes=8_000)
    return replace(found, exchange=exchange, keys=EXPIRING)


def _computing(drawn: _Drawn) -> Case:
    load = drawn.random.uniform(1.3, 2.0)
    at = drawn.random.randrange(STAGES - 1)
    stage = drawn.stage(load, slow_subtask=drawn.subtask, is_computing=True)
    task = f"stage-{at + 1} ({drawn.subtask + 1}/{drawn.parallelism})"
    return Case("", drawn.with_stage(at, stage), ("slow-subtask",), task)


def _expiring_unaligned(drawn: _Drawn) -> Case:
    rare = replace(drawn.calm, rate_per_s=2.0, checkpoint_interval_ms=1_000)
    service_ns = round(drawn.random.uniform(0.7, 0.9) * 1e9)
    stage = Stage(drawn.parallelism, service_ns=service_ns, slow_subtask=drawn.subtask)
    exchange = drawn.with_stage(drawn.at, stage, rare)
    return Case("", exchange, ("slow-subtask",), drawn.task, keys=UNALIGNED)


def _slow_link(drawn: _Drawn) -> Case:
    calm = replace(drawn.calm, placement="split", rate_per_s=400.0, value_bytes=4_000)
    needed = 400.0 * drawn.parallelism * calm.wire_bytes
    links: list[int | None] = [None, None]
    at = drawn.random.randrange(2)
    # the first TaskManager sends two exchanges, the second one
    links[at] = round(drawn.random.uniform(0.5, 0.7) * needed * (2 - at))
    return Case("", calm, ("network",), slow_links=tuple(links))


def _just_restarted(drawn: _Drawn) -> Case:
    fails = Stage(drawn.parallelism, fails_after_ns=round(drawn.random.uniform(3, 6) * 1e9))
    exchange = replace(drawn.with_stage(0, fails), checkpoint_interval_ms=1_000, warmup_ns=0)
    return Case("", exchange, HEALTHY, keys=RESTARTING)


def _host_stops(drawn: _Drawn) -> Case:
    calm = replace(drawn.calm, placement="split")
    return Case("", calm, ("slow-host",), stopped=drawn.random.randrange(2))


def _few_buffers(drawn: _Drawn) -> Case:
    fast = replace(drawn.calm, rate_per_s=8_000 / drawn.parallelism, value_bytes=2_000)
    return Case("", fast, ("few-buffers",), keys=FEW_BUFFERS, only="1.")


def _bursts(drawn: _Drawn) -> Case:
    stage = drawn.stage(drawn.random.uniform(0.1, 0.2))
    exchange = replace(drawn.with_stage(drawn.at, stage), arrivals="onoff")
    return Case("", exchange, HEALTHY)


def _nearly_saturated(drawn: _Drawn) -> Case:
    stage = drawn.stage(drawn.random.uniform(0.6, 0.75))
    return Case("", drawn.with_stage(drawn.at, stage), HEALTHY)


def _just_started(drawn: _Drawn) -> Case:
    exchange = replace(
        drawn.calm, warmup_ns=0, duration_ns=6_000_000_000, checkpoint_interval_ms=1_000
    )
    return Case("", exchange, HEALTHY)


HEALTHY = ("none", "buffer-timeout")

_KINDS: Mapping[str, Callable[[_Drawn], Case]] = {
    "one slow subtask": _one_slow,
    "all subtasks slow": _all_slow,
    "hot key": _hot_key,
    "healthy, in bursts": _bursts,
    "slow behind a busy one": _slow_behind_busy,
    "behind local channels": _behind_local_channels,
    "a TaskManager stops": _host_stops,
    "healthy, nearly saturated": _nearly_saturated,
    "checkpoints expire": _expiring,
    "few buffers": _few_buffers,
    "healthy, just started": _just_started,
    "computing": _computing,
    "unaligned checkpoints expire": _expiring_unaligned,
    "a slow link": _slow_link,
    "healthy, just restarted": _just_restarted,
}
