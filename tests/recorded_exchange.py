"""A recorded exchange with evenly spaced records, from which tests make theirs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flinknet.config import NetworkConfig
from flinknet.predict.ramps import Ramps
from flinknet.predict.recorded import RecordedChannel, RecordedExchange
from flinknet.simulator.cost_model import CostModel
from tests.simulation import S

FROM_NS = 3 * S


def steady(rate_per_s: float = 1.0, seconds: float = 1.0, **changes: object) -> RecordedExchange:
    """One channel with evenly spaced records; or an exchange with changes, such as channels."""
    records = int(rate_per_s * seconds)
    last_ns = FROM_NS + int(seconds * S)
    arrivals = Ramps(np.array([records]), np.array([FROM_NS]), np.array([last_ns - 1]))
    exchange = RecordedExchange(
        1,
        1,
        (RecordedChannel(0, 0, 0, 0, arrivals, 105.0),),
        NetworkConfig(),
        False,
        FROM_NS,
        last_ns,
        7,
        CostModel(12_000.0, 0.15, 50_000.0, 12_000.0, 100.0, (20.0,)),
    )
    return replace(exchange, **changes)  # type: ignore[arg-type]
