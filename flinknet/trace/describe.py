"""`trace info`: describes a run without checking it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from flinknet.core.probe import MessageKind, TracePoint

from .format import ROW_BYTES
from .index import spans_of
from .job_names import Edge, edges_in_flow
from .manifest import RunManifest
from .metrics import METRICS_NAME, MetricsDescription, describe_metrics
from .reader import TraceReader
from .run import Run, check_file
from .schema import TIMESTAMPS
from .trace_file import Truncation

_POINTS = {each.value: each.name for each in TracePoint}
_TIMES = (TIMESTAMPS[0], "watermark_ms", "marker_ms")
_KINDS = {each.value: each.name for each in MessageKind}


@dataclass(frozen=True, slots=True)
class FileDescription:
    file: str
    process: str
    pid: int
    size_bytes: int
    blocks: int
    events: int
    dropped_events: int | None  # None: unknown without a trailer
    first_ns: int | None
    last_ns: int | None
    truncation: Truncation | None


@dataclass(frozen=True, slots=True)
class EdgeDescription:
    """One edge of a job, numbered from 1 in the direction of flow, with its job (from 1) and its
    key in the manifest; None for what the recording does not say.
    """

    number: int
    source: str
    target: str
    job: int
    index: int
    partitioner: str | None
    partition_type: str | None


@dataclass(frozen=True, slots=True)
class ChannelDescription:
    """One channel: its edge's number and its ends (None without a manifest), and its events in all
    files."""

    index: int
    edge: int | None
    producer: int | None
    consumer: int | None
    connection: str | None
    events: int
    first_ns: int | None
    last_ns: int | None


@dataclass(frozen=True, slots=True)
class RunDescription:
    path: str
    manifest: RunManifest | None
    files: tuple[FileDescription, ...]
    edges: tuple[EdgeDescription, ...]
    channels: tuple[ChannelDescription, ...]
    events_by_kind: dict[str, dict[str, int]]  # trace point -> message kind -> events
    events: int
    size_bytes: int
    first_ns: int | None
    last_ns: int | None
    bytes_per_event: float | None
    compression_ratio: float | None  # bytes as recorded / bytes in the files
    metrics: MetricsDescription | None = None  # None: without a metrics file
    missing_files: tuple[str, ...] = ()  # that the manifest names
    record_times: tuple[str, ...] = ()  # which times of stream elements are in the files

    def to_dict(self) -> dict[str, Any]:
        described = asdict(self)
        for name in ("metrics", "missing_files"):
            if not described[name]:
                del described[name]
        if self.manifest is not None:
            described["manifest"] = self.manifest.to_dict()
        return described


def describe_run(run: Run) -> RunDescription:
    """Describe a run from its indexes and the two narrow columns that identify events. Raises:
    TraceError for a file that cannot be read, or was changed since the run.
    """
    metrics, missing = None, list[str]()
    if run.manifest is not None:  # else the path is that of a file
        check_file(run.path, run.manifest, METRICS_NAME)
        missing = [each for each in run.manifest.files if not (run.path / each).exists()]
        metrics = describe_metrics(run.path)
    files = []
    counts: Counter[int] = Counter()  # of trace point << 8 | message kind
    times: set[str] = set()
    for file in run.files:
        with TraceReader(file) as reader:
            files.append(_describe_file(reader))
            for block in reader.events(("point", "kind")):
                pairs = block["point"].astype(np.int64) << 8 | block["kind"]
                found = np.bincount(pairs)
                for pair in np.flatnonzero(found).tolist():
                    counts[pair] += int(found[pair])
            for index in range(len(reader.blocks())):
                times.update(set(_TIMES).intersection(reader.stored_columns(index)))
    spans = spans_of(run.files)
    by_kind: dict[str, dict[str, int]] = {}
    for pair, count in sorted(counts.items()):
        point, kind = pair >> 8, pair & 255
        of_point = by_kind.setdefault(_POINTS.get(point, str(point)), {})
        of_point[_KINDS.get(kind, str(kind))] = count
    events = sum(file.events for file in files)
    size_bytes = sum(file.size_bytes for file in files)
    edges = () if run.manifest is None else edges_in_flow(run.manifest)
    return RunDescription(
        path=str(run.path),
        manifest=run.manifest,
        files=tuple(files),
        edges=_describe_edges(run, edges),
        channels=_describe_channels(run, edges, spans),
        events_by_kind=by_kind,
        events=events,
        size_bytes=size_bytes,
        first_ns=min((first for _, first, _ in spans.values()), default=None),
        last_ns=max((last for _, _, last in spans.values()), default=None),
        bytes_per_event=size_bytes / events if events else None,
        compression_ratio=events * ROW_BYTES / size_bytes if events else None,
        metrics=metrics,
        missing_files=tuple(missing),
        record_times=tuple(each for each in _TIMES if each in times),
    )


def _describe_file(reader: TraceReader) -> FileDescription:
    blocks, process = reader.blocks(), reader.process
    return FileDescription(
        *(reader.path.name, process.name, process.pid, reader.size_bytes, len(blocks)),
        sum(block.count for block in blocks),
        reader.dropped_events,
        min((block.first_ns for block in blocks), default=None),
        max((block.last_ns for block in blocks), default=None),
        reader.truncation,
    )


def _describe_edges(run: Run, edges: Sequence[Edge]) -> tuple[EdgeDescription, ...]:
    job: Any = (run.manifest and run.manifest.scenario.get("job")) or {}
    stated = {each["index"]: each for each in job.get("edges", ())}
    return tuple(
        EdgeDescription(
            each.number,
            each.source_name,
            each.target_name,
            each.job + 1,
            each.index,
            *(stated.get(each.index, {}).get(name) for name in ("partitioner", "partition_type")),
        )
        for each in edges
    )


def _describe_channels(
    run: Run, edges: Sequence[Edge], spans: dict[int, tuple[int, int, int]]
) -> tuple[ChannelDescription, ...]:
    numbers = {each.index: each.number for each in edges}
    ends: dict[int, tuple[Any, ...]] = {
        each.index: (numbers[each.edge], each.producer, each.consumer, each.connection)
        for each in (run.manifest.channels if run.manifest else ())
    }
    return tuple(
        ChannelDescription(index, *ends.get(index, (None,) * 4), *spans.get(index, (0, None, None)))
        for index in sorted(ends.keys() | spans.keys())
    )
