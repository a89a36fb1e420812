"""AddedDelay: how long the tap held bytes up."""

from __future__ import annotations

from array import array

import numpy as np

from flinknet.histogram import LogLinearHistogram
from flinknet.results import LatencySummary


class AddedDelay:
    """Delays of chunks: from when they can have arrived first until the other socket had taken the
    last byte.

    A chunk is found when the sockets are asked; where the loop was busy before, it may have lain
    there since they were asked the last time, and that counts as delay. So it is the most that the
    tap can have added, but for the time the kernel takes to wake it.
    """

    def __init__(self) -> None:
        self.total = LogLinearHistogram()
        self._recent = LogLinearHistogram()
        self._new = array("q")
        self.add = self._new.append  # on the hot path

    def fold(self) -> None:
        """Move what was added into the histograms; to be called now and then."""
        if not self._new:
            return
        values = np.array(self._new, dtype=np.int64)
        del self._new[:]
        self.total.add(values)
        self._recent.add(values)

    def take_recent(self) -> LogLinearHistogram:
        """Those since this was asked last."""
        self.fold()
        recent, self._recent = self._recent, LogLinearHistogram()
        return recent

    def summary(self) -> LatencySummary:
        """All of them, in ns."""
        self.fold()
        return self.total.summary()
