"""AddedDelay: the delay that the tap adds."""

from __future__ import annotations

from array import array

import numpy as np

from flinknet.histogram import LogLinearHistogram
from flinknet.results import LatencySummary


class AddedDelay:
    """Delays of chunks, from their earliest possible arrival until the other socket has taken the
    last byte.

    If the loop was busy before it found a chunk, the chunk may have arrived at any time since the
    sockets were polled before, and all this time counts as delay. The result is an upper bound,
    except for the time the kernel takes to wake the tap.
    """

    def __init__(self) -> None:
        self.total = LogLinearHistogram()
        self._recent = LogLinearHistogram()
        self._new = array("q")
        self.add = self._new.append  # on the hot path

    def fold(self) -> None:
        """Move added delays into the histograms; to be called now and then."""
        if not self._new:
            return
        values = np.array(self._new, dtype=np.int64)
        del self._new[:]
        self.total.add(values)
        self._recent.add(values)

    def take_recent(self) -> LogLinearHistogram:
        """The delays since the last call."""
        self.fold()
        recent, self._recent = self._recent, LogLinearHistogram()
        return recent

    def summary(self) -> LatencySummary:
        """Summary of all delays, in ns."""
        self.fold()
        return self.total.summary()
