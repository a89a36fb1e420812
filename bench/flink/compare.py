"""The same experiment on a real Flink cluster and with flinknet, side by side."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

from bench.flink import options as options_of
from bench.flink.cluster import Cluster, FlinkError
from bench.flink.exchange import Exchange, build, run, upload
from bench.flink.footprint import (
    BenchProcesses,
    Footprint,
    Processes,
    Sample,
    cores,
    end_of_work_ns,
    rss_bytes_max,
)
from bench.flink.job_table import remote_buffers_per_s
from bench.flink.options import java_version, tell, timeout_name, whole_ms
from bench.measure import FLINKNET, print_table
from flinknet.errors import ConfigError
from flinknet.units import (
    format_duration_ns,
    human_bytes,
    human_count,
    human_duration,
    parse_duration_ns,
    parse_rate_per_s,
)

TEACH = """\
Both have a source and a sink, in two processes that are joined by one TCP connection, on loopback:
Flink two TaskManagers (and a JobManager) in JVMs with heaps of 320 MiB, flinknet the processes of
`flinknet bench`. Rates are kept as an open loop: the instants are fixed before, latency counts from
them. Records take the same bytes on the wire (a value of 100 bytes: 105).

Rounds are interleaved: in each, all settings run on a fresh Flink cluster and then with flinknet,
in the next the other way round. Every figure is the median over the rounds, (in brackets) how far
the rounds lie apart.

  throughput    records per second that arrived in the measured part
  buffers/s     data messages between the processes (with --buffers and --placement split): of Flink
                numBuffersInRemote over the whole job, of flinknet those of the measured part
  p50, p99      latency from the intended instants
  memory        most resident memory of all processes together: JobManager and TaskManagers, or
                flinknet's command and its TaskManagers
  CPU/record    processor time of the TaskManagers while they measure, per record
  first answer  from nothing to the first figures, less the time measured: starting processes,
                submitting the job, collecting results; without --buffers, for Flink's job then
                waits until its metrics have settled

examples:
  python bench/flink/compare.py
      as fast as both go, at Flink's default buffer timeout of 100 ms
  python bench/flink/compare.py --rate 20k/s --buffer-timeout 0,5ms,100ms
      what flushing more often costs at a given rate
  python bench/flink/compare.py --producers 2 --consumers 2 --placement spread
      two TaskManagers that each send and receive; half of the channels stay local
  python bench/flink/compare.py --rate 2k/s -D taskmanager.memory.segment-size=4kb --json out.json
      any key of Flink's, given to both

Flink's jars: `make flink`, or FLINK_HOME. It takes a JDK of 17 or newer.
"""

COLUMNS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "throughput_records_per_s": ("records/s", human_count),
    "buffers_per_s": ("buffers/s", human_count),
    "p50_ns": ("p50", human_duration),
    "p99_ns": ("p99", human_duration),
    "rss_bytes": ("memory", human_bytes),
    "cpu_ns_per_record": ("CPU/record", human_duration),
    "first_answer_s": ("first answer", lambda seconds: f"{seconds:.1f} s"),
}
"""Of the table, by figure: its title, and how a value is written."""

END_MARGIN_NS = 200_000_000
"""Cut from the end of what is seen of flinknet's processes: they report then."""

MEASURED_SHARE = 0.8
"""Of the measured part processor time is read in its last so much."""

Row = dict[str, float | None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the tables and write JSON if asked to. Returns: the exit code."""
    call = options_of.called(arguments_parser(), arguments, settings, "flinknet-flink-")
    (exchanges, keys), options, work = call.settings, call.options, call.work

    def measure() -> int:
        document = compare(call.home, work, exchanges, keys, options)
        if options.work is None:  # nobody asked for the logs of what went well
            shutil.rmtree(work, ignore_errors=True)
        options_of.give(document, options.json, lambda: print_report(document))
        return 0

    return options_of.exit_code_of("compare.py", measure)


def arguments_parser() -> argparse.ArgumentParser:
    """The options; `--help` teaches."""
    parser = options_of.parser_of("compare.py", __doc__, TEACH)
    add = parser.add_argument
    add("--rate", default="max", help="records per second of each source [default: max]")
    options_of.add_record_size(parser)
    add("--buffer-timeout", default="100ms", metavar="LIST", help="such as 0,5ms,100ms,-1")
    add("--producers", type=int, default=1)
    add("--consumers", type=int, default=1)
    options_of.add_placement(parser)
    add("--partitioner", choices=("rebalance", "hash"), default="rebalance")
    add("--checkpoint-interval", default="0", help="barriers this often [default: never]")
    add("--sink-delay", default="0", help="time each sink takes for a record [default: 0]")
    options_of.add_length(parser, duration="5s", warmup="3s")
    add("--rounds", type=int, default=3, help="[default: 3]")
    add("--buffers", action="store_true", help="count buffers/s, too")
    add("-D", dest="keys", action="append", default=[], metavar="KEY=VALUE", help="for both")
    options_of.add_version(parser)
    options_of.add_output(
        parser,
        work="keep Flink's configuration and logs here [default: if it fails]",
        json="write every round; - for standard output, alone",
    )
    return parser


def settings(options: argparse.Namespace) -> tuple[list[Exchange], dict[str, str]]:
    """What the options ask for: an exchange for each buffer timeout, and keys for both sides.

    Raises:
        ConfigError: a value cannot be used.
    """
    base = Exchange(
        rate_per_s=parse_rate_per_s(options.rate, "--rate"),
        value_bytes=options_of.value_bytes_of(options),
        checkpoint_interval_ms=whole_ms(options.checkpoint_interval, "--checkpoint-interval"),
        warmup_ns=parse_duration_ns(options.warmup, "--warmup"),
        duration_ns=options_of.duration_ns_of(options),
        sink_delay_ns=parse_duration_ns(options.sink_delay, "--sink-delay"),
        producers=options.producers,
        consumers=options.consumers,
        partitioner=options.partitioner,
        placement=options.placement,
    )
    for name in ("producers", "consumers", "rounds"):
        if getattr(options, name) < 1:
            raise ConfigError(f"--{name}: give 1 or more")
    if base.placement == "spread" and base.producers != base.consumers:
        raise ConfigError("--placement spread: give as many --producers as --consumers")
    timeouts = options.buffer_timeout.split(",")
    exchanges = [
        replace(base, buffer_timeout_ms=whole_ms(each, "--buffer-timeout")) for each in timeouts
    ]
    pairs = [each.partition("=") for each in options.keys]
    for key, equals, value in pairs:
        if not (key and equals and value):
            raise ConfigError(f"-D {key}{equals}{value}: write KEY=VALUE")
    return exchanges, {key: value for key, _, value in pairs}


def compare(
    home: Path,
    work: Path,
    exchanges: Sequence[Exchange],
    keys: Mapping[str, str],
    options: argparse.Namespace,
) -> dict[str, Any]:
    """Run all rounds. Returns: environment, settings and every figure of every round."""
    jar = build(home, work)
    rounds: dict[str, list[list[Row]]] = {"flink": [], "flinknet": []}
    environment: dict[str, Any] = {}
    warnings: Counter[str] = Counter()
    for index in range(options.rounds):
        tell(f"round {index + 1} of {options.rounds}")
        sides = ["flink", "flinknet"] if index % 2 == 0 else ["flinknet", "flink"]
        for side in sides:
            if side == "flink":
                rows = flink_round(
                    home, work / f"round-{index}", jar, exchanges, keys, buffers=options.buffers
                )
            else:
                rows = []
                for exchange in exchanges:
                    row, document = flinknet_run(exchange, keys)
                    environment = document["environment"]
                    warnings.update(each["code"] for each in document["runs"][0]["warnings"])
                    rows.append(row)
            rounds[side].append(rows)
    return {
        "environment": {
            **environment,
            "flink": options.flink_version,
            "java": java_version(),
        },
        "settings": [
            {
                "exchange": asdict(exchange),
                "wire_bytes_per_record": exchange.wire_bytes,
                **{side: [rows[at] for rows in of] for side, of in rounds.items()},
            }
            for at, exchange in enumerate(exchanges)
        ],
        "keys": dict(keys),
        "flinknet_warnings": dict(warnings),
    }


def flink_round(
    home: Path,
    work: Path,
    jar: Path,
    exchanges: Sequence[Exchange],
    keys: Mapping[str, str],
    *,
    buffers: bool,
) -> list[Row]:
    """All settings on one cluster that starts now; only its first job tells a first answer.

    Args:
        buffers: read Flink's metrics at the end of each job.
    """
    work.mkdir()
    began_ns = None if buffers else time.monotonic_ns()
    rows: list[Row] = []
    with Cluster(home, work, exchanges[0].task_managers(), keys) as cluster:
        workers = cluster.task_manager_pids()
        others = [each.pid for each in cluster.processes if each.pid not in workers]
        jar_id = upload(cluster, jar)
        for index, exchange in enumerate(exchanges):
            with Footprint(lambda: Processes(workers, others)) as footprint:
                done = run(cluster, jar_id, exchange, work / f"run-{index}", with_metrics=buffers)
            answered_s = first_answer_s(began_ns, exchange)
            began_ns = None
            if not done.is_complete:
                raise FlinkError(f"records were lost or out of order; {work}")
            rows.append(
                figures(
                    footprint.samples,
                    exchange,
                    done.ended_ns,
                    throughput=done.throughput_records_per_s,
                    buffers_per_s=remote_buffers_per_s(
                        done, exchange.producers * exchange.consumers
                    ),
                    p50_ns=done.latency.p50,
                    p99_ns=done.latency.p99,
                )
                | {"first_answer_s": answered_s, "latest_ns": float(done.latest_ns)}
            )
            tell_row(f"Flink     {exchange.buffer_timeout_ms} ms", rows[-1])
    return rows


def flinknet_run(exchange: Exchange, keys: Mapping[str, str]) -> tuple[Row, dict[str, Any]]:
    """One setting with `flinknet bench`. Returns: its figures, and its JSON document."""
    command = [str(FLINKNET), "bench", "--no-trace", "--json", "-", *bench_options(exchange, keys)]
    began_ns = time.monotonic_ns()
    popen = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        processes = BenchProcesses(popen.pid, workers=len(exchange.task_managers()))
        with Footprint(processes) as footprint:
            out, talk = popen.communicate()
    finally:
        if popen.poll() is None:
            popen.terminate()
            popen.wait()
    if popen.returncode:
        raise FlinkError(f"flinknet: {talk.decode().strip()}")
    document = json.loads(out)
    measured = document["runs"][0]["measured"]
    ended_ns = end_of_work_ns(footprint.samples)
    row = figures(
        footprint.samples,
        exchange,
        None if ended_ns is None else ended_ns - END_MARGIN_NS,
        throughput=measured["throughput_records_per_s"],
        buffers_per_s=measured["buffers"] / measured["duration_ns"] * 1e9,
        p50_ns=measured["latency_ns"]["p50"],
        p99_ns=measured["latency_ns"]["p99"],
    ) | {"first_answer_s": first_answer_s(began_ns, exchange)}
    tell_row(f"flinknet  {exchange.buffer_timeout_ms} ms", row)
    return row, document


def bench_options(exchange: Exchange, keys: Mapping[str, str]) -> list[str]:
    """The same experiment in the words of `flinknet bench`."""
    timeout = "-1" if exchange.buffer_timeout_ms < 0 else f"{exchange.buffer_timeout_ms}ms"
    words = {
        "rate": f"{exchange.rate_per_s:g}/s" if exchange.rate_per_s else "max",
        "record-size": f"{exchange.value_bytes}b",
        "buffer-timeout": timeout,
        "warmup": format_duration_ns(exchange.warmup_ns),
        "duration": format_duration_ns(exchange.duration_ns),
        "producers": str(exchange.producers),
        "consumers": str(exchange.consumers),
        "placement": exchange.placement,
        "partitioner": exchange.partitioner,
    }
    if exchange.checkpoint_interval_ms:
        words["checkpoint-interval"] = f"{exchange.checkpoint_interval_ms}ms"
    if exchange.placement == "spread":
        words["task-managers"] = str(exchange.producers)
    given = [part for name, value in words.items() for part in (f"--{name}", value)]
    if exchange.sink_delay_ns:
        for index in range(exchange.consumers):
            given += ["--slow-consumer", f"{index}:{format_duration_ns(exchange.sink_delay_ns)}"]
    return given + [part for key, value in keys.items() for part in ("-D", f"{key}={value}")]


def figures(
    samples: Sequence[Sample],
    exchange: Exchange,
    ended_ns: int | None,
    *,
    throughput: float,
    buffers_per_s: float | None,
    p50_ns: float | None,
    p99_ns: float | None,
) -> Row:
    """What a run tells, and what was seen of its processes; `ended_ns`: where measuring ended."""
    busy = None
    if ended_ns is not None:
        busy = cores(samples, ended_ns - round(MEASURED_SHARE * exchange.duration_ns), ended_ns)
    return {
        "throughput_records_per_s": throughput,
        "buffers_per_s": buffers_per_s if exchange.placement == "split" else None,
        "p50_ns": p50_ns,
        "p99_ns": p99_ns,
        "rss_bytes": float(rss_bytes_max(samples)),
        "cpu_ns_per_record": None if busy is None else busy / throughput * 1e9,
    }


def first_answer_s(began_ns: int | None, exchange: Exchange) -> float | None:
    """Since the beginning, less what the run was meant to take."""
    if began_ns is None:
        return None
    return (time.monotonic_ns() - began_ns - exchange.warmup_ns - exchange.duration_ns) / 1e9


def print_report(document: Mapping[str, Any]) -> None:
    """A table with two lines for each setting, and what it was measured on."""
    shown = columns_of(document)
    rows = []
    for setting in document["settings"]:
        exchange = setting["exchange"]
        name = f"{load(exchange)}, timeout {timeout_name(exchange['buffer_timeout_ms'])}"
        for side in ("flink", "flinknet"):
            rows.append([f"{name}: {side}", *cells(setting[side], shown)])
        rows.append(["  flinknet / Flink", *ratios(setting["flinknet"], setting["flink"], shown)])
    print_table(("", *(title for title, _ in shown.values())), rows)
    print()
    for line in places(document):
        print(line)


def places(document: Mapping[str, Any]) -> list[str]:
    """What was measured, and on what; what makes it doubtful."""
    environment, first = document["environment"], document["settings"][0]
    exchange = first["exchange"]
    runs = len(first["flinknet"]) * len(document["settings"])
    late = [ns for s in document["settings"] for r in s["flink"] if (ns := r.get("latest_ns"))]
    doubts = [
        f"flinknet warned of {code} in {count} of {runs} runs"
        for code, count in document.get("flinknet_warnings", {}).items()
    ]
    if late:
        doubts.append(f"Flink's sources emitted a record {human_duration(max(late))} late at most")
    return [
        f"{exchange['producers']} to {exchange['consumers']} tasks ({exchange['placement']}),"
        f" {exchange['value_bytes']} B a value, {first['wire_bytes_per_record']} B on the wire;"
        f" {exchange['duration_ns'] / 1e9:g} s measured after {exchange['warmup_ns'] / 1e9:g} s,"
        f" {len(first['flink'])} rounds",
        f"Flink {environment['flink']} on Java {environment['java']}, flinknet"
        f" {environment['flinknet']} on Python {environment['python']}",
        f"{environment['cpu']}, {environment['cores']} cores,"
        f" {human_bytes(environment['memory_bytes'])}, Linux {environment['kernel']}, load"
        f" {environment['load_average']:.2g}",
        *doubts,
    ]


def columns_of(document: Mapping[str, Any]) -> dict[str, tuple[str, Callable[[float], str]]]:
    """The columns in which both sides have a value."""
    return {
        name: column
        for name, column in COLUMNS.items()
        if all(
            any(known(setting[side], name) for setting in document["settings"])
            for side in ("flink", "flinknet")
        )
    }


def cells(rows: Sequence[Row], names: Mapping[str, tuple[str, Any]]) -> list[str]:
    """Medians over the rounds, with how far these lie apart."""
    return [told(rows, name, human) for name, (_, human) in names.items()]


def told(rows: Sequence[Row], name: str, human: Any) -> str:
    """One figure: its median, and (of several rounds) their spread relative to it."""
    values = known(rows, name)
    if not values:
        return ""
    middle = median(values)
    if len(values) == 1 or not middle:
        return str(human(middle))
    return f"{human(middle)} ({(max(values) - min(values)) / abs(middle):.0%})"


def ratios(above: Sequence[Row], below: Sequence[Row], names: Iterable[str]) -> list[str]:
    """flinknet relative to Flink: the median over the rounds of each figure's ratio."""
    found = []
    for name in names:
        pairs = [
            (a / b)
            for a, b in zip((r.get(name) for r in above), (r.get(name) for r in below), strict=True)
            if a is not None and b
        ]
        found.append(f"x {median(pairs):.2g}" if pairs else "")
    return found


def known(rows: Sequence[Row], name: str) -> list[float]:
    """The values of a figure in the rounds that have it."""
    return [value for row in rows if (value := row.get(name)) is not None]


def load(exchange: Mapping[str, Any]) -> str:
    """The rate, for reading."""
    rate = exchange["rate_per_s"]
    return f"{human_count(rate)}/s" if rate else "max"


def tell_row(name: str, row: Row) -> None:
    """One run, while it runs."""
    tell(
        f"  {name}: {human_count(row['throughput_records_per_s'])} records/s, p50"
        f" {human_duration(row['p50_ns'])}, p99 {human_duration(row['p99_ns'])}"
    )


if __name__ == "__main__":
    sys.exit(main())
