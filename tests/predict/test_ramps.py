"""Stretches of records: whatever way they are cut and joined, no record is lost or moved."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from flinknet.predict.ramps import ChannelRamps, Ramps

CHANNELS = np.array([2, 3, 7, 11])
EDGES_NS = (-50, 0, 1_000, 1_001, 9_000, 2_000_000)


def stretches(seed: int, count: int, *, is_nested: bool) -> Ramps:
    """Stretches of random lengths; one that is nested ends before the one that it begins in."""
    random = np.random.default_rng(seed)
    first_ns = np.sort(random.integers(0, 10_000, count))
    lengths_ns = random.integers(0, 500, count)
    last_ns = first_ns + lengths_ns if is_nested else np.maximum.accumulate(first_ns + lengths_ns)
    return Ramps(random.integers(1, 9, count), first_ns, last_ns)


def in_blocks(ramps: dict[int, Ramps], blocks: int) -> ChannelRamps:
    """The stretches of each channel as blocks of a trace hold them: a part of each, by channel."""
    parts = []
    for block in range(blocks):
        own = {}
        for channel, each in ramps.items():
            low, high = (len(each) * at // blocks for at in (block, block + 1))
            own[channel] = each.take(slice(low, high))
        channel = np.repeat([*own], [len(each) for each in own.values()])
        parts.append((channel, Ramps.joined([*own.values()])))
    return ChannelRamps.of(parts)


def instants(found: ChannelRamps) -> dict[int, list[int]]:
    return {channel: each.instants()[1].tolist() for channel, each in found.by_channel().items()}


@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("count", [3, 40, 1500])
def test_each_record_is_in_one_of_the_parts_that_stretches_are_split_into(
    count: int, is_nested: bool
) -> None:
    counts = dict(zip(CHANNELS.tolist(), (count, 1, 2 * count, count), strict=True))
    ramps = {
        channel: stretches(channel, count, is_nested=is_nested) for channel, count in counts.items()
    }
    whole = in_blocks(ramps, 3)
    assert np.array_equal(whole.channels, CHANNELS)
    assert whole.counts.tolist() == [*counts.values()]
    assert whole.records.tolist() == [each.total_records for each in ramps.values()]
    found = [whole.within(*each) for each in pairwise(EDGES_NS)]
    for part, (from_ns, to_ns) in zip(found, pairwise(EDGES_NS), strict=True):
        for channel, own in part.by_channel().items():
            wanted = ramps[channel].within(from_ns, to_ns)
            for ours, theirs in zip(own.columns, wanted.columns, strict=True):
                assert np.array_equal(ours, theirs)
    for channel, each in ramps.items():
        together = [at_ns for part in found for at_ns in instants(part)[channel]]
        late_ns = np.sort(together) - np.sort(each.instants()[1])
        assert np.abs(late_ns).max() <= 1  # those between the ends of a piece are spaced anew


def test_a_channel_that_is_not_there_has_none() -> None:
    ramps = {channel: stretches(channel, 10, is_nested=False) for channel in CHANNELS.tolist()}
    whole = in_blocks(ramps, 2)
    wanted = np.array([1, 3, 11, 20])
    found = instants(whole.only(wanted).within(0, 2_000_000))
    assert {channel: bool(own) for channel, own in found.items()} == {
        1: False,
        3: True,
        11: True,
        20: False,
    }
    assert found[3] == ramps[3].instants()[1].tolist()
    assert instants(ChannelRamps.of([])) == {}


def test_stretches_out_of_order_are_sorted_within_their_channel() -> None:
    ramps = {channel: stretches(channel, 10, is_nested=False) for channel in CHANNELS.tolist()}
    ramps[7] = ramps[7].take(np.arange(10)[::-1])
    found = in_blocks(ramps, 2).in_order().by_channel()
    assert np.array_equal(found[7].first_ns, np.sort(ramps[7].first_ns))
    assert np.array_equal(found[2].records, ramps[2].records)


def test_faster_records_of_some_channels_leave_the_others_alone() -> None:
    ramps = {channel: stretches(channel, 10, is_nested=False) for channel in CHANNELS.tolist()}
    found = in_blocks(ramps, 2).only(CHANNELS[1:]).faster(2.0, 0).by_channel()
    assert [*found] == CHANNELS[1:].tolist()
    assert np.array_equal(found[3].first_ns, np.round(ramps[3].first_ns / 2))
