"""RecordLatency: the latencies of records that operators hand over."""

from __future__ import annotations

import numpy as np

from flinknet.job.elements import NO_TIMESTAMP
from flinknet.job.task_chain import KEPT_LATENCIES, RecordLatency


def test_records_count_whose_instant_lies_in_the_measured_part() -> None:
    meter = RecordLatency()
    meter.measured_from_ns, meter.measured_to_ns = 100, 200
    meter.add(99, 110)
    meter.add(100, 150)
    meter.add(NO_TIMESTAMP, 160)
    meter.add_batch(np.array([120, 199, 200, NO_TIMESTAMP]), 210)
    meter.settle()
    assert (meter.records, meter.measured_records, meter.last_measured_ns) == (7, 3, 210)
    assert (meter.latency.min, meter.latency.max, meter.latency.total) == (11, 90, 50 + 90 + 11)


def test_what_was_kept_is_counted_before_it_is_too_much() -> None:
    one_by_one, batched = RecordLatency(), RecordLatency()
    for instant_ns in range(KEPT_LATENCIES):
        one_by_one.add(instant_ns, instant_ns + 5)
    batched.add_batch(np.arange(KEPT_LATENCIES), KEPT_LATENCIES)
    for meter in (one_by_one, batched):
        assert meter.measured_records == KEPT_LATENCIES
        meter.settle()
        assert meter.latency.count == KEPT_LATENCIES
