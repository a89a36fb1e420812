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
instants at which they were due, through a tap. The stage and the sinks measure how old records are
where they come, by stamps in their values. By the timestamps on the wire, their age at the tap
is to be the same, without the way from the tap to the task; from one exchange to the next, this way
cancels out.

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
    """One job: by exchange, how old records were by the stamps of the task that reads it, and by
    the timestamps at the tap, in ns."""
    tapped = bench.tapped(exchange, with_metrics=False)
    assert tapped.run is not None
    own, begun_ns = tapped.outcome, open_runs([tapped.run])[0].whole_ns
    assert begun_ns is not None
    part = AskedPart(own.measured_from_ns - begun_ns[0], own.ended_ns - begun_ns[0])
    found = observe_here(open_runs([tapped.run], part))
    times = [record_times(e.run, e.rows.record_times, e.rows.watermarks) for e in found]
    names = ("p50", "p99", "mean")
    return {
        "timeout_ms": exchange.buffer_timeout_ms,
        "exchanges": [
            {
                "job": {name: getattr(stamped, name) for name in names},
                "tap": {name: getattr(age.age_ns, name) for name in names},
            }
            for stamped, age in zip((*own.relays, own.latency), times, strict=True)
            if age is not None
        ],
    }


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Print a row for each exchange of each job, and one for what lies between them."""
    lines = []
    for row in rows:
        exchanges = row["exchanges"]
        between = {
            of: {name: exchanges[-1][of][name] - exchanges[0][of][name] for name in ("p50", "mean")}
            for of in ("job", "tap")
        }
        named = [*((str(at), each) for at, each in enumerate(exchanges, 1)), ("between", between)]
        for place, each in named:
            pairs = (
                (each["job"].get(name), each["tap"].get(name)) for name in ("p50", "p99", "mean")
            )
            texts = ("" if ns is None else human_duration(ns) for pair in pairs for ns in pair)
            lines.append((f"{row['timeout_ms']} ms", place, *texts))
    heads = ("p50 by the job", "at the tap", "p99", "at the tap", "mean", "at the tap")
    print_table(("timeout", "exchange", *heads), lines)


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
