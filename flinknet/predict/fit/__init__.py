"""Costs, delays and arrivals, fitted to the rows of a recorded window (`window_rows`).

- `costs`: costs of steps, at a rate and at the highest rate.
- `flusher`, `delays`, `wakeups`: lateness of the flusher, pauses of TaskManagers, delays of the
  machine, waking of sleepers.
- `round_trips`, `queued`: costs of captured buffers, work by Flink's metrics, waiting by backlog.
- `arrivals`: instants of captured records, by their number, and samples of unknown quantities.
"""

from __future__ import annotations

from typing import Final

SAMPLES_MIN: Final = 20
"""Fewest measured values from which anything is fitted."""
