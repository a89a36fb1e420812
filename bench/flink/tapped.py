"""A real Flink job with and without `flinknet trace tap` between its TaskManagers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from bench.flink import message_table
from bench.flink import options as options_of
from bench.flink.cluster import FlinkError
from bench.flink.exchange import Exchange, Outcome, build
from bench.flink.message_table import MessageTable
from bench.flink.options import java_version, tell, whole_ms
from bench.flink.predictions import predict, print_predictions
from bench.flink.tapped_job import SEGMENT_BYTES, Bench, Tapped
from bench.measure import print_table
from flinknet.errors import ConfigError
from flinknet.units import (
    human_count,
    human_duration,
    parse_duration_ns,
    parse_rate_per_s,
)

TEACH = """\
Two TaskManagers advertise one data port and bind another; the tap listens at the first and connects
to the second. The job (source, rebalance, sink) runs in turns directly and through the tap, each
time on a fresh cluster. Placement split: sources on one TaskManager, sinks on the other, so that
the tap sees every record; spread: one of each on both, half of the channels stay local.

It prints
  - the results of the job, which must be complete both times, and its throughput and latency;
  - the tap's counts beside Flink's own metrics, read through REST before the job ends:
      numRecordsOut        records
      numBytesOut          bytes of records; events do not count
      numBuffersOut        buffers finished: full, or an event followed. A flush sends what lies in
                           a buffer and goes on filling it, so there are more messages than buffers;
                           how many buffers they were follows from the sizes of the messages
      numBuffersInRemote   messages taken from other TaskManagers, events among them
      numBytesInRemote     bytes of these messages
    What the job sends at its very end (the last watermark, events) comes after Flink's metrics were
    read: of the tap's messages the first numBuffersInRemote count.
  - whether `flinknet trace verify` finds the trace clean.

Exit code 1 if a count differs, the trace is not clean, or the capture says otherwise.

examples:
  python bench/flink/tapped.py
      20,000 records/s over 2 x 2 channels, a checkpoint every second, for a minute
  python bench/flink/tapped.py --max --duration 10s
      how much of the job's highest throughput is left
  python bench/flink/tapped.py --tcpdump --duration 10s
      a capture of the same run, imported and compared message by message
  python bench/flink/tapped.py --predict 1ms,5ms,10ms,50ms,100ms --rates 2k,20k --duration 10s
      what replay of the tapped trace says about other buffer timeouts, against the job run at them

Flink's jars: `make flink`, or FLINK_HOME. It takes a JDK of 17 or newer; --tcpdump takes the right
to capture packets.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for and print it. Returns: the exit code."""
    call = options_of.called(arguments_parser(), arguments, asked_of, "flinknet-tapped-")
    exchange, timeouts, rates = call.settings
    options, work = call.options, call.work
    release, java = options.flink_version, java_version()

    def measure() -> int:
        bench = Bench(call.home, work, build(call.home, work))
        if timeouts:
            asked = rates or [exchange_rate(exchange)]
            document = predict(bench, exchange, timeouts, asked, options.rounds)
        else:
            document = in_turns(bench, exchange, options.rounds, with_tcpdump=options.tcpdump)
        document |= {"java": java, "flink": release, "work": str(work)}

        def show() -> None:
            (print_predictions if timeouts else print_turns)(document)
            print(f"\nFlink {release} on Java {java}; logs and traces: {work}")

        options_of.give(document, options.json, show)
        return 0 if timeouts or is_sound(document) else 1

    return options_of.exit_code_of("tapped.py", measure)


def is_sound(document: Mapping[str, Any]) -> bool:
    """Whether the tap counted what Flink counted, its traces are clean, and a capture agrees."""
    return all(
        all(flink == seen for _, flink, seen in count["rows"])
        and each["is_verified"]
        and not count.get("imported", {}).get("messages")
        for each, count in zip(document["tapped"], document["counts"], strict=True)
    )


def arguments_parser() -> argparse.ArgumentParser:
    """The options; `--help` teaches."""
    parser = options_of.parser_of("tapped.py", __doc__, TEACH)
    add = parser.add_argument
    add("--rate", default="20k/s", help="records per second of all sources [default: 20k/s]")
    add("--max", action="store_true", help="as fast as it goes, instead of a rate")
    options_of.add_record_size(parser)
    add("--buffer-timeout", default="10ms", help="[default: 10ms]")
    add("--parallelism", type=int, default=2, help="of sources and of sinks [default: 2]")
    options_of.add_placement(parser)
    add("--checkpoint-interval", default="1s", help="0: none [default: 1s]")
    options_of.add_length(parser, duration="1min", warmup="5s")
    add("--rounds", type=int, default=1, help="turns; of --predict, measurements [default: 1]")
    add("--tcpdump", action="store_true", help="capture the tapped run, too, and compare")
    add("--predict", metavar="LIST", help="buffer timeouts to predict from the tapped trace")
    add("--rates", metavar="LIST", help="of all sources, for --predict [default: --rate]")
    options_of.add_version(parser)
    options_of.add_output(parser)
    return parser


def asked_of(options: argparse.Namespace) -> tuple[Exchange, list[int], list[float]]:
    """The job, and what to predict of it: timeouts in ms, and rates of all sources.

    Raises:
        ConfigError: a value cannot be used.
    """
    timeouts = [whole_ms(each, "--predict") for each in split_list(options.predict)]
    rates = [total_rate(each, "--rates") for each in split_list(options.rates)]
    return settings(options), timeouts, rates


def settings(options: argparse.Namespace) -> Exchange:
    """The job that the options ask for.

    Raises:
        ConfigError: a value cannot be used.
    """
    if options.parallelism < 1 or options.rounds < 1:
        raise ConfigError("--parallelism, --rounds: give 1 or more")
    rate_per_s = None if options.max else parse_rate_per_s(options.rate, "--rate")
    return Exchange(
        rate_per_s=None if rate_per_s is None else rate_per_s / options.parallelism,
        value_bytes=options_of.value_bytes_of(options),
        buffer_timeout_ms=whole_ms(options.buffer_timeout, "--buffer-timeout"),
        checkpoint_interval_ms=whole_ms(options.checkpoint_interval, "--checkpoint-interval"),
        warmup_ns=parse_duration_ns(options.warmup, "--warmup"),
        duration_ns=options_of.duration_ns_of(options),
        producers=options.parallelism,
        consumers=options.parallelism,
        placement=options.placement,
    )


def split_list(text: str | None) -> list[str]:
    """The members of a comma list; none of None."""
    return text.split(",") if text else []


def total_rate(text: str, name: str) -> float:
    """A rate that is one.

    Raises:
        ConfigError: it is max, or no rate.
    """
    rate = parse_rate_per_s(text, name)
    if rate is None:
        raise ConfigError(f"{name}: a prediction needs a rate, such as 20k/s")
    return rate


def exchange_rate(exchange: Exchange) -> float:
    """Of all sources together.

    Raises:
        FlinkError: they have none.
    """
    if exchange.rate_per_s is None:
        raise FlinkError("--predict needs a rate; leave out --max")
    return exchange.rate_per_s * exchange.producers


def in_turns(
    bench: Bench, exchange: Exchange, rounds: int, *, with_tcpdump: bool
) -> dict[str, Any]:
    """The job directly and through the tap. Returns: what both did, and the tap's counts."""
    direct: list[Outcome] = []
    tapped: list[Tapped] = []
    for index in range(rounds):
        for side in ("direct", "tapped") if index % 2 == 0 else ("tapped", "direct"):
            if side == "direct":
                direct += bench.direct(exchange)
                told = direct[-1]
            else:
                tapped.append(bench.tapped(exchange, with_tcpdump=with_tcpdump))
                told = tapped[-1].outcome
            tell(
                f"  {side}: {human_count(told.throughput_records_per_s)} records/s,"
                f" p50 {human_duration(told.latency.p50)}, p99 {human_duration(told.latency.p99)}"
            )
    return {
        "exchange": asdict(exchange),
        "direct": [asdict(each) for each in direct],
        "tapped": [asdict(each) for each in tapped],
        "counts": [counted(each, exchange) for each in tapped],
    }


def counted(tapped: Tapped, exchange: Exchange) -> dict[str, Any]:
    """The tap's counts beside Flink's metrics, and the differences from the capture."""
    if tapped.run is None:
        return {}
    table = message_table.read(tapped.run)
    answer: dict[str, Any] = {"rows": counts(table, tapped.outcome.metrics, exchange)}
    if tapped.imported is not None:
        answer["imported"] = asdict(
            message_table.difference(table, message_table.read(tapped.imported))
        )
    return answer


def counts(
    table: MessageTable, metrics: Mapping[str, Mapping[str, int]], exchange: Exchange
) -> list[tuple[str, int, int]]:
    """Name, Flink's figure, the tap's.

    Where channels stay local the tap does not see them; then what the sources count is left out.
    """
    source, sink = metrics["source"], metrics["sink"]
    seen = message_table.first(table, sink["numBuffersInRemote"])
    rows = [
        ("numBuffersInRemote", sink["numBuffersInRemote"], len(seen)),
        ("numBytesInRemote", sink["numBytesInRemote"], seen.total("payload_bytes")),
    ]
    if exchange.placement == "split":
        buffers, finished_bytes = message_table.finished(seen, SEGMENT_BYTES)
        rows = [
            ("numRecordsOut", source["numRecordsOut"], seen.total("records")),
            ("numBytesOut", source["numBytesOut"], finished_bytes),
            ("numBuffersOut", source["numBuffersOut"], buffers),
            *rows,
        ]
    return rows


def print_turns(document: Mapping[str, Any]) -> None:
    """Job, added latency, counts, verdicts."""
    sides = {
        "direct": document["direct"],
        "through the tap": [each["outcome"] for each in document["tapped"]],
    }
    print_table(
        ("job", "records", "complete", "records/s", "p50", "p99"),
        [
            (
                name,
                f"{sum(each['received_records'] for each in of):,}",
                "yes" if all(each["is_complete"] for each in of) else "NO",
                human_count(middle(of, "throughput_records_per_s")),
                human_duration(middle_latency(of, "p50")),
                human_duration(middle_latency(of, "p99")),
            )
            for name, of in sides.items()
        ],
    )
    direct, tapped = sides.values()
    kept = [
        b["throughput_records_per_s"] / a["throughput_records_per_s"]
        for a, b in zip(direct, tapped, strict=True)
    ]
    added = [
        (middle_latency(tapped, name) - middle_latency(direct, name)) / 1e6
        for name in ("p50", "p99")
    ]
    each_round = f" ({', '.join(f'{ratio:.3f}' for ratio in kept)})" if len(kept) > 1 else ""
    print(f"\nthroughput through the tap / direct: {median(kept):.3f}{each_round}")
    print(f"latency added (between runs): p50 {added[0]:+.3f} ms, p99 {added[1]:+.3f} ms")
    for each, count in zip(document["tapped"], document["counts"], strict=True):
        print()
        print_table(
            ("count", "Flink", "tap", "equal"),
            [
                (name, f"{flink:,}", f"{seen:,}", "yes" if flink == seen else "NO")
                for name, flink, seen in count["rows"]
            ],
        )
        cpu_ns = each["tap_cpu_s"] / each["outcome"]["received_records"] * 1e9
        delay = each["tap"].get("added_delay_ns", {})
        print(
            f"\ntap: delay added, as it states: p50 {human_duration(delay.get('p50'))},"
            f" p99 {human_duration(delay.get('p99'))}; processor time"
            f" {human_duration(cpu_ns)} per record"
        )
        print(f"trace verify: {'' if each['is_verified'] else 'NOT CLEAN '}{each['verified']}")
        if "imported" in count:
            other = count["imported"]
            print(
                f"capture, imported: {other['messages']} of {other['compared']} messages and"
                f" {other['channels']} channels differ from the tap's"
            )


def middle(outcomes: Sequence[Mapping[str, Any]], name: str) -> float:
    """The median over the rounds."""
    found: list[float] = [each[name] for each in outcomes]
    return median(found)


def middle_latency(outcomes: Sequence[Mapping[str, Any]], name: str) -> float:
    """The median of a percentile over the rounds; 0 where too few records support it."""
    found: list[float] = [each["latency"][name] or 0.0 for each in outcomes]
    return median(found)


if __name__ == "__main__":
    sys.exit(main())
