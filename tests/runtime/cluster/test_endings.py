"""Which of several endings is the cause, and what the one line says."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from flinknet.errors import ConfigError, LocalTransportError, RunFailedError
from flinknet.runtime.cluster.cluster_process import Ending, error_of

DEATH = Ending(0, 4711, exit_code=-9)
LOSS = Ending(1, 4712, error="the connection to tm-0 was closed by it", kind="RemoteTransportError")
OWN_FAULT = Ending(2, 4713, error="records were lost", kind="RunFailedError")


def test_a_death_is_the_cause_and_losses_are_reported_with_it() -> None:
    error = error_of([LOSS, DEATH], Path("/runs/1"))
    assert isinstance(error, RunFailedError)
    assert str(error) == (
        "tm-0 (pid 4711) died in mid-run, killed by signal 9. tm-1: the connection to tm-0 was"
        " closed by it. What was recorded is in /runs/1"
    )


@pytest.mark.parametrize("endings", list(itertools.permutations([DEATH, LOSS, OWN_FAULT])))
def test_the_order_in_which_endings_are_noticed_does_not_matter(endings: list[Ending]) -> None:
    text = str(error_of(endings, None))
    assert text.index("tm-0 (pid") < text.index("tm-2: records") < text.index("tm-1: the conn")


def test_without_traces_no_place_is_named() -> None:
    assert str(error_of([Ending(3, 1, exit_code=5)], None)) == (
        "tm-3 (pid 1) died in mid-run, exit code 5"
    )


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("", RuntimeError),  # a bug, which keeps its traceback
        ("ConfigError", ConfigError),
        ("LocalTransportError", LocalTransportError),
        ("InsufficientBuffersError", ConfigError),
        ("RemoteTransportError", RunFailedError),
        ("TlsError", RunFailedError),
        ("failed_channels", RuntimeError),  # a function of the module
    ],
)
def test_an_error_keeps_its_kind_where_that_tells_the_user_more(
    kind: str, expected: type[Exception]
) -> None:
    error = error_of([Ending(0, 1, error="why", kind=kind)], None)
    assert type(error) is expected
    assert str(error).endswith("why")


def test_only_who_lost_a_peer_is_a_consequence() -> None:
    assert LOSS.is_consequence
    assert not OWN_FAULT.is_consequence
    assert not DEATH.is_consequence


LONELY = """
import sys
from flinknet.config import NetworkConfig
from flinknet.runtime.cluster.cluster_process import TaskManagerProcessSpec
from flinknet.runtime.cluster.task_executor import run_task_manager
places = {"control_port": int(sys.argv[1]), "module_path": tuple(sys.path)}
run_task_manager(TaskManagerProcessSpec("", 2, 1, NetworkConfig(), "credit", 0, **places))
"""


@pytest.mark.socket
def test_who_cannot_tell_the_job_manager_why_it_ends_prints_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    call = [sys.executable, "-c", LONELY, str(port)]
    ended = subprocess.run(call, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == LocalTransportError.exit_code
    text = f"the JobManager at 127.0.0.1:{port} cannot be reached (Connection refused)"
    assert ended.stderr == f"{text}\n"
