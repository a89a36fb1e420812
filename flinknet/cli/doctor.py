"""`flinknet doctor`: checks whether this machine is ready."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

import click

import flinknet
from flinknet.errors import FlinknetError
from flinknet.runtime import host
from flinknet.runtime.host import MISSING, OK, WARNING, Check, check_machine
from flinknet.units import format_address, human_bytes, human_count, human_duration

from .commands import install_line, is_light
from .files import STDOUT, put_json, target_of
from .option_tables import options
from .options import collect
from .worker import workers_of

PAYLOAD_MIN_BYTES, PAYLOAD_BYTES = 256 << 10, 64 << 20
SILENCE_MAX_NS = 60_000_000_000


@click.command()
@options(
    """
    --json
    --start-spark
        Also start Spark and run a small job (seconds). The first time, this also makes an archive
        in the cache directory with which Spark starts faster (a minute, 170 MB).
    --workers --secret-file
    -D (define) KEY=VALUE ...
        Flink's keys for mutual TLS with workers. May be repeated.
    --flink-conf FILE
        Take these keys from a config.yaml.
    """
)
def doctor(json: str | None, start_spark: bool, **values: Any) -> None:
    """Check Python, Java, Spark, loopback, clock, cores and memory.

    With --workers, check also these: versions, round trip, bandwidth, MTU and clock of each, and by
    a short run the ports between them. Exits with 1 if anything that any command needs is missing.
    """
    from flinknet.report.console import print_checks

    target = target_of(json)
    version = ".".join(map(str, sys.version_info[:3]))
    checks = [Check("Python", OK, f"{version} ({sys.executable})")]
    checks += [check_interpreter(), check_core(), check_java()]
    checks += [check_spark(start_spark), *check_machine(), *check_workers(values)]
    is_ready = all(check.status != MISSING for check in checks)
    rows = [dataclasses.asdict(check) for check in checks]
    put_json(target, {"schema_version": 1, "is_ready": is_ready, "checks": rows})
    if target != STDOUT:
        print_checks(rows)
    if not is_ready:
        sys.exit(1)


def check_workers(values: Mapping[str, Any]) -> list[Check]:
    """Each worker of the options, and a run on them."""
    from flinknet import options as flink
    from flinknet.config import Scenario, WorkloadConfig
    from flinknet.runtime.cluster.launcher import run_scenario
    from flinknet.runtime.cluster.workers import Worker
    from flinknet.runtime.event_loop import EventLoop

    network, _ = flink.network_config(collect(values).network)
    spec = workers_of(values, network, is_tried=False)
    if spec is None:
        return []
    tls = None
    if network.ssl_internal_enabled:
        from flinknet.runtime.tls import create_tls

        tls = create_tls(network)
    checks, loop = [], EventLoop(may_spin=False)
    for address in spec.addresses:
        name = f"worker {format_address(*address)}"
        try:
            worker = Worker(loop, address, spec.secret, tls, SILENCE_MAX_NS)
            rate = worker.bytes_per_s(PAYLOAD_MIN_BYTES)
            if rate > PAYLOAD_MIN_BYTES:
                rate = worker.bytes_per_s(min(PAYLOAD_BYTES, int(rate)))  # a second at most
        except FlinknetError as error:
            checks.append(Check(name, MISSING, str(error)))
            continue
        line, trip = worker.clock.line(), human_duration(worker.clock.round_trip_ns)
        clock = "the clock of this machine"
        if worker.has_own_clock:
            ahead, error_text = line.offset_ns / 1e9, human_duration(line.error_ns)
            clock = f"clock ahead by {ahead:.6f} s ± {error_text}"
        found = f"round trip {trip}, {human_bytes(rate)}/s, MTU {worker.mtu_bytes or '?'}, {clock}"
        checks.append(
            Check(name, OK, f"flinknet {worker.facts['environment']['flinknet']}, {found}")
        )
        worker.disconnect()
    loop.close()
    if any(each.status == MISSING for each in checks):
        return checks
    scenario = Scenario(network, workload=WorkloadConfig(records=1000, duration_ns=None))
    advice = "let the ports between the hosts through: docs/hosts.md"
    try:
        run_scenario(scenario, out_dir=None, trace=False, workers=spec)
    except FlinknetError as error:
        return [*checks, Check("workers' ports", MISSING, str(error), advice)]
    return [*checks, Check("workers' ports", OK, "control and data ports passed 1,000 records")]


def check_interpreter() -> Check:
    """The interpreter's speed and build; never MISSING."""
    name, build = "interpreter", host.build_of_interpreter()
    speed = f"{human_count(host.operations_per_s())} simple operations/s"
    if build == host.DEBUG:
        return Check(name, WARNING, f"{speed}, {build}", "use another for measurements")
    if build is None:
        advice = (
            "unknown whether it was built with profile-guided optimisation, which makes it up to"
            " 1.6 times as fast; compare it with your distribution's Python"
        )
        return Check(name, OK, speed, advice)
    return Check(name, OK, f"{speed}, built with {build}")


def check_core() -> Check:
    """Whether the hot path is compiled; never MISSING."""
    reason = flinknet.interpreted_because
    if reason is None:
        return Check("core", OK, "compiled")
    return Check("core", WARNING, "interpreted: slower, the same results", reason)


def check_java() -> Check:
    """The Java that Spark would use."""
    from flinknet.replay.spark.installed import find_java

    try:
        java = find_java()
    except FlinknetError as error:
        return _without_replay("Java", error)
    return Check("Java", OK, f"{java.version} from {java.origin} ({java.home})")


def check_spark(start: bool) -> Check:
    """PySpark's version; with `start`, also whether a session runs a job in a Python worker."""
    from flinknet.replay.spark.installed import pyspark_version
    from flinknet.replay.spark.session import (
        cores_of,
        count_to_ten,
        java_and_archive,
        make_class_archive,
        spark_session,
    )
    from flinknet.replay.spark.settings import conf_dir

    try:
        version = f"PySpark {pyspark_version()}"
    except FlinknetError as error:
        return _without_replay("Spark", error)
    if (directory := conf_dir()) is not None:
        version += f", configured in {directory}"
    if not start:
        return Check("Spark", OK, version)
    try:
        with spark_session() as spark:
            cores = cores_of(spark)
            count_to_ten(spark)
    except FlinknetError as error:
        return Check("Spark", MISSING, version, str(error))
    found = f"{version}, started and ran a job on {cores} cores"
    try:
        if not java_and_archive()[1].is_made:
            click.echo("flinknet: preparing faster starts of Spark, once …", err=True)
            make_class_archive()
    except (FlinknetError, OSError) as error:
        return Check("Spark", WARNING, found, f"it starts no faster than that: {error}")
    return Check("Spark", OK, found)


def _without_replay(name: str, error: FlinknetError) -> Check:
    """The check of a missing part that only `trace replay` needs; a warning in the light form."""
    if is_light():
        advice = f"only trace replay needs it: {install_line('replay')}"
        return Check(name, WARNING, "not part of flinknet-light", advice)
    return Check(name, MISSING, "none that fits", f"for trace replay: {error}")
