"""Targets that read files: traces, manifests, metrics, captures, configuration, key stores; and
answers of a JobManager.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from flinknet.capture.pcap.importing import import_capture
from flinknet.capture.rest.jobs import read_jobs, read_settings, read_task_managers
from flinknet.capture.rest.names import named
from flinknet.capture.rest.sampler import Sampler
from flinknet.certificates.generate import generate
from flinknet.config import NetworkConfig
from flinknet.errors import ConfigError, FlinknetError, TraceError
from flinknet.options.effective import effective_keys
from flinknet.options.files import LEGACY_NAME, read_flink_conf
from flinknet.options.network import network_config
from flinknet.replay.read import open_runs
from flinknet.runtime.tls import create_tls
from flinknet.trace import blocks, format, open_run
from flinknet.trace.describe import describe_run
from flinknet.trace.metrics import METRICS_NAME, describe_metrics, read_series
from flinknet.trace.run import open_with_faults
from flinknet.trace.verify import verify_run
from tests.capture.pcap.test_importing import write_capture
from tests.capture.rest import saved
from tests.fuzz.target import Target
from tests.synthetic_trace import START_NS, manifest, write_run

TRACES = Path(__file__).parents[2] / "traces"
PASSWORD = "a password"


@cache
def place() -> Path:
    """A directory for what the targets write; in memory where there is one, gone at the end."""
    memory = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix="flinknet-fuzz-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def written(name: str, data: bytes) -> Path:
    """A file with an input."""
    path = place() / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


class _Right(int):
    """A checksum that every other one equals."""

    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False


@contextmanager
def without_checksums() -> Iterator[None]:
    """All checksums of trace files are right, so that a fuzzer gets behind them."""
    zlib_like = SimpleNamespace(crc32=lambda data: _Right(zlib.crc32(data)))
    with patch.object(format, "zlib", zlib_like), patch.object(blocks, "zlib", zlib_like):
        yield


def trace(data: bytes) -> None:
    """A trace file alone: read to its end, or a TraceError."""
    path = written("tm-0.fnt", data)
    with without_checksums():
        with suppress(TraceError):
            verify_run(open_run(path)).to_dict()
        with suppress(TraceError):
            describe_run(open_run(path)).to_dict()


def trace_seeds() -> Iterator[bytes]:
    run = write_run(place() / "seed", channels=2, data_buffers=3)
    for path in (*run.glob("*.fnt"), *TRACES.glob("*/*/*.fnt"), *TRACES.glob("*/*.fnt")):
        if path.stat().st_size < 16_000:
            yield path.read_bytes()


@cache
def _run() -> Path:
    return write_run(place() / "run", data_buffers=3)


def run_manifest(data: bytes) -> None:
    """The manifest of a run, edited by whoever: all that read it say what is wrong."""
    run = _run()
    (run / "manifest.json").write_bytes(data)
    with suppress(FlinknetError):
        verify_run(*open_with_faults(run)).to_dict()
    with suppress(FlinknetError):
        describe_run(open_run(run)).to_dict()
    with suppress(FlinknetError):
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


def capture(data: bytes) -> None:
    """A capture file of any kind: a run that can be read, or a TraceFormatError."""
    path, out = written("a.pcap", data), place() / "imported"
    shutil.rmtree(out, ignore_errors=True)
    with suppress(TraceError):
        import_capture(path, out, versions={}).to_dict()
        verify_run(open_run(out))
        describe_run(open_run(out))


def capture_seeds() -> Iterator[bytes]:
    path = place() / "seed.pcap"
    for version, lost in ((4, frozenset[int]()), (6, frozenset({5}))):
        whole = write_capture(path, version=version, lost=lost).read_bytes()
        yield whole[:8000]
        yield _pcapng(whole)[:8000]


def _pcapng(pcap: bytes) -> bytes:
    """The packets of a pcap file of the writer's byte order in a pcapng file."""
    from io import BytesIO

    from dpkt import pcap as reading
    from dpkt import pcapng

    out = BytesIO()
    writer = pcapng.Writer(out)
    for at, packet in reading.Reader(BytesIO(pcap)):
        writer.writepkt(packet, ts=float(at))
    return out.getvalue()


def configuration(data: bytes) -> None:
    """A configuration file, nested or flat."""
    if not data:
        return
    path = written(LEGACY_NAME if data[0] & 1 else "config.yaml", data[1:])
    with suppress(ConfigError):
        settings, _ = read_flink_conf(path)
        network_config(settings)
        effective_keys(settings, dict.fromkeys(settings, "file"))


def configuration_seeds() -> Iterator[bytes]:
    from flinknet.options.keys import options

    defaults = [(key, option.default) for key, option in options().items()]
    flat = "".join(f"{key}: {value or '1'}\n" for key, value in defaults)
    for start in range(0, len(flat), 3000):
        yield b"\1" + flat[start : start + 3000].encode()
        yield b"\0" + flat[start : start + 3000].encode()
    yield b"\0taskmanager:\n  memory: {segment-size: 32 kb, network: {fraction: 0.1}}\n  x: [1]\n"
    yield b"\0a: &a {b: 1}\nc: *a\nd: !!str 1\n? [e]\n: f\n"


@cache
def _network() -> NetworkConfig:
    keys = generate(place() / "certificates", PASSWORD, hosts=("localhost",), days=2)
    return network_config({**keys, "security.ssl.internal.enabled": "true"})[0]


def certificate(data: bytes) -> None:
    """A key store or trust store, PKCS12 or PEM, in place of a good one."""
    if not data:
        return
    path, kind = str(written("store", data[1:])), "PEM" if data[0] & 2 else "PKCS12"
    network = _network()
    if data[0] & 1:
        network = replace(network, ssl_truststore=path, ssl_truststore_type=kind)
    else:
        network = replace(network, ssl_keystore=path, ssl_keystore_type=kind)
    with suppress(ConfigError):
        create_tls(network)


def certificate_seeds() -> Iterator[bytes]:
    _network()
    for path in sorted((place() / "certificates").iterdir()):
        for choice in range(4):
            yield bytes((choice,)) + path.read_bytes()


class _Answers:
    """Answers of a JobManager from one JSON text: an object by path, or the same for every path."""

    name = "fuzz"

    def __init__(self, document: Any) -> None:
        self._document = document

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
    Target("trace", trace, trace_seeds, 16_384),
    Target("manifest", run_manifest, manifest_seeds, 16_384, json_from=0),
    Target("metrics", metrics, metrics_seeds, json_from=0),
    Target("capture", capture, capture_seeds, 8192),
    Target("configuration", configuration, configuration_seeds),
    Target("certificate", certificate, certificate_seeds, 8192),
    Target("rest", rest, rest_seeds, 32_768, json_from=0),
)
