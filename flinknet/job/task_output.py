# mypyc
"""TaskOutput: one output of a task: its writer, its flusher, and the collected records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flinknet.core.producer import OutputFlusher, RecordWriter


class TaskOutput:
    """One output of a task (Flink: RecordWriterOutput with its RecordWriter and OutputFlusher).

    A base class rather than a protocol, so that a compiled task calls it directly.

    Attributes:
        edge: index of the edge.
        partition: the partition it writes.
        channels: the partition's channels, as indices in the job.
        emitted_records: records passed to the writer.
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
        """Records written so far, by index of the channel in the job."""
        raise NotImplementedError

    def __call__(self, value: Any) -> None:
        """Collect a record from an operator that emits one at a time.

        Defined here and not only in subclasses: compiled callable classes have one more field, so a
        base class without it would look for all others at the wrong offset.
        """
        raise NotImplementedError

    def prepare(self) -> None:
        """Prepare the collected records for writing, as far as that takes time or functions of the
        program; does not touch the writer or the network.

        Raises: TaskFailedError if a record cannot be distributed or serialised.
        """

    def write(self) -> None:
        """Pass everything collected to the writer, which queues what finds no buffer.

        Raises: TaskFailedError if a record cannot be distributed or serialised.
        """
        raise NotImplementedError

    def discard(self) -> None:
        """Drop everything collected."""
        raise NotImplementedError
