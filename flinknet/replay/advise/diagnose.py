"""Diagnosis: a verdict for each edge in plain words, with the share of time behind it.

One slow consumer among several is a small part of an edge's time and yet what holds it up. So each
consumer is judged by its own channels before they are taken together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from flinknet.results import Verdict

MAIN_SHARE = 0.4
"""A regime that takes this share of the time of an edge's channels, or of one consumer's, is what
holds it up."""

BLOCKED_SHARE = 0.1
"""Barriers that block a channel for this share of the time between processes are a verdict."""

LITTLE_SHARE = 0.1
"""Below that Flink's own page calls the back pressure of a task none."""

SKEWED_FROM = 1.5
"""With this many times the mean of its edge's records a consumer, producer or channel is skewed."""

CONSUMERS_NAMED = 4


@dataclass(frozen=True, slots=True)
class ChannelTime:
    """One channel of an edge: its records, and its time by regime in ns (names as in `regimes`).

    Attributes:
        is_held_up: its producer had to wait for buffers, so that it filled none on any channel.
    """

    edge: str
    channel: int
    producer: int
    consumer: int
    records: int
    spent_ns: Mapping[str, int]
    is_held_up: bool = False


def diagnose(channels: Sequence[ChannelTime]) -> list[Verdict]:
    """One verdict or more for each edge, the weightiest first; edges in the order they come."""
    edges: dict[str, list[ChannelTime]] = {}
    for each in channels:
        edges.setdefault(each.edge, []).append(each)
    return [verdict for edge, own in edges.items() for verdict in _verdicts(edge, own)]


def diagnose_captured(edge: str, channels: Sequence[ChannelTime]) -> list[Verdict]:
    """What the messages of an edge alone show: where its producers had to wait for credit, and
    where barriers kept channels blocked.

    A consumer is judged by the channel to it that waits most: the others may have had nothing to
    send.

    Args:
        channels: their time by the two regimes that show, and `unknown`, the rest.
    """
    of = _grouped(channels, lambda each: each.consumer)
    found, most = [], {}
    for regime, kind, least, text in _CAPTURED:
        shares = {
            consumer: max(_shares([each])[regime] for each in own) for consumer, own in of.items()
        }
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


def _verdicts(edge: str, channels: Sequence[ChannelTime]) -> list[Verdict]:
    judged = [_of_consumers(edge, channels, cause) for cause in _OF_CONSUMERS]
    slow = [each for each in judged if each is not None]
    rest = channels
    held_by = {index for each in slow for index in each.consumers if each.kind in _HOLDING}
    if held_by:  # what waits in producers that wait themselves does not wait for the flusher
        rest = [each for each in channels if not each.is_held_up or each.consumer in held_by]
    shares, found_kinds = _shares(rest), {each.kind for each in slow}
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
    return [*found, *_skews(edge, channels)]


def _of_consumers(
    edge: str, channels: Sequence[ChannelTime], cause: tuple[str, str, str]
) -> Verdict | None:
    """The verdict on some of several consumers whose own channels a regime takes the time of; None
    if it does so for all or none of them."""
    regime, kind, text = cause
    of = _grouped(channels, lambda each: each.consumer)
    shares = {consumer: _shares(own)[regime] for consumer, own in of.items()}
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
    return Verdict(edge, kind, shares[slow[0]], text, tuple(slow))


def _shares(channels: Sequence[ChannelTime]) -> dict[str, float]:
    names = channels[0].spent_ns
    total = sum(sum(each.spent_ns.values()) for each in channels) or 1
    return {name: sum(each.spent_ns[name] for each in channels) / total for name in names}


def _grouped(
    channels: Iterable[ChannelTime], key: Callable[[ChannelTime], int]
) -> dict[int, list[ChannelTime]]:
    groups: dict[int, list[ChannelTime]] = {}
    for each in channels:
        groups.setdefault(key(each), []).append(each)
    return groups


def named(names: Sequence[str]) -> str:
    """Some names in a row, not all of many."""
    shown = list(names[:CONSUMERS_NAMED])
    if len(names) > CONSUMERS_NAMED:
        shown.append(f"{len(names) - CONSUMERS_NAMED} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


_CAPTURED = (
    (
        "waiting_for_credit",
        "credit-starved",
        MAIN_SHARE,
        "{who} {do} not keep up: {share} of the time data waited at a producer and the receiver had"
        " no free buffer; more buffers help only if the task is idle meanwhile"
        " (busyTimeMsPerSecond), which a tap cannot see",
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
        "the way to {who} of {count}: {share} of the time the oldest record for {them} was on it",
    ),
)
"""The same of some of the consumers."""


def _skews(edge: str, channels: Sequence[ChannelTime]) -> list[Verdict]:
    """Who carries much more of the records than its like: a consumer, a producer; if neither, a
    channel."""
    found = [
        verdict
        for verdict in (
            _skew(edge, _grouped(channels, lambda each: each.consumer), "consumer {} took"),
            _skew(edge, _grouped(channels, lambda each: each.producer), "producer {} sent"),
        )
        if verdict
    ]
    if found:
        return found
    busiest = max(channels, key=lambda each: each.records)
    carried = f"(producer {busiest.producer} to consumer {busiest.consumer}) carried"
    by_channel = _grouped(channels, lambda each: each.channel)
    skew = _skew(edge, by_channel, "channel {} " + carried)
    return [skew] if skew else []


def _skew(edge: str, groups: Mapping[int, Sequence[ChannelTime]], text: str) -> Verdict | None:
    records = {key: sum(each.records for each in own) for key, own in groups.items()}
    total = sum(records.values())
    most = max(records, key=lambda key: records[key])
    if not total or records[most] * len(records) < SKEWED_FROM * total:
        return None
    share = records[most] / total
    like = text.split(" ", 1)[0]
    said = f"skewed: {text.format(most)} {share:.0%} of the records of {len(records)} {like}s"
    return Verdict(edge, "skewed", share, said)
