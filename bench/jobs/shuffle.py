"""Two tasks of four subtasks each, everybody sends to everybody. On two TaskManagers of two slots
half of the channels are local, and the remote ones share one TCP connection each way:

    flinknet plan bench/jobs/shuffle.py --task-managers 2 --slots 2
"""

from __future__ import annotations

from flinknet.graph import StreamExecutionEnvironment


def main(env: StreamExecutionEnvironment, parallelism: str = "4") -> None:
    env.set_parallelism(int(parallelism))
    env.generate().name("A").shuffle().measure_latency().name("B")
    env.execute("Shuffle")
