"""Costs, delays and arrivals, fitted to the rows of a recorded window (`window_rows`).

- `costs`, `saturation`: what steps cost, at a rate and at the highest rate.
- `flusher`, `delays`, `wakeups`: lateness of the flusher, pauses of TaskManagers, delays of the
  machine, waking of sleepers.
- `round_trips`, `queued`: costs of captured buffers, work by Flink's metrics, waiting by backlog.
- `arrivals`, `stamps`, `unseen`: when captured records came, by their number and by timestamps, and
  samples of what a capture does not show.
"""

from __future__ import annotations

from typing import Final

SAMPLES_MIN: Final = 20
"""Fewest measured values from which anything is fitted."""
