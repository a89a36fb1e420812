"""Connections of whole runs: sockets of the processes, TLS, and a TaskManager that is killed."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from flinknet.config import NetworkConfig
from flinknet.errors import PartitionConnectionError, RunFailedError
from flinknet.options import network_config
from flinknet.results import STRANGERS, Progress
from flinknet.runtime.cluster.launcher import run_scenario
from flinknet.trace import open_run
from flinknet.trace.reader import TraceReader
from flinknet.trace.verify import verify_run
from tests.certificate_set import generate, settings_for
from tests.runtime.cluster.live_job import listening_port
from tests.runtime.processes import task_managers
from tests.runtime.runs import MS, run, scenario_of
from tests.strangers import intrude

pytestmark = [pytest.mark.socket, pytest.mark.slow("real processes, for rules tested without")]

LONG_NS = 60_000 * MS


class Looked(Exception):
    """Ends a run once what was to be seen was seen."""


def while_measuring(
    look: Callable[[dict[str, psutil.Process]], None],
    network: NetworkConfig = NetworkConfig(),  # noqa: B008 - frozen
) -> None:
    """Look at the processes of a run by name, in the middle of it."""

    def watch(progress: Progress) -> None:
        if progress.phase == "measuring":
            look(task_managers())
            raise Looked

    with pytest.raises(Looked):
        run(scenario_of(network=network, rate_per_s=1000.0, duration_ns=LONG_NS), watch)


@pytest.mark.quick
@pytest.mark.row("S062")
@pytest.mark.row("S079")
def test_each_task_manager_listens_once_and_channels_share_one_connection() -> None:
    def look(processes: dict[str, psutil.Process]) -> None:
        sockets = {name: each.net_connections("tcp") for name, each in processes.items()}
        listening = {
            name: [each.laddr.port for each in found if each.status == psutil.CONN_LISTEN]
            for name, found in sockets.items()
        }
        assert [len(ports) for ports in listening.values()] == [1, 1]
        outgoing = [
            each.raddr.port
            for each in sockets["tm-1"]
            if each.status == psutil.CONN_ESTABLISHED and each.raddr.port in listening["tm-0"]
        ]
        assert outgoing == listening["tm-0"]  # four channels, one connection
        assert len(sockets["tm-0"]) == 3  # the port, that connection, and the control connection

    while_measuring(look)


def test_strangers_are_named_in_the_result_of_a_run_that_they_visited() -> None:
    def watch(progress: Progress) -> None:
        if progress.phase == "measuring" and not visited:
            for process in task_managers().values():
                visited.append(listening_port(process))
                intrude(visited[-1])

    visited: list[int] = []
    result = run(scenario_of(rate_per_s=2000.0, duration_ns=500 * MS), watch)
    assert len(visited) == 2
    (doubt,) = (each for each in result.warnings if each.code == STRANGERS)
    assert "2 connections, 258 requests" in doubt.text


@pytest.mark.row("S068")
@pytest.mark.row("S071")
def test_the_one_network_thread_is_named_after_the_port_it_got_of_the_range() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        low = min(taken.getsockname()[1], 65000)
        ports = range(low, low + 100)
        names: dict[int, str] = {}

        def look(processes: dict[str, psutil.Process]) -> None:
            for process in processes.values():
                comm = Path(f"/proc/{process.pid}/task/{process.pid}/comm")
                names[listening_port(process)] = comm.read_text().strip()

        while_measuring(look, replace(NetworkConfig(), data_port=f"{ports[0]}-{ports[-1]}"))
    assert len(names) == 2
    assert names == {port: f"flinknet:{port}" for port in ports if port in names and port != low}


@pytest.mark.slow("real processes for each case", first=True)
@pytest.mark.row("S072")
@pytest.mark.parametrize("pem", [False, True], ids=["pkcs12", "pem"])
def test_every_record_arrives_over_tls(tmp_path: Path, pem: bool) -> None:
    generate(tmp_path, "a secret")
    network, _ = network_config(settings_for(tmp_path, "a secret", pem=pem))
    result = run(scenario_of(network=network, records=3000))
    assert result.measured.records == 6000


def test_a_run_whose_certificate_its_own_side_does_not_trust_says_so(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        generate(tmp_path / name, "a secret")
    settings = settings_for(tmp_path / "ours", "a secret")
    settings["security.ssl.internal.truststore"] = str(tmp_path / "theirs" / "truststore.p12")
    network, _ = network_config(settings)
    with pytest.raises(RunFailedError, match="certificate is not trusted"):
        run(scenario_of(network=network, records=10))


def test_passwords_are_in_no_file_of_a_run(tmp_path: Path) -> None:
    generate(tmp_path / "set", "a secret of mine")
    network, _ = network_config(settings_for(tmp_path / "set", "a secret of mine"))
    run_scenario(scenario_of(network=network, records=100), out_dir=tmp_path / "run", trace=True)
    files = [path.read_bytes() for path in (tmp_path / "run").iterdir()]
    assert files
    assert not any(b"a secret of mine" in data for data in files)


def has_events(path: Path) -> bool:
    """Whether a block of a trace that is being written can be read already."""
    with TraceReader(path) as reader:
        return any(len(events) for events in reader.events())


@pytest.mark.slow("real processes for each case", first=True)
@pytest.mark.row("S100")
@pytest.mark.parametrize(("victim", "other"), [("tm-0", "tm-1"), ("tm-1", "tm-0")])
def test_when_one_is_killed_the_other_tells_peer_and_channels_and_traces_are_readable(
    tmp_path: Path, victim: str, other: str
) -> None:
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.phase != "measuring" or progress.records <= 2000 or killed:
            return
        if has_events(tmp_path / f"{victim}.fnt"):
            killed.append(task_managers()[victim].pid)
            os.kill(killed[0], signal.SIGKILL)

    scenario = scenario_of(rate_per_s=5000.0, duration_ns=LONG_NS)
    with pytest.raises(RunFailedError) as caught:
        run_scenario(scenario, out_dir=tmp_path, trace=True, on_progress=kill)
    assert task_managers() == {}
    text = str(caught.value)
    assert "\n" not in text
    assert f"{victim} (pid {killed[0]}) died in mid-run, killed by signal 9. " in text
    assert re.search(
        rf"{other}: the connection (to|from) {victim} at 127\.0\.0\.1:\d+ was (closed|reset) by it;"
        r" that task manager may be lost\. Failed channels: 0, 1, 2, 3\. ",
        text,
    )
    assert text.endswith(f"What was recorded is in {tmp_path}")
    verified = verify_run(open_run(tmp_path))
    assert verified.events > 0
    assert {finding.file for finding in verified.findings} <= {f"{victim}.fnt", None}
    for reader in open_run(tmp_path).readers():
        with reader:
            assert sum(len(events) for events in reader.events()) > 0
            assert reader.is_whole or reader.path.stem == victim


@pytest.mark.row("S046")
def test_a_run_whose_producers_cannot_be_reached_names_the_partition() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        unused = server.getsockname()[1]
    network = replace(NetworkConfig(), data_port=str(unused), bind_port="0")
    with pytest.raises(
        PartitionConnectionError,
        match=rf"Connection for partition \w+#\d+@\w+ not reachable: .*127\.0\.0\.1:{unused}",
    ):
        run(scenario_of(network=network, records=10))


@pytest.mark.row("S064")
def test_a_cluster_of_one_task_manager_has_no_port_at_all() -> None:
    scenario = replace(scenario_of(records=1000), task_managers=1, placement="spread")

    def look(progress: Progress) -> None:
        for process in task_managers().values():
            assert len(process.net_connections("tcp")) <= 1, "the control connection alone"

    assert run(scenario, look).measured.records == 2000
