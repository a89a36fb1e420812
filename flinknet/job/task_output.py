# mypyc
"""TaskOutput: one output of a task: its writer, its flusher, and what waits to be written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flinknet.core.producer import OutputFlusher, RecordWriter


class TaskOutput:
    """What a task writes along one edge (Flink: RecordWriterOutput with its RecordWriter and
    OutputFlusher).

    A base class and not a protocol, so that a compiled task calls it directly.

    Attributes:
        edge: index of the edge.
        partition: what it writes into.
        channels: indices of the partition's channels in the run.
        emitted_records: handed to the writer so far.
    """

    def __init__(
        self, edge: int, writer: RecordWriter, flusher: OutputFlusher, channels: Sequence[int]
    ) -> None:
        self.edge = edge
        self.writer = writer
        self.partition = writer.partition
        self.flusher = flusher
        self.channels = tuple(channels)
        self.emitted_records = 0

    @property
    def sent_records(self) -> dict[int, int]:
        """Records written so far, by index of the channel in the run."""
        raise NotImplementedError

    def __call__(self, value: Any) -> None:
        """Take a record, where operators emit to it one by one.

        Here and not only in subclasses: compiled classes that can be called have one field more, so
        a base class without it would look for all others in the wrong place.
        """
        raise NotImplementedError

    def prepare(self) -> None:
        """Make what was collected ready to be written, as far as that takes time or functions of
        the program; the writer and the network are left alone.

        Raises: TaskFailedError when a record cannot be dealt out or serialised.
        """

    def write(self) -> None:
        """Hand all that was collected to the writer; what finds no buffer waits there.

        Raises: TaskFailedError when a record cannot be dealt out or serialised.
        """
        raise NotImplementedError

    def discard(self) -> None:
        """Drop what was collected."""
        raise NotImplementedError
