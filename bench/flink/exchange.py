"""One experiment on a Flink cluster: sources, stages, sinks, as in `bench/flink/job/`.

The job is compiled against the distribution it runs on and submitted through REST. Each subtask
writes its figures to a file of the run's directory; latencies are counted in the buckets of
flinknet.histogram.
"""

from __future__ import annotations

import json
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from bench.flink.cluster import Cluster, FlinkError, TaskManager
from bench.flink.distribution import class_path, java
from flinknet.histogram import LogLinearHistogram
from flinknet.results import LatencySummary

OVERHEAD_BYTES = 4 + 1
"""Before each value on the wire: length of the element, and its tag (no timestamp)."""

SMALLEST_VALUE_BYTES = 4 + 16
"""A value is a byte array: its length, then at least what job/Stamps.java writes."""

_JOB = Path(__file__).parent / "job"
_MAIN = "ExchangeJob"
_ENDED = ("FINISHED", "FAILED", "CANCELED")


GROUPS = ("even", "odd")
"""Slots of every second task, where all channels shall cross a connection."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A task behind the sources, and how records get to it.

    Args:
        partitioner: rebalance, hash, forward or broadcast.
        service_ns: what a record takes here.
        slow_subtask: the only one that takes this time; None: all of them.
        hot_share: of the records have one key in common, if they are keyed.
        is_computing: the service takes the processor, instead of waiting for another system.
        fails_after_ns: a relay fails so long after its first attempt began; 0: it does not.
    """

    parallelism: int = 1
    partitioner: str = "rebalance"
    service_ns: int = 0
    slow_subtask: int | None = None
    hot_share: float = 0.0
    is_computing: bool = False
    fails_after_ns: int = 0

    def argument(self) -> str:
        """As job/Stage.java reads it."""
        slow = -1 if self.slow_subtask is None else self.slow_subtask
        fields = (
            *(self.parallelism, self.partitioner, self.service_ns, slow, self.hot_share),
            *(str(self.is_computing).lower(), self.fails_after_ns),
        )
        return ":".join(map(str, fields))


@dataclass(frozen=True, slots=True)
class Exchange:
    """What runs. As in `flinknet bench`, a rate is of each source, None: as fast as it goes.

    A record of `value_bytes` takes OVERHEAD_BYTES more on the wire, with Flink as with flinknet:
    Flink's serializer writes the length of the array (4 bytes) as part of the value.

    Args:
        relays: stages between the sources and the sinks, each behind an exchange of its own.
        arrivals: regular, poisson, onoff (bursts of `on_ns`, `off_ns` apart), or steps of `on_ns`
            from one rate to the next, four times as high, and again from the first.
        sets_timeout: the job's code sets the buffer timeout; else the cluster's configuration has
            to do that.
        sizes: fixed, or exponential with `value_bytes` as their mean.
        slow_sink, hot_share: as a Stage has them, of the sinks.
        seed: of arrivals and sizes.
        has_timestamps: records carry the instants at which they were due.
    """

    rate_per_s: float | None = None
    value_bytes: int = 100
    buffer_timeout_ms: int = 100
    sets_timeout: bool = True
    checkpoint_interval_ms: int = 0
    warmup_ns: int = 2_000_000_000
    duration_ns: int = 5_000_000_000
    sink_delay_ns: int = 0
    producers: int = 1
    consumers: int = 1
    partitioner: str = "rebalance"
    placement: str = "split"
    relays: tuple[Stage, ...] = ()
    arrivals: str = "regular"
    on_ns: int = 50_000_000
    off_ns: int = 150_000_000
    sizes: str = "fixed"
    slow_sink: int | None = None
    hot_share: float = 0.0
    seed: int = 1
    has_timestamps: bool = False

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All tasks behind the sources; the last one is the sink."""
        sink = Stage(
            self.consumers, self.partitioner, self.sink_delay_ns, self.slow_sink, self.hot_share
        )
        return (*self.relays, sink)

    @property
    def parallelisms(self) -> tuple[int, ...]:
        """Of the sources and all stages."""
        return (self.producers, *(each.parallelism for each in self.stages))

    @property
    def copies(self) -> int:
        """That arrive of each record, for a broadcast makes some."""
        broadcast = [each.parallelism for each in self.stages if each.partitioner == "broadcast"]
        return prod(broadcast)

    @property
    def wire_bytes(self) -> int:
        """Of one record."""
        return OVERHEAD_BYTES + self.value_bytes

    def task_managers(self) -> list[TaskManager]:
        """split: each stage on another one than the stage before it; spread: subtask i of each on
        TaskManager i.
        """
        if self.placement == "spread":
            return [TaskManager(1)] * max(self.parallelisms)
        return [
            TaskManager(max(self.parallelisms[at::2]), resources=(group,))
            for at, group in enumerate(GROUPS)
        ]

    def arguments(self) -> dict[str, str]:
        """As job/Settings.java reads them, but for the places."""
        return {
            "rate": str(self.rate_per_s or 0),
            "arrivals": self.arrivals,
            "on-ns": str(self.on_ns),
            "off-ns": str(self.off_ns),
            "value-bytes": str(self.value_bytes),
            "sizes": self.sizes,
            "seed": str(self.seed),
            "timestamps": str(self.has_timestamps).lower(),
            "buffer-timeout-ms": str(self.buffer_timeout_ms) if self.sets_timeout else "",
            "checkpoint-interval-ms": str(self.checkpoint_interval_ms),
            "warmup-ns": str(self.warmup_ns),
            "duration-ns": str(self.duration_ns),
            "producers": str(self.producers),
            "stages": ";".join(each.argument() for each in self.stages),
            "placement": self.placement,
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the subtasks of one job wrote.

    Args:
        sent_records, received_records: of the whole run, warm-up included.
        measured_records: whose intended instant lies in the measured part.
        is_complete: every record came once (by number and sum) and, without relays, in order within
            its channel.
        measured_from_ns, ended_ns: of the sources, in ns of CLOCK_MONOTONIC; they begin at
            `epoch_ns`.
        first_arrival_ns: of the first record at a sink.
        latest_ns: how late a source emitted a record at most; it counts as latency.
        metrics: Flink's own, by vertex, summed over subtasks; empty unless asked for.
        vertices: name of each vertex by its id.
        relays: latency of the records at each relay, where they come.
        checkpoints: that had been triggered when the metrics were read.
    """

    sent_records: int
    received_records: int
    measured_records: int
    is_complete: bool
    throughput_records_per_s: float
    latency: LatencySummary
    uncorrected: LatencySummary
    measured_from_ns: int
    ended_ns: int
    epoch_ns: int
    first_arrival_ns: int
    latest_ns: int
    metrics: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    vertices: Mapping[str, str] = field(default_factory=dict)
    relays: tuple[LatencySummary, ...] = ()
    checkpoints: int = 0

    @property
    def emitted_for_ns(self) -> int:
        """From the first record of the sources to the last, warm-up included."""
        return self.ended_ns - self.epoch_ns


def build(home: Path, work: Path) -> Path:
    """Compile the job. Returns: its jar, in `work`."""
    folders = [work / name for name in ("source", "classes")]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    source, classes = folders
    for file in _JOB.glob("*.java"):
        text = file.read_text()
        if not has_legacy_packages(home):
            text = text.replace(".legacy.", ".")
        (source / file.name).write_text(text)
    javac = java("javac")
    if javac is None:
        raise FlinkError("there is no javac: set JAVA_HOME, or install a JDK of 17 or newer")
    # Its sources and operators are deprecated names of a stable form.
    command = [javac, "-nowarn", "-Xlint:none", "-d", str(classes), "-cp", class_path(home)]
    files = sorted(map(str, source.glob("*.java")))
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    if done.returncode:
        raise FlinkError(f"the job does not compile against {home}:\n{done.stderr}")
    jar = work / "exchange.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\nMain-Class: {_MAIN}\n")
        for each in sorted(classes.glob("*.class")):
            archive.write(each, each.name)
    return jar


def has_legacy_packages(home: Path) -> bool:
    """Whether source functions live in packages named legacy, as from Flink 2.0 on."""
    return not any((home / "lib").glob("flink-dist-1.*.jar"))


def upload(cluster: Cluster, jar: Path) -> str:
    """Give the jar to the cluster. Returns: its id there."""
    boundary = "flinknet-boundary-7c1d"
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="jarfile"; filename="{jar.name}"\r\n'
        "Content-Type: application/x-java-archive\r\n\r\n"
    )
    body = head.encode() + jar.read_bytes() + f"\r\n--{boundary}--\r\n".encode()
    answer = cluster.post("/jars/upload", body, f"multipart/form-data; boundary={boundary}")
    return str(Path(answer["filename"]).name)


def run(
    cluster: Cluster,
    jar_id: str,
    exchange: Exchange,
    out: Path,
    *,
    with_metrics: bool = False,
    watch: Callable[[str], None] | None = None,
) -> Outcome:
    """Run the job to its end.

    Args:
        jar_id: of `upload`.
        out: directory for the figures; made.
        with_metrics: let the job stand still at the end until its metrics do not change any more,
            and read them.
        watch: called again and again while the job runs, with its id.

    Raises:
        FlinkError: the job failed, or takes much longer than it should.
    """
    out.mkdir(parents=True)
    arguments = {**exchange.arguments(), "out": str(out)}
    end_file = out / "end"
    if with_metrics:
        arguments["end-file"] = str(end_file)
    body = {"entryClass": _MAIN, "programArgsList": [f"{k}={v}" for k, v in arguments.items()]}
    job = cluster.post(f"/jars/{jar_id}/run", json.dumps(body).encode())["jobid"]
    give_up = time.monotonic() + (exchange.warmup_ns + exchange.duration_ns) / 1e9 * 3 + 60
    metrics: dict[str, dict[str, int]] = {}
    checkpoints = 0
    while True:
        cluster.check()
        state = cluster.get(f"/jobs/{job}/status")["status"]
        if state in _ENDED:
            break
        if time.monotonic() > give_up:
            raise FlinkError(f"the job is {state}, longer than it should; {cluster.work}")
        if watch is not None:
            watch(job)
        if with_metrics and not metrics and _have_ended(out, exchange.producers):
            metrics = settled_metrics(cluster, job, exchange.checkpoint_interval_ms)
            if exchange.checkpoint_interval_ms:
                checkpoints = cluster.get(f"/jobs/{job}/checkpoints")["counts"]["total"]
            end_file.touch()
        time.sleep(0.05)
    if state != "FINISHED":
        raise FlinkError(f"the job is {state}: {_failure(cluster.get(f'/jobs/{job}/exceptions'))}")
    sources = [read(out / f"source-{i}.json") for i in range(exchange.producers)]
    sinks = [read(out / f"sink-{i}.json") for i in range(exchange.consumers)]
    vertices = {each["id"]: short_name(each) for each in cluster.get(f"/jobs/{job}")["vertices"]}
    done = outcome(sources, sinks, metrics, exchange)
    relays = tuple(
        _merged(read(out / f"stage-{at}-{i}.json")["latency_ns"] for i in range(each.parallelism))
        for at, each in enumerate(exchange.relays, start=1)
    )
    return replace(done, vertices=vertices, relays=relays, checkpoints=checkpoints)


def outcome(
    sources: Sequence[Mapping[str, Any]],
    sinks: Sequence[Mapping[str, Any]],
    metrics: Mapping[str, Mapping[str, int]],
    exchange: Exchange,
) -> Outcome:
    """Put the figures of all subtasks together."""
    sent, received = (sum(each["records"] for each in of) for of in (sources, sinks))
    numbers = sum(each["records"] * (each["records"] - 1) // 2 for each in sources)
    # records of one source overtake each other where two relays pass them on
    in_order = bool(exchange.relays) or not any(each["out_of_order"] for each in sinks)
    copies = exchange.copies
    measured = sum(each["measured_records"] for each in sinks)
    took_ns = max(each["last_measured_ns"] for each in sinks) - min(
        each["first_measured_ns"] for each in sinks
    )
    return Outcome(
        sent_records=sent,
        received_records=received,
        measured_records=measured,
        is_complete=(
            in_order
            and sent * copies == received
            and numbers * copies == sum(s["sum_of_numbers"] for s in sinks)
        ),
        throughput_records_per_s=measured / took_ns * 1e9 if took_ns > 0 else 0.0,
        latency=_merged(each["latency_ns"] for each in sinks),
        uncorrected=_merged(each["uncorrected_ns"] for each in sinks),
        measured_from_ns=min(each["measured_from_ns"] for each in sources),
        epoch_ns=min(each["epoch_ns"] for each in sources),
        ended_ns=max(each["ended_ns"] for each in sources),
        first_arrival_ns=min(each["first_arrival_ns"] for each in sinks if each["records"]),
        latest_ns=max(each["latest_ns"] for each in sources),
        metrics=metrics,
    )


def settled_metrics(
    cluster: Cluster, job: str, checkpoint_interval_ms: int = 0
) -> dict[str, dict[str, int]]:
    """Flink's counters by vertex, once all records have been counted and a checkpoint has gone by.

    The barrier of a checkpoint finishes the last buffer of each channel, which counts as going out
    only then. Barriers count as coming in; so what comes in may grow while it is read.
    """
    fetched_s = 2.2 * cluster.metrics_every_ms / 1000
    before: dict[str, dict[str, int]] = {}
    for _ in range(20):
        time.sleep(fetched_s)
        now = counters(cluster, job)
        if _records(now) == _records(before) != 0:
            break
        before = now
    time.sleep(2 * checkpoint_interval_ms / 1000 + fetched_s)
    return counters(cluster, job)


COUNTERS = (
    "numRecordsOut",
    "numBytesOut",
    "numBuffersOut",
    "numRecordsIn",
    "numBytesIn",
    "Shuffle.Netty.Input.numBuffersInRemote",
    "Shuffle.Netty.Input.numBytesInRemote",
    "Shuffle.Netty.Input.numBuffersInLocal",
    "Shuffle.Netty.Input.numBytesInLocal",
)
"""Read of every vertex; what each counts is told in bench/flink/tapped.py."""


def counters(cluster: Cluster, job: str) -> dict[str, dict[str, int]]:
    """Flink's counters of each vertex, summed over its subtasks; of those it has."""
    found = {}
    for vertex in cluster.get(f"/jobs/{job}")["vertices"]:
        path = f"/jobs/{job}/vertices/{vertex['id']}/subtasks/metrics"
        asked = ",".join(COUNTERS)
        found[short_name(vertex)] = sums(cluster.get(f"{path}?get={asked}&agg=sum"))
    return found


def short_name(vertex: Mapping[str, Any]) -> str:
    """source, stage-1, … or sink."""
    name = str(vertex["name"])
    return "source" if name.startswith("Source") else name


def sums(answer: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """REST's aggregated metrics as numbers: the short name of each to its sum."""
    return {str(each["id"]).rpartition(".")[2]: int(float(each["sum"])) for each in answer}


def read(file: Path) -> dict[str, Any]:
    """The figures of one subtask.

    Raises:
        FlinkError: it wrote none.
    """
    try:
        figures: dict[str, Any] = json.loads(file.read_text())
    except FileNotFoundError:
        raise FlinkError(f"a subtask wrote no figures: {file} is not there") from None
    return figures


def _merged(histograms: Iterable[dict[str, Any]]) -> LatencySummary:
    all_of_them = LogLinearHistogram()
    for each in histograms:
        counts = [int(count) for count in each["buckets"].values()]
        np.add.at(all_of_them.counts, [int(index) for index in each["buckets"]], counts)
        all_of_them.add_totals(sum(counts), each["total"], each["min"], each["max"])
    return all_of_them.summary()


def _have_ended(out: Path, producers: int) -> bool:
    return all((out / f"source-{index}.json").exists() for index in range(producers))


def _records(found: Mapping[str, Mapping[str, int]]) -> int:
    return sum(
        each.get("numRecordsIn", 0) + each.get("numRecordsOut", 0) for each in found.values()
    )


def _failure(answer: Mapping[str, Any]) -> str:
    entries = answer.get("exceptionHistory", {}).get("entries", [])
    trace = str(entries[0]["stacktrace"]) if entries else "no reason given"
    causes = [line for line in trace.splitlines() if line.startswith("Caused by: ")]
    return (causes or trace.splitlines())[-1]
