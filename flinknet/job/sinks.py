"""Operators for the sinks of a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flinknet.graph.endpoints import DiscardSink, FileSink, LatencySink, PrintSink
from flinknet.graph.operator_output import Output
from flinknet.graph.operators import StreamOperator, StreamSink

from .context import ProcessingContext
from .io import TaskIO
from .latency_meter import RecordLatency

FILE_BYTES = 64 * 1024
"""Bytes that a file sink gathers before it writes them."""


class PrintOperator(StreamOperator):
    """Prints records, each with its subtask number if there are several subtasks (Flink:
    PrintSinkOutputWriter).
    """

    def __init__(self, io: TaskIO, subtask: int, parallelism: int) -> None:
        self._print = io.print_line
        self._prefix = f"{subtask + 1}> " if parallelism > 1 else ""

    def process(self, value: Any, output: Output, input_number: int = 0) -> None:
        self._print(self._prefix + as_text(value))


class DiscardOperator(StreamOperator):
    """Drops records (Flink: DiscardingSink)."""

    takes_batches = True

    def process(self, value: Any, output: Output, input_number: int = 0) -> None:
        pass

    def process_batch(self, values: Sequence[Any], output: Output, input_number: int = 0) -> None:
        pass


class FileOperator(StreamOperator):
    """Writes records as lines to the file `path`, or to one file per subtask in the directory
    `path` if there are several (Flink: TextOutputFormat).
    """

    def __init__(self, io: TaskIO, path: str, subtask: int, parallelism: int) -> None:
        self.path = f"{path}/{subtask + 1}" if parallelism > 1 else path
        self._io = io
        self._gathered = bytearray()
        self._is_open = False

    def open(self) -> None:
        self._io.open_file(self.path)
        self._is_open = True

    def process(self, value: Any, output: Output, input_number: int = 0) -> None:
        self._gathered += as_text(value).encode("utf-8", "replace")
        self._gathered += b"\n"
        if len(self._gathered) >= FILE_BYTES:
            self._write()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._write()
            self._io.close_file(self.path)

    def _write(self) -> None:
        if self._gathered:
            self._io.write_file(self.path, bytes(self._gathered))
            self._gathered.clear()


class LatencyOperator(StreamOperator):
    """Measures how old records are when the task is done with them, from the instant they were due
    at their source.
    """

    takes_batches = True

    def __init__(self, context: ProcessingContext) -> None:
        self._context = context
        self.meter = RecordLatency()

    def process(self, value: Any, output: Output, input_number: int = 0) -> None:
        context = self._context
        self.meter.add(context.instant_ns, context.done_ns)

    def process_batch(self, values: Sequence[Any], output: Output, input_number: int = 0) -> None:
        context = self._context
        instants = context.instants
        if instants is None or len(instants) != len(values):
            instants = np.full(len(values), context.instant_ns, np.int64)
        self.meter.add_batch(instants, context.done_ns)


def sink_operator(
    operator: StreamSink, context: ProcessingContext, io: TaskIO, subtask: int, parallelism: int
) -> StreamOperator:
    """The operator of a sink in a subtask; a function sink is its own operator."""
    sink = operator.function
    if isinstance(sink, PrintSink):
        return PrintOperator(io, subtask, parallelism)
    if isinstance(sink, DiscardSink):
        return DiscardOperator()
    if isinstance(sink, FileSink):
        return FileOperator(io, sink.path, subtask, parallelism)
    if isinstance(sink, LatencySink):
        return LatencyOperator(context)
    return operator


def as_text(value: Any) -> str:
    """Format a record as Flink prints it: (word,3), [1, 2], true, null."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, np.generic | np.ndarray):
        return as_text(value.tolist())
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return f"({','.join(map(as_text, value))})"
    if isinstance(value, list | set | frozenset):
        return f"[{', '.join(map(as_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{as_text(k)}={as_text(v)}' for k, v in value.items())}}}"
    return str(value)
