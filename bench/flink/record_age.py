"""How old records are at a tap, against the stamps of a real Flink's job."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from bench.flink import options as options_of
from bench.flink.exchange import Exchange, Stage, build
from bench.flink.options import java_version
from bench.flink.tapped_job import Bench
from bench.measure import print_table
from flinknet.replay.observe.observed import observe_here
from flinknet.replay.observe.record_times import record_times
from flinknet.replay.read import AskedPart, open_runs
from flinknet.units import human_duration, parse_duration_ns

TEACH = """\
A job of two exchanges (sources, a stage, sinks that do nothing else) whose records carry the
instants at which they were due, through a tap. Each sink measures the latency of its records by
stamps in their values; the tap's age of the records at the last exchange, by the timestamps on the
wire, is to be the same.

examples:
  python bench/flink/record_age.py --buffer-timeouts 5ms,20ms,100ms

Flink's jars: `make flink`, or FLINK_HOME.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for and print it. Returns: the exit code."""
    call = options_of.called(arguments_parser(), arguments, asked_of, "flinknet-age-")

    def measure() -> int:
        bench = Bench(call.home, call.work, build(call.home, call.work))
        rows = [measured(bench, each) for each in call.settings]
        document = {"rows": rows, "java": java_version(), "flink": call.options.flink_version}
        options_of.give(document, call.options.json, lambda: show(rows))
        return 0

    return options_of.exit_code_of("record_age.py", measure)


def measured(bench: Bench, exchange: Exchange) -> dict[str, Any]:
    """One job: p50 and p99 by its own stamps, and by the timestamps at the tap."""
    tapped = bench.tapped(exchange, with_metrics=False)
    assert tapped.run is not None
    own, begun_ns = tapped.outcome, open_runs([tapped.run])[0].whole_ns
    assert begun_ns is not None
    part = AskedPart(own.measured_from_ns - begun_ns[0], own.ended_ns - begun_ns[0])
    found = observe_here(open_runs([tapped.run], part))
    times = [record_times(e.run, e.rows.record_times, e.rows.watermarks) for e in found]
    last = times[-1]
    assert last is not None
    ages = {f"age_{n}": [t and getattr(t.age_ns, n) for t in times] for n in ("p50", "p99", "mean")}
    return {
        "timeout_ms": exchange.buffer_timeout_ms,
        "p50": own.latency.p50,
        "p99": own.latency.p99,
        **ages,
    }


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Print a row for each job."""
    print_table(
        ("timeout", "p50 by the job", "age at last exchange", "p99 by the job", "age", "first p50"),
        [
            (f"{row['timeout_ms']} ms", *map(human_duration, (
                row["p50"], row["age_p50"][-1], row["p99"], row["age_p99"][-1], row["age_p50"][0],
            )))
            for row in rows
        ],
    )  # fmt: skip


def arguments_parser() -> argparse.ArgumentParser:
    """The options; `--help` teaches."""
    parser = options_of.parser_of("record_age.py", __doc__, TEACH)
    parser.add_argument(
        "--buffer-timeouts", default="5ms,20ms,100ms", help="[default: %(default)s]"
    )
    parser.add_argument("--rate", type=float, default=2000, help="of each source [default: 2000]")
    options_of.add_length(parser, duration="10s", warmup="4s")
    options_of.add_version(parser)
    options_of.add_output(parser)
    return parser


def asked_of(options: argparse.Namespace) -> list[Exchange]:
    """The jobs. Raises: ConfigError."""
    return [
        Exchange(
            rate_per_s=options.rate,
            buffer_timeout_ms=parse_duration_ns(each, "--buffer-timeouts") // 1_000_000,
            warmup_ns=parse_duration_ns(options.warmup, "--warmup"),
            duration_ns=parse_duration_ns(options.duration, "--duration"),
            producers=2,
            consumers=2,
            relays=(Stage(2),),
            arrivals="poisson",
            has_timestamps=True,
        )
        for each in options.buffer_timeouts.split(",")
    ]


if __name__ == "__main__":
    sys.exit(main())
