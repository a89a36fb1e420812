"""`flinknet trace tap`: an exchange of bench through it, and what is said to a user."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from flinknet.cli import main
from flinknet.cli.trace_tap import pairs_of
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.report.tap_console import setting_lines
from flinknet.trace import TraceReader, open_run
from flinknet.trace.verify import verify_run
from tests.certificate_set import AUTHORITY_PEM, CONFIG, NODE_PEM, generate

pytestmark = pytest.mark.usefixtures("usual_signals")

HOST = "127.0.0.1"
TIMEOUT_S = 120


def free_ports(count: int) -> int:
    """The first of so many neighbouring ports that are free now; processes look in different
    places, as they may look at the same time."""
    for first in range(23_000 + os.getpid() % 150 * 50, 60_000, 50):
        sockets = []
        try:
            sockets = [socket.create_server((HOST, first + each)) for each in range(count)]
            return first
        except OSError:
            continue
        finally:
            for sock in sockets:
                sock.close()
    raise AssertionError("no ports are free")


def command(*arguments: object) -> list[str]:
    code = "from flinknet.cli import main; main()"
    return [sys.executable, "-c", code, *map(str, arguments)]


@contextmanager
def tap(out: Path, first_port: int, *options: object) -> Iterator[subprocess.Popen[str]]:
    """A tap before two TaskManagers, which listen on the two ports behind its own."""
    pairs = []
    for number in range(2):
        pairs += ["--listen", f"{HOST}:{first_port + number}"]
        pairs += ["--upstream", f"{HOST}:{first_port + 2 + number}"]
    process = subprocess.Popen(
        command("trace", "tap", *pairs, "--out", out, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(6)]
        assert f"taskmanager.data.port: {first_port}" in lines[1]
        assert f"taskmanager.data.bind-port: {first_port + 2}" in lines[2]
        yield process
    finally:
        process.kill()
        process.wait()


def bench(out: Path, first_port: int, *options: object) -> dict[str, Any]:
    """An exchange whose consumers come through the tap."""
    ended = subprocess.run(
        command(
            *("bench", "--warmup", "200ms", "--json", "-", "--out", out, *options),
            *("-D", f"taskmanager.data.port={first_port}"),
            *("-D", f"taskmanager.data.bind-port={first_port + 2}-{first_port + 3}"),
        ),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert ended.returncode == 0, ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


def stop(process: subprocess.Popen[str], number: signal.Signals = signal.SIGINT) -> str:
    process.send_signal(number)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, err
    return out


def messages(directory: Path) -> dict[str, list[tuple[int, ...]]]:
    """What producers sent, and what credit they got, by receiver."""
    run = open_run(directory)
    assert run.manifest is not None
    receivers = {channel.index: channel.receiver_id for channel in run.manifest.channels}
    columns = ("channel", "point", "kind", "sequence_number", "order")
    columns += ("data_type", "payload_bytes", "backlog_buffers", "records", "value")
    found: dict[str, list[tuple[int, ...]]] = {receiver: [] for receiver in receivers.values()}
    for file in run.files:
        with TraceReader(file) as reader:
            for block in reader.events(columns):
                is_sent = (block["kind"] == MessageKind.BUFFER_RESPONSE) & (
                    block["point"] == TracePoint.SENT
                )
                is_credit = (block["kind"] == MessageKind.ADD_CREDIT) & (
                    block["point"] == TracePoint.RECEIVED
                )
                for row in np.flatnonzero(is_sent | is_credit).tolist():
                    names = ("kind", "sequence_number", "data_type", "payload_bytes")
                    names += ("backlog_buffers", "records", "value")
                    actual = tuple(int(block[name][row]) for name in names)
                    found[receivers[int(block["channel"][row])]].append(actual)
    return {receiver: sorted(rows) for receiver, rows in found.items()}


@pytest.mark.slow("real processes for each case", first=True)
@pytest.mark.socket
@pytest.mark.parametrize(
    "options",
    [
        ("--rate", "5k/s", "--buffer-timeout", "5ms", "--duration", "1s", "--consumers", 3),
        ("--records", 100_000, "--record-size", "10..300", "--producers", 2),
    ],
    ids=["rate", "max"],
)
def test_the_trace_of_a_tap_has_the_messages_that_the_processes_recorded(
    tmp_path: Path, options: tuple[object, ...]
) -> None:
    first_port = free_ports(4)
    with tap(tmp_path / "tapped", first_port) as process:
        bench(tmp_path / "own", first_port, *options)
        out = stop(process)
    assert "next       flinknet trace replay" in out
    own = messages(next((tmp_path / "own").glob("run-*")))
    tapped = messages(tmp_path / "tapped")
    assert own.keys() == tapped.keys()
    assert own == tapped
    verification = verify_run(open_run(tmp_path / "tapped"))
    assert verification.is_ok, verification.findings
    result = json.loads((tmp_path / "tapped" / "result.json").read_text())
    assert result["schema_version"] == 2
    assert result["records"] == sum(row[5] for rows in own.values() for row in rows if row[0] == 0)
    assert (result["undecodable"], result["skipped_bytes"], result["losses"]) == (0, 0, 0)
    assert result["added_delay_ns"]["p50"] > 0
    assert result["layouts"] == ["2.x"]


@pytest.mark.slow("real processes, for rules tested without")
@pytest.mark.socket
def test_tls_a_ring_and_sigterm(tmp_path: Path) -> None:
    first_port = free_ports(4)
    certificates, password = tmp_path / "certificates", tmp_path / "password"
    generate(certificates, "of the key")
    password.write_text("of the key\n")
    options = (
        *("--tls-cert", certificates / NODE_PEM, "--tls-key", certificates / NODE_PEM),
        *("--tls-ca", certificates / AUTHORITY_PEM, "--tls-password-file", password),
        *("--ring", "60s", "--trigger", "connections>0", "--json"),
    )
    with tap(tmp_path / "tapped", first_port, *options) as process:
        tls = ("--flink-conf", certificates / CONFIG, "--rate", "2k/s", "--duration", "2s")
        bench(tmp_path / "own", first_port, *tls)
        result = json.loads(stop(process, signal.SIGTERM))
    own = messages(next((tmp_path / "own").glob("run-*")))
    assert own == messages(tmp_path / "tapped")
    assert result["stopped_by"] == "SIGTERM"
    assert result["tap"]["is_tls"]
    assert "connections is 1 (connections>0)" in [each["why"] for each in result["triggers"]]


@pytest.mark.slow("real processes for each case", first=True)
@pytest.mark.socket
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_the_normal_end_of_a_tap(tmp_path: Path, number: signal.Signals) -> None:
    with tap(tmp_path / "tapped", free_ports(4)) as process:
        assert "No consumer connected" in stop(process, number)  # and exits with 0
    result = json.loads((tmp_path / "tapped" / "result.json").read_text())
    assert result["stopped_by"] == number.name


def test_a_tap_ends_by_itself_and_says_what_it_saw(tmp_path: Path) -> None:
    first_port = free_ports(1)
    out = tmp_path / "tapped"
    arguments = ("--listen", f"{HOST}:{first_port}", "--upstream", f"{HOST}:1", "--out", str(out))
    ended = CliRunner().invoke(main, ["trace", "tap", *arguments, "--duration", "100ms"])
    assert ended.exit_code == 0
    assert "0 connections, 0 channels (layout unknown); no message" in ended.output
    assert f"No consumer connected to {HOST}:{first_port}. Check" in ended.output
    shown = CliRunner().invoke(main, ["trace", "info", str(out)])
    assert shown.exit_code == 0
    assert "recorded by a tap" in shown.output


@pytest.mark.slow("real processes, for rules tested without")
@pytest.mark.socket
def test_a_full_disk_is_named_at_once_and_stops_neither_the_job_nor_the_summary(
    tmp_path: Path,
) -> None:
    first_port = free_ports(4)
    with tap(tmp_path / "tapped", first_port) as process:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1500, resource.RLIM_INFINITY))
        bench(tmp_path / "own", first_port, "--rate", "5k/s", "--duration", "2s")
        assert process.stderr is not None
        assert any("recording stopped: " in line for line in iter(process.stderr.readline, ""))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 4
    assert "all was forwarded, but " in err
    assert "recording stopped:" in out
    assert "records in" in out


def test_a_tap_that_starts_on_a_full_disk_forwards_without_recording(tmp_path: Path) -> None:
    pair = ("--listen", f"{HOST}:{free_ports(1)}", "--upstream", f"{HOST}:1")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        arguments = ["trace", "tap", *pair, "--out", str(tmp_path / "tapped"), "--duration", "9ms"]
        ended = CliRunner().invoke(main, arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert ended.exit_code == 4
    assert "0 connections" in ended.stdout
    assert "recording stopped:" in ended.stdout
    assert "all was forwarded, but " in ended.stderr


def test_a_tap_that_starts_again_records_next_to_what_is_there(tmp_path: Path) -> None:
    pair = ("--listen", f"{HOST}:{free_ports(1)}", "--upstream", f"{HOST}:1")
    arguments = ["trace", "tap", *pair, "--out", str(tmp_path / "tapped"), "--duration", "1ms"]
    for name in ("tapped", "tapped-2", "tapped-3"):
        ended = CliRunner().invoke(main, arguments)
        assert ended.exit_code == 0
        assert (tmp_path / name / "result.json").is_file()
    assert "tapped holds a trace already: recording into" in ended.stderr
    assert len(list(tmp_path.iterdir())) == 3


def test_a_range_of_ports_stands_for_the_task_managers_of_a_host() -> None:
    pairs = pairs_of(("my-host-2:7001-7003", "[::1]:5"), ("h:7101-7103", "[::1]:6-6"))
    hosts = [((own[0], to[0]), own[1], to[1]) for own, to in pairs]
    assert hosts == [
        *((("my-host-2", "h"), 7000 + number, 7100 + number) for number in (1, 2, 3)),
        (("::1", "::1"), 5, 6),
    ]
    assert len(setting_lines(pairs)) == 3 * len(pairs)


def test_connections_that_iptables_redirects_need_no_upstream() -> None:
    pairs = pairs_of(("0.0.0.0:7000", "h:1"), ("redirected", "h:2"))
    assert pairs == ((("0.0.0.0", 7000), None), (("h", 1), ("h", 2)))
    rule, *others = setting_lines(pairs)
    assert " iptables -t nat" in rule
    assert "--to-ports 7000" in rule
    assert len(others) == 3


@pytest.mark.parametrize(("listen", "rules"), [("[::]:7000", 2), ("[fe80::7]:7000", 1)])
def test_a_tap_that_listens_on_ipv6_is_told_the_rule_for_it(listen: str, rules: int) -> None:
    (rule,) = setting_lines(pairs_of((listen,), ("redirected",)))
    assert rule.startswith(f"{listen} -> ")
    assert " ip6tables -t nat" in rule
    assert rule.count("--to-ports 7000") == rules
