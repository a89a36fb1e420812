"""Exports recorded runs for other tools: the message table as Parquet, CSV and JSON, and a trace
for Perfetto.

A `Selection` (`selection`) has the wanted channels and the wanted time of a run; each exporter
takes one and a path. Files are written whole or not at all. Without Spark, events are read block by
block (`tables`) or channel by channel (`perfetto`).
"""

from .selection import Selection, select

__all__ = ["Selection", "select"]
