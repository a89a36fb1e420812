"""Traces: events in, files out, and back again.

Here live the column table of an event, the byte layout of a trace file, the recorder (a
`core.probe.Probe`), the writer and reader of files, the manifest of a run directory, and the
checks of `trace verify`. Analysis lives in `replay`, printing in `report`. Rows enter one by one
through `TraceRecorder.record`; they leave as numpy columns, a block at a time (`event_block`), and
`buffers` pairs what both ends of a channel recorded. Bytes of a layout stand in `format` and
`columns` alone.
"""

from .format import Extent
from .index import FileIndex, file_index
from .manifest import ChannelInfo, ClockInfo, ProcessInfo, RunManifest
from .reader import TraceReader, Truncation
from .recorder import TraceRecorder
from .run import Run, find_runs, open_run
from .trace_file import BytesRead, TraceFile
from .writer import TraceWriter

__all__ = [
    "BytesRead",
    "ChannelInfo",
    "ClockInfo",
    "Extent",
    "FileIndex",
    "ProcessInfo",
    "Run",
    "RunManifest",
    "TraceFile",
    "TraceReader",
    "TraceRecorder",
    "TraceWriter",
    "Truncation",
    "file_index",
    "find_runs",
    "open_run",
]
