"""`flinknet trace import`: from a capture file to a trace that is read like any other."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner, Result
from dpkt import pcap, tcp

from flinknet.capture.pcap.segments import Endpoint
from flinknet.cli import main
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.errors import TraceFormatError
from flinknet.replay.advise.judged import judged
from flinknet.replay.observe.observed import observe_here
from flinknet.replay.opening import OnDamage, named_losses, opened_part
from flinknet.replay.read import open_runs
from flinknet.report.recordings import import_view
from flinknet.results import Bottleneck
from flinknet.trace import open_run
from flinknet.trace.recordings import Recording
from flinknet.trace.verify import verify_run
from tests.capture.pcap.packets import tcp_packet
from tests.capture.pcap.test_connections import CLIENT, SERVER, direct_rows, first_conversation
from tests.capture.pcap.test_files import blocks_of
from tests.edited_manifest import edit_manifest

STEPS = first_conversation()
_SENDERS = [source for source, data in STEPS for _ in range(0, len(data), 300)]
_, SECOND_OF_CONSUMER, *_ = (number for number, each in enumerate(_SENDERS, 2) if each != SERVER)


def write_capture(
    path: Path,
    *,
    version: int = 4,
    lost: frozenset[int] = frozenset(),
    has_start: bool = True,
    copies: int = 0,
    only: Endpoint | None = None,
) -> Path:
    """A capture of the first golden conversation in packets of up to 300 bytes, without those whose
    numbers are lost, and with copies of all others; of both ends or one only.
    """
    ends = {SERVER: ("10.0.0.1", 6121), CLIENT: ("10.0.0.2", 50_000)}
    numbers = {SERVER: 100, CLIENT: 200}
    packets, senders = [], []

    def send(source: object, data: bytes, flags: int) -> None:
        own, other = (SERVER, CLIENT) if source == SERVER else (CLIENT, SERVER)
        senders.append(own)
        packets.append(
            tcp_packet(
                data,
                version=version,
                source=ends[own],
                target=ends[other],
                sequence_number=numbers[own],
                acknowledged=numbers[other],
                flags=flags,
            )
        )
        numbers[own] += len(data) + bool(flags & tcp.TH_SYN)

    if has_start:
        send(CLIENT, b"", tcp.TH_SYN)
        send(SERVER, b"", tcp.TH_SYN | tcp.TH_ACK)
    for source, data in STEPS:
        for at in range(0, len(data), 300):
            send(source, data[at : at + 300], tcp.TH_ACK)
    with path.open("wb") as file:
        writer = pcap.Writer(file, nano=True)
        for number, packet in enumerate(packets):
            if number not in lost and only in (None, senders[number]):
                for copy in range(1 + copies):
                    writer.writepkt_time(packet, 1_000 + number + copy * 1e-5)
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["trace", "import", "--details", *map(str, arguments)])


def rows_of(directory: Path) -> list[tuple[int, ...]]:
    """(channel, point, kind, sequence number, value) of every event, in order."""
    names = ("channel", "point", "kind", "sequence_number", "value", "at_ns")
    found = []
    for reader in open_run(directory).readers():
        with reader:
            for block in reader.events(names):
                columns = [block[name].tolist() for name in names]
                found += list(zip(*columns, strict=True))
    found.sort(key=lambda row: row[-1])
    return [row[:-1] for row in found]


@pytest.mark.parametrize("version", [4, 6])
def test_a_capture_becomes_the_rows_of_its_messages(tmp_path: Path, version: int) -> None:
    capture = write_capture(tmp_path / "flink.pcap", version=version)
    result = run(capture)
    assert result.exit_code == 0, result.output
    assert "Flink's are 1 of 1 connection" in " ".join(result.output.split())
    expected = [(row[0], row[1], row[2], row[5], row[15]) for row in direct_rows(STEPS)]
    assert sorted(rows_of(tmp_path / "flink")) == sorted(expected)
    assert verify_run(open_run(tmp_path / "flink")).is_ok


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("copies", [1, 2])
def test_packets_that_were_captured_several_times_count_once(
    tmp_path: Path, version: int, copies: int
) -> None:
    once = write_capture(tmp_path / "once.pcap", version=version)
    run(once)
    result = run(write_capture(tmp_path / "often.pcap", version=version, copies=copies), "--json")
    imported = json.loads(result.output)
    assert imported["packets"]["duplicates"] == copies * imported["packets"]["tcp_segments"]
    (connection,) = imported["connections"]
    assert all(each["retransmitted_segments"] == 0 for each in connection["tcp"].values())
    assert rows_of(tmp_path / "often") == rows_of(tmp_path / "once")


def test_the_manifest_says_where_it_comes_from(tmp_path: Path) -> None:
    run(write_capture(tmp_path / "flink.pcap"), "--out", tmp_path / "run")
    manifest = open_run(tmp_path / "run").manifest
    assert manifest is not None
    assert manifest.origin == "capture"
    assert manifest.clock.name == "CLOCK_REALTIME"
    assert manifest.started_at.startswith("1970-01-01T00:16:4")
    assert manifest.channels[0].connection == f"{SERVER}->{CLIENT}"
    assert manifest.measured_from_ns is not None
    assert manifest.measured_from_ns >= 1_000_000_000_000


def test_json_has_what_tcp_did(tmp_path: Path) -> None:
    capture = write_capture(tmp_path / "flink.pcap", lost=frozenset({3}))
    result = run(capture, "--json")
    imported = json.loads(result.output)
    assert imported == json.loads((tmp_path / "flink" / "capture.json").read_text())
    (connection,) = imported["connections"]
    data = connection["tcp"]["data"]
    assert data["gaps"] + connection["tcp"]["credit"]["gaps"] == 1
    assert connection["losses"] >= 1


def test_what_is_missing_is_reported(tmp_path: Path) -> None:
    result = run(write_capture(tmp_path / "flink.pcap", lost=frozenset({0, 1, 2})))
    assert result.exit_code == 0, result.output
    assert "the credit of 1 channel is unknown" in result.output
    rows = rows_of(tmp_path / "flink")
    assert all(row[2] != MessageKind.PARTITION_REQUEST for row in rows)
    assert any(row[1] == TracePoint.SENT for row in rows)


def test_credit_that_is_missing_is_no_whole_capture(tmp_path: Path) -> None:
    run(write_capture(tmp_path / "flink.pcap", lost=frozenset({SECOND_OF_CONSUMER})))
    texts = [each.text for each in verify_run(open_run(tmp_path / "flink")).findings]
    assert any("bytes that the consumer of " in each for each in texts)


def test_packets_that_the_snap_length_cut_are_named(tmp_path: Path) -> None:
    with write_capture(tmp_path / "flink.pcap").open("rb") as file:
        packets = list(pcap.Reader(file))
    with (tmp_path / "flink.pcap").open("wb") as file:
        writer = pcap.Writer(file)
        for at_s, packet in packets:
            writer.writepkt_time(packet[:90], at_s)
    assert "cut short; capture whole packets with `-s 0`" in run(tmp_path / "flink.pcap").output
    with pytest.raises(TraceFormatError, match="no data buffer was recorded whole"):
        open_runs([tmp_path / "flink"])


def test_a_file_that_was_cut_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    capture = write_capture(tmp_path / "flink.pcap")
    capture.write_bytes(capture.read_bytes()[:-10])
    result = run(capture)
    assert result.exit_code == 0, result.output
    assert "the file ends in the middle of a packet" in result.output


def in_parts(path: Path, names: Sequence[str]) -> list[Path]:
    """The packets of a pcap file in several, as tcpdump splits it."""
    packets = list(pcap.Reader(BytesIO(path.read_bytes())))
    parts = []
    for number, name in enumerate(names):
        parts.append(path.with_name(name))
        with parts[-1].open("wb") as file:
            writer = pcap.Writer(file, nano=True)
            for at, packet in packets[number * len(packets) // len(names) :][
                : len(packets) // len(names) + 1
            ]:
                writer.writepkt_time(packet, float(at))
    return parts


@pytest.mark.parametrize(
    "names",
    [
        ("rot.pcap", "rot.pcap1", "rot.pcap2"),
        ("rot.pcap2", "rot.pcap0", "rot.pcap1"),  # the oldest file was written over
        ("rot_00001_20260102030405.pcap", "rot_00002_20260102030406.pcap"),
    ],
)
def test_files_that_one_capture_was_split_into_are_one_recording(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    whole = write_capture(tmp_path / "whole.pcap")
    parts = in_parts(whole, names)
    assert run(whole).exit_code == 0
    result = run(*sorted(parts))
    assert result.exit_code == 0, result.output
    assert rows_of(tmp_path / "rot") == rows_of(tmp_path / "whole")
    manifest = open_run(tmp_path / "rot").manifest
    assert manifest is not None
    assert manifest.host == {"capture": ", ".join(sorted(names))}


def test_captures_of_the_same_time_are_merged_by_their_instants(tmp_path: Path) -> None:
    whole = write_capture(tmp_path / "whole.pcap")
    packets = list(pcap.Reader(BytesIO(whole.read_bytes())))
    sides = [tmp_path / "eth0.pcap", tmp_path / "eth1.pcap"]
    for number, side in enumerate(sides):
        with side.open("wb") as file:
            writer = pcap.Writer(file, nano=True)
            for at, packet in packets[number::2]:
                writer.writepkt_time(packet, float(at))
    assert run(whole).exit_code == 0
    assert run(*reversed(sides), "--out", tmp_path / "both").exit_code == 0
    assert rows_of(tmp_path / "both") == rows_of(tmp_path / "whole")


def test_one_file_of_a_split_capture_has_its_own_name(tmp_path: Path) -> None:
    first, second, _ = in_parts(
        write_capture(tmp_path / "whole.pcap"), ("rot.pcap0", "rot.pcap1", "rot.pcap2")
    )
    for part, directory in ((first, "rot-0"), (second, "rot-1")):
        result = run(part)
        assert result.exit_code == 0, result.output
        assert open_run(tmp_path / directory).manifest is not None


def test_a_capture_without_an_extension_is_not_taken_for_its_directory(tmp_path: Path) -> None:
    assert run(write_capture(tmp_path / "flink")).exit_code == 0
    assert open_run(tmp_path / "flink-trace").manifest is not None


def test_a_capture_is_read_from_a_pipe_and_from_standard_input(tmp_path: Path) -> None:
    content = gzip.compress(write_capture(tmp_path / "whole.pcap").read_bytes())
    result = CliRunner().invoke(
        main, ["trace", "import", "-", "--out", str(tmp_path / "in")], input=content
    )
    assert result.exit_code == 0, result.output
    os.mkfifo(tmp_path / "pipe")
    writer = Thread(target=(tmp_path / "pipe").write_bytes, args=(content,), daemon=True)
    writer.start()
    result = run(tmp_path / "pipe", "--out", tmp_path / "out")
    writer.join()
    assert result.exit_code == 0, result.output
    assert rows_of(tmp_path / "in") == rows_of(tmp_path / "out") != []


def test_standard_input_needs_the_name_of_a_directory() -> None:
    result = CliRunner().invoke(main, ["trace", "import", "-"], input=b"")
    assert result.exit_code == 2
    assert "--out: give the run directory to make" in result.output


def write_pcapng(path: Path, kinds: Sequence[int]) -> Path:
    """The packets of `write_capture` in blocks of these kinds, one after another."""
    packets = pcap.Reader(BytesIO(write_capture(path).read_bytes()))
    path.write_bytes(blocks_of([(int(at * 10**9), frame) for at, frame in packets], kinds))
    return path


def test_a_block_that_was_not_read_is_never_nothing_missing(tmp_path: Path) -> None:
    result = run(write_pcapng(tmp_path / "odd.pcapng", (6, 6, 0x777)))
    assert result.exit_code == 0, result.output
    named = "blocks of unknown kinds, or of packets without an instant, were not read"
    assert named in " ".join(result.output.split())
    found = verify_run(open_run(tmp_path / "odd")).findings
    assert "capture" in [each.rule for each in found if each.file == "capture.json"]
    losses = named_losses(opened_part(Recording(str(tmp_path / "odd"))), {}, {})
    assert "unread_blocks" in [each.kind for each in losses]


def test_a_recording_with_packets_of_no_instant_is_not_replayed(tmp_path: Path) -> None:
    """Their number is in imports of the time when each got the instant of the packet before it."""
    run(write_capture(tmp_path / "flink.pcap"))
    path = tmp_path / "flink" / "capture.json"
    document = json.loads(path.read_text())
    document["packets"]["timeless_packets"] = 3
    path.write_text(json.dumps(document))
    with pytest.raises(TraceFormatError, match="rates and times are unknown"):
        opened_part(Recording(str(tmp_path / "flink")), is_checked=True)


@pytest.mark.parametrize(
    ("seen", "missing", "named"),
    [
        (SERVER, "credit", "nothing that the consumer sent is in the capture"),
        (CLIENT, "data", "nothing that the producer sent is in the capture"),
    ],
)
def test_a_capture_of_one_direction_says_so_and_is_not_replayed(
    tmp_path: Path, seen: Endpoint, missing: str, named: str
) -> None:
    capture = write_capture(tmp_path / "flink.pcap", only=seen)
    result = run(capture, "--json", tmp_path / "imported.json")
    assert result.exit_code == 0, result.output
    shown = " ".join(result.output.split())
    assert named in shown
    assert "verdict unknown: only one direction was captured trust poor" in shown
    assert "no buffer is missing" not in shown or missing != "data"
    assert "TCP lost nothing" not in shown
    assert "flinknet trace replay" not in result.output
    (connection,) = json.loads((tmp_path / "imported.json").read_text())["connections"]
    assert connection["missing_direction"] == missing
    findings = verify_run(open_run(tmp_path / "flink")).findings
    assert [each.rule for each in findings if each.file == "capture.json"] == ["capture"]
    with pytest.raises(TraceFormatError, match="one direction of its connections"):
        opened_part(Recording(str(tmp_path / "flink")))
    both = write_capture(tmp_path / "both.pcap", version=6)
    assert run(both, "--json").exit_code == 0
    opened_part(Recording(str(tmp_path / "both")))
    calm = {"blocked_ns": 0, "starved_ns": 0}
    imported = json.loads((tmp_path / "both" / "capture.json").read_text())
    imported["channels"] = [each | calm for each in imported["channels"]]
    assert "healthy: the network holds nothing up" in str(import_view(imported).headline)
    imported["connections"].append(connection)
    assert "unknown: only one direction of 1 connection was" in str(import_view(imported).headline)


def test_what_was_edited_in_a_capture_hides_nothing_of_its_other_connections(
    tmp_path: Path,
) -> None:
    run(write_capture(tmp_path / "flink.pcap", only=SERVER))
    path = tmp_path / "flink" / "capture.json"
    document = json.loads(path.read_text())
    (connection,) = document["connections"]
    document |= {"packets": None, "connections": [None, {}, connection]}
    path.write_text(json.dumps(document))
    texts = [each.text for each in verify_run(open_run(tmp_path / "flink")).findings]
    assert any(text.startswith("nothing that the consumer of ") for text in texts)


def test_only_connections_that_were_captured_both_ways_are_judged(tmp_path: Path) -> None:
    both, one = ((50_000).to_bytes(2, "big"), (50_001).to_bytes(2, "big"))
    packets = []
    for name, only in (("both", None), ("one", SERVER)):
        with write_capture(tmp_path / name, only=only).open("rb") as file:
            for at_s, packet in pcap.Reader(file):
                packets.append((at_s, packet if only is None else packet.replace(both, one, 1)))
    with (tmp_path / "flink.pcap").open("wb") as file:
        writer = pcap.Writer(file, nano=True)
        for at_s, packet in sorted(packets):
            writer.writepkt_time(packet, at_s)
    alone, mixed = (verdict_of(tmp_path / name) for name in ("both", "flink.pcap"))
    assert mixed
    assert mixed == alone.removesuffix("; TCP lost nothing, and receivers had room") != alone


def test_what_waits_behind_a_barrier_is_not_judged_where_credit_messages_are_missing(
    tmp_path: Path,
) -> None:
    """A ResumeConsumption may be among them: the channel then seems to wait on and on."""
    capture = write_capture(tmp_path / "flink.pcap", lost=frozenset({SECOND_OF_CONSUMER}))
    said = verdict_of(capture)
    assert said.startswith("unknown: credit messages of 1 connection are missing")
    assert "receivers had room" not in said  # they say so in what is missing
    imported = json.loads((tmp_path / "flink" / "capture.json").read_text())
    (connection,) = imported["connections"]
    assert connection["tcp"]["credit"]["gaps"] == 1
    whole = json.loads(json.dumps(connection)) | {"connection": "whole"}
    whole["tcp"]["credit"]["gaps"] = whole["credit_unknown_channels"] = 0
    calm = {"blocked_ns": 0, "starved_ns": 0, "connection": "whole"}
    imported["connections"].append(whole)
    imported["channels"] += [each | calm for each in imported["channels"]]
    shown = str(import_view(imported).headline)
    assert "unknown: credit messages of 1 connection are missing" in shown
    imported["channels"][-1]["blocked_ns"] = imported["duration_ns"]
    assert "held: barriers block channels" in str(import_view(imported).headline)


def verdict_of(capture: Path) -> str:
    view = import_view(json.loads(run(capture, "--json").output))
    return next(each.text for each in view.headline if each.name == "verdict")


def test_a_capture_that_has_lost_what_is_known_of_it_has_no_verdict(tmp_path: Path) -> None:
    run(write_capture(tmp_path / "flink.pcap", only=SERVER))
    directory = tmp_path / "flink"
    document = (directory / "capture.json").read_text()
    (directory / "capture.json").write_text(document.replace('"credit"', '"none"'))
    with pytest.raises(TraceFormatError, match=r"capture\.json: its checksum is not that in the"):
        open_runs([directory])
    (directory / "capture.json").unlink()
    with pytest.raises(TraceFormatError, match=r"capture\.json: the manifest names it"):
        open_runs([directory])
    assert verdicts_without_capture([directory], OnDamage.SKIP) == [None]
    edit_manifest(directory, lambda manifest: manifest.update(files={}))  # as of a crash
    assert verdicts_without_capture([directory], OnDamage.STOP) == [None]
    findings = verify_run(open_run(directory)).findings
    assert [each.rule for each in findings if each.file == "capture.json"] == ["capture"]


def verdicts_without_capture(paths: Sequence[Path], on_damage: OnDamage) -> list[Bottleneck | None]:
    runs = open_runs(paths, on_damage=on_damage)
    assert [each.file for each in runs[0].losses] == ["capture.json"]
    assert not runs[0].is_credit_known
    return [each.bottleneck for each in judged(observe_here(runs, split=None))]


def test_directories_are_never_overwritten(tmp_path: Path) -> None:
    capture = write_capture(tmp_path / "flink.pcap")
    run(capture)
    result = run(capture)
    assert result.exit_code == 2
    assert "is not empty; give a new directory" in result.output


def test_a_capture_without_flink_leaves_nothing_behind(tmp_path: Path) -> None:
    capture = tmp_path / "web.pcap"
    with capture.open("wb") as file:
        pcap.Writer(file).writepkt(tcp_packet(b"GET / HTTP/1.1\r\n"), ts=1.0)
    result = run(capture)
    assert result.exit_code == 4
    assert "none of its 1 TCP connections speaks Flink's data-port protocol" in result.output
    assert not (tmp_path / "web").exists()
