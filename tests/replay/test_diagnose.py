"""Verdicts from drawn-up channels: each cause alone, several together, none."""

import pytest

from flinknet.replay.diagnose import ChannelTime, diagnose
from flinknet.replay.regimes import REGIMES


def channel(
    index: int = 0, *, edge: str = "a -> b", consumer: int = 0, records: int = 100, **spent: int
) -> ChannelTime:
    """A channel whose time is `spent`, in percent; the rest is idle."""
    time = dict.fromkeys(REGIMES, 0) | spent
    time["idle"] = 100 - sum(spent.values())
    return ChannelTime(edge, index, 0, consumer, records, time)


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


def test_the_slowest_consumer_is_named() -> None:
    (verdict,) = diagnose(
        [
            channel(0, consumer=0, in_receiver_queue=99),
            channel(1, consumer=1, in_receiver_queue=1),
        ]
    )
    assert "consumer 0 holds 99%" in verdict.text


def test_a_channel_with_most_of_the_records_is_skew() -> None:
    found = diagnose([channel(0, records=900), channel(1, records=100)])
    assert [each.kind for each in found] == ["idle", "skewed"]
    assert found[1].share == 0.9
    assert "channel 0" in found[1].text


def test_edges_are_judged_apart() -> None:
    found = diagnose(
        [
            channel(0, edge="a -> b", in_receiver_queue=90),
            channel(1, edge="b -> c", waiting_for_flush=90),
        ]
    )
    assert [(each.edge, each.kind) for each in found] == [
        ("a -> b", "bottleneck"),
        ("b -> c", "flush-limited"),
    ]
