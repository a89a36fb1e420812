"""A Spark that does not start says so in one line: masters that do not answer, or cannot be."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinknet.errors import ConfigError, FlinknetError
from flinknet.replay.spark.jvm import cause_in
from flinknet.replay.spark.settings import check_master
from tests.recorded_run import write_run


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that refuses connections, for nobody else can have it meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.socket
def test_a_master_that_does_not_answer_is_named(silent: str) -> None:
    with pytest.raises(
        FlinknetError, match=f"no Spark master answers at spark://{silent} "
    ) as found:
        check_master(f"spark://{silent}")
    assert found.value.exit_code == 4


@pytest.mark.socket
def test_one_of_several_masters_is_enough(silent: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(f"spark://{silent},127.0.0.1:{server.getsockname()[1]}")
    with pytest.raises(FlinknetError) as found:
        check_master(f"spark://{silent},{silent}")
    assert str(found.value).count(silent) == 2


@pytest.mark.parametrize("master", ["local[2]", "yarn", "k8s://https://nowhere.invalid:443"])
def test_other_masters_are_not_asked(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize(
    "master",
    [
        "spark://",
        "spark://host",
        "spark://host:x",
        "spark://:7077",
        "spark://h:70777",
        "spark://h:1,",
        "spark://user:pw@h:1",
    ],
)
def test_a_url_without_host_and_port_says_what_is_expected(master: str) -> None:
    with pytest.raises(ConfigError, match="write spark://HOST:PORT"):
        check_master(master)


def replayed(run: Path, master: str, *command: str) -> subprocess.CompletedProcess[str]:
    command = command or (sys.executable, "-m", "flinknet")
    arguments = ("trace", "replay", str(run), "--master", master)
    return subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(run.parent)},
    )


def check_told(done: subprocess.CompletedProcess[str], run: Path, told: str) -> None:
    """One line, an exit code of its own, no file left."""
    *started, why = done.stderr.splitlines()
    assert started in ([], ["flinknet: starting Spark …"])
    assert done.returncode == 4
    assert told in why
    assert list(run.parent.iterdir()) == [run]


@pytest.mark.socket
def test_a_replay_without_its_master_ends_in_one_line(tmp_path: Path, silent: str) -> None:
    run = write_run(tmp_path / "run", buffers=20)
    check_told(replayed(run, f"spark://{silent}"), run, f"at spark://{silent} (Connection refused)")


@pytest.mark.slow("a JVM of its own")
@pytest.mark.spark
def test_what_java_says_of_a_master_is_told_in_one_line(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", buffers=20)
    check_told(replayed(run, "local[x]"), run, "Could not parse Master URL: 'local[x]'")


UNREGISTERED = """
import sys
from flinknet.cli import main
from flinknet.replay.spark import jvm

jvm._NOT_REGISTERED = "local-"  # Spark itself gives up after a minute
main(sys.argv[1:])
"""


@pytest.mark.slow("a JVM of its own")
@pytest.mark.spark
def test_a_master_that_takes_no_application_is_told(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", buffers=20)
    done = replayed(run, "local[1]", sys.executable, "-c", UNREGISTERED)
    check_told(done, run, "local[1] answers, but takes no application")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("An error occurred while calling x.\n: java.E: why\n\tat a.b(C.scala:1)\n", "java.E: why"),
        (": java.E: why\n\tat a\nCaused by: java.F: deeper\n\tat b\n", "java.F: deeper"),
        ("[NO_TABLE] There is none.\nSQLSTATE: 1", "[NO_TABLE] There is none."),
    ],
)
def test_the_last_cause_of_a_stack_is_found(text: str, cause: str) -> None:
    assert cause_in(text) == cause
