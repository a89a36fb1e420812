"""Tasks of the load generator for tests, with what a test does not care about filled in."""

from __future__ import annotations

from flinknet.config import NetworkConfig
from flinknet.core.consumer import SingleInputGate, UnionInputGate
from flinknet.core.probe import Probe
from flinknet.core.producer import OutputFlusher, RecordWriter
from flinknet.job.load.arrivals import Arrivals
from flinknet.job.load.assembly import LoadTasks
from flinknet.job.load.generator import LoadGenerator, RecordBatcher
from flinknet.job.load.sink import LatencySink
from flinknet.job.stream_task import StreamTask

TASKS = LoadTasks(NetworkConfig(), start_ns=0)


def source_task(
    writer: RecordWriter,
    batcher: RecordBatcher,
    flusher: OutputFlusher,
    probe: Probe,
    channels: int,
    *,
    arrivals: Arrivals | None = None,
    records: int | None = None,
    start_ns: int = 0,
    measured_from_ns: int = 0,
    end_ns: int | None = None,
    seed: int = 1,
) -> StreamTask:
    """Source 0, which writes channels 0, 1, …"""
    generator = LoadGenerator(
        arrivals,
        batcher.batch_records,
        records=records,
        start_ns=start_ns,
        measured_from_ns=measured_from_ns,
        end_ns=end_ns,
    )
    return TASKS.source(
        0,
        generator,
        batcher,
        writer,
        flusher,
        probe,
        range(channels),
        partitioner="forward",
        seed=seed,
    )


def sink_task(
    gate: SingleInputGate | UnionInputGate,
    sinks: tuple[LatencySink, ...],
    probe: Probe,
    *,
    delay_ns_per_record: int = 0,
    takes_runs: bool = False,
) -> StreamTask:
    """Sink 0."""
    return TASKS.sink(
        0, gate, sinks, probe, delay_ns_per_record=delay_ns_per_record, takes_runs=takes_runs
    )
