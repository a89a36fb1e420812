"""Traces: events in, files out, and back again.

    schema              the columns of an event
    recorder            a `core.probe.Probe`: rows one by one; statistics, message_counts: totals
                        while they pass; job_traces: by job
    format, columns, blocks    the bytes of a file, of a column, of a block of events
    writer, reader      of files; index: of one, read once and handed on as extents
    event_block         a block as numpy columns; arrow: as Arrow columns
    buffers             what both ends of a channel recorded, paired
    manifest            what a run was; job_names: what it calls the ends of channels; plain_text:
                        its texts, whoever has edited them
    run                 a run on disk; run_directory: while it is written; seal: its checksums;
                        growing: how far its files go by now
    trace_file, recordings    how a file counts in its run, and several recordings as one run
    metrics             its file of metrics
    verify              is it whole, and does it keep the rules: checks, delivery; describe: what is
                        in it

Analysis lives in `replay`, printing in `report`. Bytes of a layout stand in `format` and `columns`
alone.
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
