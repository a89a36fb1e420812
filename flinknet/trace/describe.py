"""`trace info`: describes a run without checking it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from flinknet.core.probe import MessageKind, TracePoint

from .format import ROW_BYTES
from .index import spans_of
from .job_names import Edge, edges_in_flow
from .metrics import METRICS_NAME, describe_metrics
from .reader import TraceReader
from .run import Run, check_file
from .schema import TIMESTAMPS

_POINTS = {each.value: each.name for each in TracePoint}
_TIMES = (TIMESTAMPS[0], "watermark_ms", "marker_ms")
_KINDS = {each.value: each.name for each in MessageKind}


def describe_run(run: Run) -> dict[str, Any]:
    """Describe a run as JSON-ready plain data, from its indexes and the two narrow columns that
    identify events; None for what is unknown: channels have no ends without a manifest, and a file
    without its trailer does not say how many events it lacks.

    Raises: TraceError for a file that cannot be read, or was changed since the run.
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
    events = sum(file["events"] for file in files)
    size_bytes = sum(file["size_bytes"] for file in files)
    edges = () if run.manifest is None else edges_in_flow(run.manifest)
    return {
        "path": str(run.path),
        "manifest": None if run.manifest is None else run.manifest.to_dict(),
        "files": files,
        "edges": _describe_edges(run, edges),
        "channels": _describe_channels(run, edges, spans),
        "events_by_kind": by_kind,  # by trace point
        "events": events,
        "size_bytes": size_bytes,
        "first_ns": min((first for _, first, _ in spans.values()), default=None),
        "last_ns": max((last for _, _, last in spans.values()), default=None),
        "bytes_per_event": size_bytes / events if events else None,
        "compression_ratio": events * ROW_BYTES / size_bytes if events else None,  # of rows
        **({} if metrics is None else {"metrics": asdict(metrics)}),
        **({"missing_files": missing} if missing else {}),  # that the manifest names
        "record_times": [each for each in _TIMES if each in times],
    }


def _describe_file(reader: TraceReader) -> dict[str, Any]:
    blocks, process = reader.blocks(), reader.process
    return {
        "file": reader.path.name,
        "process": process.name,
        "pid": process.pid,
        "size_bytes": reader.size_bytes,
        "blocks": len(blocks),
        "events": sum(block.count for block in blocks),
        "dropped_events": reader.dropped_events,
        "first_ns": min((block.first_ns for block in blocks), default=None),
        "last_ns": max((block.last_ns for block in blocks), default=None),
        "truncation": None if reader.truncation is None else asdict(reader.truncation),
    }


def _describe_edges(run: Run, edges: Sequence[Edge]) -> list[dict[str, Any]]:
    """The edges of all jobs, which count from 1; `index` is the key of an edge in the manifest."""
    job: Any = (run.manifest and run.manifest.scenario.get("job")) or {}
    stated: Mapping[int, Any] = {each["index"]: each for each in job.get("edges", ())}
    return [
        {
            "number": each.number,
            "source": each.source_name,
            "target": each.target_name,
            "job": each.job + 1,
            "index": each.index,
            **{
                name: stated.get(each.index, {}).get(name)
                for name in ("partitioner", "partition_type")
            },
        }
        for each in edges
    ]


def _describe_channels(
    run: Run, edges: Sequence[Edge], spans: Mapping[int, tuple[int, int, int]]
) -> list[dict[str, Any]]:
    numbers = {each.index: each.number for each in edges}
    ends = {
        each.index: (numbers[each.edge], each.producer, each.consumer, each.connection)
        for each in (run.manifest.channels if run.manifest else ())
    }
    names = "edge", "producer", "consumer", "connection", "events", "first_ns", "last_ns"
    found = []
    for index in sorted(ends.keys() | spans.keys()):
        own = *ends.get(index, (None,) * 4), *spans.get(index, (0, None, None))
        found.append({"index": index, **dict(zip(names, own, strict=True))})
    return found
