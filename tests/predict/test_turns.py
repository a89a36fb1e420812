"""What turns cost, found again in the rows of runs that were simulated with known costs."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from flinknet.config import NetworkConfig
from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.predict.fit.turns import LoopFit, fit_loop
from flinknet.predict.fit.window_rows import ExchangeRows
from flinknet.predict.full_speed import preemptions_of
from flinknet.predict.ramps import Ramps
from flinknet.predict.recorded import RecordedChannel, RecordedExchange
from flinknet.predict.what_if import plans_of, recorded_load, simulate
from flinknet.simulator.cluster import Cluster
from flinknet.simulator.cost_model import CostModel, Preemptions
from flinknet.simulator.loop_costs import Jitter, LoopCosts
from flinknet.trace import RunManifest, open_run
from flinknet.trace.schema import COLUMNS
from tests.recorded_run import write_run

MS = 1_000_000
START_NS = 1_000 * MS
RECORDS = 400_000
NETWORK = NetworkConfig()
NONE = np.zeros(0, np.int64)

COSTS = CostModel(
    send_ns_per_message=0.0,
    send_ns_per_byte=0.25,
    transit_ns=9_000.0,
    receive_ns_per_message=14_000.0,
    emit_ns_per_record=22.0,
    consume_ns_per_record=(21.0,),
    back_ns=4_000.0,
    loop=LoopCosts(
        take_credit_ns=20_000.0,
        pick_ns=5_000.0,
        send_ns=20_000.0,
        receive_ns=11_000.0,
        receive_ns_per_byte=0.1,
        decode_ns=14_000.0,
        decode_ns_per_buffer=2_000.0,
        announce_ns=17_000.0,
    ),
)


def exchange_of(
    costs: CostModel, preemptions: tuple[Preemptions, Preemptions] | None = None
) -> RecordedExchange:
    return RecordedExchange(
        producers=1,
        consumers=1,
        channels=(RecordedChannel(0, 0, 0, 0, Ramps.of(START_NS + np.arange(RECORDS)), 105.0),),
        network=NETWORK,
        is_max_rate=True,
        measured_from_ns=START_NS,
        measured_to_ns=START_NS + RECORDS,
        seed=3,
        costs=costs,
        preemptions=((), ()) if preemptions is None else ((preemptions[0],), (preemptions[1],)),
    )


class Rows:
    """A probe that keeps what it is told."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, ...]] = []

    def record(self, *values: int) -> None:
        self.rows.append(values)


def rows_of(exchange: RecordedExchange) -> ExchangeRows:
    """What a run with those costs writes into its trace."""
    load, probe = recorded_load(exchange, NETWORK), Rows()
    cluster = Cluster.of_load(
        load,
        plans_of(exchange, NETWORK),
        exchange.costs,
        start_ns=START_NS,
        probes=(probe, probe),
        preemptions=preemptions_of(exchange, load),
    )
    cluster.run_until_idle()
    columns = dict(zip((each.name for each in COLUMNS), np.array(probe.rows).T, strict=True))

    def where(keep: np.ndarray) -> dict[str, np.ndarray]:
        return {name: values[keep] for name, values in columns.items()}

    point, kind = columns["point"], columns["kind"]
    is_data = (kind == MessageKind.BUFFER_RESPONSE) & np.isin(
        columns["data_type"], [int(each) for each in IS_BUFFER]
    )
    is_wait = (point == TracePoint.WRITER_WAITS) | (point == TracePoint.WRITER_RESUMES)
    is_credit = kind == MessageKind.ADD_CREDIT
    return ExchangeRows(
        sent=where(is_data & (point == TracePoint.SENT)),
        received=where(is_data & (point == TracePoint.RECEIVED)),
        consumed=where(is_data & (point == TracePoint.CONSUMED)),
        credit_sent=where(is_credit & (point == TracePoint.SENT)),
        credit_received=where(is_credit & (point == TracePoint.RECEIVED)),
        waits=where(is_wait),
    )


@pytest.fixture
def manifest(tmp_path: Path) -> RunManifest:
    found = open_run(write_run(tmp_path / "run", channels=1, buffers=20)).manifest
    assert found is not None
    return found


def fitted(exchange: RecordedExchange, manifest: RunManifest) -> LoopFit:
    found = fit_loop(rows_of(exchange), manifest)
    assert found is not None
    return found


def test_costs_that_a_run_was_made_with_are_found_in_its_rows(manifest: RunManifest) -> None:
    found, loop = fitted(exchange_of(COSTS), manifest), COSTS.loop
    assert loop is not None
    for name, cost in asdict(loop).items():
        assert getattr(found.costs, name) == pytest.approx(cost, rel=0.05), name
    assert found.send_ns_per_byte == pytest.approx(COSTS.send_ns_per_byte, rel=0.05)
    assert found.emit_ns_per_record == pytest.approx(COSTS.emit_ns_per_record, rel=0.05)
    assert found.runs["tm-1"].fixed_ns == pytest.approx(COSTS.receive_ns_per_message, rel=0.05)
    assert found.runs["tm-1"].unit_ns == pytest.approx(COSTS.consume_ns_per_record[0], rel=0.05)


def test_a_run_that_is_made_again_with_what_was_found_is_as_fast(manifest: RunManifest) -> None:
    exchange = exchange_of(COSTS)
    found = fitted(exchange, manifest)
    again = replace(
        COSTS,
        send_ns_per_byte=found.send_ns_per_byte,
        transit_ns=found.transit_ns,
        back_ns=found.back_ns,
        emit_ns_per_record=found.emit_ns_per_record,
        receive_ns_per_message=found.runs["tm-1"].fixed_ns,
        consume_ns_per_record=(found.runs["tm-1"].unit_ns,),
        loop=found.costs,
    )
    one, other = (simulate(replace(exchange, costs=each), NETWORK) for each in (COSTS, again))
    assert other.duration_ns == pytest.approx(one.duration_ns, rel=0.02)
    assert other.latency.percentile(0.5) == pytest.approx(one.latency.percentile(0.5), rel=0.03)


def test_preemptions_and_jitter_are_found_beside_the_costs(manifest: RunManifest) -> None:
    jitter_ns = np.array([12_000, -12_000, 4_000, -4_000])
    held = Preemptions(np.array([10 * MS]), np.array([3 * MS]), NONE)
    varied = Preemptions(np.array([20 * MS]), np.array([5 * MS]), NONE, Jitter(decode_ns=jitter_ns))
    found = fitted(exchange_of(COSTS, (held, varied)), manifest).preemptions
    for name, lengths_ms in (("tm-0", 3), ("tm-1", 5)):
        assert found[name].lengths_ns.tolist() == [pytest.approx(lengths_ms * MS, rel=0.1)]
    assert found["tm-0"].starts_ns.tolist() == [pytest.approx(START_NS + 10 * MS, abs=MS)]
    decoding = found["tm-1"].jitter.decode_ns
    assert abs(float(decoding.mean())) < 500
    low_ns, high_ns = np.quantile(decoding, [0.1, 0.9])
    assert high_ns - low_ns == pytest.approx(24_000, rel=0.2)
    others = [
        *(getattr(found["tm-0"].jitter, name) for name in ("pick_ns", "send_ns", "write_ns")),
        *(getattr(found["tm-1"].jitter, name) for name in ("announce_ns", "read_ns")),
    ]
    for each in others:
        assert len(each), "nothing was seen of it"
        low_ns, high_ns = np.quantile(each, [0.1, 0.9])
        assert high_ns - low_ns < 1_000


def dearer(name: str, by_ns: float) -> CostModel:
    """COSTS with one part of a turn that takes longer."""
    loop = COSTS.loop
    assert loop is not None
    if name == "read_ns":
        return replace(COSTS, receive_ns_per_message=COSTS.receive_ns_per_message + by_ns)
    return replace(COSTS, loop=replace(loop, **{name: getattr(loop, name) + by_ns}))


@pytest.mark.parametrize("name", ["pick_ns", "send_ns", "decode_ns", "announce_ns", "read_ns"])
def test_jitter_costs_what_it_is(name: str) -> None:
    each = Preemptions(NONE, NONE, NONE, Jitter(**{name: np.array([6_000])}))
    outcome = simulate(exchange_of(COSTS, (each, each)), NETWORK)
    expected = simulate(exchange_of(dearer(name, 6_000.0)), NETWORK)
    assert outcome.duration_ns == pytest.approx(expected.duration_ns, rel=0.01)


def test_jitter_of_writing_holds_up_the_records() -> None:
    none, slow = (
        Preemptions(NONE, NONE, NONE, Jitter(write_ns=np.array([by_ns]))) for by_ns in (0, 200_000)
    )
    one, other = (
        simulate(exchange_of(COSTS, (each, none)), NETWORK).duration_ns for each in (none, slow)
    )
    assert other > 1.3 * one


def test_who_both_produces_and_consumes_is_not_told_apart(manifest: RunManifest) -> None:
    (channel,) = manifest.channels
    both = replace(manifest, channels=(replace(channel, consumer_process="tm-0"),))
    assert fit_loop(rows_of(exchange_of(COSTS)), both) is None


def test_nothing_is_told_of_a_run_that_did_too_little(manifest: RunManifest) -> None:
    rows = rows_of(exchange_of(COSTS))
    few = {name: values[:5] for name, values in rows.credit_sent.items()}
    assert fit_loop(replace(rows, credit_sent=few), manifest) is None
