"""Recorded runs in the forms of other tools: Parquet, CSV and JSON of the message table, a trace
for Perfetto, a log for HdrHistogram.

A `Selection` (`selection`) says which channels and which time of a run are wanted; each exporter
takes one and a path. Files are whole or not there (`files`). No Spark: events are read block by
block (`tables`) or channel by channel (`perfetto`, `hdr`), and `trace.buffers` says what the events
of a channel mean. `metrics` reads a run's metrics file.
"""

from .selection import Selection, select

__all__ = ["Selection", "select"]
