"""Jobs from seeds: what people run, as far as two cores carry it."""

from __future__ import annotations

import random
from dataclasses import replace
from math import exp, log

from bench.flink.exchange import Exchange, Stage
from flinknet.units import human_bytes, human_count, human_duration

MOST_STAGES = 4
MOST_TASKS = 20
MOST_RECORDS_PER_S = 8_000
"""Of all exchanges together."""

_PARALLELISMS = (1, 2, 2, 3, 4, 4, 6, 8)
_ON_OFF_MS = ((50, 150), (100, 100), (20, 180), (300, 700))


def generated(count: int, base: Exchange) -> list[Exchange]:
    """So many jobs; each follows from its place and the seed of `base` alone, of which it has the
    buffer timeout, warm-up and duration.

    Between sources and sinks lie none to three relays; over four jobs in a row every number of
    stages comes once.
    """
    seed = base.seed
    stages: list[int] = []
    for turn in range(count // MOST_STAGES + 1):
        numbers = list(range(1, MOST_STAGES + 1))
        random.Random(f"{seed}/{turn}").shuffle(numbers)
        stages += numbers
    return [
        _job(base, stages[place], random.Random(f"{seed}/{place}/job"), seed * 1_000 + place)
        for place in range(count)
    ]


def _job(base: Exchange, stages: int, draw: random.Random, seed: int) -> Exchange:
    producers = draw.choice(_PARALLELISMS[:6])
    parallelisms, row = [producers], []
    for _ in range(stages):
        stage = _stage(draw, parallelisms, row, stages)
        row.append(stage)
        parallelisms.append(stage.parallelism)
    value_bytes = round(_log_uniform(draw, 60, 2_000))
    copies, carried = 1, 0
    for stage in row:
        copies *= stage.parallelism if stage.partitioner == "broadcast" else 1
        carried += copies
    rate_per_s = min(_log_uniform(draw, 400, 4_000), MOST_RECORDS_PER_S / carried)
    if draw.random() < 0.4:
        slow = draw.randrange(stages)
        row[slow] = _slowed(draw, row, slow, rate_per_s)
    on_ms, off_ms = draw.choice(_ON_OFF_MS)
    placement = draw.choice(("split", "split", "split", "spread"))
    if not any(
        stage.partitioner != "forward" and max(before, stage.parallelism) > 1
        for before, stage in zip(parallelisms, row, strict=False)
    ):
        placement = "split"  # or all channels would be local
    *relays, sink = row
    return replace(
        base,
        rate_per_s=round(rate_per_s / producers, 1),
        value_bytes=value_bytes,
        sizes=draw.choice(("fixed", "fixed", "exponential")),
        arrivals=draw.choice(("regular", "poisson", "poisson", "onoff")),
        on_ns=on_ms * 1_000_000,
        off_ns=off_ms * 1_000_000,
        checkpoint_interval_ms=draw.choice((0, 0, 1_000, 2_000)),
        placement=placement,
        producers=producers,
        relays=tuple(relays),
        consumers=sink.parallelism,
        partitioner=sink.partitioner,
        sink_delay_ns=sink.service_ns,
        hot_share=sink.hot_share,
        seed=seed,
    )


def _stage(draw: random.Random, parallelisms: list[int], before: list[Stage], stages: int) -> Stage:
    left = MOST_TASKS - sum(parallelisms) - (stages - len(before) - 1)
    parallelism = min(draw.choice(_PARALLELISMS), max(left, 1))
    partitioner = draw.choice(("rebalance", "rebalance", "hash", "hash", "forward", "broadcast"))
    if partitioner == "forward":
        if parallelisms[-1] <= left:
            return Stage(parallelisms[-1], "forward")
        partitioner = "rebalance"
    if partitioner == "broadcast":
        if all(each.partitioner != "broadcast" for each in before):
            return Stage(min(parallelism, 3), "broadcast")
        partitioner = "hash"
    is_skewed = partitioner == "hash" and parallelism > 1 and draw.random() < 0.4
    hot_share = round(draw.uniform(0.2, 0.5), 2) if is_skewed else 0.0
    return Stage(parallelism, partitioner, hot_share=hot_share)


def _slowed(draw: random.Random, row: list[Stage], slow: int, rate_per_s: float) -> Stage:
    """The stage with a service that takes the most loaded subtask 30 to 70% of the time."""
    stage = row[slow]
    copies = Exchange(relays=tuple(row[: slow + 1])).copies
    share = stage.hot_share + (1 - stage.hot_share) / stage.parallelism
    loaded_per_s = rate_per_s * copies * share
    if stage.partitioner == "forward" and slow and row[slow - 1].hot_share:
        hot = row[slow - 1].hot_share
        loaded_per_s = rate_per_s * copies * (hot + (1 - hot) / stage.parallelism)
    return replace(stage, service_ns=round(draw.uniform(0.3, 0.7) / loaded_per_s * 1e9))


def described(exchange: Exchange) -> str:
    """One line for people."""
    words = [f"{exchange.producers}"]
    for stage in exchange.stages:
        skew = f" {stage.hot_share:.0%} on one key" if stage.hot_share else ""
        service = f" {human_duration(stage.service_ns)}/record" if stage.service_ns else ""
        if stage.slow_subtask is not None:
            service += f" in subtask {stage.slow_subtask}"
        words.append(f"{stage.partitioner}{skew} → {stage.parallelism}{service}")
    rate = (exchange.rate_per_s or 0) * exchange.producers
    load = f"{human_count(rate)}/s {exchange.arrivals}"
    if exchange.arrivals == "onoff":
        load += f" {exchange.on_ns / 1e6:g}+{exchange.off_ns / 1e6:g} ms"
    size = f"{human_bytes(exchange.value_bytes)}"
    if exchange.sizes != "fixed":
        size += f" {exchange.sizes}"
    every = exchange.checkpoint_interval_ms
    checkpoints = f", checkpoint every {every / 1e3:g} s" if every else ""
    return f"{' '.join(words)}; {load}, {size}{checkpoints}, {exchange.placement}"


def _log_uniform(draw: random.Random, low: float, high: float) -> float:
    return exp(draw.uniform(log(low), log(high)))
