"""Diagnosis: a verdict for each edge in plain words, with the share of time behind it.

One slow consumer among several is a small part of an edge's time and yet what holds it up. So each
consumer is judged by its own channels before they are taken together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flinknet.arrays import FloatArray, IntArray
from flinknet.results import Verdict

from ..ledger import named

MAIN_SHARE = 0.4
"""A regime that takes this share of the time of an edge's channels, or of one consumer's, is what
holds it up."""

BLOCKED_SHARE = 0.1
"""Barriers that block a channel for this share of the time between processes are a verdict."""

LITTLE_SHARE = 0.1
"""Below that Flink's own page calls the back pressure of a task none."""

SKEWED_FROM = 1.5
"""With this many times the mean of its edge's records a consumer, producer or channel is skewed."""

WITHOUT_CREDIT_SHARE = 0.5
"""A consumer whose producers have no credit for so much of the time does not keep up."""


@dataclass(frozen=True, slots=True, eq=False)
class ChannelTimes:
    """The channels of an edge: their records, and their time by regime in ns (names as in
    `regimes`).

    Attributes:
        is_held_up: the producer had to wait for buffers, so that it filled none on any channel.
        without_credit: share of the time of each channel in which its producer had no credit,
            whether or not something waited; None where that is not known.
        is_credit_known: of all channels, all the time; else what waits for credit is the least.
    """

    edge: str
    channel: IntArray
    producer: IntArray
    consumer: IntArray
    records: IntArray
    spent_ns: Mapping[str, IntArray]
    is_held_up: npt.NDArray[np.bool_]
    without_credit: FloatArray | None = None
    is_credit_known: bool = True

    def shares(self, regime: str) -> FloatArray:
        """Of the time of each channel the share of a regime."""
        shares: FloatArray = self.spent_ns[regime] / np.maximum(sum(self.spent_ns.values()), 1)
        return shares


def diagnose(channels: ChannelTimes) -> list[Verdict]:
    """One verdict or more for the edge, the weightiest first."""
    edge, judged = channels.edge, [_of_consumers(channels, cause) for cause in _OF_CONSUMERS]
    slow = [each for each in judged if each is not None]
    held_by = [index for each in slow for index in each.consumers if each.kind in _HOLDING]
    rest = np.ones(len(channels.channel), bool)
    if held_by:  # what waits in producers that wait themselves does not wait for the flusher
        rest = ~channels.is_held_up | np.isin(channels.consumer, held_by)
    spent_ns = {name: int(each[rest].sum()) for name, each in channels.spent_ns.items()}
    total_ns = sum(spent_ns.values()) or 1
    shares = {name: own_ns / total_ns for name, own_ns in spent_ns.items()}
    found_kinds = {each.kind for each in slow}
    found = [
        Verdict(edge, kind, shares[regime], text.format(share=shares[regime]))
        for regime, kind, text in _CAUSES
        if shares[regime] >= MAIN_SHARE and kind not in found_kinds
    ]
    found += slow
    found.sort(key=lambda each: -each.share)
    if len(found) > 1:  # idle channels among busy ones are no cause
        found = [each for each in found if each.kind != "idle"]
    if not found:
        largest = max(shares, key=lambda name: shares[name])
        text = (
            f"no single cause: the most time, {shares[largest]:.0%}, went to"
            f" {largest.replace('_', ' ')}"
        )
        found.append(Verdict(edge, "balanced", shares[largest], text))
    return [*found, *_skews(channels)]


def diagnose_captured(channels: ChannelTimes) -> list[Verdict]:
    """What the messages of an edge alone show: where its producers had to wait for credit, and
    where barriers kept channels blocked.

    A consumer is judged by the channel to it that waits most: the others may have had nothing to
    send.

    Args:
        channels: their time by the two regimes that show, and `unknown`, the rest.
    """
    edge, (consumers_of, place) = channels.edge, in_groups(channels.consumer)
    found: list[Verdict] = []
    most = {}
    for regime, kind, least, text in _CAPTURED:
        own = channels.without_credit if regime == _WITHOUT_CREDIT else channels.shares(regime)
        if own is None or any(each.kind == kind for each in found):
            continue
        largest = np.zeros(len(consumers_of))
        np.maximum.at(largest, place, own)
        shares = dict(zip(consumers_of, largest.tolist(), strict=True))
        held = sorted(
            (consumer for consumer, share in shares.items() if share >= least),
            key=lambda consumer: (-shares[consumer], consumer),
        )
        most[regime] = max(shares.values(), default=0.0)
        if not held:
            continue
        is_all = len(held) == len(shares)
        said = text.format(
            who="the consumers" if is_all else _consumers(held, len(shares)),
            do="does" if len(held) == 1 and not is_all else "do",
            share=f"{shares[held[0]]:.0%}"
            if is_all
            else named([f"{shares[each]:.0%}" for each in held]),
        )
        consumers = () if is_all else tuple(each for each in held if each >= 0)
        found.append(Verdict(edge, kind, shares[held[0]], said, consumers))
    found.sort(key=lambda each: -each.share)
    if found:
        return found
    starved, blocked = most["waiting_for_credit"], most["blocked_by_alignment"]
    if not channels.is_credit_known:
        return [Verdict(edge, "unknown", 0.0, _CREDIT_UNKNOWN.format(blocked=blocked))]
    text = _NOT_PRESSED.format(
        what="pressed at times" if starved >= LITTLE_SHARE else "not pressed",
        starved=starved,
        blocked=blocked,
    )
    return [Verdict(edge, "balanced", starved, text)]


def _consumers(indexes: Sequence[int], count: int) -> str:
    names = [f"consumer {each}" if each >= 0 else "an unknown consumer" for each in indexes]
    return f"{named(names)} of {count}"


def verdict_of_blocking(edge: str, written_share: float | None) -> Verdict:
    """The verdict on an exchange that was read only when all of it was written.

    Args:
        written_share: of the time until the last record was consumed, how much had passed when the
            first buffer left; None if none did.
    """
    if written_share is None:
        return Verdict(edge, "blocking", 0.0, "a blocking exchange, of which nothing was read")
    text = (
        f"a blocking exchange: it was read only when all of it was written, which took"
        f" {written_share:.0%} of the time; latency counts that wait, and neither credit nor the"
        " buffer timeout has a part in it"
    )
    return Verdict(edge, "blocking", written_share, text)


def _of_consumers(channels: ChannelTimes, cause: tuple[str, str, str]) -> Verdict | None:
    """The verdict on some of several consumers whose own channels a regime takes the time of; None
    if it does so for all or none of them."""
    regime, kind, text = cause
    consumers, place = in_groups(channels.consumer)
    sums = [_sums(each, place, len(consumers)) for each in channels.spent_ns.values()]
    whole_ns = np.sum(sums, axis=0)
    own_ns = sums[list(channels.spent_ns).index(regime)]
    shares = dict(zip(consumers, (own_ns / np.maximum(whole_ns, 1)).tolist(), strict=True))
    slow = sorted(
        (consumer for consumer, share in shares.items() if share >= MAIN_SHARE),
        key=lambda consumer: (-shares[consumer], consumer),
    )
    if not slow or len(slow) == len(shares):
        return None
    text = text.format(
        who=named([f"consumer {index}" for index in slow]),
        are="is" if len(slow) == 1 else "are",
        them="it" if len(slow) == 1 else "them",
        share=named([f"{shares[index]:.0%}" for index in slow]),
        count=len(shares),
    )
    return Verdict(channels.edge, kind, shares[slow[0]], text, tuple(slow))


def in_groups(keys: IntArray) -> tuple[list[int], IntArray]:
    """The distinct keys in the order in which they come first, and the place of each one among
    them."""
    distinct, first, place = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return distinct[order].tolist(), rank[place]


def _sums(values: IntArray, place: IntArray, groups: int) -> IntArray:
    found = np.zeros(groups, np.int64)
    np.add.at(found, place, values)
    return found


ASK_WHETHER_BUSY = "; more buffers help only if the task is idle meanwhile, which --rest shows"
"""What a tap alone leaves open of consumers that do not keep up."""

_WITHOUT_CREDIT = "without_credit"

_CAPTURED = (
    (
        "waiting_for_credit",
        "credit-starved",
        MAIN_SHARE,
        "{who} {do} not keep up: {share} of the time data waited at a producer and the receiver had"
        " no free buffer" + ASK_WHETHER_BUSY,
    ),
    (
        _WITHOUT_CREDIT,
        "credit-starved",
        WITHOUT_CREDIT_SHARE,
        "{who} {do} not keep up: {share} of the time there was no credit for a channel, so all its"
        " buffers lay at the receiver; whether data waited does not show, for a producer without"
        " credit cannot announce it",
    ),
    (
        "blocked_by_alignment",
        "alignment",
        BLOCKED_SHARE,
        "alignment: {share} of the time checkpoint barriers kept a channel to {who} blocked;"
        " unaligned checkpoints (execution.checkpointing.unaligned.enabled) would not",
    ),
)
"""Regime, verdict, the share that it takes, and the text, of what shows between TaskManagers."""

_NOT_PRESSED = (
    "{what}: on the channel that waited most, data waited for credit {starved:.0%} of the time, and"
    " barriers blocked a channel for at most {blocked:.0%}; what goes on within the TaskManagers"
    " does not show between them"
)

_CREDIT_UNKNOWN = (
    "how long data waited for credit is unknown, as is the credit of some channels; barriers"
    " blocked a channel for at most {blocked:.0%}"
)

_CREDIT_STARVED = (
    "credit-starved: {share:.0%} of the time records were ready to leave and the receiver"
    " had no free buffer; more floating or exclusive buffers help if its queues are short"
)

_CAUSES = (
    (
        "in_receiver_queue",
        "bottleneck",
        "the consumers are the bottleneck: {share:.0%} of the time the oldest record lay in"
        " front of one, not processed yet; faster or further consumers help, the"
        " network's settings do not",
    ),
    ("waiting_for_credit", "credit-starved", _CREDIT_STARVED),
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
        "idle: {share:.0%} of the time there was no record to send; nothing holds it up",
    ),
)
"""Regime, verdict, and what is said of it."""

_HOLDING = frozenset({"bottleneck", "credit-starved"})
"""Verdicts on a consumer for which producers have to wait."""

_OF_CONSUMERS = (
    (
        "in_receiver_queue",
        "bottleneck",
        "{who} of {count} {are} the bottleneck: {share} of the time the oldest record of a channel"
        " to {them} lay there, not processed yet; a producer that waits for {them} keeps the"
        " others waiting, too",
    ),
    (
        "waiting_for_credit",
        "credit-starved",
        "{who} of {count} {are} credit-starved: {share} of the time records for {them} were ready"
        " to leave and there was no free buffer",
    ),
    (
        "in_socket",
        "network-bound",
        "the network to {who} of {count}: the oldest record for {them} was in it {share} of the"
        " time",
    ),
)
"""The same of some of the consumers."""


def _skews(channels: ChannelTimes) -> list[Verdict]:
    """Who carries much more of the records than its like: a consumer, a producer; if neither, a
    channel."""
    found = [
        verdict
        for verdict in (
            _skew(channels, channels.consumer, "consumer {} took"),
            _skew(channels, channels.producer, "producer {} sent"),
        )
        if verdict
    ]
    if found:
        return found
    busiest = int(channels.records.argmax())
    ends = f"(producer {channels.producer[busiest]} to consumer {channels.consumer[busiest]})"
    skew = _skew(channels, channels.channel, f"channel {{}} {ends} carried")
    return [skew] if skew else []


def _skew(channels: ChannelTimes, keys: IntArray, text: str) -> Verdict | None:
    groups, place = in_groups(keys)
    records = _sums(channels.records, place, len(groups))
    most, total = int(records.argmax()), int(records.sum())
    if not total or int(records[most]) * len(records) < SKEWED_FROM * total:
        return None
    share = int(records[most]) / total
    like = text.split(" ", 1)[0]
    said = f"skewed: {text.format(groups[most])} {share:.0%} of the records of {len(records)}"
    return Verdict(channels.edge, "skewed", share, f"{said} {like}s")
