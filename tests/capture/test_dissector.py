"""The Wireshark dissector against Flink's own bytes, run by tshark."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from dpkt import pcap

from flinknet.capture.dissector import dissector_script
from flinknet.core.probe import MessageKind
from flinknet.report.demos import words_of
from tests.capture.pcap.packets import tcp_packet
from tests.golden_vectors import LAYOUT_OF_RELEASE, Vector, vectors

TSHARK = shutil.which("tshark")
needs_tshark = pytest.mark.skipif(TSHARK is None, reason="tshark is not installed")

MESSAGES = {
    "data": 0,
    "partial": 0,
    "event-buffer": 0,
    "compressed": 0,
    "error": 1,
    "partition-request": 2,
    "task-event-request": 3,
    "cancel-partition-request": 4,
    "close-request": 5,
    "add-credit": 6,
    "resume-consumption": 7,
    "ack-all-user-records-processed": 8,
    "backlog-announcement": 9,
    "new-buffer-size": 10,
    "segment-id": 11,
}
"""Groups of golden vectors, and the id of their message."""

FIELDS = {
    "receiver_id": "flink.receiver",
    "subpartition_id": "flink.subpartition",
    "sequence_number": "flink.sequence_number",
    "backlog": "flink.backlog",
    "data_type": "flink.data_type",
    "is_compressed": "flink.compressed",
    "buffer_size": "flink.size",
    "num_partial_buffers": "flink.partial_buffers",
    "subpartition_start": "flink.first_subpartition",
    "subpartition_end": "flink.last_subpartition",
    "credit": "flink.credit",
    "segment_id": "flink.segment_id",
}
"""Names in the vectors, and of the dissector; `buffer_size` of NewBufferSize is another field."""


def frames_of(release: str) -> list[tuple[Vector, int, bytes]]:
    """(vector, message id, frame) of every message of a release."""
    return [
        (vector, MESSAGES[group], bytes.fromhex(vector["hex"]))
        for vector in vectors(release)
        if (group := vector["name"].split("/")[0]) in MESSAGES
    ]


def dissect(tmp_path: Path, payloads: Iterable[bytes], *names: str) -> list[dict[str, str]]:
    """What tshark says of these fields of packets that carry these payloads one after another."""
    script, capture = tmp_path / "flink.lua", tmp_path / "capture.pcap"
    script.write_text(dissector_script(), encoding="utf-8")
    with capture.open("wb") as file:
        writer = pcap.Writer(file)
        sequence_number = 1
        for payload in payloads:
            writer.writepkt(_packet(payload, sequence_number), ts=1.0)
            sequence_number += len(payload)
    fields = [part for name in names for part in ("-e", name)]
    assert TSHARK is not None
    done = subprocess.run(
        [TSHARK, "-n", "-X", f"lua_script:{script}", "-r", str(capture), "-T", "fields", *fields],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "lua" not in done.stderr.lower(), done.stderr
    return [dict(zip(names, line.split("\t"), strict=True)) for line in done.stdout.splitlines()]


def _packet(payload: bytes, sequence_number: int) -> bytes:
    source, target = ("10.0.0.1", 40_131), ("10.0.0.2", 40_132)  # no other protocol's ports
    return tcp_packet(payload, sequence_number=sequence_number, source=source, target=target)


def expected(vector: Vector) -> dict[str, Any]:
    """The fields of a golden vector, under the dissector's names, as tshark prints them."""
    values: dict[str, str] = {}
    for name, field in FIELDS.items():
        value = vector["fields"].get(name)
        if value is None:
            continue
        if name == "buffer_size" and vector["name"].startswith("new-buffer-size"):
            field = "flink.buffer_size"
        if isinstance(value, bool):
            value = int(value)
        values[field] = str(value)
    return values


def test_every_name_has_its_row() -> None:
    script = dissector_script()
    assert "@" not in script.replace("tshark -X", "")
    for row in ('[0] = "BufferResponse"', '[6] = "AddCredit"', '[10] = "END_OF_PARTITION"'):
        assert row in script
    assert '[1] = "CheckpointBarrier"' in script


@needs_tshark
@pytest.mark.parametrize("release", LAYOUT_OF_RELEASE)
def test_every_message_of_a_release(tmp_path: Path, release: str) -> None:
    frames = frames_of(release)
    names = ["flink.id", "flink.layout", *FIELDS.values(), "flink.buffer_size", "tcp.len"]
    names.append("_ws.col.Info")
    rows = dissect(tmp_path, (frame for _, _, frame in frames), *names, "_ws.malformed")
    assert len(rows) == len(frames) > 80
    for (vector, message_id, frame), row in zip(frames, rows, strict=True):
        assert row["flink.id"] == str(message_id), vector["name"]
        assert row["tcp.len"] == str(len(frame))
        kind = MessageKind(message_id).name  # the words that pages of demos show
        name = "Buffer #" if message_id == 0 else words_of(kind, "", -1, 0, -1, -1)
        assert row["_ws.col.Info"].startswith(name), vector["name"]
        assert not row["_ws.malformed"], vector["name"]
        if message_id == 0:
            assert row["flink.layout"] == ("1.x" if release.startswith("1.") else "2.x")
        for field, value in expected(vector).items():
            printed = row[field].replace(":", "") if field == "flink.receiver" else row[field]
            printed = {"True": "1", "False": "0"}.get(printed, printed)
            assert printed == value, (vector["name"], field)


@needs_tshark
def test_events_are_read(tmp_path: Path) -> None:
    found = [each for each in frames_of("2.3.0") if each[0]["name"].startswith("event-buffer")]
    rows = dissect(
        tmp_path,
        (frame for _, _, frame in found),
        "flink.event",
        "flink.checkpoint_id",
        "_ws.col.Info",
    )
    barriers = 0
    for (vector, _, _), row in zip(found, rows, strict=True):
        event = vector["fields"].get("event") or {}
        if "checkpoint_id" in event:
            assert row["flink.checkpoint_id"].split(",")[0] == str(event["checkpoint_id"])
            barriers += 1
        assert row["flink.event"], vector["name"]
        assert "Buffer #" in row["_ws.col.Info"]
    assert barriers > 5


@needs_tshark
def test_messages_cut_anywhere_are_put_together(tmp_path: Path) -> None:
    frames = [frame for _, message_id, frame in frames_of("2.3.0") if message_id in (0, 1, 9)]
    whole = b"".join(frames)
    choose = random.Random(20240229)
    cuts = sorted({choose.randrange(1, len(whole)) for _ in range(150)})
    # The first packet holds a whole frame: by it the connection is known.
    cuts = [len(frames[0]), *(cut for cut in cuts if cut > len(frames[0])), len(whole)]
    payloads = [whole[a:b] for a, b in zip([0, *cuts], cuts, strict=False)]
    rows = dissect(tmp_path, payloads, "flink.length")
    lengths = [int(each) for row in rows for each in row["flink.length"].split(",") if each]
    assert lengths == [len(frame) for frame in frames]


@needs_tshark
def test_messages_of_one_packet_are_kept_apart(tmp_path: Path) -> None:
    credit, *_ = [frame for _, message_id, frame in frames_of("2.3.0") if message_id == 6]
    payloads = [credit, credit[:20], credit[20:] + credit + credit, credit * 2]
    rows = dissect(tmp_path, payloads, "_ws.col.Info")
    words = dissect(tmp_path, [credit], "_ws.col.Info")[0]["_ws.col.Info"]
    found = [row["_ws.col.Info"] for row in rows]
    assert found[0] == words
    assert found[2] == " | ".join([words] * 3)
    assert found[3] == " | ".join([words] * 2)


@needs_tshark
def test_a_capture_that_begins_in_the_middle_finds_its_way(tmp_path: Path) -> None:
    frames = [frame for _, message_id, frame in frames_of("2.3.0") if message_id == 6]
    payloads = [frames[0], frames[1][11:] + frames[2], frames[3]]
    rows = dissect(tmp_path, payloads, "flink.id", "flink.skipped", "flink.not_a_frame")
    assert [row["flink.id"] for row in rows] == ["6", "6", "6"]
    assert rows[1]["flink.skipped"].replace(":", "") == frames[1][11:].hex()
    assert rows[1]["flink.not_a_frame"]
