"""Timestamps of records that follow the clock say when the records of a buffer came."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flinknet.arrays import EventColumns, IntArray
from flinknet.config import NetworkConfig
from flinknet.core.wire.records import NO_TIME, SAMPLES
from flinknet.predict.captured_rows import BY_TIMESTAMPS, stamped
from flinknet.predict.fit.arrivals import Seen
from flinknet.predict.loading import load_exchange
from flinknet.predict.what_if import simulate
from flinknet.trace.schema import TIMESTAMPS
from tests.recorded_run import START_NS
from tests.tapped_run import exchange_of, write_tapped_exchange

MS = 1_000_000
BEAT_NS = 100 * MS
EPOCH_NS = -1_000_000 * MS
"""Wall clock and clock of the trace are 1,000 s apart."""


def beats(came_ns: IntArray, age_ms: int = 0) -> tuple[dict[int, Seen], EventColumns]:
    """One channel that is flushed each 100 ms: as a capture sees it, and its rows with a sample.

    Args:
        age_ms: age of records when they come.
    """
    beat = came_ns // BEAT_NS
    numbers, firsts, records = np.unique(beat, return_index=True, return_counts=True)
    stamps_ms = np.full((len(numbers), SAMPLES), NO_TIME)
    for row, (first, count) in enumerate(zip(firsts.tolist(), records.tolist(), strict=True)):
        sample = came_ns[first : first + count : -(-count // SAMPLES)]
        stamps_ms[row, : len(sample)] = (sample - EPOCH_NS) // MS - age_ms
    at_ns = (numbers + 1) * BEAT_NS
    seen = Seen(records, numbers * BEAT_NS, at_ns, np.ones(len(numbers), np.bool_))
    later_ms = np.where(stamps_ms == NO_TIME, NO_TIME, stamps_ms - stamps_ms[:, :1])
    columns = zip(TIMESTAMPS, [stamps_ms[:, 0], *later_ms.T[1:]], strict=True)
    zeros = np.zeros(len(numbers), np.int64)
    rows = {"at_ns": at_ns, "channel": zeros, "sequence_number": numbers, "records": records}
    return {0: seen}, {**rows, **dict(columns)}


@pytest.mark.parametrize("records_in_100_ms", [4, 60])
def test_records_come_when_their_timestamps_say(records_in_100_ms: int) -> None:
    """All of a beat come in its first 20 ms, which their number cannot show."""
    within = np.arange(records_in_100_ms) * (20 * MS // records_in_100_ms)
    came_ns = np.sort((np.arange(50)[:, None] * BEAT_NS + within).ravel())
    seen, sent = beats(came_ns)
    found = stamped(seen, sent, EPOCH_NS)
    assert found is not None
    instants_ns = found[0].evenly().instants()[1]
    assert len(instants_ns) == len(came_ns)
    assert np.abs(instants_ns - came_ns).max() <= 3 * MS
    assert np.abs(seen[0].evenly().instants()[1] - came_ns).max() > 50 * MS


@pytest.mark.parametrize("sampled", [0, 1])
def test_buffers_with_a_sample_of_at_most_one_record_stay_as_they_are(sampled: int) -> None:
    """One timestamp of ten would put all ten records into its millisecond."""
    seen, sent = beats(np.arange(200) * 10 * MS)
    for name in TIMESTAMPS[sampled:]:
        sent[name][7] = NO_TIME
    found = stamped(seen, sent, EPOCH_NS)
    assert found is not None
    assert found[0].records.sum() == 200
    (place,) = np.flatnonzero(found[0].at_ns - found[0].since_ns == BEAT_NS)
    assert (found[0].records[place], found[0].since_ns[place]) == (10, 7 * BEAT_NS)


@pytest.mark.parametrize("age_ms", [150, 3_600_000, -3_600_000])
def test_timestamps_of_older_records_say_nothing_of_arrivals(age_ms: int) -> None:
    seen, sent = beats(np.arange(200) * 10 * MS, age_ms)
    assert stamped(seen, sent, EPOCH_NS) is None


def test_a_recording_at_100_ms_shows_by_timestamps_what_a_short_timeout_brings(
    tmp_path: Path,
) -> None:
    """Each 100 ms has two groups of three records, as a poll returns them."""
    came_ns = np.sort(
        (np.arange(60)[:, None] * BEAT_NS + np.array([21, 21, 21, 74, 74, 74]) * MS).ravel()
    )
    network = NetworkConfig(buffer_timeout_ns=100 * MS)
    recorded = exchange_of([came_ns], network, duration_ns=60 * BEAT_NS)
    truth = simulate(recorded, NetworkConfig(buffer_timeout_ns=5 * MS))
    found = {}
    for has_timestamps in (False, True):
        path = write_tapped_exchange(
            tmp_path / str(has_timestamps), recorded, has_timestamps=has_timestamps
        )
        fit = load_exchange(path, START_NS, START_NS + 60 * BEAT_NS)
        assert (BY_TIMESTAMPS in fit.notes) == has_timestamps
        found[has_timestamps] = simulate(fit, NetworkConfig(buffer_timeout_ns=5 * MS))
    assert found[True].messages == pytest.approx(truth.messages, rel=0.12)
    assert (found[False].messages or 0) > 1.5 * (truth.messages or 0)
    (own,) = fit.channels
    assert np.abs(own.arrivals_ns - START_NS - came_ns).max() <= 2 * MS
