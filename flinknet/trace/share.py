"""A recording in one file for a colleague: an HTML page that holds the run directory, with
pseudonyms in place of names and ids.

A pseudonym is made of the name by HMAC-SHA256 with a key that stays with its owner: the same name
has the same pseudonym in all files of one key, and nobody else can find the name by trying. Texts
are replaced unless they stand in a field whose values are known (KEPT), so a field that is added
later is hidden until somebody decides otherwise. Events hold numbers alone (`schema`): lengths,
times and counts, never what records contain.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import json
import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from html import unescape
from pathlib import Path
from typing import Any

from flinknet.errors import TraceFormatError
from flinknet.whole_files import whole_file

from .manifest import CAPTURE_NAME, MANIFEST_NAME, RESULT_NAME, ProcessInfo
from .metrics import METRICS_NAME
from .plain_text import read_json
from .reader import TraceReader
from .run import faults_of_documents, open_run, refuse
from .run_directory import seal_run
from .writer import TraceWriter

OPENING = '<script type="application/zip" id="flinknet-trace">'
"""What stands before the recording in the page."""

CLOSING = "</script>"

FOOTER = (
    '<footer style="margin: 2rem auto; max-width: 70rem; padding: 0 1rem">This page holds the'
    " recording, too, without payloads: <code>flinknet trace import PAGE.html --out run</code>"
    " makes a trace of it.</footer>"
)

_DATA = re.compile(r'<script type="application/json"[^>]*>(.*?)</script>', re.DOTALL)
_MARKUP = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL)

TEXTS = (MANIFEST_NAME, METRICS_NAME, RESULT_NAME, CAPTURE_NAME)
"""Files of a run directory besides those with events."""

MEMBER_BYTES_MAX = 1 << 32
"""Largest file to unpack from a page."""

KEPT = frozenset(
    (
        *("arrivals", "backpressureLevel", "cause", "checkpoint_mode", "clock.name"),
        *("code", "compression_codec", "core", "cpu", "end", "ended_at", "flinknet"),
        *("flow_control", "from", "implementation", "kernel", "key", "kind", "law", "layout"),
        *("layouts", "link", "machine", "numpy", "origin", "partition_type", "partitioner"),
        *("placement", "python", "python_build", "rate_per_s", "role", "scheduling"),
        *("ssl_protocol", "started_at", "state", "status", "stopped_by", "transport", "trigger"),
        *("type", "validity", "zstandard"),
    )
)
"""Fields whose texts stay as they are: settings, versions, and words of flinknet and Flink."""

LEFT_OUT = frozenset(
    (
        *("arguments", "brief", "error", "evidence", "fan_out", "files", "limited_by"),
        *("others_share", "path", "reason", "remedy", "ssl_keystore", "ssl_truststore", "trace"),
    )
)
"""Fields that are left out: sentences with names in them, maps whose keys are names, places on the
host."""

SETTINGS = frozenset(("flink_keys", "network", "config"))
"""Maps of settings, and `settings_from` of who stated them."""

ORIGINS = frozenset(("job", "JobManager", "TaskManagers"))

_TASK_MANAGERS = frozenset(
    (
        *("processes.name", "producer_process", "consumer_process", "task_manager"),
        *("task_managers", "connection", "place", "process"),
    )
)
_PROCESS = re.compile(r"(?:tm|tap|capture|jobmanager|worker)(?:-\d+)*", re.ASCII)
_TASK = re.compile(r"(.+?)( \(\d+/\d+\)| \d+ of \d+)?", re.ASCII | re.DOTALL)
_ADDRESS = re.compile(r"(https?://)?(?:[^\s/@]*@)?([^\s/@]+?)(:\d+(?:-\d+)?)?(?:/.*)?", re.ASCII)
_OF_HERE = re.compile(r"127\.0\.0\.1|\[?::1\]?|0\.0\.0\.0|\[?::\]?|localhost", re.ASCII)
_ID = re.compile(r"[0-9a-f]{32}")
_KEY = re.compile(r"[A-Za-z][\w-]{0,60}", re.ASCII)
_SETTING = re.compile(
    r"-?\d+(?:[.,]\d+)? ?[a-z%]{0,12}|true|false|auto|pkcs12|jks|PKCS12|JKS|JDK|OPENSSL|TLSv1\.\d"
    r"|TLS_\w+(?:,TLS_\w+)*|EXACTLY_ONCE|AT_LEAST_ONCE|LZ4|ZSTD|NONE|credit|tcp|nio|epoll",
    re.ASCII,
)
"""Values of settings that say no name: numbers with a unit, booleans, words of Flink."""


class Pseudonyms:
    """Replaces texts of the documents of a run, by a key of at least 16 bytes."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._known: dict[str, str] = {}

    @property
    def replaced(self) -> int:
        return len(self._known)

    def document(self, value: Any, field: str = "") -> Any:
        """The same document, the value of this field, with pseudonyms."""
        if isinstance(value, dict):
            is_map = field in SETTINGS or field == "settings_from"
            found = {}
            for name, each in value.items():
                if name in LEFT_OUT:
                    continue
                key = name if is_map or _KEY.fullmatch(name) else self._name(name)
                if isinstance(each, str) and is_map:
                    found[key] = self._stated(name, each, field)
                else:
                    below = f"{field}.name" if name == "name" else name
                    found[key] = self.document(each, below)
            if "code" in value and "text" in value:  # a warning, whose sentences may have names
                found["text"] = value["code"]
            return found
        if isinstance(value, list):
            return [self.document(each, field) for each in value]
        return self.text(value, field) if isinstance(value, str) else value

    def text(self, text: str, field: str) -> str:
        """A text, or what stands for it."""
        if not text:
            return text
        if field == "from" and text not in ORIGINS:
            return self._of("file", text)
        if field in KEPT or (field in _TASK_MANAGERS and _PROCESS.fullmatch(text)):
            return text
        if field == "value":
            return self._stated("", text, field)
        if re.fullmatch(r"[0-9a-f]{32,}", text):
            if len(text) != 120:
                return (self._digest(text) * (len(text) // 64 + 1))[: len(text)]
            # ResultPartitionID: 16 and 4 bytes, twice 16, twice 4. Ids keep their places: a
            # partition says which vertex made it
            parts = text[:32], text[32:40], text[40:72], text[72:104], text[104:]
            return "".join(self._id(each) if len(each) == 32 else each for each in parts)
        if _ID.search(text):
            return _ID.sub(lambda match: self._id(match[0]), text)
        if field in _TASK_MANAGERS or field in ("listen", "listening", "upstream", "rest"):
            return "->".join(map(self._address, text.split("->")))
        if field == "job.name":
            return self._of("job", text)
        if field.endswith(".name") or field in ("task", "tasks", "source", "target", "edge"):
            return self._name(text)
        return self._of(re.sub(r"[^a-z]", "", field) or "text", text)

    def _stated(self, name: str, text: str, field: str) -> str:
        if field == "settings_from":
            return text if text in ORIGINS else self._of("file", text)
        if re.search(r"host|address", name):
            return self._address(text)
        return text if not text or _SETTING.fullmatch(text) else self._address(text)

    def _name(self, text: str) -> str:
        """A task, a vertex, or an edge or channel from one to another."""
        ends = []
        for each in text.split(" \u2192 "):
            found = _TASK.fullmatch(each)
            assert found is not None
            ends.append(self._of("task", found[1]) + (found[2] or ""))
        return " \u2192 ".join(ends)

    def _address(self, text: str) -> str:
        found = _ADDRESS.fullmatch(text)
        if _PROCESS.fullmatch(text) or found is None:
            return text if found else self._of("host", text)
        host = found[2] if _OF_HERE.fullmatch(found[2]) else self._of("host", found[2])
        return f"{found[1] or ''}{host}{found[3] or ''}"

    def _id(self, text: str) -> str:
        self._known.setdefault(text, text)
        return self._digest(text)[:32]

    def _of(self, kind: str, text: str) -> str:
        return self._known.setdefault(text, f"{kind}-{self._digest(text)[:6]}")

    def _digest(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()


def copy_run(source: Path, target: Path, pseudonyms: Pseudonyms | None) -> list[str]:
    """Copy a run directory into one without files. What the recording lacks, the copy lacks, too: a
    file that is cut off stays so, and a run that is not sealed gets no seal. Without pseudonyms
    names and ids stay.

    Returns: a line for each block that is damaged and left out.

    Raises: TraceError, TraceFormatError where the source cannot be read; OSError.
    """
    run = open_run(source)
    refuse(run, faults_of_documents(run))
    assert run.manifest is not None, "a run directory"
    manifest = run.manifest
    renamed: Callable[[Any], Any] = pseudonyms.document if pseudonyms else lambda value: value
    target.mkdir(parents=True, exist_ok=True)
    processes: list[ProcessInfo] = []
    losses: list[str] = []
    for number, process in enumerate(manifest.processes):
        own = process
        if pseudonyms:
            found = re.match(r"(?:tm|tap|capture)-", process.file)
            file = f"{found[0] if found else 'process-'}{number:04d}.fnt"
            own = ProcessInfo(pseudonyms.text(process.name, "process"), file, process.pid)
        losses += _copy_events(source / process.file, target / own.file, own)
        processes.append(own)
    document = renamed({**manifest.to_dict(), "seal": None})
    document["processes"] = [each.to_dict() for each in processes]
    document["files"] = {}
    (target / MANIFEST_NAME).write_text(json.dumps(document))
    for name in (RESULT_NAME, CAPTURE_NAME):
        with suppress(FileNotFoundError):
            text = json.dumps(renamed(read_json((source / name).read_text("utf-8"))))
            (target / name).write_text(text + "\n")
    if (source / METRICS_NAME).exists():
        with (
            (source / METRICS_NAME).open(encoding="utf-8") as lines,
            (target / METRICS_NAME).open("w", encoding="utf-8") as out,
        ):
            for line in lines:
                with suppress(ValueError):  # the last one may be incomplete
                    out.write(json.dumps(renamed(json.loads(line))) + "\n")
    if manifest.is_sealed and manifest.files and not losses:
        seal_run(target)
    return losses


def _copy_events(source: Path, target: Path, process: ProcessInfo) -> Iterator[str]:
    """Copy the blocks of events, and how many events are missing before each; no trailer where
    there is none. Yields: what was left out.
    """
    with TraceReader(source) as reader, source.open("rb") as file:
        with TraceWriter(target, process) as writer:
            gaps = reader.gaps()
            for number, entry in enumerate(reader.blocks()):
                if gaps.get(number):
                    writer.drop(gaps[number])
                file.seek(entry.offset)
                try:
                    writer.copy_block(file.read(entry.length_bytes))
                except TraceFormatError as error:
                    writer.drop(entry.count)
                    yield f"{source}: block {number + 1} is left out: {error}"
            size_bytes = writer.size_bytes
            writer.close(dropped_events=reader.dropped_events or 0)
        if not reader.is_whole:
            os.truncate(target, size_bytes)


def with_recording(page: str, runs: Path) -> str:
    """An HTML page with a recording in it: all files below a directory."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(each for each in runs.rglob("*") if each.is_file()):
            is_compressed = path.suffix == ".fnt"
            kind = zipfile.ZIP_STORED if is_compressed else zipfile.ZIP_DEFLATED
            archive.write(path, path.relative_to(runs).as_posix(), kind)
        head, body, tail = page.rpartition("</body>")
        head, tail = f"{head}{FOOTER}\n", f"\n{body}{tail}"
        archive.comment = _checksum(head + tail)
    return f"{head}{OPENING}{base64.b64encode(packed.getvalue()).decode()}{CLOSING}{tail}"


def _checksum(shown: str) -> bytes:
    """Checksum of a page without its recording: shows changes by accident, not forgeries."""
    return hashlib.sha256(shown.encode()).hexdigest().encode()


def open_recording(path: Path) -> tuple[zipfile.ZipFile, str]:
    """The files in a page, and the rest of the page. Raises: TraceFormatError if there are none,
    or they are damaged."""
    text = path.read_text("utf-8", errors="replace")
    head, opening, rest = text.rpartition(OPENING)
    packed, closing, tail = rest.partition(CLOSING)
    if not opening or not closing:
        is_cut = opening or ("flinknet" in text and "</html>" not in text[-99:])
        raise TraceFormatError(
            f"{path}: the page is cut off or changed; fetch it again"
            if is_cut
            else f"{path}: holds no recording; `flinknet trace share` makes such pages"
        )
    try:
        archive = zipfile.ZipFile(io.BytesIO(base64.b64decode(packed, validate=True)))
        if archive.testzip() is not None:
            raise zipfile.BadZipFile
    except (ValueError, zipfile.BadZipFile, EOFError):
        raise TraceFormatError(
            f"{path}: its recording is damaged; ask for the file again"
        ) from None
    return archive, head + tail


def unpack(path: Path, target: Path) -> None:
    """Write the run directory of a page, or several, into a directory.

    Raises: TraceFormatError for a page that holds none, or files that no run directory has.
    """
    with open_recording(path)[0] as archive:
        members = archive.infolist()
        for each in members:
            place = Path(each.filename)
            is_one = place.suffix == ".fnt" or place.name in TEXTS
            if not is_one or place.is_absolute() or ".." in place.parts or len(place.parts) > 2:
                raise TraceFormatError(
                    f"{path}: holds {each.filename!r}, which is no part of a run"
                )
            if each.file_size > MEMBER_BYTES_MAX:
                raise TraceFormatError(f"{path}: {each.filename} in it is too large")
        for each in members:
            out = target / each.filename
            out.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(out) as file:
                file.write(archive.read(each))


def texts_in(path: Path) -> Iterator[tuple[str, str, Counter[str]]]:
    """What a stranger can read in a page: file, field, and each text in it with its count; the file
    of what the page itself shows is "page".

    Raises: TraceFormatError, last, if the page shows something else than when it was made.
    """
    archive, shown = open_recording(path)
    documents: dict[str, list[Any]] = {"page": [unescape(_MARKUP.sub("\n", shown)).split("\n")]}
    with suppress(ValueError):  # a changed page
        documents["page"] += map(json.loads, _DATA.findall(shown))
    with archive:
        for name in archive.namelist():
            if (kind := Path(name).name) in TEXTS:
                text = archive.read(name).decode()
                lines = text.splitlines() if kind == METRICS_NAME else [text]
                documents[name] = [json.loads(line) for line in lines]
    for name, values in documents.items():
        found: dict[str, Counter[str]] = {}
        _collect(values, "", found)
        for field, texts in sorted(found.items()):
            yield name, field, texts
    if archive.comment not in (b"", _checksum(shown)):
        raise TraceFormatError(
            f"{path}: what the page shows was changed after it was made; fetch it again"
        )


def _collect(value: Any, field: str, found: dict[str, Counter[str]]) -> None:
    if isinstance(value, dict | list):
        for name, each in value.items() if isinstance(value, dict) else ((field, x) for x in value):
            _collect(each, name, found)
    elif isinstance(value, str) and value.strip():
        found.setdefault(field, Counter())[value] += 1
