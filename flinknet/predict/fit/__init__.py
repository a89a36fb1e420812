"""Costs, delays and arrivals, fitted to the rows of a recorded window (`window_rows`).

- `costs`: costs of the steps on a buffer's way.
- `saturation`: time of consumers for their buffers; at the highest rate, busy time of processes for
  each buffer and record, and preemptions.
- `flusher`: its period, the buffer timeout behind it, and how late its beats come.
- `delays`, `wakeups`: at a rate, delays by the machine, also by the idle time before a message, and
  the time that sleepers take to wake.
- `round_trips`: costs of captured buffers, from the time between a buffer and its credit.
- `queued`: work of tasks by Flink's metrics, and waiting by the backlog.
- `arrivals`, `unseen`: in captures between processes, when the records of a buffer came, and
  samples of the quantities that a capture does not show.
"""

from __future__ import annotations

from typing import Final

SAMPLES_MIN: Final = 20
"""Fewest measured values from which anything is fitted."""
