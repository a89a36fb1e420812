"""Keys that are not alike: a few of them make most of the records, and one subtask most of the
work.
"""

from __future__ import annotations

from flinknet.graph import StreamExecutionEnvironment

Record = tuple[int, bytes]


def key_of(record: Record) -> int:
    return record[0]


def latest(one: Record, other: Record) -> Record:
    return other


def main(env: StreamExecutionEnvironment, skew: str = "1.2") -> None:
    env.set_parallelism(4)
    records = env.generate(rate="20k/s", keys=10_000, key_skew=float(skew)).set_parallelism(2)
    records.key_by(key_of).reduce(latest).measure_latency()
    env.execute("Skewed keyBy")
