"""Jobs on clusters of their own, directly or through a tap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.flink.cluster import Cluster, FlinkError
from bench.flink.exchange import Exchange, Outcome, run, upload
from bench.flink.tap import behind_a_tap, flinknet, last_document, run_directory, tap, tcpdump

SEGMENT_BYTES = 32 * 1024
"""Flink's default, and what the counts and the tap's configuration go by."""


@dataclass(frozen=True, slots=True)
class Tapped:
    """One run of the job, and what the tap saw of it, if there was one.

    Args:
        tap: what the tap itself stated at its end.
        verified: what `trace verify` said, None if it found fault.
        imported: run directory of the capture, if one was taken.
    """

    outcome: Outcome
    run: Path | None = None
    imported: Path | None = None
    tap: Mapping[str, Any] = field(default_factory=dict)
    tap_cpu_s: float = 0.0
    verified: str = ""
    is_verified: bool = False


@dataclass(slots=True)
class Bench:
    """Runs jobs, each on a cluster of its own, in numbered directories below `work`."""

    home: Path
    work: Path
    jar: Path
    runs: int = 0

    def directory(self, name: str) -> Path:
        """A new directory of this name."""
        self.runs += 1
        place = self.work / f"{self.runs:02}-{name}"
        place.mkdir()
        return place

    def direct(self, *exchanges: Exchange) -> list[Outcome]:
        """Jobs one after another on one cluster."""
        work = self.directory("direct")
        with Cluster(self.home, work, exchanges[0].task_managers()) as cluster:
            jar_id = upload(cluster, self.jar)
            return [
                complete(run(cluster, jar_id, exchange, work / f"job-{index}"), work)
                for index, exchange in enumerate(exchanges)
            ]

    def tapped(
        self, exchange: Exchange, *, with_tcpdump: bool = False, with_metrics: bool = True
    ) -> Tapped:
        """One job through a tap."""
        work = self.directory("tapped")
        task_managers = behind_a_tap(exchange.task_managers())
        with ExitStack() as stack:
            cluster = stack.enter_context(Cluster(self.home, work, task_managers))
            jar_id = upload(cluster, self.jar)
            capture = stack.enter_context(tcpdump(task_managers, work)) if with_tcpdump else None
            tapped = record(cluster, jar_id, exchange, work, with_metrics=with_metrics)
            if capture is not None:
                capture.stop()
        if not with_tcpdump:
            return tapped
        capture_file, out = work / "capture.pcap", work / "imported"
        flinknet("trace", "import", str(capture_file), "--out", str(out))
        return replace(tapped, imported=run_directory(out))


def record(
    cluster: Cluster,
    jar_id: str,
    exchange: Exchange,
    work: Path,
    *,
    with_metrics: bool = False,
    with_rest: bool = False,
    watch: Callable[[str], None] | None = None,
) -> Tapped:
    """One job on a cluster whose TaskManagers are `behind_a_tap`, through a tap of its own.

    Args:
        work: for the trace and the job's figures.
        with_rest: the tap asks the cluster for names and metrics.
        with_metrics, watch: as `run` takes them.

    Raises:
        FlinkError: the job or the tap failed, or records are missing.
    """
    conf = write_conf(work / "tap.yaml", exchange) if exchange.sets_timeout else None
    with tap(cluster.task_managers, work, conf, cluster.url if with_rest else None) as proxy:
        done = run(cluster, jar_id, exchange, work / "job", with_metrics=with_metrics, watch=watch)
        outcome = complete(done, work)
        stated = last_document(proxy.stop())
    found = run_directory(work / "tap")
    try:
        verified, is_verified = flinknet("trace", "verify", str(found)).strip(), True
    except FlinkError as error:
        verified, is_verified = str(error), False
    return Tapped(outcome, found, None, stated, proxy.cpu_s, verified, is_verified)


def write_conf(file: Path, exchange: Exchange) -> Path:
    """What the wire does not tell, as a config.yaml for the tap to keep with its trace."""
    timeout_ms = exchange.buffer_timeout_ms
    keys = {"taskmanager.memory.segment-size": f"{SEGMENT_BYTES} b"}
    if timeout_ms < 0:
        keys["execution.buffer-timeout.enabled"] = "false"
    else:
        keys["execution.buffer-timeout.interval"] = f"{timeout_ms} ms"
    if exchange.checkpoint_interval_ms:
        keys["execution.checkpointing.interval"] = f"{exchange.checkpoint_interval_ms} ms"
    file.write_text("".join(f"{key}: {value}\n" for key, value in keys.items()))
    return file


def complete(outcome: Outcome, work: Path) -> Outcome:
    """The outcome, unless records are missing.

    Raises:
        FlinkError: they are.
    """
    if not outcome.is_complete:
        raise FlinkError(f"records were lost, repeated or out of order; {work}")
    return outcome
