"""RunManifest: describes a run and lists its files.

Every trace has one, as `manifest.json`. A run writes it at the beginning and again while it runs,
so that what a killed run left is readable; at the end it includes a checksum of each file.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from flinknet.errors import TraceError, TraceFormatError
from flinknet.storage import AnyPath
from flinknet.whole_files import whole_file

from .plain_text import read_json_file
from .ranged_files import WHAT_TO_DO, checksum_of_document

# History of the manifest:
# 1  first version
# 2  `seal`, the checksum of the manifest (null: edited, not to be checked), and `files`, checksums
#    of the files of a run that ended (see `seal`)
SCHEMA_VERSION = 2

MANIFEST_NAME = "manifest.json"
RESULT_NAME = "result.json"
CAPTURE_NAME = "capture.json"

NAME_BYTES_MAX = 255
"""Longest file name that every file system accepts."""

DEPTH_MAX = 32
"""Deepest nesting of lists and objects to read."""

SETTINGS_FROM = "settings_from"
"""Key in `scenario`: where each of the Flink keys that were set comes from; others are defaults."""

IS_ADAPTIVE = "adaptive_partitioner"
"""Key in `scenario`: whether the cluster's partitioners choose idle channels, as Flink 2.3 may."""

IS_PART = "is_part"
"""Key in `scenario`: the measured part is a part of a capture whose clock did not go all the time.
What lies behind it does not belong to it."""

JOB_MANAGER = "JobManager"
"""An origin of settings: its configuration, which a job may override."""

RUN, TAP, CAPTURE = "run", "tap", "capture"
"""Origin of the events: the processes of a run themselves, a tap between processes, or a packet
capture. The latter two observe each message once, in between: messages to consumers are SENT,
messages to producers RECEIVED, and nothing inside a process is visible."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """One process of a run and its trace file (a name within the run directory)."""

    name: str
    file: str
    pid: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, value: Any) -> ProcessInfo:
        return _decode(cls, value, "process")


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """One channel of a run: its index in events, and its two ends.

    A run with relays has several edges: producer and consumer are subtasks at the ends of its edge.
    The last edge leads to the sinks.
    """

    index: int
    receiver_id: str  # hex of the InputChannelID
    producer: int  # subtask index
    consumer: int  # subtask index
    producer_process: str
    consumer_process: str
    connection: str  # "tm-1->tm-0": from the producer's process to the consumer's
    subpartition: int
    partition: str  # hex of the ResultPartitionID's partition
    is_local: bool
    edge: int = 0  # omitted if there is only one


@dataclass(frozen=True, slots=True)
class ClockInfo:
    """The clock of all instants; across hosts, with its relation to the first host's clock.

    Attributes:
        host_id: differs between hosts, and between boots of a host.
        epoch_ns: instant of this clock at which the host's wall clock was 0 (1970); None if
            unknown.
    """

    name: str = "CLOCK_MONOTONIC"
    host_id: str = ""
    offset_ns: int = 0
    error_ns: int = 0
    epoch_ns: int | None = None

    @property
    def wall_epoch_ns(self) -> int | None:
        """The instant of this clock at which a wall clock showed 0, if it is none itself; None if
        unknown."""
        return 0 if self.name == "CLOCK_REALTIME" else self.epoch_ns


@dataclass(frozen=True, slots=True)
class RunManifest:
    """Everything about a run that is not in its events, as the run left it if it is sealed."""

    scenario: dict[str, Any]
    flink_keys: dict[str, Any]  # the effective ones
    host: dict[str, Any]
    versions: dict[str, str]
    seed: int
    clock: ClockInfo
    started_at: str  # ISO 8601, UTC
    measured_from_ns: int | None  # None: the run did not get that far
    measured_to_ns: int | None
    processes: tuple[ProcessInfo, ...]
    channels: tuple[ChannelInfo, ...]
    schema_version: int = SCHEMA_VERSION
    origin: str = RUN
    files: dict[str, str] = field(default_factory=dict)  # name -> checksum; empty until it ends
    is_sealed: bool = field(default=True, compare=False)

    @property
    def is_from_between(self) -> bool:
        """Whether it was recorded between the processes, not in them."""
        return self.origin != RUN

    @property
    def settings_from(self) -> Mapping[str, str] | None:
        """Who stated each of the Flink keys that are no defaults; None where that is unknown."""
        return self.scenario.get(SETTINGS_FROM)

    def of_edge(self, edge: int) -> RunManifest:
        channels = tuple(channel for channel in self.channels if channel.edge == edge)
        return replace(self, channels=channels)

    def with_stand_ins(self) -> RunManifest:
        """The manifest with numbers for the tasks that it does not know: a channel whose request
        was not recorded has a producer and a consumer of its own, behind those of its edge."""
        if all(each.producer >= 0 and each.consumer >= 0 for each in self.channels):
            return self
        ends: dict[int, list[int]] = {}  # of each edge: producers, consumers
        for each in self.channels:
            own = ends.setdefault(each.edge, [0, 0])
            own[:] = max(own[0], each.producer + 1), max(own[1], each.consumer + 1)
        channels = []
        for each in self.channels:
            own = ends[each.edge]
            if each.producer < 0:
                each, own[0] = replace(each, producer=own[0]), own[0] + 1
            if each.consumer < 0:
                each, own[1] = replace(each, consumer=own[1]), own[1] + 1
            channels.append(each)
        return replace(self, channels=tuple(channels))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready plain data, without the edge 0, or an origin that is the run itself."""
        value = asdict(replace(self, channels=()))
        del value["is_sealed"]
        if self.origin == RUN:
            del value["origin"]
        if not self.files:
            del value["files"]
        if self.clock.epoch_ns is None:
            del value["clock"]["epoch_ns"]
        value["channels"] = [_document_of(channel) for channel in self.channels]
        return value

    @classmethod
    def from_dict(cls, value: Any) -> RunManifest:
        """Decode `to_dict`'s result. Raises: TraceFormatError that names the invalid field."""
        if not isinstance(value, dict):
            raise TraceFormatError("it is not a JSON object")
        version = value.get("schema_version")
        if version not in range(1, SCHEMA_VERSION + 1):
            raise TraceFormatError(
                f"its schema_version is {reprlib.repr(version)}, but this flinknet reads 1 to"
                f" {SCHEMA_VERSION}; use the flinknet that wrote it, or record the run again"
            )
        parts = dict(value)
        parts["clock"] = _decode(ClockInfo, value.get("clock"), "clock")
        parts["processes"] = _decode_all(ProcessInfo, value, "processes")
        parts["channels"] = _decode_all(ChannelInfo, value, "channels")
        manifest = _decode(cls, parts, "manifest")
        for name in (*(process.file for process in manifest.processes), *manifest.files):
            is_short = len(name.encode(errors="surrogatepass")) <= NAME_BYTES_MAX
            if not (is_short and Path(name).name == name and name.isprintable()):
                raise TraceFormatError(f"{reprlib.repr(name)} is not a plain file name")
        _check_scenario(manifest.scenario)
        for each in (manifest.scenario, manifest.flink_keys, manifest.host, manifest.versions):
            _check_free(each)
        from_ns, to_ns = manifest.measured_from_ns, manifest.measured_to_ns
        if from_ns is not None and to_ns is not None and from_ns > to_ns:
            raise TraceFormatError(f"its measured part ends at {to_ns}, before it begins")
        return manifest

    def save(self, directory: Path) -> Path:
        """Write `manifest.json` to the run directory, sealed and atomically. Raises: TraceError."""
        path = directory / MANIFEST_NAME
        value = replace(self, schema_version=SCHEMA_VERSION).to_dict()
        value["seal"] = checksum_of_document(value)
        try:
            with whole_file(path) as file:
                file.write(f"{json.dumps(value, indent=1)}\n".encode())
        except OSError as error:
            raise TraceError(f"{path}: cannot write the manifest ({error.strerror})") from error
        return path

    @classmethod
    def load(cls, directory: AnyPath) -> RunManifest:
        """Read the manifest of a run directory. Raises: TraceFormatError."""
        manifest, fault = cls.load_with_fault(directory)
        if fault is not None:
            raise TraceFormatError(f"{directory / MANIFEST_NAME}: {fault}")
        return manifest

    @classmethod
    def load_with_fault(cls, directory: AnyPath) -> tuple[RunManifest, str | None]:
        """Read the manifest of a run directory, with the fault of its seal; None if it matches, or
        if there is none to check (version 1, or set to null).

        Raises: TraceFormatError for a file that is not a manifest.
        """
        path = directory / MANIFEST_NAME
        try:
            value = read_json_file(path, _early_channels())
            if not isinstance(value, dict) or value.get("schema_version") == 1:
                return replace(cls.from_dict(value), is_sealed=False), None
            seal = value.pop("seal", "")
            manifest = cls.from_dict(value)
            if seal is None:
                return replace(manifest, files={}, is_sealed=False), None
            is_whole = seal == checksum_of_document(value, _document_of)
        except OSError as error:
            raise TraceFormatError(f"{path}: cannot read it ({error.strerror})") from error
        except RecursionError as error:
            raise TraceFormatError(f"{path}: its lists and objects are too deep") from error
        except ValueError as error:
            raise TraceFormatError(f"{path}: not JSON ({error})") from error
        except TraceFormatError as error:
            raise TraceFormatError(f"{path}: {error}") from error
        fault = f"it does not match its seal, so it was damaged or edited; {WHAT_TO_DO}"
        return manifest, None if is_whole else fault


_ACCEPTED: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "bool": (bool,),
    "str": (str,),
    "int | None": (int, type(None)),
    "dict[str, Any]": (dict,),
    "dict[str, str]": (dict,),
}
"""JSON types of fields with this annotation; others are decoded by the caller."""


_INT_MAX = (1 << 63) - 1
"""Instants and numbers are 64-bit, as in events."""

_MAY_BE_MISSING = frozenset({"edge", "epoch_ns", "files", "origin"})
"""Fields added after version 1, with their defaults for older manifests."""


def _decode(cls: type[_T], value: Any, what: str) -> _T:
    if not isinstance(value, dict):
        raise TraceFormatError(f"{what} is not a JSON object")
    known = {each.name: str(each.type) for each in fields(cls) if each.compare}  # type: ignore[arg-type]
    for name in known:
        if name not in value and name not in _MAY_BE_MISSING:
            raise TraceFormatError(f"{what} lacks {name!r}")
    for name in value.keys() - known.keys():
        raise TraceFormatError(
            f"{what} has {reprlib.repr(name)}, which this flinknet does not know"
        )
    for name, declared in known.items():
        if name not in value:
            continue
        accepted = _ACCEPTED.get(declared, (object,))
        if not isinstance(value[name], accepted) or (
            isinstance(value[name], bool) and accepted == (int,)
        ):
            raise TraceFormatError(
                f"{what} has {reprlib.repr(value[name])} as {name!r}, not {declared}"
            )
        if isinstance(value[name], int) and abs(value[name]) > _INT_MAX:
            raise TraceFormatError(f"{what} has {reprlib.repr(value[name])} as {name!r}: too large")
    return cls(**value)


def _decode_all(cls: type[_T], parent: dict[str, Any], name: str) -> tuple[_T, ...]:
    values = parent.get(name)
    if not isinstance(values, list):
        raise TraceFormatError(f"{name} is not a list")
    return tuple(
        value if isinstance(value, cls) else _decode(cls, value, f"{name}[{i}]")
        for i, value in enumerate(values)
    )


_CHANNEL_TYPES = {
    each.name: {"int": int, "str": str, "bool": bool}[str(each.type)]
    for each in fields(ChannelInfo)
}
_OF_MANY_CHANNELS = frozenset(_CHANNEL_TYPES) - {"index", "receiver_id", "is_local"}


def _early_channels() -> Callable[[dict[str, Any]], Any]:
    """A function that makes channels of JSON objects while a manifest is read: as dictionaries with
    texts of their own a million of them would take 1 GB. What is no channel, or not as `to_dict`
    writes it, is left to `from_dict`."""
    known: dict[Any, Any] = {}

    def channel_or(value: dict[str, Any]) -> Any:
        if "receiver_id" not in value or len(value) != len(_CHANNEL_TYPES) - ("edge" not in value):
            return value
        given: list[Any] = []
        for name, kind in _CHANNEL_TYPES.items():
            each: Any = value.get(name, 0 if name == "edge" else None)
            is_fit = type(each) is kind and (not isinstance(each, str) or each.isascii())
            if not is_fit or (kind is int and abs(each) > _INT_MAX):
                return value
            given.append(known.setdefault(each, each) if name in _OF_MANY_CHANNELS else each)
        return value if value.get("edge") == 0 else ChannelInfo(*given)

    return channel_or


def _document_of(channel: ChannelInfo) -> dict[str, Any]:
    value = {name: getattr(channel, name) for name in _CHANNEL_TYPES}
    if not channel.edge:
        del value["edge"]
    return value


def _check_free(value: Any, levels: int = DEPTH_MAX) -> None:
    """Raises: TraceFormatError for a part of any shape with a channel, or nested too deeply."""
    if isinstance(value, ChannelInfo):
        raise TraceFormatError("it describes a channel that is not in its list of channels")
    if not isinstance(value, dict | list):
        return
    if not levels:
        raise TraceFormatError(f"it has more than {DEPTH_MAX} levels of lists and objects")
    for part in value.values() if isinstance(value, dict) else value:
        _check_free(part, levels - 1)


def _check_scenario(scenario: dict[str, Any]) -> None:
    """Raises: TraceFormatError for a part with an unexpected shape."""
    for name in ("workload", "network", "job", SETTINGS_FROM):
        if not isinstance(scenario.get(name, {}), dict):
            raise TraceFormatError(f"scenario.{name} is not a JSON object")
    for name in ("vertices", "edges") if "job" in scenario else ():
        parts = scenario["job"].get(name)
        if not isinstance(parts, list) or not all(isinstance(each, dict) for each in parts):
            raise TraceFormatError(f"scenario.job.{name} is not a list of JSON objects")
        for timeout_ns in (each.get("buffer_timeout_ns", 0) for each in parts):
            if not isinstance(timeout_ns, int) or timeout_ns < -1:
                raise TraceFormatError(
                    f"scenario.job: no buffer timeout: {reprlib.repr(timeout_ns)}"
                )
