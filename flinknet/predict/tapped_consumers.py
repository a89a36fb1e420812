"""Which subtask consumes a channel that was recorded between processes.

Only the subpartition stands on the wire. How many subtasks the consuming vertex has shows where it
produces in turn; then Flink's ways of joining two vertices say which subtask reads a subpartition.
"""

from __future__ import annotations

from dataclasses import replace

from .recorded import RecordedExchange


def consumer_of(
    producer: int, subpartition: int, subpartitions: int, parallelism: tuple[int, int]
) -> int:
    """The consuming subtask.

    Args:
        subpartitions: that a producer of the edge has at most.
        parallelism: of the producing and of the consuming vertex.
    """
    producers, consumers = parallelism
    if subpartitions >= consumers:  # all-to-all
        return subpartition
    if consumers >= producers:  # pointwise: each producer feeds several
        return -(-producer * consumers // producers) + subpartition
    return ((producer + 1) * consumers - 1) // producers


def with_consumers(exchange: RecordedExchange, consumers: int) -> RecordedExchange:
    """A captured exchange, whose consumers are numbered by subpartition, with its consumers by
    subtask.

    Args:
        consumers: parallelism of the vertex that consumes it.
    """
    most = 1 + max((each.consumer for each in exchange.channels), default=0)
    if most >= consumers:
        return exchange
    channels = tuple(
        replace(
            each,
            consumer=consumer_of(
                each.producer, each.consumer, most, (exchange.producers, consumers)
            ),
        )
        for each in exchange.channels
    )
    costs = exchange.costs
    typical_ns = sorted(costs.consume_ns_per_record)[len(costs.consume_ns_per_record) // 2]
    return replace(
        exchange,
        consumers=consumers,
        channels=channels,
        costs=replace(costs, consume_ns_per_record=(typical_ns,) * consumers),
    )
