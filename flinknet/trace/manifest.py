"""RunManifest: what a run was, and which files it left.

It goes with every trace as `manifest.json`.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from flinknet.errors import TraceError, TraceFormatError

# History of the manifest:
# 1  first version
SCHEMA_VERSION = 1

MANIFEST_NAME = "manifest.json"

SYNTHETIC = "synthetic"
"""Stands in `host` of a run that nobody recorded."""

RUN, TAP, CAPTURE = "run", "tap", "capture"
"""Where events come from: the processes of a run themselves, a tap between processes, a packet
capture. The latter two saw each message once, in between: what is SENT by producers and RECEIVED by
them, and nothing of what goes on inside a process."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """One process of a run and its trace file (a name within the run directory)."""

    name: str
    file: str
    pid: int

    def to_dict(self) -> dict[str, Any]:
        """The process as JSON-ready plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, value: Any) -> ProcessInfo:
        """Back from `to_dict`; raises TraceFormatError."""
        return _decode(cls, value, "process")


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """One channel of a run: the index that events carry, and who stands at its ends.

    In a run with relays there are several edges: producer and consumer are subtasks of the two ends
    of theirs. The last edge leads out.
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
    edge: int = 0  # missing where there is one only


@dataclass(frozen=True, slots=True)
class ClockInfo:
    """The clock of all instants; across hosts, how it was related to the first host's clock."""

    name: str = "CLOCK_MONOTONIC"
    host_id: str = ""
    offset_ns: int = 0
    error_ns: int = 0


@dataclass(frozen=True, slots=True)
class RunManifest:
    """Everything about a run that its events do not say."""

    scenario: dict[str, Any]
    flink_keys: dict[str, Any]  # the effective ones
    host: dict[str, Any]
    versions: dict[str, str]
    seed: int
    clock: ClockInfo
    started_at: str  # ISO 8601, UTC
    measured_from_ns: int | None  # None: the run did not get there
    measured_to_ns: int | None
    processes: tuple[ProcessInfo, ...]
    channels: tuple[ChannelInfo, ...]
    schema_version: int = SCHEMA_VERSION
    origin: str = RUN

    @property
    def is_from_between(self) -> bool:
        """Whether it was recorded between the processes, not in them."""
        return self.origin != RUN

    @property
    def is_synthetic(self) -> bool:
        """Whether the events were made and not recorded."""
        return bool(self.host.get(SYNTHETIC))

    def of_edge(self, edge: int) -> RunManifest:
        """The same run as far as one edge goes."""
        own = tuple(channel for channel in self.channels if channel.edge == edge)
        return replace(self, channels=own)

    def to_dict(self) -> dict[str, Any]:
        """The manifest as JSON-ready plain data; the one edge of most runs is not named, nor the
        origin of those that recorded themselves.
        """
        value = asdict(self)
        if self.origin == RUN:
            del value["origin"]
        for channel in value["channels"]:
            if not channel["edge"]:
                del channel["edge"]
        return value

    @classmethod
    def from_dict(cls, value: Any) -> RunManifest:
        """Back from `to_dict`; raises TraceFormatError that names the field at fault."""
        if not isinstance(value, dict):
            raise TraceFormatError("it is not a JSON object")
        version = value.get("schema_version")
        if version != SCHEMA_VERSION:
            raise TraceFormatError(
                f"its schema_version is {version!r}, but this flinknet reads {SCHEMA_VERSION};"
                " use the flinknet that wrote it, or record the run again"
            )
        parts = dict(value)
        parts["clock"] = _decode(ClockInfo, value.get("clock"), "clock")
        parts["processes"] = _decode_all(ProcessInfo, value, "processes")
        for process in parts["processes"]:
            if Path(process.file).name != process.file:
                raise TraceFormatError(f"{process.file!r} is not a plain file name")
        parts["channels"] = _decode_all(ChannelInfo, value, "channels")
        manifest = _decode(cls, parts, "manifest")
        from_ns, to_ns = manifest.measured_from_ns, manifest.measured_to_ns
        if from_ns is not None and to_ns is not None and from_ns > to_ns:
            raise TraceFormatError(f"its measured part ends at {to_ns}, before it begins")
        return manifest

    def save(self, directory: Path) -> Path:
        """Write `manifest.json` into the run directory, whole or not at all.

        Raises: TraceError, naming the path and the cause.
        """
        path = directory / MANIFEST_NAME
        draft = path.with_suffix(".json.tmp")
        try:
            draft.write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")
            os.replace(draft, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise TraceError(f"{path}: cannot write the manifest ({error.strerror})") from error
        return path

    @classmethod
    def load(cls, directory: Path) -> RunManifest:
        """Read the manifest of a run directory.

        Raises: TraceFormatError, naming the path and what is wrong with it.
        """
        path = directory / MANIFEST_NAME
        try:
            return cls.from_dict(json.loads(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise TraceFormatError(f"{path}: cannot read it ({error.strerror})") from error
        except ValueError as error:
            raise TraceFormatError(f"{path}: not JSON ({error})") from error
        except TraceFormatError as error:
            raise TraceFormatError(f"{path}: {error}") from error


_ACCEPTED: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "bool": (bool,),
    "str": (str,),
    "int | None": (int, type(None)),
    "dict[str, Any]": (dict,),
    "dict[str, str]": (dict,),
}
"""JSON types that a field of this annotation takes; other fields were decoded by the caller."""


_MAY_BE_MISSING = frozenset({"edge", "origin"})
"""Fields that came after the first manifests; their default stands for those."""


def _decode(cls: type[_T], value: Any, what: str) -> _T:
    if not isinstance(value, dict):
        raise TraceFormatError(f"{what} is not a JSON object")
    known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    for name in known:
        if name not in value and name not in _MAY_BE_MISSING:
            raise TraceFormatError(f"{what} lacks {name!r}")
    for name in value.keys() - known.keys():
        raise TraceFormatError(f"{what} has {name!r}, which this flinknet does not know")
    for name, field in known.items():
        if name not in value:
            continue
        accepted = _ACCEPTED.get(str(field.type), (object,))
        if not isinstance(value[name], accepted) or (
            isinstance(value[name], bool) and accepted == (int,)
        ):
            raise TraceFormatError(f"{what} has {value[name]!r} as {name!r}, not {field.type}")
    return cls(**value)


def _decode_all(cls: type[_T], parent: dict[str, Any], name: str) -> tuple[_T, ...]:
    values = parent.get(name)
    if not isinstance(values, list):
        raise TraceFormatError(f"{name} is not a list")
    return tuple(_decode(cls, value, f"{name}[{i}]") for i, value in enumerate(values))
