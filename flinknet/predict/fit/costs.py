"""Costs of the steps on a buffer's way in a recorded run, fitted from its rows by medians.

A run shows how long a message took as a whole. The share of the message itself and that of its
bytes or records can only be separated if messages differ in size. If they do not, the share of the
message is assumed to be that of flinknet's own stack; a note says so.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray
from flinknet.simulator.cost_model import TYPICAL_COSTS, CostModel
from flinknet.trace import RunManifest
from flinknet.trace.event_block import same_message

from .round_trips import ASSUMED_CONSUME_NS_PER_RECORD
from .saturation import Service, services_of, unqueued_ns
from .window_rows import ExchangeRows

SATURATED_SEND_SHARE = 0.05
"""Share of a producer's time at the highest rate that belongs to messages and not to records: one
system call sends many full buffers. Busy time per record with buffers of 8 and of 32 KiB was 13.7
and 16.5 ns, 19.0 and 25.8."""

_SIZES_DIFFER = 2.0
"""Least ratio of the upper to the lower quartile of sizes at which two costs can be separated."""


def fit_costs(
    rows: ExchangeRows, manifest: RunManifest, emit_busy_ns_per_record: float | None
) -> tuple[CostModel, list[str]]:
    """Fit the costs of one run, and name the assumptions behind them.

    Args:
        rows: of a part of the measured window.
        emit_busy_ns_per_record: busy time of producers for each record at the highest rate; None
            for a run with a rate, which does not show it.
    """
    notes: list[str] = []
    sent_at, received_at = same_message(rows.sent, rows.received)
    ways_ns = rows.received["at_ns"][received_at] - rows.sent["at_ns"][sent_at]
    transit_ns = unqueued_ns(_median(ways_ns, TYPICAL_COSTS.transit_ns), rows.sent, rows.received)
    consumers = 1 + max((each.consumer for each in manifest.channels), default=0)
    receive_ns, consume_ns = _fit_consumers(services_of(rows, manifest), consumers, notes)
    records_per_message = _mean(rows.sent["records"], 1.0)
    bytes_per_message = _mean(rows.sent["payload_bytes"], 0.0)
    emit_ns = TYPICAL_COSTS.emit_ns_per_record
    send_ns, send_ns_per_byte = TYPICAL_COSTS.send_ns_per_message, TYPICAL_COSTS.send_ns_per_byte
    if emit_busy_ns_per_record is not None:
        busy_ns = emit_busy_ns_per_record * records_per_message
        message_ns = send_ns + send_ns_per_byte * bytes_per_message
        share_ns = min(message_ns, SATURATED_SEND_SHARE * busy_ns)
        scale = share_ns / message_ns
        send_ns, send_ns_per_byte = send_ns * scale, send_ns_per_byte * scale
        emit_ns = (busy_ns - share_ns) / records_per_message
        notes.append(
            f"assumed: sending takes {send_ns / 1e3:.1f} us a message of the producer's time;"
            " one run does not separate it from the time of its records"
        )
    costs = CostModel(
        send_ns_per_message=send_ns,
        send_ns_per_byte=send_ns_per_byte,
        transit_ns=max(transit_ns, 0.0),
        receive_ns_per_message=receive_ns,
        emit_ns_per_record=emit_ns,
        consume_ns_per_record=consume_ns,
    )
    return costs, notes


def split_cost(
    total_ns: npt.NDArray[np.float64], units: IntArray, assumed_fixed_ns: float
) -> tuple[float, float, bool]:
    """Split the cost of messages into a fixed part and one for each unit (record or byte).

    Returns: fixed ns, ns for a unit, and whether the sizes differ enough for that.
    """
    low, high = np.quantile(units, [0.25, 0.75])
    small, large = units <= low, units >= high
    typical_ns, typical_units = float(np.median(total_ns)), max(float(np.median(units)), 1.0)
    units_small, units_large = float(np.median(units[small])), float(np.median(units[large]))
    if units_large >= _SIZES_DIFFER * max(units_small, 1.0):
        step_ns = float(np.median(total_ns[large]) - np.median(total_ns[small]))
        slope = min(max(step_ns / (units_large - units_small), 0.0), typical_ns / typical_units)
        return max(typical_ns - slope * typical_units, 0.0), slope, True
    fixed_ns = min(assumed_fixed_ns, typical_ns)
    return fixed_ns, (typical_ns - fixed_ns) / typical_units, False


def _fit_consumers(
    services: Mapping[int, Service], consumers: int, notes: list[str]
) -> tuple[float, tuple[float, ...]]:
    """Time of a consumer for each message (median over consumers) and for each record of each
    consumer, in ns.

    A consumer that never waits takes its mean time for a record, however uneven: that is the rate
    at which it takes records. Of others the typical time counts, and `delays` has the rest.
    """
    fixed: list[float] = []
    per_record = [ASSUMED_CONSUME_NS_PER_RECORD] * consumers
    for index, own in services.items():
        message_ns, record_ns, is_known = split_cost(
            own.lengths_ns.astype(np.float64), own.records, TYPICAL_COSTS.receive_ns_per_message
        )
        if own.is_saturated:
            rest_ns = int(own.lengths_ns.sum()) - message_ns * len(own.records)
            record_ns = max(rest_ns, 0.0) / int(own.records.sum())
        per_record[index] = record_ns
        fixed.append(message_ns)
        if not is_known and not notes:
            message_us = TYPICAL_COSTS.receive_ns_per_message / 1e3
            notes.append(
                f"assumed: a consumer takes up to {message_us:.0f} us for a message; its messages"
                " are too similar in size to separate the cost per message"
            )
    return float(np.median(fixed)) if fixed else TYPICAL_COSTS.receive_ns_per_message, tuple(
        per_record
    )


def _median(values: npt.NDArray[np.int64], otherwise: float) -> float:
    return float(np.median(values)) if len(values) else otherwise


def _mean(values: IntArray, otherwise: float) -> float:
    return float(values.mean()) if len(values) and values.any() else otherwise
