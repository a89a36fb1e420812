"""A trace of very many channels with few buffers each: what one such channel records, copied.

Every producer sends to every consumer; half of the TaskManagers have the producers, half the
consumers. Channels differ in their instants only.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.synthetic_trace import make_run
from flinknet.config import NetworkConfig, Scenario, WorkloadConfig
from flinknet.trace import ProcessInfo, RunManifest, TraceReader, TraceWriter
from flinknet.trace.run_directory import seal_run
from flinknet.trace.schema import ROW_DTYPE

EVENTS_OF_CHANNEL = 10
BLOCK_EVENTS = 1 << 16
APART_NS = 1_000


def write_sparse_trace(run: Path, tasks: int, task_managers: int) -> None:
    """Write a run with so many producers and consumers each, and an even number of files."""
    with tempfile.TemporaryDirectory() as scratch:
        one = Path(scratch) / "one"
        network = NetworkConfig(buffer_timeout_ns=10_000_000)
        workload = WorkloadConfig(rate_per_s=1_000.0, duration_ns=1)
        make_run(one, Scenario(network, workload), events=EVENTS_OF_CHANNEL)
        manifest = RunManifest.load(one)
        sides = [_rows(one / process.file) for process in manifest.processes]
    half = task_managers // 2
    home = [f"tm-{task * half // tasks}" for task in range(tasks)]
    home += [f"tm-{half + task * half // tasks}" for task in range(tasks)]
    channel = manifest.channels[0]
    channels = tuple(
        replace(
            channel,
            index=index,
            receiver_id=f"{index:032x}",
            producer=producer,
            consumer=consumer,
            producer_process=home[producer],
            consumer_process=home[tasks + consumer],
            connection=f"{home[producer]}->{home[tasks + consumer]}",
            subpartition=consumer,
            partition=channel.partition[:-8] + f"{producer:08x}",
        )
        for index, (producer, consumer) in enumerate(np.ndindex(tasks, tasks))
    )
    names = [f"tm-{number}" for number in range(task_managers)]
    processes = tuple(ProcessInfo(name, f"{name}.fnt", 0) for name in names)
    scenario: dict[str, Any] = dict(manifest.scenario)
    scenario["workload"] = {**scenario["workload"], "producers": tasks, "consumers": tasks}
    run.mkdir(parents=True)
    made = replace(manifest, scenario=scenario, processes=processes, channels=channels, files={})
    made.save(run)
    for process in processes:
        of_producers = [each.index for each in channels if each.producer_process == process.name]
        own = of_producers or [
            each.index for each in channels if each.consumer_process == process.name
        ]
        with TraceWriter(run / process.file, process) as writer:
            rows = _copied(sides[0] if of_producers else sides[1], np.array(own))
            for start in range(0, len(rows), BLOCK_EVENTS):
                writer.write_events(rows[start : start + BLOCK_EVENTS])
    seal_run(run)


def _rows(file: Path) -> Any:
    """The events of a file in the order of their instants."""
    names = [name for name, _ in ROW_DTYPE]
    with TraceReader(file) as reader:
        blocks = [reader.read_block(number, names) for number in range(len(reader.blocks()))]
    rows = np.empty(sum(len(block["at_ns"]) for block in blocks), ROW_DTYPE)
    for name in names:
        rows[name] = np.concatenate([block[name] for block in blocks])
    return rows[np.argsort(rows["at_ns"], kind="stable")]


def _copied(rows: Any, channels: Any) -> Any:
    """The events of one channel as those of some, a little later on each."""
    copies = np.tile(rows, len(channels))
    own = np.repeat(channels, len(rows))
    copies["channel"] = own
    for name in ("at_ns", "first_record_ns", "last_record_ns"):
        copies[name][copies[name] >= 0] += (own % 5_000 * APART_NS)[copies[name] >= 0]
    return copies[np.argsort(copies["at_ns"], kind="stable")]
