"""The law of a synthetic channel: ticks and fills, order and credit, however it is sliced."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bench.synthetic_channel import ChannelLaw, SyntheticChannel
from flinknet.arrays import EventColumns
from flinknet.core.probe import FlushReason

MS = 1_000_000
S = 1_000 * MS
LAW = ChannelLaw(
    channel=0,
    seed=1,
    first_ns=S + 0.5,
    gap_ns=50_000.0,
    record_bytes=105,
    segment_bytes=32 * 1024,
    timeout_ns=10 * MS,
    beat_ns=S + 3 * MS,
    period_ns=10 * MS + 100_000,
    credit=2,
)


def whole(law: ChannelLaw, cuts_ns: list[int], end_ns: int) -> EventColumns:
    """The buffers of a run made in slices."""
    channel = SyntheticChannel(law)
    parts = [channel.until(cut_ns) for cut_ns in sorted(cuts_ns)]
    parts.append(channel.until(end_ns, is_end=True))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@given(
    gap_ns=st.floats(1_000, 3e6),
    timeout_ns=st.sampled_from([0, MS, 7 * MS, 50 * MS, -1]),
    record_bytes=st.integers(13, 5_000),
    segment_bytes=st.sampled_from([4_096, 32_768]),
    cuts=st.lists(st.integers(1, 199), max_size=5),
)
@example(gap_ns=1_000.0, timeout_ns=0, record_bytes=512, segment_bytes=4_096, cuts=[1])
@settings(max_examples=60)
def test_every_record_leaves_once_in_order_with_credit_however_sliced(
    gap_ns: float, timeout_ns: int, record_bytes: int, segment_bytes: int, cuts: list[int]
) -> None:
    law = replace(
        LAW,
        gap_ns=gap_ns,
        timeout_ns=timeout_ns,
        period_ns=max(timeout_ns, 0) + 100_000,
        record_bytes=record_bytes,
        segment_bytes=segment_bytes,
        credit=50,
    )
    end_ns = S + 200 * MS
    made = whole(law, [S + cut * MS for cut in cuts], end_ns)
    once = whole(law, [], end_ns)
    for name in made:
        if name != "backlog_buffers":  # a slice does not see what is due behind it
            assert np.array_equal(made[name], once[name]), name
    records = int(law.records_until(np.array([end_ns - 1]))[0])
    assert made["records"].sum() == records
    assert made["payload_bytes"].sum() == records * record_bytes
    assert made["payload_bytes"].max() <= segment_bytes
    assert (made["sequence_number"] == np.arange(len(made["records"]))).all()
    for name in ("sent_ns", "received_ns", "consumed_ns", "credit_ns", "credit_received_ns"):
        assert (np.diff(made[name]) >= 0).all()
    assert (made["received_ns"] > made["sent_ns"]).all()
    assert (made["consumed_ns"] > made["received_ns"]).all()
    assert (made["sent_ns"][law.credit :] >= made["credit_received_ns"][: -law.credit]).all()
    assert (made["free_buffers"] >= 1).all()
    assert (made["free_buffers"] <= law.credit).all()


def test_messages_and_waits_follow_ticks_and_fills() -> None:
    """1/t + 1/F messages a second; a record waits a/2 - a²/(6b) for the earlier of the two."""
    fill_ns = LAW.segment_bytes / LAW.record_bytes * LAW.gap_ns
    short, long = sorted((float(LAW.period_ns), fill_ns))
    made = whole(LAW, [], 101 * S)
    assert len(made["records"]) / 100 == pytest.approx(S / LAW.period_ns + S / fill_ns, rel=0.002)
    middle_ns = (made["first_record_ns"] + made["last_record_ns"]) / 2
    waits_ns = np.average(made["sent_ns"] - middle_ns, weights=made["records"])
    law_ns = short / 2 - short**2 / (6 * long)
    assert waits_ns == pytest.approx(law_ns, rel=0.02)
    full = np.count_nonzero(made["reason"] == FlushReason.FULL)
    assert full / 100 == pytest.approx(S / fill_ns, rel=0.01)


def test_a_channel_that_does_not_keep_up_is_an_error() -> None:
    law = replace(LAW, timeout_ns=0, credit=1, gap_ns=1_000.0)
    with pytest.raises(ValueError, match="does not keep up"):
        whole(law, [], S + 20 * MS)
