# mypyc
"""ForeignSink: counts records that another program wrote, and may check their numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flinknet.core.wire.records import LENGTH_PREFIX_BYTES
from flinknet.errors import FrameCorruptedError

from .payload import OVERHEAD_BYTES, SMALLEST_VALUE_BYTES
from .sink import LatencySink, Run

_RECORD_TAGS = (0, 1)
"""Tags of records with and without timestamp; other tags mark other stream elements."""

STAMPED_MIN_BYTES = OVERHEAD_BYTES + SMALLEST_VALUE_BYTES


MEASURED, STAMPED, COUNTED = "measured", "stamped", "counted"
"""What a sink expects: records of our own load; records in flinknet's form from another program;
anything.
"""


class ForeignSink(LatencySink):
    """A LatencySink for the records of another program. Their instants mean nothing here, so there
    are no latencies.

    Attributes:
        other_elements: stream elements other than records, such as watermarks and latency markers.
        value_bytes: bytes of the records, without tag and timestamp.
    """

    def __init__(self, *, delay_ns_per_record: int = 0) -> None:
        super().__init__(epoch_ns=0, delay_ns_per_record=delay_ns_per_record, is_open_loop=False)
        self.measured_to_ns = 0
        self.other_elements = 0
        self.value_bytes = 0


class CountingSink(ForeignSink):
    """A sink for any job of Flink: checks neither stamps nor numbers, so nothing counts as lost or
    out of order.
    """

    def receive(self, runs: Sequence[Run], *, now_ns: int) -> int:
        """Take the elements of a buffer; see LatencySink.receive."""
        records = 0
        for memory, offset, count, record_bytes in runs:
            tags = np.ndarray(count, np.uint8, memory, offset + LENGTH_PREFIX_BYTES, record_bytes)
            found = int(np.count_nonzero(tags <= _RECORD_TAGS[-1]))
            timestamped = found - int(np.count_nonzero(tags == _RECORD_TAGS[-1]))
            records += found
            self.other_elements += count - found
            self.value_bytes += found * (record_bytes - OVERHEAD_BYTES) - timestamped * 8
        self.received_records = records
        self.records += records
        self.first_record_ns = self.last_record_ns = -1
        return now_ns + self._delay_ns * records

    def set_delay(self, delay_ns_per_record: int) -> None:
        """Set how long the task takes per record, from the next one on."""
        self._delay_ns = delay_ns_per_record

    def settle(self) -> None:
        """Do nothing: nothing is kept."""


class StampedSink(ForeignSink):
    """A sink for records in flinknet's form from another program: checks their numbers."""

    def receive(self, runs: Sequence[Run], *, now_ns: int) -> int:
        """Take the records of a buffer; see LatencySink.receive.

        Raises: FrameCorruptedError if a record is too short for a stamp.
        """
        for _, _, count, record_bytes in runs:
            if record_bytes < STAMPED_MIN_BYTES:
                raise FrameCorruptedError(
                    f"a record of {record_bytes} bytes is too short to be one of flinknet's, which"
                    f" have {STAMPED_MIN_BYTES} or more: leave out --stamped"
                )
            self.value_bytes += count * (record_bytes - OVERHEAD_BYTES)
        done_ns = super().receive(runs, now_ns=now_ns)
        self.first_record_ns = self.last_record_ns = -1
        return done_ns
