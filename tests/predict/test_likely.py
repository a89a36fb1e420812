"""The 90% interval of predictions: from draws, and what the model adds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flinknet.config import NetworkConfig
from flinknet.options.what_if import Setting
from flinknet.predict.job import JobEdge, RecordedJob
from flinknet.predict.job_run import simulate_job
from flinknet.predict.loading import load_exchange
from flinknet.predict.outcome import MODEL_NS, MODEL_SHARE, PHASES, Figures, likely_range
from flinknet.predict.what_if import simulate
from flinknet.results import LatencySummary
from flinknet.trace.job_names import ONLY_EDGE, Edge
from flinknet.trace.manifest import TAP
from tests.tapped_run import exchange_of, write_tapped_exchange

MS = 1_000_000


def figures(p50: float | None, buffers_per_s: float | None = 100.0) -> Figures:
    return Figures(LatencySummary(count=1_000, p50=p50), buffers_per_s)


def test_equal_draws_leave_what_the_model_is_off_by() -> None:
    low, high = likely_range(figures(1e6), *[figures(1e6)] * PHASES)
    assert low.latency_ns.p50 == pytest.approx(1e6 / (1 + MODEL_SHARE) - MODEL_NS)
    assert high.latency_ns.p50 == pytest.approx(1e6 * (1 + MODEL_SHARE) + MODEL_NS)
    assert high.buffers_per_s == pytest.approx(100 * (1 + MODEL_SHARE))
    assert low.latency_ns.count == 1_000


def test_draws_that_differ_widen_it_and_the_prediction_lies_within() -> None:
    drawn = [figures(each * 1e6) for each in np.linspace(1.5, 2.5, PHASES)]
    low, high = likely_range(figures(1e6), *drawn)
    assert (low.latency_ns.p50 or 0) <= 1e6
    assert (high.latency_ns.p50 or 0) > 2.4e6


def test_what_is_unknown_stays_unknown() -> None:
    low, high = likely_range(figures(None, None), *[figures(1e6)] * PHASES)
    assert low.latency_ns.p50 is high.latency_ns.p50 is None
    assert low.buffers_per_s is high.buffers_per_s is None


@pytest.mark.parametrize("timeout_ms", [1, 20])
def test_the_truth_lies_in_an_interval_that_is_narrow_enough_to_decide_by(
    tmp_path: Path, timeout_ms: int
) -> None:
    instants_ns = np.cumsum(np.random.default_rng(1).exponential(1 * MS, 4_000)).astype(np.int64)
    true = exchange_of(
        [instants_ns[::2], instants_ns[1::2]],
        NetworkConfig(buffer_timeout_ns=20 * MS),
        duration_ns=int(instants_ns[-1]) + 1,
    )
    path = write_tapped_exchange(tmp_path / "run", true)
    exchange = load_exchange(path, true.measured_from_ns, true.measured_to_ns)
    setting = Setting(NetworkConfig(buffer_timeout_ns=timeout_ms * MS))
    truth = simulate(true, setting.network)
    job = RecordedJob([JobEdge(Edge(1, 0, 0, 1, *ONLY_EDGE), exchange)], TAP)
    found = simulate_job(job, [setting]).edges[0].likely
    assert found is not None
    ends = [[x.latency_ns.p50, x.latency_ns.p99, x.buffers_per_s] for x in found]
    values = [*map(truth.latency.percentile, (0.5, 0.99)), truth.buffers_per_s]
    assert None not in (*ends[0], *ends[1], *values)
    for least, value, most in zip(ends[0], values, ends[1], strict=True):
        assert least <= value <= most
        assert most - least < 0.4 * value
