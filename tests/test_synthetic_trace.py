"""A synthetic run on disk: whole, consistent, and what was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import synthetic_trace
from bench.synthetic_trace import make_run
from flinknet.config import NetworkConfig, Scenario, WorkloadConfig
from flinknet.trace import open_run
from flinknet.trace.verify import verify_run

MS = 1_000_000


def scenario(timeout_ns: int = 5 * MS) -> Scenario:
    return Scenario(
        NetworkConfig(buffer_timeout_ns=timeout_ns, exclusive_buffers=4),
        WorkloadConfig(2, 3, rate_per_s=20_000.0, warmup_ns=100 * MS, duration_ns=500 * MS),
        seed=3,
    )


@pytest.mark.parametrize("timeout_ns", [0, MS, 100 * MS, -1])
@pytest.mark.parametrize("skew", [0.0, 1.5])
def test_a_synthetic_run_passes_every_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timeout_ns: int, skew: float
) -> None:
    monkeypatch.setattr(synthetic_trace, "SLICE_EVENTS", 200)
    monkeypatch.setattr(synthetic_trace, "SLICE_EVENTS_PER_CHANNEL", 1)
    events = make_run(tmp_path / "run", scenario(timeout_ns), skew=skew)
    result = verify_run(open_run(tmp_path / "run"))
    assert result.findings == ()
    assert (result.events, result.channels) == (events, 6)
    assert result.messages_sent == result.messages_received


def test_as_many_events_as_were_asked_for_and_the_same_seed_gives_the_same_bytes(
    tmp_path: Path,
) -> None:
    for name in ("a", "b"):
        made = make_run(tmp_path / name, scenario(), events=100_000)
        assert made == pytest.approx(100_000, rel=0.01)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_a_run_that_is_there_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["synthetic_trace", "--events", "1000", "--out", str(tmp_path / "run")]
    monkeypatch.setattr("sys.argv", call)
    synthetic_trace.main()
    before = {each.name: each.read_bytes() for each in (tmp_path / "run").iterdir()}
    with pytest.raises(SystemExit):
        synthetic_trace.main()
    assert "run is there already; give a new directory" in capsys.readouterr().err
    assert {each.name: each.read_bytes() for each in (tmp_path / "run").iterdir()} == before
