"""Runs of very many channels: verdicts rest on all of them, answers are about those that tell
most."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinknet.replay.advise.judged import judged
from flinknet.replay.observe import observed
from flinknet.replay.observe.measured import message_counts, over_time, replayed_channels
from flinknet.replay.observe.observed import collect, observe
from flinknet.replay.read import open_recorded_run
from flinknet.results import ReplayedChannel

CHANNELS = 12
WANTED = 5


def tells_most(channel: ReplayedChannel) -> tuple[float, ...]:
    late_ns, waits_ns = channel.latency_ns.p99 or 0, channel.starved_ns or 0
    return -late_ns, -waits_ns, -channel.records, channel.channel


@pytest.mark.spark
def test_answers_are_about_the_channels_that_tell_most_and_verdicts_rest_on_all(
    spark: Any,
    tmp_path: Path,
    make_run: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = open_recorded_run(make_run(tmp_path / "run", buffers=150, channels=CHANNELS), 0)
    tables = observe(spark, [run])
    (whole,) = collect(tables, [run])
    monkeypatch.setattr(observed, "DETAILED_CHANNELS_MAX", 3)
    (some,) = collect(tables, [run], [WANTED])

    assert some.measured == whole.measured
    assert judged([some]) == judged([whole])
    assert message_counts(some) == message_counts(whole)
    assert over_time(some) == over_time(whole)

    every, told = replayed_channels(whole), replayed_channels(some)
    assert (len(every), whole.rows.channels_omitted) == (CHANNELS, 0)
    assert (len(told), some.rows.channels_omitted) == (3, CHANNELS - 3)
    others = [each for each in sorted(every, key=tells_most) if each.channel != WANTED]
    expected = {WANTED, others[0].channel, others[1].channel}
    assert [each for each in every if each.channel in expected] == list(told)
