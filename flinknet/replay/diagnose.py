"""Diagnosis: a verdict for each edge in plain words, with the share of time behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MAIN_SHARE = 0.4
"""A regime that takes this share of the time of an edge's channels is what holds it up."""

SKEWED_FROM = 1.5
"""A channel with this many times the mean of its edge's records is skewed."""


@dataclass(frozen=True, slots=True)
class ChannelTime:
    """One channel of an edge: its records, and its time by regime in ns (names as in `regimes`)."""

    edge: str
    channel: int
    producer: int
    consumer: int
    records: int
    spent_ns: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What holds an edge up.

    `share` is the part of the channels' time behind the verdict (for `skewed`: of the records, the
    busiest channel's).
    """

    edge: str
    kind: str  # bottleneck, credit-starved, flush-limited, network-bound, alignment, idle, balanced
    share: float
    text: str


def diagnose(channels: Sequence[ChannelTime]) -> list[Verdict]:
    """One verdict or more for each edge, the weightiest first; edges in the order they come."""
    edges: dict[str, list[ChannelTime]] = {}
    for each in channels:
        edges.setdefault(each.edge, []).append(each)
    return [verdict for edge, own in edges.items() for verdict in _verdicts(edge, own)]


def verdict_in_passing(edge: str, starved_share: float) -> Verdict:
    """What the messages of an edge alone tell: whether its producers had to wait for credit."""
    if starved_share >= MAIN_SHARE:
        _, kind, text = next(each for each in _CAUSES if each[1] == "credit-starved")
        return Verdict(edge, kind, starved_share, text.format(share=starved_share, slowest=""))
    return Verdict(
        edge,
        "balanced",
        starved_share,
        f"not pressed: {starved_share:.0%} of the time data waited for credit; what goes on within"
        " the TaskManagers does not show between them",
    )


def _verdicts(edge: str, channels: Sequence[ChannelTime]) -> list[Verdict]:
    shares, slowest = _shares(channels), _slowest(channels)
    found = [
        Verdict(edge, kind, shares[regime], text.format(share=shares[regime], slowest=slowest))
        for regime, kind, text in _CAUSES
        if shares[regime] >= MAIN_SHARE
    ]
    found.sort(key=lambda each: -each.share)
    if len(found) > 1:  # idle channels beside busy ones are no cause
        found = [each for each in found if each.kind != "idle"]
    if not found:
        largest = max(shares, key=lambda name: shares[name])
        text = (
            f"no single cause: the most time, {shares[largest]:.0%}, went to"
            f" {largest.replace('_', ' ')}"
        )
        found.append(Verdict(edge, "balanced", shares[largest], text))
    skew = _skew(edge, channels)
    return [*found, skew] if skew else found


def _shares(channels: Sequence[ChannelTime]) -> dict[str, float]:
    names = channels[0].spent_ns
    total = sum(sum(each.spent_ns.values()) for each in channels) or 1
    return {name: sum(each.spent_ns[name] for each in channels) / total for name in names}


def _slowest(channels: Sequence[ChannelTime]) -> str:
    """Which consumer the records waited for, and how much of the waiting is its."""
    waits: dict[int, int] = {}
    for each in channels:
        waits[each.consumer] = waits.get(each.consumer, 0) + each.spent_ns["in_receiver_queue"]
    slowest = max(waits, key=lambda consumer: waits[consumer])
    if len(waits) == 1:
        return f"it is consumer {slowest}"
    own = waits[slowest] / (sum(waits.values()) or 1)
    if own > SKEWED_FROM / len(waits):
        return f"consumer {slowest} holds {own:.0%} of that"
    return "every consumer about as much"


_CAUSES = (
    (
        "in_receiver_queue",
        "bottleneck",
        "the consumers are the bottleneck: {share:.0%} of the time the oldest record lay in"
        " front of one, not processed yet ({slowest}); a faster or further consumer helps, the"
        " network's settings do not",
    ),
    (
        "waiting_for_credit",
        "credit-starved",
        "credit-starved: {share:.0%} of the time records were ready to leave and the receiver"
        " had no free buffer; more floating or exclusive buffers help if its queues are short",
    ),
    (
        "waiting_for_flush",
        "flush-limited",
        "flush-limited: {share:.0%} of the time the oldest record lay in a buffer that was"
        " neither full nor flushed; a shorter execution.buffer-timeout.interval cuts it",
    ),
    (
        "in_socket",
        "network-bound",
        "network-bound: {share:.0%} of the time the oldest record was on its way between the"
        " TaskManagers; look at bandwidth, round trip and socket buffers",
    ),
    (
        "blocked_by_alignment",
        "alignment",
        "alignment: {share:.0%} of the time checkpoint barriers kept channels blocked;"
        " unaligned checkpoints (execution.checkpointing.unaligned.enabled) would not",
    ),
    (
        "idle",
        "idle",
        "idle: {share:.0%} of the time there was no record to carry; nothing holds it up",
    ),
)
"""Regime, verdict, and what is said of it."""


def _skew(edge: str, channels: Sequence[ChannelTime]) -> Verdict | None:
    total = sum(each.records for each in channels)
    busiest = max(channels, key=lambda each: each.records)
    if not total or busiest.records * len(channels) < SKEWED_FROM * total:
        return None
    share = busiest.records / total
    return Verdict(
        edge,
        "skewed",
        share,
        f"skewed: channel {busiest.channel} (producer {busiest.producer} to consumer"
        f" {busiest.consumer}) carried {share:.0%} of the records of {len(channels)} channels",
    )
