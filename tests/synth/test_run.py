"""A synthetic run on disk: whole, consistent, and what the plan said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from click.testing import CliRunner

from flinknet.cli import main
from flinknet.config import NetworkConfig, RecordSize, Scenario, WorkloadConfig
from flinknet.errors import ConfigError
from flinknet.synth import run as synth_run
from flinknet.synth.plan import SynthPlan, plan
from flinknet.synth.run import synthesize, write_file
from flinknet.trace import open_run
from flinknet.trace.describe import describe_run
from flinknet.trace.verify import verify_run

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
    monkeypatch.setattr(synth_run, "SLICE_EVENTS", 100)
    monkeypatch.setattr(synth_run, "_SLICE_EVENTS_PER_CHANNEL", 1)
    found = planned()
    write_here(found, tmp_path, stop_ns=found.measured_from_ns)
    result = verify_run(open_run(tmp_path))
    assert result.findings == ()
    assert 0 < result.events < found.events / 2


SYNTH = (sys.executable, "-m", "flinknet", "trace", "synth", "--events", "2G", "--out")


def started(out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*SYNTH, str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_whole_blocks_and_no_process(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = started(tmp_path / "run")
    file = tmp_path / "run" / "tm-1.fnt"
    while process.poll() is None and not (file.exists() and file.stat().st_size > 100_000):
        os.sched_yield()
    os.killpg(process.pid, number)
    out, err = process.communicate()
    assert process.returncode == 128 + number
    assert err == "interrupted: what is there is whole\n"
    assert "events in" in out
    assert verify_run(open_run(tmp_path / "run")).findings == ()
    while group_members(process.pid):  # multiprocessing's own helper ends a moment later
        os.sched_yield()


def test_an_interrupt_while_processes_start_is_the_parents(tmp_path: Path) -> None:
    process = started(tmp_path / "run")
    while process.poll() is None and len(group_members(process.pid)) < 3:
        os.sched_yield()  # itself, multiprocessing's helper, and the first that writes a file
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate()
    assert (process.returncode, err) == (130, "interrupted: what is there is whole\n")
    assert verify_run(open_run(tmp_path / "run")).findings == ()


def test_who_was_killed_leaves_no_writer(tmp_path: Path) -> None:
    process = started(tmp_path / "run")
    file = tmp_path / "run" / "tm-1.fnt"
    while process.poll() is None and not (file.exists() and file.stat().st_size > 100_000):
        os.sched_yield()
    process.kill()
    process.communicate()
    while group_members(process.pid):
        os.sched_yield()


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


def group_members(group: int) -> list[psutil.Process]:
    """Processes of a group that still run."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if process.status() != psutil.STATUS_ZOMBIE and os.getpgid(process.pid) == group:
                found.append(process)
    return found


def write_here(found: SynthPlan, directory: Path, stop_ns: int | None = None) -> None:
    """All files, by this process."""
    names = [f"tm-{number}" for number in range(found.deployment.task_managers)]
    synth_run._manifest(found, names, found.end_ns).save(directory)
    stop = SimpleNamespace(value=stop_ns or found.end_ns)
    for number in range(len(names)):
        counters = SimpleNamespace(value=0), SimpleNamespace(value=0)
        write_file(found, directory, number, *counters, stop)
