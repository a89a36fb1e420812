"""Targets that read files: traces, manifests, metrics, captures, configuration, key stores; and
answers of a JobManager.
"""

from __future__ import annotations

import atexit
import difflib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from dpkt import pcap, pcapng

from flinknet.capture import recording, session
from flinknet.capture.pcap import importing, sources
from flinknet.capture.rest.jobs import read_jobs, read_settings, read_task_managers
from flinknet.capture.rest.names import named
from flinknet.capture.rest.sampler import Sampler
from flinknet.capture.session import SessionConfig
from flinknet.config import NetworkConfig
from flinknet.errors import ConfigError, FlinknetError, TraceError
from flinknet.options.files import read_flink_conf
from flinknet.options.network import effective_keys, network_config
from flinknet.options.resources import CONFIG_NAME, LEGACY_NAME
from flinknet.replay.read import open_runs
from flinknet.runtime import tls
from flinknet.trace import (
    ProcessInfo,
    TraceRecorder,
    TraceWriter,
    blocks,
    describe,
    format,
    reader,
    verify,
)
from flinknet.trace.metrics import METRICS_NAME, describe_metrics, read_series
from flinknet.trace.run import Run, open_with_faults, refuse
from tests.capture.pcap import test_files
from tests.capture.pcap.packets import TUNNELS, tunnelled
from tests.capture.pcap.test_importing import write_capture
from tests.capture.rest import saved
from tests.certificate_set import (
    AUTHORITY_PEM,
    NODE_PEM,
    NODE_STORE,
    TRUST_STORE,
    settings_for,
)
from tests.fuzz.memory_file import MemoryFile, MemoryPath, is_on_disk, replaced
from tests.fuzz.target import Target
from tests.synthetic_trace import START_NS, interleaved, manifest, write_run

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization import KeySerializationEncryption

TRACES = Path(__file__).parents[2] / "traces"
PASSWORD = "a password"
CAPTURED_EVENTS_MAX = 64
"""In a block of what is imported from a capture."""

SETTINGS = 5
"""In a seed of the configuration."""


@cache
def place() -> Path:
    """A directory for what the targets write, gone at the end."""
    path = Path(tempfile.mkdtemp(prefix="flinknet-fuzz-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@cache
def place_of(name: str) -> Path:
    """The path of a file that the targets write, in a directory that is there."""
    path = place() / name
    path.parent.mkdir(exist_ok=True)
    return path


def written(name: str, data: bytes) -> Path:
    """A file with an input."""
    path = place_of(name)
    path.write_bytes(data)
    return path


class _Right(int):
    """A checksum that every other one equals."""

    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False


_RIGHT = _Right()
_UNCHECKED = SimpleNamespace(crc32=lambda _: _RIGHT)
"""All checksums of trace files are right, so that a fuzzer gets behind them."""


def look_into(path: Path) -> None:
    """What `trace verify` and `trace info` do with a run. Raises: FlinknetError."""
    run, faults = open_with_faults(path)
    with suppress(TraceError):
        asdict(verify.verify_run(run, faults))
    refuse(run, faults)
    describe.describe_run(run)


@cache
def _trace_file() -> Run:
    """A trace file alone."""
    return open_with_faults(written("tm.fnt", b""))[0]


def trace(data: bytes) -> None:
    """A trace file alone: read to its end, or a TraceError. In memory it is opened once for both
    that read it, and their results are not made JSON.
    """
    with (
        suppress(TraceError),
        replaced(format, "zlib", _UNCHECKED),
        replaced(blocks, "zlib", _UNCHECKED),
    ):
        if is_on_disk(data):
            look_into(written("tm-0.fnt", data))
            return
        run = _trace_file()
        with replaced(reader, "open_ranged", lambda _: MemoryFile(data)):
            opened = cache(reader.TraceReader)
            with (
                replaced(verify, "TraceReader", opened),
                replaced(describe, "TraceReader", opened),
            ):
                verify.verify_run(run)
                describe.describe_run(run)


def trace_seeds() -> Iterator[bytes]:
    run = write_run(place() / "seed", channels=2, data_buffers=3)
    with TraceWriter(run / "gap.fnt", ProcessInfo("tm-0", "gap.fnt", 1)) as writer:
        for rows in np.array_split(interleaved(1, 4)[0], 2):
            writer.drop(5)
            writer.write_events(rows)
    for path in (*run.glob("*.fnt"), *TRACES.glob("*/*/*.fnt"), *TRACES.glob("*/*.fnt")):
        if path.stat().st_size < 16_000:
            yield path.read_bytes()


@cache
def _run() -> Path:
    return write_run(place() / "run", data_buffers=3)


def run_manifest(data: bytes) -> None:
    """The manifest of a run, edited by whoever: all that read it say what is wrong. What the first
    of them refuses, the other one would refuse in the same place.
    """
    run = _run()
    (run / "manifest.json").write_bytes(data)
    with suppress(FlinknetError):
        look_into(run)
        open_runs([run])


def _unsealed(document: dict[str, Any]) -> bytes:
    return json.dumps(document | {"seal": None}, separators=(",", ":")).encode()


def manifest_seeds() -> Iterator[bytes]:
    yield _unsealed(manifest().to_dict())
    for path in (*TRACES.glob("*/manifest.json"), *TRACES.glob("*/*/manifest.json")):
        document = json.loads(path.read_text())
        document["processes"] = document["processes"][:2]
        for number, process in enumerate(document["processes"]):
            process.update(name=f"tm-{number}", file=f"tm-{number}.fnt", pid=100 + number)
        yield _unsealed(document)


def metrics(data: bytes) -> None:
    """The metrics file of a run that was killed."""
    directory: Any = MemoryPath(METRICS_NAME, data)
    if is_on_disk(data):
        directory = written(f"metrics/{METRICS_NAME}", data).parent
    describe_metrics(directory)
    read_series(directory, 0, 1 << 62)


def metrics_seeds() -> Iterator[bytes]:
    line = {"at_ns": START_NS, "task_manager": "tm-0", "task": "source 0", "inPoolUsage": 0.5}
    more = {"job": "ab", "vertex": "cd", "subtask": 0, "attempt": 1}
    for each in (line, line | more, {"at_ns": 1, "task_manager": "tm-0", "usedMemory": 7}):
        yield (json.dumps(each) + "\n").encode() * 2
    yield (json.dumps(line | {"checkpoint": {"id": 1}}) + "\n").encode()
    yield json.dumps(line).encode()


_RECORDER_OF_LITTLE = partial(TraceRecorder, block_events=CAPTURED_EVENTS_MAX)
"""Making room for 65,536 events takes longer than reading an input."""


_IN_ONE_LINE = SimpleNamespace(dumps=lambda document, indent: json.dumps(document))
"""JSON with line ends takes seven times as long."""


class _NoRecorder:
    """Takes every note of a probe and of a recorder, and keeps nothing."""

    dropped_events = 0
    error = None

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class _Unwritten:
    """A recording of which nothing is kept but what the import itself says."""

    recorder = _NoRecorder()
    triggers = ()
    files = SimpleNamespace(files=(), size_bytes=0)

    def __init__(self, *_: object, **__: object) -> None:
        """There is nothing to open."""

    def tick(self, now_ns: int) -> None:
        """Nothing waits."""

    def close(self, now_ns: int) -> None:
        """There is nothing to write."""


def capture(data: bytes) -> None:
    """A capture file of any kind: a run that can be read, or a TraceFormatError. In memory no run
    is written, which takes five times as long as reading the capture. From a disk it is read as
    what comes live, too.
    """
    if not is_on_disk(data):
        there: Any = MemoryPath("a.pcap", data)
        with (
            suppress(TraceError),
            replaced(session, "CaptureRecording", _Unwritten),
            replaced(importing, "json", _IN_ONE_LINE),
        ):
            importing.Import([there], SessionConfig(out=there), versions={}).run()
        return
    path, out = written("a.pcap", data), place() / "imported"
    shutil.rmtree(out, ignore_errors=True)
    with suppress(TraceError), replaced(recording, "TraceRecorder", _RECORDER_OF_LITTLE):
        live = importing.Live() if len(data) & 64 else None
        importing.Import([path], SessionConfig(out=out), versions={}, live=live).run()
        look_into(out)


def live(data: bytes) -> None:
    """A capture that comes through a pipe in pieces of 1 to 256 bytes (the first byte says how
    many) and may break off anywhere: it ends, fails where the same bytes in a file fail, and else
    says of all that came and all that is missing what the file says.
    """
    if data:
        said = _said_of(data[1:], None)
        with replaced(sources, "_PIECE_BYTES", 1 + data[0]):
            assert _said_of(data[1:], importing.Live()) == said


_SAID = (
    *("packets", "is_truncated", "tcp_connections", "flink_connections", "connections", "clock"),
    *("messages", "buffers", "data_bytes", "records", "other_elements", "uncounted_buffers"),
    *("events", "channels", *session.TOTALS),
)


def _said_of(data: bytes, how: importing.Live | None) -> dict[str, Any] | None:
    """What an import says of these bytes, from a file or live; None if it fails."""
    path: Any = MemoryPath("a.pcap", data)
    reading = writing = -1
    if how is not None:
        reading, writing = os.pipe()
        os.write(writing, data)
        os.close(writing)
        path = Path(f"/dev/fd/{reading}")
    try:
        with (
            replaced(session, "CaptureRecording", _Unwritten),
            replaced(importing, "json", _IN_ONE_LINE),
        ):
            config = SessionConfig(out=MemoryPath("out", b""))  # type: ignore[arg-type]
            found = importing.Import([path], config, versions={}, live=how).run()
            return {name: found[name] for name in _SAID}
    except TraceError:
        return None
    finally:
        if reading >= 0:
            os.close(reading)


def live_seeds() -> Iterator[bytes]:
    for size, seed in zip((0, 15, 255, 6), capture_seeds(), strict=False):
        yield bytes([size]) + seed[:3000]
    for size, first in ((40, 1), (7, 9)):  # of connections that were open before
        lost = frozenset(range(first))
        path = write_capture(place() / "seed.pcap", has_start=False, lost=lost)
        yield bytes([size]) + path.read_bytes()[:3000]


def capture_seeds() -> Iterator[bytes]:
    path = place() / "seed.pcap"
    for version, lost in ((4, frozenset[int]()), (6, frozenset({5}))):
        whole = write_capture(path, version=version, lost=lost).read_bytes()
        yield whole[:8000]
        yield _pcapng(whole)[:8000]
        packets = [(int(at * 10**9), frame) for at, frame in pcap.Reader(BytesIO(whole))][:8]
        yield from (compress(whole[:2000]) for compress in test_files.COMPRESSED.values())
        yield test_files.blocks_of(packets, (2, 3, 6, 0x777))
        for way in TUNNELS:
            inside = [(at, tunnelled(each, way)) for at, each in packets]
            yield test_files.pcap(inside, is_nano=True)


def _pcapng(whole: bytes) -> bytes:
    """The packets of a pcap file of the writer's byte order in a pcapng file."""
    out = BytesIO()
    writer = pcapng.Writer(out)
    for at, packet in pcap.Reader(BytesIO(whole)):
        writer.writepkt(packet, ts=float(at))
    return out.getvalue()


def _a_near_one(_: str, known: Iterable[str], **__: float) -> list[str]:
    """Any of the known keys: looking for the nearest takes longer than everything else."""
    return [next(iter(known))]


def configuration(data: bytes) -> None:
    """A configuration file, nested or flat."""
    if not data:
        return
    name, text = LEGACY_NAME if data[0] & 1 else CONFIG_NAME, data[1:]
    path: Any = written(name, text) if is_on_disk(data) else MemoryPath(name, text)
    with suppress(ConfigError), replaced(difflib, "get_close_matches", _a_near_one):
        settings, _ = read_flink_conf(path)
        network_config(settings)
        effective_keys(settings, dict.fromkeys(settings, "file"))


def configuration_seeds() -> Iterator[bytes]:
    from flinknet.options.keys import options

    defaults = [(key, option.default) for key, option in options().items()]
    lines = [f"{key}: {value or '1'}\n" for key, value in defaults]
    for start in range(0, len(lines), SETTINGS):
        text = "".join(lines[start : start + SETTINGS]).encode()
        yield b"\1" + text
        yield b"\0" + text
    yield b"\0taskmanager:\n  memory: {segment-size: 32 kb, network: {fraction: 0.1}}\n  x: [1]\n"
    yield b"\0a: &a {b: 1}\nc: *a\nd: !!str 1\n? [e]\n: f\n"


def _stores() -> dict[str, bytes]:
    """Key stores and trust stores, and no password in between that takes long to check: keys are of
    Ed25519, where a set of `certificate_set` takes 30 ms for each of its RSA keys and
    5 for the password of its stores.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        NoEncryption,
        PrivateFormat,
        pkcs12,
    )

    password = PASSWORD.encode()
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "fuzz")])
    begin = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=2))
        .sign(key, None)
    )
    quick = PrivateFormat.PKCS12.encryption_builder().kdf_rounds(1).build(password)
    trusted = [pkcs12.PKCS12Certificate(signed, b"ca")]
    pem = signed.public_bytes(Encoding.PEM)

    def key_pem(encryption: KeySerializationEncryption) -> bytes:
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)

    return {
        NODE_PEM: key_pem(NoEncryption()) + pem,
        AUTHORITY_PEM: pem,
        "encrypted.pem": key_pem(BestAvailableEncryption(password)) + pem,
        NODE_STORE: pkcs12.serialize_key_and_certificates(b"node", key, signed, [signed], quick),
        TRUST_STORE: pkcs12.serialize_java_truststore(trusted, quick),
        "chain.p12": pkcs12.serialize_key_and_certificates(None, None, None, [signed], quick),
    }


@cache
def _good_stores() -> dict[str, MemoryPath]:
    """Stores that are quickly read, by their paths, at which they are, too."""
    stores = _stores()
    return {
        str(written(f"certificates/{name}", stores[name])): MemoryPath(name, stores[name])
        for name in (NODE_PEM, AUTHORITY_PEM)
    }


@cache
def _network(choice: int) -> tuple[NetworkConfig, str]:
    """Settings in which one of two good stores is another one, of a kind, and its path."""
    directory = Path(next(iter(_good_stores()))).parent
    network, _ = network_config(settings_for(directory, PASSWORD, pem=True))
    path, kind = str(place_of("store")), "PEM" if choice & 2 else "PKCS12"
    if choice & 1:
        return replace(network, ssl_truststore=path, ssl_truststore_type=kind), path
    return replace(network, ssl_keystore=path, ssl_keystore_type=kind), path


def certificate(data: bytes) -> None:
    """A key store or trust store, PKCS12 or PEM, in place of a good one."""
    if not data:
        return
    (network, path), store = _network(data[0] & 3), data[1:]
    with suppress(ConfigError):
        if is_on_disk(data):
            written("store", store)
            tls.create_tls(network)
            return
        paths = _good_stores() | {path: MemoryPath("store", store)}
        with replaced(tls, "Path", paths.__getitem__):
            tls.create_tls(network)


def certificate_seeds() -> Iterator[bytes]:
    for data in _stores().values():
        for choice in range(4):
            yield bytes((choice,)) + data


class _Answers:
    """Answers of a JobManager from one JSON text: an object by path, or the same for every path."""

    name = "fuzz"

    def __init__(self, document: Any) -> None:
        self._document = document

    def has(self, path: str) -> bool:
        return True

    def get(self, path: str) -> Any:
        if isinstance(self._document, dict) and "/jobs/overview" in self._document:
            return self._document.get(path.partition("?")[0])
        return self._document


def rest(data: bytes) -> None:
    """Answers of a REST API that is not quite Flink's."""
    try:
        answers = _Answers(json.loads(data))
    except (ValueError, RecursionError):
        return
    with suppress(FlinknetError):
        named(saved.tapped(), read_jobs(answers))
    with suppress(FlinknetError):
        read_task_managers(answers, with_memory=True)
    with suppress(FlinknetError):
        read_settings(answers)
    with suppress(FlinknetError):
        Sampler(answers, lambda: 1).look()


def rest_seeds() -> Iterator[bytes]:
    for release in saved.RELEASES:
        directory = saved.directory(release)
        document = {
            "/" + str(path.relative_to(directory)).removesuffix(".json"): json.loads(
                path.read_text()
            )
            for path in sorted(directory.rglob("*.json"))
        }
        yield json.dumps(document, separators=(",", ":")).encode()
        yield from (json.dumps(each).encode() for each in document.values())


TARGETS = (
    Target("trace", trace, trace_seeds, 2048),
    Target("manifest", run_manifest, manifest_seeds, 16_384, json_from=0),
    Target("metrics", metrics, metrics_seeds, json_from=0),
    Target("capture", capture, capture_seeds, 3072),
    Target("live", live, live_seeds, 3072),
    Target("configuration", configuration, configuration_seeds),
    Target("certificate", certificate, certificate_seeds, 8192),
    Target("rest", rest, rest_seeds, json_from=0),
)
