"""`flinknet trace sniff` with programs that stand in for capture programs."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flinknet.capture.sniff import SniffConfig, Sniffer
from flinknet.cli import main
from tests.capture.pcap.test_importing import rows_of, write_capture
from tests.capture.pcap.test_importing import run as import_file

pytestmark = pytest.mark.usefixtures("usual_signals")

REPLAYS = """\
import os, signal, sys

def end(number, frame):
    if {is_hasty!r}:
        os.kill(os.getppid(), signal.SIGINT)
        sys.stdout.buffer.write(bytes(1 << 22))
        sys.stdout.flush()
    sys.stderr.write({last!r})
    sys.exit(0)

signal.signal(signal.SIGINT, end)
sys.stdout.buffer.write(open({capture!r}, "rb").read())
sys.stdout.flush()
open({called!r}, "w").write(" ".join(sys.argv[1:]))
while not os.path.exists({manifest!r}):
    pass
os.kill(os.getppid(), signal.SIGINT)
while True:
    signal.pause()
"""
"""A capture program whose user ends it when the recording of what it has written has begun; a hasty
user repeats Ctrl-C while it has more to write than its pipe holds."""

DIES = """\
import os, sys, time

sys.stdout.buffer.write(open({capture!r}, "rb").read()[:-9])
sys.stdout.flush()
sys.stderr.write("something is wrong\\n")
sys.stderr.flush()
os.dup2(2, 1)
time.sleep(0.2)
{end}
"""
"""A capture program that fails a little later than its pipe ends."""

STARTS = """\
import os, signal, sys

alive = open({alive!r}, "wb", buffering=0)
alive.write(b"1")
if os.fork():
    if {is_hasty!r}:
        os.kill(os.getppid(), signal.SIGINT)
    else:
        os.write(1, b"header")
while True:
    signal.pause()
"""
"""A capture program that has another one capture, as tshark has; a hasty user does not wait."""

REFUSES = """\
import sys

sys.exit("any: You don't have permission to perform this capture on that device")
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts programs onto a PATH that has no others; first none."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    capture = write_capture(tmp_path / "flink.pcap")

    def put(name: str, code: str, last: str = "", **more: object) -> None:
        paths = {each: tmp_path / each for each in ("called", "alive")}
        paths["manifest"] = tmp_path / "out" / "manifest.json"
        named = {each: str(path) for each, path in paths.items()}
        more = {"is_hasty": False, "last": last, **more}
        text = code.format(capture=str(capture), **named, **more)
        program = tmp_path / "bin" / name
        program.write_text(f"#!{sys.executable}\n{text}")
        program.chmod(0o755)

    return put


def sniff(*arguments: object) -> Result:
    command = ["trace", "sniff", "--port", "6121-6128", "--details", *map(str, arguments)]
    return CliRunner().invoke(main, command)


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("tcpdump", "9 packets captured\n12 packets dropped by kernel\n"),
        ("dumpcap", "Packets received/dropped on interface 'any': 9/12 (pcap:12/…) (42.9%)\n"),
        ("tshark", "12 packets dropped by kernel\n"),
    ],
)
def test_what_the_program_captures_is_a_trace_and_its_drops_are_said(
    tmp_path: Path, install: Install, name: str, last: str
) -> None:
    install(name, REPLAYS, last)
    result = sniff("--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert f"{name} on any: tcp portrange 6121-6128" in result.stderr
    assert "12 packets dropped before the capture program got them" in result.stdout
    import_file(tmp_path / "flink.pcap")
    assert rows_of(tmp_path / "out") == rows_of(tmp_path / "flink") != []
    imported = json.loads((tmp_path / "out" / "capture.json").read_text())
    assert (imported["stopped_by"], imported["packets"]["dropped_packets"]) == ("SIGINT", 12)
    called = (tmp_path / "called").read_text()
    assert "-i any -s 262144" in called
    assert called.endswith("tcp portrange 6121-6128")


def test_a_program_that_may_not_capture_is_passed_over(tmp_path: Path, install: Install) -> None:
    install("dumpcap", REFUSES)
    install("tcpdump", REPLAYS)
    result = sniff("--out", tmp_path / "out", "--snap-length", "128b", "--interface", "eth0")
    assert result.exit_code == 0, result.output
    assert "tcpdump on eth0" in result.stderr
    assert "-i eth0 -s 128" in (tmp_path / "called").read_text()


def test_programs_that_cannot_be_started_are_passed_over_and_all_refusals_are_named(
    tmp_path: Path, install: Install
) -> None:
    (tmp_path / "bin" / "dumpcap").write_text("#!/no/such/interpreter\n")
    (tmp_path / "bin" / "dumpcap").chmod(0o755)
    install("tshark", "import sys; sys.exit('Permission denied')")
    result = sniff("--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "dumpcap cannot be started (No such file or directory); tshark may" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    install("tcpdump", REPLAYS)
    result = sniff("--out", tmp_path / "out")
    assert result.exit_code == 0, result.output


def test_a_second_ctrl_c_ends_it_soon_and_keeps_the_count_of_drops(
    tmp_path: Path, install: Install
) -> None:
    install("tcpdump", REPLAYS, "12 packets dropped by kernel\n", is_hasty=True)
    result = sniff("--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    imported = json.loads((tmp_path / "out" / "capture.json").read_text())
    assert imported["packets"]["dropped_packets"] == 12
    assert "bytes of tcpdump on any are not recorded" in " ".join(imported["warnings"])


@pytest.mark.parametrize("is_hasty", [False, True])
def test_no_process_of_a_capture_is_left_behind(
    tmp_path: Path, install: Install, is_hasty: bool
) -> None:
    os.mkfifo(tmp_path / "alive")
    install("tshark", STARTS, is_hasty=is_hasty)
    alive = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    config = SniffConfig(((6121, 6121),))
    if is_hasty:
        with pytest.raises(KeyboardInterrupt):
            Sniffer(config)
    else:
        Sniffer(config).close()
    assert os.read(alive, 9) == b"1"
    assert select.select([alive], [], [], 10)[0]
    assert os.read(alive, 9) == b""
    os.close(alive)


def test_ctrl_c_while_a_program_is_started_leaves_none_behind(
    tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            assert self.stdout is not None
            select.select([self.stdout], [], [], 10)
            signal.raise_signal(signal.SIGINT)

    os.mkfifo(tmp_path / "alive")
    install("tshark", STARTS, is_hasty=False)
    alive = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        Sniffer(SniffConfig(((6121, 6121),)))
    assert os.read(alive, 9) == b"1"
    assert select.select([alive], [], [], 10)[0]
    assert os.read(alive, 9) == b""
    os.close(alive)


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ("os._exit(3)", "with 3: something is wrong"),
        ("os.kill(os.getpid(), 9)", "with -9: something is wrong; what it dropped is unknown"),
    ],
)
def test_a_program_that_ends_by_itself_is_named(
    tmp_path: Path, install: Install, end: str, says: str
) -> None:
    install("tcpdump", DIES, end=end)
    result = sniff("--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    output = " ".join(result.stdout.split())
    assert f"tcpdump on any ended by itself {says}" in output
    assert "the file ends in the middle of a packet" in output
    assert rows_of(tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("tcpdump", "tcpdump may not capture: grant it (sudo setcap cap_net_raw,cap_net_admin+ep"),
        ("dumpcap", "dumpcap may not capture: join its group (sudo usermod -aG wireshark $USER)"),
    ],
)
def test_without_rights_one_line_says_what_to_grant(
    tmp_path: Path, install: Install, name: str, advice: str
) -> None:
    install(name, REFUSES)
    result = sniff("--out", tmp_path / "out")
    assert result.exit_code == 2
    assert advice in result.stderr
    assert not (tmp_path / "out").exists()


def test_without_a_program_one_line_says_what_to_install(tmp_path: Path, install: Install) -> None:
    result = sniff("--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "apt install tcpdump" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("text", ["x", "0", "9-3", "1-70000", "-", "6121-"])
def test_ports_that_are_none_are_refused(tmp_path: Path, install: Install, text: str) -> None:
    result = CliRunner().invoke(
        main, ["trace", "sniff", "--port", text, "--out", str(tmp_path / "out")]
    )
    assert result.exit_code == 2
    assert "is not a port" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--snap-length", "96b", "--out", "{tmp}/out"), "--snap-length: 96b cuts off headers"),
        (("--out", "{tmp}/flink.pcap/a/out"), "flink.pcap cannot be written to"),
        (("--out", "{tmp}/" + 300 * "a"), "cannot be used (File name too long)"),
    ],
)
def test_what_would_fail_later_is_refused_before_anything_starts(
    tmp_path: Path, install: Install, arguments: tuple[str, ...], says: str
) -> None:
    install("tcpdump", REPLAYS)
    result = sniff(*(each.format(tmp=tmp_path) for each in arguments))
    assert result.exit_code == 2
    assert says in result.stderr
    assert not (tmp_path / "called").exists()
