"""Verdicts from drawn-up channels: each cause alone, several together, none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import pytest

from flinknet.replay.advise import diagnose as judge
from flinknet.replay.advise.diagnose import verdict_of_blocking
from flinknet.replay.observe.regimes import REGIMES
from flinknet.results import Verdict
from flinknet.results.ledger import EdgeTime, InputTime


@dataclass(frozen=True)
class ChannelTime:
    """One of the channels that are judged together."""

    edge: str
    channel: int
    producer: int
    consumer: int
    records: int
    spent: Mapping[str, int]
    is_held_up: bool = False


def edge_of(channels: Sequence[ChannelTime], *, is_between: bool = False) -> EdgeTime:
    """Channels as an edge; their time is in percent."""
    inputs = []
    for consumer in dict.fromkeys(each.consumer for each in channels):
        own = [each for each in channels if each.consumer == consumer]
        mean, most = (
            {name: of([each.spent[name] for each in own]) / 100 for name in channels[0].spent}
            for of in (fmean, max)
        )
        records = sum(each.records for each in own)
        inputs.append(
            InputTime(consumer, "tm", len(own), records, {} if is_between else mean, most)
        )
    sent = dict.fromkeys((each.producer for each in channels), 0)
    for each in channels:
        sent[each.producer] += each.records
    top = max(channels, key=lambda each: each.records)
    return EdgeTime(
        0,
        1,
        channels[0].edge,
        inputs=inputs,
        sent=sent,
        busiest=(top.channel, top.producer, top.consumer, top.records),
        is_held_up=any(each.is_held_up for each in channels),
    )


def diagnose(channels: Sequence[ChannelTime]) -> list[Verdict]:
    return judge.diagnose(edge_of(channels))


def diagnose_captured(channels: Sequence[ChannelTime]) -> list[Verdict]:
    return judge.diagnose(edge_of(channels, is_between=True))


def channel(
    index: int = 0,
    *,
    edge: str = "a -> b",
    producer: int = 0,
    consumer: int = 0,
    records: int = 100,
    is_held_up: bool = False,
    **spent: int,
) -> ChannelTime:
    """A channel whose time is `spent`, in percent; the rest is idle."""
    time = dict.fromkeys(REGIMES, 0) | spent
    time["idle"] = 100 - sum(spent.values())
    return ChannelTime(edge, index, producer, consumer, records, time, is_held_up)


def all_to_all(slow: dict[int, dict[str, int]], *, is_held_up: bool) -> list[ChannelTime]:
    """Two producers and four consumers; all channels wait for flush for 95% of their time but
    those to slow consumers."""
    return [
        channel(
            4 * producer + consumer,
            producer=producer,
            consumer=consumer,
            is_held_up=is_held_up,
            **slow.get(consumer, {"waiting_for_flush": 95}),
        )
        for producer in range(2)
        for consumer in range(4)
    ]


@pytest.mark.parametrize(
    ("regime", "kind"),
    [
        ("in_receiver_queue", "bottleneck"),
        ("waiting_for_credit", "credit-starved"),
        ("waiting_for_flush", "flush-limited"),
        ("in_socket", "network-bound"),
        ("blocked_by_alignment", "alignment"),
    ],
)
def test_the_regime_that_takes_the_time_is_the_verdict(regime: str, kind: str) -> None:
    (verdict,) = diagnose([channel(**{regime: 80})])
    assert (verdict.kind, verdict.share) == (kind, 0.8)
    assert "80%" in verdict.text


def test_an_edge_without_records_is_idle() -> None:
    (verdict,) = diagnose([channel(records=0, in_socket=3)])
    assert verdict.kind == "idle"


def test_several_causes_come_by_weight() -> None:
    found = diagnose([channel(waiting_for_flush=45, in_receiver_queue=50)])
    assert [each.kind for each in found] == ["bottleneck", "flush-limited"]


def test_without_a_single_cause_the_largest_share_is_told() -> None:
    (verdict,) = diagnose(
        [channel(waiting_for_flush=30, in_receiver_queue=35, waiting_for_credit=20)]
    )
    assert verdict.kind == "balanced"
    assert "in receiver queue" in verdict.text


def test_one_slow_consumer_among_several_is_the_bottleneck() -> None:
    channels = all_to_all({3: {"in_receiver_queue": 100}}, is_held_up=True)
    (verdict,) = diagnose(channels)
    assert (verdict.kind, verdict.share, verdict.consumers) == ("bottleneck", 1.0, (3,))
    assert verdict.text.startswith("consumer 3 of 4 is the bottleneck: 100% of the time")


def test_what_waits_for_flush_beside_a_slow_consumer_is_told_if_no_producer_is_held_up() -> None:
    found = diagnose(all_to_all({3: {"in_receiver_queue": 60}}, is_held_up=False))
    assert [(each.kind, each.consumers) for each in found] == [
        ("flush-limited", ()),
        ("bottleneck", (3,)),
    ]
    assert found[1].share == 0.6


def test_several_slow_consumers_come_by_weight() -> None:
    slow = {1: {"in_receiver_queue": 70}, 2: {"in_receiver_queue": 90}}
    (verdict,) = diagnose(all_to_all(slow, is_held_up=True))
    assert (verdict.share, verdict.consumers) == (0.9, (2, 1))
    assert "consumer 2 and consumer 1 of 4 are the bottleneck: 90% and 70%" in verdict.text


def test_consumers_that_are_all_slow_are_told_together() -> None:
    slow = {index: {"in_receiver_queue": 80} for index in range(4)}
    (verdict,) = diagnose(all_to_all(slow, is_held_up=True))
    assert (verdict.kind, verdict.share, verdict.consumers) == ("bottleneck", 0.8, ())


def test_a_consumer_without_free_buffers_is_named() -> None:
    (verdict,) = diagnose(all_to_all({0: {"waiting_for_credit": 75}}, is_held_up=True))
    assert (verdict.kind, verdict.share, verdict.consumers) == ("credit-starved", 0.75, (0,))


def test_a_channel_with_most_of_the_records_is_skew() -> None:
    found = diagnose([channel(0, records=900), channel(1, records=100)])
    assert [each.kind for each in found] == ["idle", "skewed"]
    assert found[1].share == 0.9
    assert "channel 0" in found[1].text


def test_a_consumer_that_takes_most_of_the_records_is_skew() -> None:
    records = [10, 10, 10, 70]
    found = diagnose(
        [
            channel(4 * producer + each, producer=producer, consumer=each, records=records[each])
            for producer in range(2)
            for each in range(4)
        ]
    )
    (skew,) = [each for each in found if each.kind == "skewed"]
    assert skew.share == 0.7
    assert skew.text == "skewed: consumer 3 took 70% of the records of 4 consumers"


def test_a_producer_that_sends_most_of_the_records_is_skew() -> None:
    found = diagnose(
        [
            channel(
                2 * producer + each, producer=producer, consumer=each, records=80 - 60 * producer
            )
            for producer in range(2)
            for each in range(2)
        ]
    )
    (skew,) = [each for each in found if each.kind == "skewed"]
    assert skew.text == "skewed: producer 0 sent 80% of the records of 2 producers"


def captured(producer: int, consumer: int, **spent: int) -> ChannelTime:
    """A channel between processes; what is not spent as named, in percent, nobody knows."""
    names = ("waiting_for_credit", "blocked_by_alignment", "without_credit")
    time = dict.fromkeys(names, 0) | spent
    return ChannelTime("a -> b", 0, producer, consumer, 100, time)


def test_between_processes_a_consumer_is_judged_by_the_channel_that_waits_most() -> None:
    channels = [captured(p, c) for p in range(4) for c in range(3) if (p, c) != (2, 1)]
    (verdict,) = diagnose_captured([*channels, captured(2, 1, waiting_for_credit=96)])
    assert (verdict.kind, verdict.share, verdict.consumers) == ("credit-starved", 0.96, (1,))
    assert verdict.text.startswith("consumer 1 of 3 does not keep up: 96%")


def test_between_processes_no_more_buffers_are_advised_for_a_task_that_may_be_busy() -> None:
    (verdict,) = diagnose_captured([captured(0, 0, waiting_for_credit=96)])
    assert verdict.text.startswith("the consumers do not keep up: 96%")
    assert "more buffers help only if the task is idle meanwhile" in verdict.text


@pytest.mark.parametrize(
    ("share", "begin"), [(0, "not pressed"), (9, "not pressed"), (30, "pressed at times")]
)
def test_between_processes_a_little_pressure_is_told_with_its_share(share: int, begin: str) -> None:
    (verdict,) = diagnose_captured([captured(0, 0, waiting_for_credit=share)])
    assert (verdict.kind, verdict.share) == ("balanced", share / 100)
    assert verdict.text.startswith(f"{begin}: on the channel that waited most")


def test_between_processes_barriers_that_block_are_told_beside_pressure() -> None:
    found = diagnose_captured(
        [captured(0, 0, blocked_by_alignment=38), captured(0, 1, waiting_for_credit=60)],
    )
    assert [(each.kind, each.consumers) for each in found] == [
        ("credit-starved", (1,)),
        ("alignment", (0,)),
    ]


def test_a_blocking_exchange_is_told_by_how_long_it_was_written() -> None:
    verdict = verdict_of_blocking("a -> b", 0.99)
    assert (verdict.kind, verdict.share) == ("blocking", 0.99)
    assert "took 99% of the time" in verdict.text
    assert verdict_of_blocking("a -> b", None).kind == "blocking"


def test_edges_are_judged_apart() -> None:
    edges = [
        channel(0, edge="a -> b", in_receiver_queue=90),
        channel(1, edge="b -> c", waiting_for_flush=90),
    ]
    found = [verdict for each in edges for verdict in diagnose([each])]
    assert [(each.edge, each.kind) for each in found] == [
        ("a -> b", "bottleneck"),
        ("b -> c", "flush-limited"),
    ]


def test_a_channel_that_is_mostly_without_credit_is_pressed_though_no_backlog_came() -> None:
    (verdict,) = diagnose_captured([captured(0, 0, without_credit=80), captured(0, 1)])
    assert (verdict.kind, verdict.share, verdict.consumers) == ("credit-starved", 0.8, (0,))
    assert "80% of the time there was no credit for a channel" in verdict.text
    (verdict,) = diagnose_captured([captured(0, 0, without_credit=40), captured(0, 1)])
    assert verdict.kind == "balanced"


def test_data_that_is_known_to_wait_says_more_than_missing_credit() -> None:
    waits = captured(0, 0, without_credit=80, waiting_for_credit=60)
    (verdict,) = diagnose_captured([waits, captured(0, 1, without_credit=70)])
    assert (verdict.share, verdict.consumers) == (0.6, (0,))
