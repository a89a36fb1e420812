"""A capture that is imported while it goes on: pipes, files that grow, and how they end."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from flinknet.capture.meter import Trigger
from flinknet.capture.pcap import importing, sources
from flinknet.capture.pcap.files import CaptureFiles
from flinknet.capture.pcap.importing import Import, Live
from flinknet.capture.rest.http_client import RestPlace
from flinknet.capture.session import SessionConfig
from flinknet.errors import TraceError, TraceFormatError
from flinknet.trace import open_run
from flinknet.trace.metrics import METRICS_NAME
from flinknet.trace.verify import verify_run
from tests.capture.pcap.test_files import block, blocks_of
from tests.capture.pcap.test_importing import rows_of, run, write_capture
from tests.capture.rest.saved import directory

pytestmark = pytest.mark.usefixtures("usual_signals")

LAST = 5_000_000_000


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads are short, and figures are shown at each of them."""
    monkeypatch.setattr(sources, "_PIECE_BYTES", 500)
    monkeypatch.setattr(importing, "TICK_NS", 0)
    monkeypatch.setattr(importing, "LOOK_NS", 0)


@contextmanager
def piped(content: bytes, size: int = 1 << 16) -> Iterator[Path]:
    """A pipe into which another thread writes pieces of this size, and closes it."""
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            for at in range(0, len(content), size):
                pipe.write(content[at : at + size])

    writer = Thread(target=write, daemon=True)
    writer.start()
    try:
        yield Path(f"/dev/fd/{reading}")
    finally:
        os.close(reading)
        writer.join()


def live(
    path: Path,
    out: Path,
    on_look: Callable[[], None] = lambda: None,
    *,
    follows: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    config = SessionConfig(out=out, **settings)
    how = Live(follows=follows, on_look=lambda _: on_look())
    return Import([path], config, versions={}, live=how).run()


@pytest.mark.parametrize(
    ("size", "follows"), [(1, False), (7, False), (1000, False), (1 << 16, True)]
)
def test_a_stream_gives_the_rows_of_its_file_however_it_is_cut(
    tmp_path: Path, size: int, follows: bool
) -> None:
    capture = write_capture(tmp_path / "flink.pcap")
    run(capture)
    with piped(capture.read_bytes(), size) as pipe:
        imported = live(pipe, tmp_path / "out", follows=follows)
    assert rows_of(tmp_path / "out") == rows_of(tmp_path / "flink") != []
    assert (imported["stopped_by"], imported["is_truncated"]) == (None, False)
    assert imported["buffers"] == sum(each["buffers"] for each in imported["channels"]) > 0


@pytest.mark.parametrize("lost_bytes", [1, 100, 1000])
def test_a_writer_that_is_killed_leaves_what_it_has_written(
    tmp_path: Path, lost_bytes: int
) -> None:
    content = write_capture(tmp_path / "flink.pcap").read_bytes()
    with piped(content[:-lost_bytes]) as pipe:
        assert live(pipe, tmp_path / "out")["is_truncated"]
    assert rows_of(tmp_path / "out")


@pytest.mark.parametrize("first", [3, 6, 10])
def test_a_capture_from_the_middle_says_what_it_does_not_know(tmp_path: Path, first: int) -> None:
    whole = write_capture(tmp_path / "whole.pcap")
    run(whole)
    lost = frozenset(range(first))
    content = write_capture(tmp_path / "cut.pcap", lost=lost).read_bytes()
    with piped(content) as pipe:
        imported = live(pipe, tmp_path / "out")
    assert set(rows_of(tmp_path / "out")) <= {*rows_of(tmp_path / "whole")} | {
        (channel, point, kind, number, value)
        for channel, point, kind, number, value in rows_of(tmp_path / "out")
        if channel == 0
    }
    assert imported["credit_unknown_channels"] == 1
    assert imported["missed_buffers"] == 0


@pytest.mark.usefixtures("at_once")
def test_a_file_that_grows_is_followed_until_a_signal(tmp_path: Path) -> None:
    whole = write_capture(tmp_path / "whole.pcap")
    run(whole)
    content = whole.read_bytes()
    growing = tmp_path / "growing.pcap"
    growing.write_bytes(content[:999])
    left = [content[999:2000], content[2000:], b""]

    def on_look() -> None:
        if left:
            with growing.open("ab") as file:
                file.write(left.pop(0))
            if not left:
                signal.raise_signal(signal.SIGINT)

    imported = live(growing, tmp_path / "out", on_look, follows=True)
    assert imported["stopped_by"] == "SIGINT"
    assert rows_of(tmp_path / "out") == rows_of(tmp_path / "whole")


@pytest.mark.usefixtures("at_once")
def test_the_trace_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    seen: list[int] = []

    def on_look() -> None:
        if (tmp_path / "out" / "manifest.json").exists():
            seen.append(len(rows_of(tmp_path / "out")))

    with piped(write_capture(tmp_path / "flink.pcap").read_bytes(), 100) as pipe:
        live(pipe, tmp_path / "out", on_look)
    assert seen == sorted(seen)
    assert any(0 < each < len(rows_of(tmp_path / "out")) for each in seen)


@pytest.mark.usefixtures("at_once")
def test_a_ring_keeps_what_is_around_a_trigger(tmp_path: Path) -> None:
    content = write_capture(tmp_path / "flink.pcap").read_bytes()
    with piped(content, 500) as pipe:
        last = live(pipe, tmp_path / "last", ring_ns=LAST)
    trigger = Trigger.parse("connections>=1")
    with piped(content, 500) as pipe:
        kept = live(pipe, tmp_path / "kept", ring_ns=LAST, trigger=trigger)
    assert not last["triggers"]
    assert kept["triggers"][0]["why"] == "connections is 1 (connections>=1)"
    first, second = rows_of(tmp_path / "last"), rows_of(tmp_path / "kept")
    assert 0 < len(first) < len(second)
    manifest = open_run(tmp_path / "last").manifest
    assert manifest is not None
    assert manifest.measured_to_ns is not None
    assert manifest.measured_from_ns is not None
    assert manifest.measured_to_ns - manifest.measured_from_ns <= 2 * LAST


def test_jobs_and_metrics_come_from_flink_by_the_clock_of_the_capture(tmp_path: Path) -> None:
    rest = RestPlace(str(directory("2.3.0")))
    with piped(write_capture(tmp_path / "flink.pcap").read_bytes()) as pipe:
        imported = live(pipe, tmp_path / "out", rest=rest)
    assert [each["name"] for each in imported["rest"]["jobs"]] == ["exchange"]
    line = json.loads((tmp_path / "out" / METRICS_NAME).read_text().splitlines()[0])
    assert line["at_ns"] > 10**18  # since 1970


@pytest.mark.usefixtures("at_once")
def test_an_error_of_the_display_is_not_one_of_the_capture(tmp_path: Path) -> None:
    def on_look() -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        live(write_capture(tmp_path / "flink.pcap"), tmp_path / "out", on_look)


@pytest.mark.usefixtures("at_once")
def test_a_result_that_cannot_be_written_leaves_the_trace_complete(tmp_path: Path) -> None:
    def on_look() -> None:
        if (tmp_path / "out").exists():
            (tmp_path / "out" / "capture.json").mkdir(exist_ok=True)

    with pytest.raises(TraceError, match=r"capture.json cannot be written \(Is a directory\)"):
        live(write_capture(tmp_path / "flink.pcap"), tmp_path / "out", on_look)
    (finding,) = verify_run(open_run(tmp_path / "out")).findings
    assert finding.file == "capture.json"


@pytest.mark.usefixtures("at_once")
def test_a_recording_that_can_no_longer_be_written_ends(tmp_path: Path) -> None:
    """The system refuses what goes beyond a size, as on a full disk; of the test's own output, too,
    so the limit ends with the recording."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    capture = write_capture(tmp_path / "flink.pcap")
    full: list[int] = []

    def on_look() -> None:
        for trace in (tmp_path / "out").glob("*.fnt"):
            if trace.stat().st_size > 1_200:
                full.append(trace.stat().st_size)
                resource.setrlimit(resource.RLIMIT_FSIZE, (full[0] + 100, hard))

    try:
        with pytest.raises(TraceError, match="no space left"):
            live(capture, tmp_path / "out", on_look)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(full) == 1


def test_nothing_within_the_duration_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceFormatError, match="nothing came"):
        live(tmp_path / "pipe", tmp_path / "out", duration_ns=1)
    assert not (tmp_path / "out").exists()


def test_packets_that_the_capture_program_did_not_get_are_counted(tmp_path: Path) -> None:
    packets = [(at, bytes(60)) for at in range(3)]
    statistics = bytes(12)
    for code, count in ((4, 90), (5, 2), (7, 5)):
        statistics += code.to_bytes(2, "little") + (8).to_bytes(2, "little")
        statistics += count.to_bytes(8, "little")
    whole = blocks_of(packets, (6,)) + block(5, statistics, "little")
    capture = CaptureFiles([tmp_path / "drops.pcapng"])
    capture.files[0].path.write_bytes(whole + whole)  # a second section numbers interfaces anew
    assert len(list(capture)) == 6
    assert capture.total("dropped_packets") == 2 * 7
    assert capture.total("unread_blocks") == 0


def test_ctrl_c_ends_it_with_the_answer(tmp_path: Path) -> None:
    code = "from flinknet.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "trace", "import", "-", "--out", str(tmp_path / "out")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(write_capture(tmp_path / "flink.pcap").read_bytes())
    process.stdin.flush()
    assert b"recording into" in process.stderr.readline()
    assert b"1 connection open" in process.stderr.readline()
    process.send_signal(signal.SIGINT)  # the pipe stays open
    process.wait(timeout=60)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert b"Flink's are 1 of 1 connection" in b" ".join(out.split())
    assert json.loads((tmp_path / "out" / "capture.json").read_text())["stopped_by"] == "SIGINT"
    assert verify_run(open_run(tmp_path / "out")).is_ok


@pytest.mark.parametrize("option", [("--ring", "5s"), ("--rest", "http://x"), ("--follow",)])
def test_a_capture_that_has_ended_is_not_live(tmp_path: Path, option: tuple[str, ...]) -> None:
    capture = write_capture(tmp_path / "flink.pcap")
    more = [capture, write_capture(tmp_path / "other.pcap")] if option == ("--follow",) else []
    result = run(capture, *more, *option)
    assert result.exit_code == 2
    assert f"{option[0]}: only for one live source" in result.output
