"""Three stages, of which the last cannot keep up: its pressure reaches the source."""

from __future__ import annotations

from flinknet.graph import StreamExecutionEnvironment

Record = tuple[int, bytes]


def enrich(record: Record) -> Record:
    key, payload = record
    return key * 31, payload


def main(env: StreamExecutionEnvironment, delay: str = "100us") -> None:
    env.set_parallelism(2)
    enriched = env.generate(rate="20k/s").rebalance().map(enrich).name("Enrich")
    enriched.rebalance().measure_latency().name("Slow").delay(delay)
    env.execute("Slow last stage")
