"""A synthetic run on disk: whole, consistent, and what the plan said."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from flinknet.cli import main
from flinknet.config import NetworkConfig, RecordSize, Scenario, WorkloadConfig
from flinknet.errors import ConfigError
from flinknet.predict.synth import run as synth_run
from flinknet.predict.synth.plan import SynthPlan, plan
from flinknet.predict.synth.run import synthesize, write_slices
from flinknet.trace import TraceReader, open_run
from flinknet.trace.describe import describe_run
from flinknet.trace.verify import verify_run
from tests.runtime.processes import wait_until

pytestmark = pytest.mark.usefixtures("usual_signals")

MS = 1_000_000


def planned(
    *, timeout_ns: int = 5 * MS, skew: float = 0.0, events: int | None = None, **workload: int
) -> SynthPlan:
    given = {"producers": 2, "consumers": 3, "rate_per_s": 20_000.0, "warmup_ns": 100 * MS}
    scenario = Scenario(
        network=NetworkConfig(buffer_timeout_ns=timeout_ns, exclusive_buffers=4),
        workload=WorkloadConfig(**given | {"duration_ns": 500 * MS} | workload),  # type: ignore[arg-type]
        seed=3,
    )
    return plan(scenario, skew=skew, events=events)


@pytest.mark.parametrize("timeout_ns", [0, MS, 100 * MS, -1])
@pytest.mark.parametrize("skew", [0.0, 1.5])
def test_a_synthetic_run_passes_every_check(tmp_path: Path, timeout_ns: int, skew: float) -> None:
    found = planned(timeout_ns=timeout_ns, skew=skew)
    write_here(found, tmp_path)
    result = verify_run(open_run(tmp_path))
    assert result.findings == ()
    assert result.channels == 6
    assert result.messages_sent == result.messages_received


def test_as_many_events_as_were_asked_for(tmp_path: Path) -> None:
    found = planned(events=200_000)
    made = synthesize(found, tmp_path / "run")
    assert made.events == pytest.approx(200_000, rel=0.01)
    described = describe_run(open_run(tmp_path / "run"))
    assert described.events == made.events
    assert described.manifest is not None
    assert described.manifest.is_synthetic


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    synthesize(planned(), tmp_path / "a")
    synthesize(planned(), tmp_path / "b")
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_what_is_stopped_early_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synth_run, "SLICE_EVENTS", 200)
    monkeypatch.setattr(synth_run, "_SLICE_EVENTS_PER_CHANNEL", 1)
    found = planned()
    write_here(found, tmp_path, stop_ns=found.measured_from_ns)
    result = verify_run(open_run(tmp_path))
    assert result.findings == ()
    assert 0 < result.events < found.events / 2


SYNTH = (sys.executable, "-m", "flinknet", "trace", "synth", "--events", "2G", "--out")


GIVE_UP_S = 60
"""Far longer than anything that is waited for takes."""


def wait_until_it_writes(process: subprocess.Popen[str], out: Path) -> None:
    """Until it does, both files."""
    files = [out / "tm-0.fnt", out / "tm-1.fnt"]
    wait_until(
        lambda: all(file.exists() and file.stat().st_size > 100_000 for file in files), process
    )
    assert process.poll() is None


@pytest.mark.slow("real processes for each case", first=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_leaves_whole_blocks(tmp_path: Path, number: signal.Signals) -> None:
    call = [*SYNTH, str(tmp_path / "run")]
    process = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until_it_writes(process, tmp_path / "run")
        process.send_signal(number)
        out, err = process.communicate(timeout=GIVE_UP_S)
    finally:
        process.kill()
    assert process.returncode == 128 + number
    assert err == "interrupted: what was written is complete\n"
    assert "events in" in out
    assert verify_run(open_run(tmp_path / "run")).findings == ()


def test_progress_that_cannot_be_told_ends_all(tmp_path: Path) -> None:
    def tell(_: int) -> None:
        raise BrokenPipeError("nobody listens")

    found = planned(events=20_000_000)
    with pytest.raises(BrokenPipeError, match="nobody listens"):
        synthesize(found, tmp_path / "run", tell)
    assert events_written(tmp_path / "run") < found.events / 4


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(ConfigError, match="is not empty"):
        synthesize(planned(), tmp_path)
    call = ["trace", "synth", "--out", str(tmp_path), "--events", "10"]
    refused = CliRunner().invoke(main, call)
    assert refused.exit_code == 2
    assert refused.stdout == ""  # nothing is announced that is not made
    assert f"--out: {tmp_path} is not empty" in refused.stderr


def test_what_is_announced_is_in_units_for_people_and_holds(tmp_path: Path) -> None:
    call = ["trace", "synth", "--out", str(tmp_path / "run"), "--events", "10"]
    announced, made = CliRunner().invoke(main, call).stdout.splitlines()
    assert announced == (
        "seed 1, about 10 events over 11.9 ms, and up to 40 for the ends of 4 channels"
    )
    assert 10 <= int(made.split()[0]) <= 50


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rate_per_s": 0.0}, "--rate"),
        ({"rate_per_s": 1e8}, "lower the rate"),
        ({"record_size": RecordSize(10, 20)}, "--record-size"),
        ({"arrivals": "poisson"}, "--arrivals"),
        ({"records": 5, "duration_ns": None}, "--records"),
    ],
)
def test_what_cannot_be_made_is_refused(changes: dict[str, int], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        planned(**changes)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--events", "many"], "not a number of events"),
        (["--events", "1M", "--duration", "3s"], "give one of them"),
        (["--rate", "max"], "needs one"),
    ],
)
def test_a_wrong_call_is_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    from flinknet.cli.trace_synth import synth

    result = CliRunner().invoke(synth, ["--out", str(tmp_path / "run"), *arguments])
    assert isinstance(result.exception, ConfigError)
    assert says in str(result.exception)
    assert not (tmp_path / "run").exists()


def events_written(directory: Path) -> int:
    """In all files; each is whole."""
    events = 0
    for path in directory.glob("*.fnt"):
        with TraceReader(path) as reader:
            assert reader.is_whole
            events += sum(block.count for block in reader.blocks())
    return events


def write_here(found: SynthPlan, directory: Path, stop_ns: int | None = None) -> None:
    """All files, up to an instant."""
    for _, reached_ns in write_slices(found, directory):
        if stop_ns is not None and reached_ns >= stop_ns:
            return
