"""Costs are told apart where messages differ in size, and assumed where they do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flinknet.predict.fit.costs import fit_costs, split_cost
from flinknet.predict.fit.window_rows import ExchangeRows
from flinknet.simulator.cost_model import TYPICAL_COSTS
from flinknet.trace import RunManifest
from tests.synthetic_trace import manifest


def test_messages_of_many_sizes_tell_the_fixed_cost_from_that_of_a_record() -> None:
    records = np.arange(1, 1001)
    fixed_ns, per_record_ns, is_told = split_cost(5_000.0 + 20.0 * records, records, 1.0)
    assert is_told
    assert (fixed_ns, per_record_ns) == (
        pytest.approx(5_000, rel=0.01),
        pytest.approx(20, rel=0.01),
    )


def test_outliers_do_not_move_the_costs() -> None:
    records = np.arange(1, 1001)
    total_ns = 5_000.0 + 20.0 * records
    total_ns[::20] += 10_000_000
    fixed_ns, per_record_ns, _ = split_cost(total_ns, records, 1.0)
    assert fixed_ns == pytest.approx(5_000, rel=0.2)
    assert per_record_ns == pytest.approx(20, rel=0.1)


def test_messages_of_one_size_keep_the_assumed_fixed_cost_and_their_total() -> None:
    records = np.full(100, 300)
    fixed_ns, per_record_ns, is_told = split_cost(np.full(100, 40_000.0), records, 10_000.0)
    assert not is_told
    assert fixed_ns == 10_000
    assert fixed_ns + 300 * per_record_ns == pytest.approx(40_000)


def test_the_assumed_cost_is_never_more_than_the_whole() -> None:
    records = np.full(100, 300)
    assert split_cost(np.full(100, 4_000.0), records, 10_000.0)[:2] == (4_000, 0)


def manifest_of(channels: int) -> RunManifest:
    """Channels from one producer to one consumer."""
    found = manifest(channels)
    own = (replace(each, producer=0, consumer=0) for each in found.channels)
    return replace(found, channels=tuple(own))


def buffers(at_ns: np.ndarray, channel: np.ndarray) -> dict[str, np.ndarray]:
    """Buffers of 100 records on two channels."""
    number = np.arange(len(at_ns)) // 2
    return {
        "at_ns": at_ns,
        "channel": channel,
        "sequence_number": number,
        "payload_bytes": np.full(len(at_ns), 1_000),
        "records": np.full(len(at_ns), 100),
    }


def test_a_record_does_not_take_the_time_of_buffers_from_the_same_process() -> None:
    """A consumer of two channels, one of them within its TaskManager, is busy all the time."""
    count, buffer_ns = 200, 1_000_000
    channel = np.arange(count) % 2
    remote = channel == 1
    consumed = buffers(np.arange(1, count + 1) * buffer_ns, channel)
    sent = {name: values[remote] for name, values in consumed.items()}
    sent["at_ns"] = np.zeros(remote.sum(), np.int64)
    received = sent | {"at_ns": np.ones(remote.sum(), np.int64)}
    none = {name: values[:0] for name, values in consumed.items()}
    rows = ExchangeRows(sent, received, consumed, none, none, none)
    (per_record_ns,) = fit_costs(rows, manifest_of(2), None)[0].consume_ns_per_record
    assert per_record_ns == pytest.approx(buffer_ns / 100, rel=0.02)


def one_after_another(lengths_ns: np.ndarray, way_ns: int = 20_000) -> ExchangeRows:
    """Buffers that are all sent at the start, or when there is room, and read without a pause."""
    done_ns = np.cumsum(lengths_ns) + way_ns
    consumed = buffers(done_ns, np.zeros(len(done_ns), np.int64))
    consumed["sequence_number"] = np.arange(len(done_ns))
    sent_ns = np.r_[np.zeros(10, np.int64), done_ns[:-10]]
    sent = consumed | {"at_ns": sent_ns}
    none = {name: values[:0] for name, values in consumed.items()}
    return ExchangeRows(sent, sent | {"at_ns": sent_ns + way_ns}, consumed, none, none, none)


def test_a_consumer_that_never_waits_takes_its_mean_time_for_a_record() -> None:
    """One buffer in four takes three times as long, as its process shares a CPU."""
    lengths_ns = np.where(np.arange(100) % 4 == 0, 36_000_000, 12_000_000)
    rows = one_after_another(lengths_ns)
    (per_record_ns,) = fit_costs(rows, manifest_of(1), None)[0].consume_ns_per_record
    assert per_record_ns == pytest.approx(180_000, rel=0.02)


def test_a_consumer_that_passes_records_on_takes_its_typical_time() -> None:
    """Its longest buffers may be those for which it waited for a buffer of its own."""
    lengths_ns = np.where(np.arange(100) % 4 == 0, 36_000_000, 12_000_000)
    first_edge = replace(manifest_of(1), scenario={"workload": {"relays": 1}})
    costs = fit_costs(one_after_another(lengths_ns), first_edge, None)[0]
    assert costs.consume_ns_per_record[0] == pytest.approx(120_000, rel=0.02)


def test_few_buffers_show_what_a_slow_consumer_takes_where_they_fill_its_time() -> None:
    rows = one_after_another(np.full(12, 60_000_000))
    (per_record_ns,) = fit_costs(rows, manifest_of(1), None)[0].consume_ns_per_record
    assert per_record_ns == pytest.approx(600_000, rel=0.02)


def test_the_way_of_messages_does_not_include_the_messages_ahead_of_them() -> None:
    """Without credit, a message waits in the sockets until all before it were read."""
    rows = one_after_another(np.full(100, 10_000_000))
    read_ns = rows.consumed["at_ns"] - 10_000_000
    rows = replace(rows, received=rows.received | {"at_ns": read_ns})
    assert fit_costs(rows, manifest_of(1), None)[0].transit_ns <= TYPICAL_COSTS.transit_ns
