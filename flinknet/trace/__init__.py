"""Traces: recording events, writing files and reading them.

    schema              the columns of an event
    recorder            a `core.probe.Probe` that writes rows, also per job
    format, blocks      byte layouts of a file, and of a block of events with its columns
    writer, reader      of files; the writer counts the rows; index: index of a file, read once
                        and passed on as extents; ranged_files: files read in ranges, here or in a
                        store, and checksums
    event_block         a block as numpy columns; arrow: as Arrow columns
    buffers             pairs the events of both ends of a channel
    manifest            describes a run; job_names: names of channel ends; plain_text: JSON
                        texts that may have been edited
    run                 a run on disk, also while it grows; run_directory: while it is written
    trace_file, recordings    maps a file into its run; several recordings as one run
    metrics             the metrics file of a run
    share               a run in one file, with pseudonyms
    verify              checks whether a run is complete and correct: checks; describe: describes
                        its content

Analysis is in `replay`, printing in `report`. Only `format` and `blocks` have byte layouts.
"""

from .format import Extent
from .index import FileIndex, file_index
from .manifest import ChannelInfo, ClockInfo, ProcessInfo, RunManifest
from .reader import TraceReader
from .recorder import TraceRecorder
from .run import Run, distinct_names, find_runs, open_run
from .trace_file import BytesRead, TraceFile, Truncation
from .writer import TraceWriter
