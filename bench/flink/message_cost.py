"""What a data buffer costs the processors: learnt from a recording, against what was used."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from bench.flink import options as options_of
from bench.flink.exchange import Exchange, Outcome, build
from bench.flink.footprint import Footprint, Processes, cores
from bench.flink.options import java_version, tell, timeout_name, whole_ms
from bench.flink.tap import flinknet
from bench.flink.warm import WarmCluster
from bench.measure import print_table
from flinknet.replay.price import FLINK_CPU_NS_PER_MESSAGE
from flinknet.units import human_count, human_duration, parse_duration_ns, parse_rate_per_s

TEACH = """\
The load goes through four rates, each four times the one before, and again from the first. At the
lower ones a flush finds a record or two, at the higher ones many: so messages and records change
apart from each other, and the counters of the job show what each of them takes. One run is recorded
through a tap with --rest alone; the cluster's configuration sets its buffer timeout, not the job.
Then the same load runs at each of --timeouts, without a tap, and the processor time of both
TaskManagers is read from the system.

examples:
  python bench/flink/message_cost.py --duration 32s
      a first try, some 4 minutes
  python bench/flink/message_cost.py --rounds 3 --json cost.json
      on a quiet machine, some 25 minutes

Flink's jars: `make flink`, or FLINK_HOME. It takes a JDK of 17 or newer.
"""


@dataclass(frozen=True, slots=True)
class Used:
    """What a run took: of both TaskManagers, a second."""

    timeout_ms: int
    buffers_per_s: float
    cpu_cores: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for and print it. Returns: the exit code."""
    call = options_of.called(arguments_parser(), arguments, settings, "flinknet-message-cost-")
    (exchange, timeouts_ms), home, work = call.settings, call.home, call.work

    def measured() -> int:
        jar = build(home, work)
        recorded = record(home, jar, work, exchange)
        used = use(home, jar, work, exchange, timeouts_ms, call.options.rounds)
        answer = replayed(recorded, work, timeouts_ms)
        document = table(answer, used, exchange) | {"java": java_version(), "work": str(work)}
        options_of.give(document, call.options.json, lambda: show(document))
        return 0

    return options_of.exit_code_of("message_cost.py", measured)


def arguments_parser() -> argparse.ArgumentParser:
    """The options; `--help` teaches."""
    parser = options_of.parser_of("message_cost.py", __doc__, TEACH)
    add = parser.add_argument
    add("--rate", default="2k/s", help="of each source, mean of the four rates [default: 2k/s]")
    add("--parallelism", type=int, default=4, help="of sources and sinks [default: 4]")
    add("--step", default="2s", help="how long each rate lasts [default: 2s]")
    add("--recorded", default="5ms", help="buffer timeout of the recording [default: 5ms]")
    add("--timeouts", default="1ms,5ms,20ms,100ms", metavar="LIST", help="what runs after it")
    add("--rounds", type=int, default=1, help="runs at each timeout, in turns [default: 1]")
    options_of.add_length(parser, duration="96s", warmup="8s", before="before it: one cycle")
    options_of.add_version(parser)
    options_of.add_output(parser)
    return parser


def settings(options: argparse.Namespace) -> tuple[Exchange, list[int]]:
    """What the options ask of every run, and the timeouts to run at.

    Raises:
        ConfigError: a value cannot be used.
    """
    timeouts_ms = sorted({whole_ms(each, "--timeouts") for each in options.timeouts.split(",")})
    exchange = Exchange(
        rate_per_s=parse_rate_per_s(options.rate, "--rate"),
        buffer_timeout_ms=whole_ms(options.recorded, "--recorded"),
        warmup_ns=parse_duration_ns(options.warmup, "--warmup"),
        duration_ns=options_of.duration_ns_of(options),
        producers=options.parallelism,
        consumers=options.parallelism,
        arrivals="steps",
        on_ns=parse_duration_ns(options.step, "--step"),
    )
    return exchange, timeouts_ms


def record(home: Path, jar: Path, work: Path, exchange: Exchange) -> Path:
    """One run through a tap that knows the cluster's settings from its REST API alone.

    Raises:
        FlinkError: it failed.
    """
    tell("recording")
    keys = {"execution.buffer-timeout.interval": f"{exchange.buffer_timeout_ms} ms"}
    with WarmCluster(home, jar, work / "tapped", True, keys) as cluster:
        found = cluster.record(replace(exchange, sets_timeout=False)).run
    assert found is not None
    return found


def use(
    home: Path,
    jar: Path,
    work: Path,
    exchange: Exchange,
    timeouts_ms: Sequence[int],
    rounds: int,
) -> list[Used]:
    """What runs at these timeouts take, medians over the rounds.

    Raises:
        FlinkError: a job failed.
    """
    found: dict[int, list[Used]] = {each: [] for each in timeouts_ms}
    with WarmCluster(home, jar, work / "direct", False) as cluster:
        for _ in range(rounds):
            for timeout_ms in timeouts_ms:
                pids = Processes(cluster.cluster.task_manager_pids())
                with Footprint(lambda pids=pids: pids) as seen:  # type: ignore[misc]
                    outcome = cluster.run(replace(exchange, buffer_timeout_ms=timeout_ms))
                cpu = cores(seen.samples, outcome.measured_from_ns, outcome.ended_ns)
                each = Used(timeout_ms, _buffers_per_s(outcome), cpu or 0.0)
                tell(f"  {timeout_name(timeout_ms)}: {each.buffers_per_s:.0f} buffers/s, {cpu:.3f}")
                found[timeout_ms].append(each)
    return [
        Used(
            timeout_ms,
            median(each.buffers_per_s for each in own),
            median(each.cpu_cores for each in own),
        )
        for timeout_ms, own in found.items()
    ]


def _buffers_per_s(outcome: Outcome) -> float:
    buffers = sum(each.get("numBuffersInRemote", 0) for each in outcome.metrics.values())
    return buffers * 1e9 / outcome.emitted_for_ns


def replayed(run: Path, work: Path, timeouts_ms: Sequence[int]) -> Mapping[str, Any]:
    """The answer of replay about these timeouts.

    Raises:
        FlinkError: it failed.
    """
    tell("replay")
    file = work / "replay.json"
    asked = ",".join(f"{each}ms" for each in timeouts_ms)
    flinknet("trace", "replay", str(run), "--buffer-timeout", asked, "--json", str(file))
    document: Mapping[str, Any] = json.loads(file.read_text())
    return document


def table(answer: Mapping[str, Any], used: Sequence[Used], exchange: Exchange) -> dict[str, Any]:
    """What was predicted beside what was used; changes are against the recorded timeout."""
    base = next(each for each in used if each.timeout_ms == exchange.buffer_timeout_ms)
    predicted = {_timeout_ms(each): each for each in answer["trade_offs"]}
    recorded = predicted[exchange.buffer_timeout_ms]
    rows = []
    for each in used:
        point = predicted[each.timeout_ms]
        more_per_s = point["buffers_per_s"] - recorded["buffers_per_s"]
        learnt = None if point["price"] is None else point["price"]["cpu_cores_change"]
        more = each.buffers_per_s - base.buffers_per_s
        rows.append(
            {
                **asdict(each),
                "predicted_buffers_per_s": point["buffers_per_s"],
                "change": each.cpu_cores - base.cpu_cores,
                "learnt_change": learnt,
                "assumed_change": more_per_s * FLINK_CPU_NS_PER_MESSAGE / 1e9,
                "ns_per_buffer": (each.cpu_cores - base.cpu_cores) * 1e9 / more if more else None,
            }
        )
    return {
        "exchange": asdict(exchange),
        "cpu_cost": answer["cpu_cost"],
        "notes": [each for each in recorded["notes"] if "recorded with" in each],
        "rows": rows,
    }


def _timeout_ms(point: Mapping[str, Any]) -> int:
    return parse_duration_ns(point["config"]["execution.buffer-timeout.interval"], "") // 1_000_000


def show(document: Mapping[str, Any]) -> None:
    """Print the table."""
    header = ("timeout", "buffers/s", "predicted", "cores", "change", "learnt", "90 us", "a buffer")
    rows = []
    for each in document["rows"]:
        learnt, cost = each["learnt_change"], each["ns_per_buffer"]
        rows.append(
            (
                timeout_name(each["timeout_ms"]),
                human_count(each["buffers_per_s"]),
                human_count(each["predicted_buffers_per_s"]),
                f"{each['cpu_cores']:.3f}",
                f"{each['change']:+.3f}",
                "-" if learnt is None else f"{learnt:+.3f}",
                f"{each['assumed_change']:+.3f}",
                "-" if cost is None else human_duration(cost),
            )
        )
    print_table(header, rows)
    cost = document["cpu_cost"]
    print(f"a buffer and its credit: {human_duration(cost['ns_per_message'])}, {cost['how']}")
    for note in document["notes"]:
        print(note)


if __name__ == "__main__":
    sys.exit(main())
