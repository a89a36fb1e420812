"""What is fitted to the rows of a recorded window (`window_rows`).

- `costs`: what each step on a buffer's way takes.
- `flusher`: its period, the buffer timeout behind it, and how late its beats come.
- `delays`, `wakeups`: at a rate, how late the machine was, also by the idle time before a message,
  and how long sleepers take to wake.
- `saturation`: how long consumers work on their buffers; at the highest rate, how long processes
  work on each buffer and record, and when the machine kept them from working. `costs` makes the
  costs of the model from it.
- `round_trips`: what buffers cost, from the time between a buffer and its credit.
- `busy`: how long tasks work on a record, by Flink's own metrics.
- `arrivals`, `bursts`, `unseen`: of messages captured between processes, when the records of a
  buffer came, and draws of what they leave open.
- `queued`: how long buffers waited, by the backlog that they carry.
"""

from __future__ import annotations

from typing import Final

SAMPLES_MIN: Final = 20
"""Of fewer measured values nothing is fitted."""
