"""A recording in one file: what it still says, and what it does not."""

from __future__ import annotations

import base64
import io
import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flinknet.cli import main
from flinknet.errors import TraceFormatError
from flinknet.trace import RunManifest, TraceReader, share
from tests.edited_manifest import edit_manifest

RECORDINGS = Path(__file__).parents[2] / "traces/recordings"
TAPPED = RECORDINGS / "tap-slow-sink"
KEY = bytes(range(32))


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def texts_of(value: Any, field: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from texts_of(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from texts_of(each, field)
    elif isinstance(value, str):
        yield field, value


@pytest.mark.parametrize("name", ["tap-slow-sink", "slow-last-stage", "paced"])
def test_no_name_and_no_id_of_the_recording_is_in_its_copy(name: str, tmp_path: Path) -> None:
    share.copy_run(RECORDINGS / name, tmp_path / "copy", share.Pseudonyms(KEY))
    original = json.loads((RECORDINGS / name / "manifest.json").read_text())
    del original["flink_keys"], original["files"], original["seal"]
    original["scenario"].pop("network", None)
    names = {
        text
        for field, text in texts_of(original)
        if field not in share.KEPT and len(text) > 3 and ("(" in text or len(text) >= 32)
    }
    job = original["scenario"].get("job", {})
    names |= {job["name"]} if job.get("name") else set()
    names |= {each["name"] for each in job.get("vertices", ())}
    assert names
    left = "".join(each.read_text() for each in (tmp_path / "copy").glob("*.json*"))
    assert not [each for each in names if f'"{each}"' in left or f'"{each} (' in left]


def test_text_in_a_field_that_nobody_knows_is_hidden() -> None:
    hidden = share.Pseudonyms(KEY).document({"new_field": "orders.internal", "Orders EU": {"n": 3}})
    assert "orders" not in json.dumps(hidden).lower()
    assert list(hidden.values())[1] == {"n": 3}


@pytest.mark.parametrize(
    "document",
    [
        {"flink_keys": {"taskmanager.bind-host": "192.0.2.7"}},
        {"network": {"bind_host": "acmehost"}},
        {"config": {"taskmanager.bind-host": "acmehost", "x.y": "ACME_EU"}},
        {"settings_from": {"taskmanager.bind-host": "acmeprod"}},
        {"hosts": {"tm1.acme.example": {"offset_ns": 3}}},
        {"job": {"name": "tap-1"}},
        {"vertices": [{"name": "worker"}], "edges": [{"name": "acme (1/2) \u2192 b (1/2)"}]},
        {"tap": {"rest": "https://user:acme@jobs.acme.example:8081/acme"}},
        {"partition": "f126f51c21bde915bc764cd8e991f38c#0@484be1e11041762ee8bf645dd1b48d7a_0"},
        {"settings": [{"key": "taskmanager.bind-host", "value": "acme", "from": "acme.yaml"}]},
    ],
)
def test_no_name_hides_among_what_is_kept(document: dict[str, Any]) -> None:
    hidden = json.dumps(share.Pseudonyms(KEY).document(document))
    for each in ("192.0.2.7", "acme", "ACME", "tap-1", "worker", "user", "f126", "484b"):
        assert each not in hidden, hidden


def test_settings_keep_their_values_and_a_task_its_one_name() -> None:
    settings = {"execution.buffer-timeout.interval": "20 ms", "x": "true", "y": "EXACTLY_ONCE"}
    hidden = share.Pseudonyms(KEY).document(
        {
            "flink_keys": settings,
            "settings_from": {"x": "JobManager"},
            "vertices": [{"name": "src"}, {"name": "snk"}],
            "channels": [{"name": "src (1/2) \u2192 snk (2/2)"}],
        }
    )
    assert hidden["flink_keys"] == settings
    assert hidden["settings_from"] == {"x": "JobManager"}
    source, sink = (each["name"] for each in hidden["vertices"])
    assert hidden["channels"][0]["name"] == f"{source} (1/2) \u2192 {sink} (2/2)"


def test_a_warning_says_its_code_and_no_process_of_the_host(tmp_path: Path) -> None:
    shutil.copytree(TAPPED, tmp_path / "run")
    brief = "other processes: pip used 0.71 cores"
    warning = {"code": "disturbed", "brief": brief, "text": f"{brief}; end them"}
    edit_manifest(tmp_path / "run", lambda manifest: None)
    (tmp_path / "run/result.json").write_text(json.dumps({"warnings": [warning]}))
    share.copy_run(tmp_path / "run", tmp_path / "copy", share.Pseudonyms(KEY))
    result = json.loads((tmp_path / "copy/result.json").read_text())
    assert result == {"warnings": [{"code": "disturbed", "text": "disturbed"}]}


def test_a_cut_file_stays_cut_and_a_damaged_block_is_named(tmp_path: Path) -> None:
    shutil.copytree(TAPPED, tmp_path / "run")
    [file] = (tmp_path / "run").glob("*.fnt")
    whole = file.read_bytes()
    with TraceReader(file) as reader:
        second = reader.blocks()[1]
    cut = whole[: -(len(whole) // 3)]
    file.write_bytes(cut)
    assert share.copy_run(tmp_path / "run", tmp_path / "cut", share.Pseudonyms(KEY)) == []
    [copied] = (tmp_path / "cut").glob("*.fnt")
    with TraceReader(copied) as reader, TraceReader(file) as before:
        assert not reader.is_whole
        assert len(reader.blocks()) == len(before.blocks())
    damaged = bytearray(whole)
    damaged[second.offset + second.length_bytes - 5] ^= 1
    file.write_bytes(damaged)
    [line] = share.copy_run(tmp_path / "run", tmp_path / "left", share.Pseudonyms(KEY))
    assert "block 2 is left out" in line
    assert RunManifest.load(tmp_path / "left").files == {}


def test_one_key_gives_a_name_one_pseudonym_and_another_key_another() -> None:
    [first, same, other] = (
        share.Pseudonyms(key).document(
            {"vertices": [{"name": "Orders"}], "tasks": ["Orders (1/2)"]}
        )
        for key in (KEY, KEY, KEY[::-1])
    )
    assert first == same != other
    vertex = first["vertices"][0]["name"]
    assert first["tasks"] == [f"{vertex} (1/2)"]


def test_events_and_the_ids_within_ids_are_as_they_were(tmp_path: Path) -> None:
    share.copy_run(TAPPED, tmp_path, share.Pseudonyms(KEY))
    before, after = RunManifest.load(TAPPED), RunManifest.load(tmp_path)
    for old, new in zip(before.processes, after.processes, strict=True):
        with TraceReader(TAPPED / old.file) as a, TraceReader(tmp_path / new.file) as b:
            for x, y in zip(a.events(), b.events(), strict=True):
                assert all((x[name] == y[name]).all() for name in x)
            assert a.dropped_events == b.dropped_events
    old_ids = [each["id"] for each in before.scenario["job"]["vertices"]]
    new_ids = [each["id"] for each in after.scenario["job"]["vertices"]]
    for old_channel, new_channel in zip(before.channels, after.channels, strict=True):
        made_by = [each in old_channel.partition for each in old_ids]
        assert made_by == [each in new_channel.partition for each in new_ids]
        assert old_channel.partition != new_channel.partition


def test_a_page_gives_the_run_back_and_shows_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # as in containers whose user has no home directory
    monkeypatch.setattr(Path, "home", lambda: pytest.fail("no option needs it"))
    key = tmp_path / "own" / "key"
    output = run(
        *("trace", "share", str(TAPPED), "--no-answer", "--key-file", str(key)),
        *("--out", "shared.html"),
    )
    assert key.stat().st_mode & 0o077 == 0
    assert "no payload" in output
    shown = run("trace", "share", "--check", "shared.html")
    assert "snk" not in shown
    assert "execution.buffer-timeout.interval: " in shown
    run("trace", "import", "shared.html", "--out", "back")
    assert run("trace", "verify", "back").startswith("OK back: 1 file")
    kept = run("trace", "share", str(TAPPED), "--no-answer", "--names", "--out", "named.html")
    assert "names stay" in kept
    assert "snk" in run("trace", "share", "--check", "named.html")


def page_of(**files: bytes) -> str:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return (
        f"<body>{share.OPENING}{base64.b64encode(packed.getvalue()).decode()}{share.CLOSING}</body>"
    )


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<html></html>", "holds no recording"),
        (f"{share.OPENING}AAAA{share.CLOSING}", "is damaged"),
        (page_of(**{"manifest.json": b"{}"}).replace(share.CLOSING, ""), "is cut off"),
        ("<!doctype html><title>flinknet</title><body>", "is cut off"),
        ("<!doctype html><body>", "holds no recording"),
        (page_of(**{"../manifest.json": b"{}"}), "no part of a run"),
        (page_of(**{"/etc/manifest.json": b"{}"}), "no part of a run"),
        (page_of(**{"run/evil.py": b""}), "no part of a run"),
    ],
)
def test_a_page_with_anything_else_is_refused_and_writes_nothing(
    page: str, expected: str, tmp_path: Path
) -> None:
    path, out = tmp_path / "page.html", tmp_path / "out"
    path.write_text(page)
    with pytest.raises(TraceFormatError, match=expected):
        share.unpack(path, out)
    assert not out.exists()


def test_the_recording_stands_before_the_end_of_the_page(tmp_path: Path) -> None:
    share.copy_run(TAPPED, tmp_path / "run", None)
    path = tmp_path / "page.html"
    path.write_text(
        share.with_recording("<html><body><p>answer</p></body></html>", tmp_path / "run")
    )
    text = path.read_text()
    assert text.startswith("<html><body><p>answer</p>")
    assert text.endswith("</body></html>")
    assert {file for file, _, _ in share.texts_in(path)} >= {"manifest.json", "metrics.jsonl"}


def test_the_check_lists_what_the_page_shows_and_notices_a_change(tmp_path: Path) -> None:
    share.copy_run(TAPPED, tmp_path / "run", share.Pseudonyms(KEY))
    data = '<script type="application/json" id="data">{"views": [{"name": "acme"}]}</script>'
    page = share.with_recording(f"<title>a &amp; b</title>{data}<body></body>", tmp_path / "run")
    path = tmp_path / "page.html"
    path.write_text(page)
    found = {field: set(texts) for file, field, texts in share.texts_in(path) if file == "page"}
    assert found["name"] == {"acme"}
    assert "a & b" in found[""]
    path.write_text(page.replace("acme", "amce"))
    with pytest.raises(TraceFormatError, match="was changed"):
        list(share.texts_in(path))


def test_neither_the_page_nor_its_name_says_that_of_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(TAPPED, tmp_path / "acme-payments")
    arguments = ("--no-answer", "--key-file", str(tmp_path / "key"))
    monkeypatch.chdir(tmp_path)
    run("trace", "share", "acme-payments", *arguments)
    (page,) = tmp_path.glob("*.html")
    assert page.name.startswith("run-")
    assert "<title>run-" in page.read_text()
    assert "acme" not in run("trace", "share", "--check", str(page))
