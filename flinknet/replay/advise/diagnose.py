"""Verdicts on the edges of a job, each with the share of time behind it: what limits an edge alone,
whether or not it holds the job up.

One slow consumer among several is a small part of an edge's time and yet what limits it. So each
consumer is judged by its own channels before they are taken together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from flinknet.results import Verdict
from flinknet.results.bottleneck import HELD_FROM, IDLE_BELOW, PRESSED_FROM, SLOW_HOST_FROM, named
from flinknet.results.ledger import (
    BARRIER,
    CREDIT,
    FLUSH,
    IDLE,
    QUEUE,
    SOCKET,
    WITHOUT_CREDIT,
    EdgeTime,
    InputTime,
)

PRESSED = frozenset({"bottleneck", "credit-starved"})
"""Verdicts on an edge whose producers have to wait for its consumers."""


def diagnose(edge: EdgeTime) -> list[Verdict]:
    """One verdict or more for an edge, the weightiest first."""
    if not any(each.mean for each in edge.inputs):
        return _between(edge)
    slow = [each for cause in _OF_SOME if (each := _of_some(edge, *cause)) is not None]
    held_by = {consumer for each in slow if each.kind in PRESSED for consumer in each.consumers}
    shares = _shares(
        [
            each
            for each in edge.inputs
            if not held_by or not edge.is_held_up or each.consumer in held_by
        ]
    )
    kinds = {each.kind for each in slow}
    found = slow + [
        Verdict(edge.name, kind, shares.get(what, 0.0), text.format(share=shares.get(what, 0.0)))
        for what, (kind, text) in _OF_ALL.items()
        if shares.get(what, 0.0) >= IDLE_BELOW and kind not in kinds
    ]
    found.sort(key=lambda each: -each.share)
    if len(found) > 1:  # idle channels among busy ones are no cause
        found = [each for each in found if each.kind != IDLE]
    if not found:
        most = max(shares, key=lambda name: shares[name])
        text = f"no single cause: the most time, {shares[most]:.0%}, went to"
        found = [Verdict(edge.name, "balanced", shares[most], f"{text} {most.replace('_', ' ')}")]
    return [*found, *_skews(edge)]


def _shares(inputs: Sequence[InputTime]) -> Mapping[str, float]:
    channels = sum(each.channels for each in inputs) or 1
    names = dict.fromkeys(name for each in inputs for name in each.mean)
    return {
        name: sum(each.channels * each.mean.get(name, 0.0) for each in inputs) / channels
        for name in names
    }


def _of_some(edge: EdgeTime, what: str, kind: str, text: str) -> Verdict | None:
    """The verdict on some of several consumers, by the mean share of their channels; None if it
    holds for all or none of them."""
    slow = [each for each in edge.inputs if each.mean.get(what, 0.0) >= IDLE_BELOW]
    if not slow or len(slow) == len(edge.inputs):
        return None
    slow.sort(key=lambda each: (-each.mean[what], each.consumer))
    said = text.format(
        who=named([f"consumer {each.consumer}" for each in slow]),
        are="is" if len(slow) == 1 else "are",
        them="it" if len(slow) == 1 else "them",
        share=named([f"{each.mean[what]:.0%}" for each in slow]),
        count=len(edge.inputs),
    )
    consumers = tuple(each.consumer for each in slow)
    return Verdict(edge.name, kind, slow[0].mean[what], said, consumers)


def _between(edge: EdgeTime) -> list[Verdict]:
    """Verdicts on an edge that was recorded between TaskManagers, by the messages alone.

    A consumer is judged by the channel to it that waits most: the others may have had nothing to
    send.
    """
    found: list[Verdict] = []
    for what, kind, least, text in _BETWEEN:
        held = [each for each in edge.inputs if each.most.get(what, 0.0) >= least]
        if not held or any(each.kind == kind for each in found):
            continue
        held.sort(key=lambda each: (-each.most[what], each.consumer))
        is_all, most = len(held) == len(edge.inputs), held[0].most[what]
        said = text.format(
            who="the consumers" if is_all else _consumers(held, len(edge.inputs)),
            do="does" if len(held) == 1 and not is_all else "do",
            share=f"{most:.0%}" if is_all else named([f"{each.most[what]:.0%}" for each in held]),
        )
        consumers = () if is_all else tuple(each.consumer for each in held if each.consumer >= 0)
        found.append(Verdict(edge.name, kind, most, said, consumers))
    if found:
        return sorted(found, key=lambda each: -each.share)
    starved, blocked = edge.most(CREDIT), edge.most(BARRIER)
    if not edge.is_credit_known:
        return [Verdict(edge.name, "unknown", 0.0, _CREDIT_UNKNOWN.format(blocked=blocked))]
    text = _NOT_PRESSED.format(
        what="pressed at times" if starved >= PRESSED_FROM else "not pressed",
        starved=starved,
        blocked=blocked,
    )
    return [Verdict(edge.name, "balanced", starved, text)]


def _consumers(held: Sequence[InputTime], count: int) -> str:
    names = [
        f"consumer {each.consumer}" if each.consumer >= 0 else "an unknown consumer"
        for each in held
    ]
    return f"{named(names)} of {count}"


def _skews(edge: EdgeTime) -> list[Verdict]:
    """A consumer or a producer with many more records than its siblings; if there is none, such a
    channel."""
    taken = {each.consumer: each.records for each in edge.inputs}
    found = [
        Verdict(edge.name, "skewed", share, text.format(most, share, len(records)))
        for records, text in (
            (taken, "skewed: consumer {} took {:.0%} of the records of {} consumers"),
            (edge.sent, "skewed: producer {} sent {:.0%} of the records of {} producers"),
        )
        if records and (total := sum(records.values()))
        for most in [max(records, key=lambda each: records[each])]
        for share in [records[most] / total]
        if share * len(records) >= SLOW_HOST_FROM
    ]
    if found or edge.busiest is None:
        return found
    index, producer, consumer, records = edge.busiest
    channels, total = sum(each.channels for each in edge.inputs), sum(taken.values())
    if not total or records * channels < SLOW_HOST_FROM * total:
        return []
    text = (
        f"skewed: channel {index} (producer {producer} to consumer {consumer}) carried"
        f" {records / total:.0%} of the records of {channels} channels"
    )
    return [Verdict(edge.name, "skewed", records / total, text)]


def verdict_of_blocking(edge: str, written_share: float | None) -> Verdict:
    """The verdict on an exchange that was read only when all of it was written.

    Args:
        written_share: share of the time until the last record was consumed that had passed when
            the first buffer left; None if none did.
    """
    if written_share is None:
        return Verdict(edge, "blocking", 0.0, "a blocking exchange, of which nothing was read")
    text = (
        f"a blocking exchange: it was read only when all of it was written, which took"
        f" {written_share:.0%} of the time; latency counts that wait, and neither credit nor the"
        " buffer timeout has a part in it"
    )
    return Verdict(edge, "blocking", written_share, text)


def pressed_from_behind(verdict: Verdict, behind: Sequence[str], *, is_sure: bool) -> Verdict:
    """The verdict on an edge that is pressed and does not hold the job up itself, or may not.

    Args:
        behind: edges that hold the job up, or are pressed as well, and are behind it, or may be.
        is_sure: they are behind it.
    """
    names, are = named(behind), "is" if len(behind) == 1 else "are"
    text = (
        f"pressed from behind: records waited {verdict.share:.0%} of the time; the cause is further"
        f" downstream, on {names}"
    )
    if not is_sure:
        text = (
            f"pressed: {verdict.share:.0%} of the time data waited for credit; {names} {are}"
            " pressed as well; messages between TaskManagers do not show which of them is further"
            " downstream; the one furthest downstream holds the job up"
        )
    return replace(verdict, kind="pressed", text=text)


_BETWEEN = (
    (
        CREDIT,
        "credit-starved",
        IDLE_BELOW,
        "{who} {do} not keep up: {share} of the time data waited at a producer and the receiver had"
        " no free buffer; more buffers help only if the task is idle meanwhile, which --rest shows",
    ),
    (
        WITHOUT_CREDIT,
        "credit-starved",
        HELD_FROM,
        "{who} {do} not keep up: {share} of the time there was no credit for a channel, so all its"
        " buffers lay at the receiver; whether data waited does not show, for a producer without"
        " credit cannot announce it",
    ),
    (
        BARRIER,
        "alignment",
        PRESSED_FROM,
        "alignment: {share} of the time checkpoint barriers kept a channel to {who} blocked;"
        " unaligned checkpoints (execution.checkpointing.unaligned.enabled) would not",
    ),
)
"""Share, verdict, least share and text, for what shows between TaskManagers."""

_NOT_PRESSED = (
    "{what}: on the channel that waited most, data waited for credit {starved:.0%} of the time, and"
    " barriers blocked a channel for at most {blocked:.0%}; what goes on within the TaskManagers"
    " does not show between them"
)

_CREDIT_UNKNOWN = (
    "how long data waited for credit is unknown, as is the credit of some channels; barriers"
    " blocked a channel for at most {blocked:.0%}"
)

_OF_ALL = {
    QUEUE: (
        "bottleneck",
        "the consumers are the bottleneck: {share:.0%} of the time the oldest record lay in"
        " front of one, not processed yet; faster or further consumers help, the"
        " network's settings do not",
    ),
    CREDIT: (
        "credit-starved",
        "credit-starved: {share:.0%} of the time records were ready to leave and the receiver"
        " had no free buffer; more floating or exclusive buffers help if its queues are short",
    ),
    FLUSH: (
        "flush-limited",
        "flush-limited: {share:.0%} of the time the oldest record lay in a buffer that was"
        " neither full nor flushed; a shorter execution.buffer-timeout.interval cuts it",
    ),
    SOCKET: (
        "network-bound",
        "network-bound: {share:.0%} of the time the oldest record was on its way between the"
        " TaskManagers; look at bandwidth, round trip and socket buffers",
    ),
    BARRIER: (
        "alignment",
        "alignment: {share:.0%} of the time checkpoint barriers kept channels blocked;"
        " unaligned checkpoints (execution.checkpointing.unaligned.enabled) would not",
    ),
    IDLE: (
        "idle",
        "idle: {share:.0%} of the time there was no record to send; nothing holds it up",
    ),
}
"""Share, verdict and text, for all channels together."""

_OF_SOME = (
    (
        QUEUE,
        "bottleneck",
        "{who} of {count} {are} the bottleneck: {share} of the time the oldest record of a channel"
        " to {them} lay there, not processed yet; a producer that waits for {them} keeps the"
        " others waiting, too",
    ),
    (
        CREDIT,
        "credit-starved",
        "{who} of {count} {are} credit-starved: {share} of the time records for {them} were ready"
        " to leave and there was no free buffer",
    ),
    (
        SOCKET,
        "network-bound",
        "the network to {who} of {count}: the oldest record for {them} was in it {share} of the"
        " time",
    ),
)
"""Share, verdict and text, for some of several consumers."""
