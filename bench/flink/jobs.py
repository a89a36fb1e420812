"""Jobs made from seeds on a real Flink: what replay says about them, against what they did."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from bench.flink import options as options_of
from bench.flink.calibration import calibrations_json, print_calibration
from bench.flink.cluster import FlinkError
from bench.flink.distribution import VERSION
from bench.flink.exchange import Exchange, build
from bench.flink.generated import described, generated
from bench.flink.incidents import incidents
from bench.flink.job_table import (
    Cell,
    MeasuredJob,
    Replayed,
    Truth,
    cells_json,
    cells_of,
    print_cells,
    summary,
    truth_of,
)
from bench.flink.options import java_version, tell, whole_ms
from bench.flink.slowed import (
    Case,
    Judged,
    RecordedCase,
    cases,
    judged,
    print_verdicts,
    record_case,
)
from bench.flink.tap import flinknet
from bench.flink.tapped_job import Tapped
from bench.flink.warm import WarmCluster
from flinknet.errors import ConfigError
from flinknet.trace.run import open_run
from flinknet.units import human_count, human_duration, parse_duration_ns

TEACH = """\
Each job has sources, up to three relays and sinks, of 1 to 8 subtasks each; how records are
partitioned, when they come, how large they are, which stage takes its time, skew, checkpoints and
placement follow from the seed. It is recorded once through a tap, at --recorded, and run again
without a tap at each of --timeouts, on clusters that stay warm. `flinknet trace replay` predicts
all of them from the recording alone; with it go the names and metrics that the tap asks Flink for.

Measured are
  p50, p99    from a record's emission to its sink, whatever stages lie between
  records/s   that arrive at the sinks
  buffers/s   data messages between TaskManagers of all exchanges, by numBuffersInRemote; at the
              recorded timeout those that the tap counted
The table lists for each job and timeout what was predicted, [with its interval], and measured; then
medians of the absolute errors, errors beyond 30% one by one, and how many of the 90% intervals
contain what was measured.

With --slow, one stage of each job is slowed on purpose, or a TaskManager stopped now and then,
buffers are few, or checkpoints align for long: whether replay names the task and the cause, and
what Flink's busy and back-pressured times say.

examples:
  python bench/flink/jobs.py --jobs 2 --duration 6s
      a first try: 2 jobs, some 2 minutes
  python bench/flink/jobs.py --jobs 10 --seed 3 --release 2.3.0,1.20.5 --json jobs.json
      jobs in turns on both releases
  python bench/flink/jobs.py --again WORK
      replay the recordings of an earlier table again, and compare with what was measured then
  python bench/flink/jobs.py --slow --release 2.3.0,1.20.5
      the verdicts; with --again WORK, on recordings that are there
  python bench/flink/jobs.py --slow --drawn 40 --seed 7 --release 2.3.0,1.20.5
      verdicts on incidents and healthy jobs that the seed draws
  python bench/flink/jobs.py --list --jobs 20 --seed 3
      what the seed makes, without running anything

Flink's jars: `make flink`, or FLINK_HOME. It takes a JDK of 17 or newer.
"""

_Value = TypeVar("_Value")

MEASURED_FILE = "measured.json"
SLOWED_FILE = "slowed.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for and print it. Returns: the exit code."""
    parser = arguments_parser()
    options = parser.parse_args(arguments)
    try:
        base = settings(options)
        drawn = incidents(base.seed, options.drawn, base, options.kinds)
        timeouts_ms = sorted({whole_ms(each, "--timeouts") for each in options.timeouts.split(",")})
    except ConfigError as error:
        parser.error(str(error))
    exchanges = generated(options.jobs, base)
    if options.list:
        for number, exchange in enumerate(exchanges, 1):
            print(f"{number}: {described(exchange)}")
        return 0
    homes: dict[str, Path] = {}
    if not options.again:
        for release in options.release.split(","):
            homes[release] = options_of.home_of(parser, release)
    work = options_of.work_directory(options.again or options.work, "flinknet-jobs-")
    with_rest = not options.without_rest

    def answered() -> int:
        show: Callable[[], None]
        if options.slow:
            recorded = (
                earlier_cases(work)
                if options.again
                else slow(homes, work, base, with_rest=with_rest, drawn=drawn)
            )
            verdicts = judge(recorded, work)
            document, show = {"cases": cases_json(verdicts)}, lambda: print_verdicts(verdicts)
        else:
            jobs = (
                earlier(work)
                if options.again
                else measure(homes, work, exchanges, timeouts_ms, with_rest=with_rest)
            )
            cells = predicted(jobs, work)
            document, show = table_json(jobs, cells), lambda: show_table(cells)
        document |= {"java": java_version(), "work": str(work)}
        options_of.give(document, options.json, show)
        if options.json != "-":
            print(f"\nlogs, traces and what was measured: {work}")
        return 0

    return options_of.exit_code_of("jobs.py", answered)


def arguments_parser() -> argparse.ArgumentParser:
    """The options; `--help` teaches."""
    parser = options_of.parser_of("jobs.py", __doc__, TEACH)
    add = parser.add_argument
    add("--jobs", type=int, default=10, help="how many [default: 10]")
    add("--seed", type=int, default=1, help="what they are [default: 1]")
    add("--list", action="store_true", help="print what they are, and run nothing")
    add("--release", default=VERSION, metavar="LIST", help=f"of Flink [default: {VERSION}]")
    add("--recorded", default="20ms", help="buffer timeout of the recording [default: 20ms]")
    add("--timeouts", default="1ms,10ms,100ms", metavar="LIST", help="[default: 1ms,10ms,100ms]")
    options_of.add_length(parser, duration="12s", warmup="3s", before="of each job, before it")
    add("--slow", action="store_true", help="jobs with a bottleneck, and the verdicts on them")
    add("--drawn", type=int, default=0, metavar="N", help="with --slow: N cases drawn from --seed")
    add("--kinds", default="", metavar="LIST", help="with --drawn: parts of their names")
    add("--without-rest", action="store_true", help="the tap does not ask Flink's REST API")
    add("--timestamps", action="store_true", help="records carry the time at which they are due")
    add("--again", metavar="WORK", help="only replay what is recorded in this directory")
    options_of.add_output(parser)
    return parser


def settings(options: argparse.Namespace) -> Exchange:
    """What the options ask of every job.

    Raises:
        ConfigError: a value cannot be used.
    """
    if options.jobs < 1:
        raise ConfigError("--jobs: give 1 or more")
    return Exchange(
        buffer_timeout_ms=whole_ms(options.recorded, "--recorded"),
        warmup_ns=parse_duration_ns(options.warmup, "--warmup"),
        duration_ns=options_of.duration_ns_of(options),
        seed=options.seed,
        has_timestamps=options.timestamps,
    )


def measure(
    homes: Mapping[str, Path],
    work: Path,
    exchanges: Sequence[Exchange],
    timeouts_ms: Sequence[int],
    *,
    with_rest: bool,
) -> list[MeasuredJob]:
    """Record each job once and run it at the other timeouts; the releases take turns. What is
    measured is kept in `work` after each job.

    Raises:
        FlinkError: a job failed.
    """
    jobs: list[MeasuredJob] = []
    for turn, (release, home) in enumerate(homes.items()):
        numbers = range(turn, len(exchanges), len(homes))
        if not numbers:
            continue
        place = work / release
        place.mkdir()
        tell(f"Flink {release}: starting two clusters and warming them")
        jar = build(home, place)
        with (
            WarmCluster(home, jar, place / "tapped", True, with_rest=with_rest) as tapped,
            WarmCluster(home, jar, place / "direct", False) as direct,
        ):
            for number in numbers:
                exchange = exchanges[number]
                tell(f"job {number + 1} of {len(exchanges)}: {described(exchange)}")
                jobs.append(_measured(tapped, direct, exchange, timeouts_ms, number + 1, release))
                keep(jobs, work)
    return sorted(jobs, key=lambda each: each.number)


def _measured(
    tapped: WarmCluster,
    direct: WarmCluster,
    exchange: Exchange,
    timeouts_ms: Sequence[int],
    number: int,
    release: str,
) -> MeasuredJob:
    recording = tapped.record(exchange)
    channels = tapped_channels(recording)
    truths = {exchange.buffer_timeout_ms: truth_of(recording.outcome, channels)}
    for timeout_ms in timeouts_ms:
        if timeout_ms not in truths:
            outcome = direct.run(replace(exchange, buffer_timeout_ms=timeout_ms))
            truths[timeout_ms] = truth_of(outcome, channels)
    for timeout_ms, truth in truths.items():
        _tell_truth(timeout_ms, truth)
    return measured_job(recording, exchange, truths, number, release)


def tapped_channels(recording: Tapped) -> int:
    """Channels between TaskManagers; the others the tap does not see."""
    if recording.run is None:
        return 0
    manifest = open_run(recording.run).manifest
    return 0 if manifest is None else len(manifest.channels)


def measured_job(
    recording: Tapped,
    exchange: Exchange,
    truths: Mapping[int, Truth],
    number: int,
    release: str,
) -> MeasuredJob:
    """What is known of a job that was recorded."""
    return MeasuredJob(
        number=number,
        release=release,
        text=described(exchange),
        settings=asdict(exchange),
        vertices=recording.outcome.vertices,
        run=str(recording.run),
        recorded_ms=exchange.buffer_timeout_ms,
        truths=truths,
    )


def _tell_truth(timeout_ms: int, truth: Truth) -> None:
    buffers = "recorded" if truth.buffers_per_s is None else f"{truth.buffers_per_s:.0f} buffers/s"
    latency = f"p50 {human_duration(truth.p50_ns)}, p99 {human_duration(truth.p99_ns)}"
    tell(
        f"  {timeout_ms} ms: {latency},"
        f" {human_count(truth.throughput_records_per_s or 0)}/s, {buffers}"
    )


def keep(jobs: Sequence[MeasuredJob], work: Path) -> None:
    """Write what was measured; runs below `work` by their relative path."""
    ordered = sorted(jobs, key=lambda each: each.number)
    write([asdict(_below(each, work)) for each in ordered], work / MEASURED_FILE)


def keep_cases(recorded: Sequence[RecordedCase], work: Path) -> None:
    """The same of jobs that were slowed."""
    relative = [replace(each, job=_below(each.job, work)) for each in recorded]
    write([asdict(each) for each in relative], work / SLOWED_FILE)


def write(document: Any, file: Path) -> None:
    """As JSON; whole or not at all."""
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(document, indent=1) + "\n")
    draft.replace(file)


def _below(job: MeasuredJob, work: Path) -> MeasuredJob:
    return replace(job, run=str(Path(job.run).relative_to(work)))


def earlier(work: Path) -> list[MeasuredJob]:
    """What an earlier call measured.

    Raises:
        FlinkError: nothing.
    """
    jobs = [MeasuredJob.from_json(each) for each in read(work / MEASURED_FILE)]
    return [replace(each, run=str(work / each.run)) for each in jobs]


def earlier_cases(work: Path) -> list[RecordedCase]:
    """The same of jobs that were slowed."""
    found = [RecordedCase.from_json(each) for each in read(work / SLOWED_FILE)]
    return [replace(each, job=replace(each.job, run=str(work / each.job.run))) for each in found]


def read(file: Path) -> list[Mapping[str, Any]]:
    """What an earlier call kept.

    Raises:
        FlinkError: nothing.
    """
    try:
        document: list[Mapping[str, Any]] = json.loads(file.read_text())
    except FileNotFoundError:
        raise FlinkError(f"nothing was measured: {file} is not there") from None
    return document


def predicted(jobs: Sequence[MeasuredJob], work: Path) -> list[Cell]:
    """Replay every recording, with all timeouts of its job."""
    timeouts_ms = jobs[0].timeouts_ms
    asked = ",".join("-1" if each < 0 else f"{each}ms" for each in timeouts_ms)
    answers = replay([each.run for each in jobs], work, "--buffer-timeout", asked)
    return [cell for job in jobs for cell in cells_of(job, answers[job.run])]


def replay(runs: Sequence[str], work: Path, *more: str) -> dict[str, Replayed]:
    """What `flinknet trace replay` answers about each run: about all of them in one call, or, if
    one cannot be replayed, in a call for each.
    """
    tell(f"replay of {len(runs)} recordings" if len(runs) > 1 else f"  replay of {runs[0]}")
    file = work / "replay.json"
    try:
        flinknet("trace", "replay", *runs, *more, "--json", str(file))
    except FlinkError as error:
        if len(runs) > 1:
            tell(f"  not all at once: {error}")
            found = {each: replay([each], work, *more)[each] for each in runs}
            failed = [each for each, own in found.items() if not own.edges]
            tell(f"  without a replay, for the reasons above: {', '.join(failed) or 'none'}")
            return found
        tell(f"  {error}")
        return {runs[0]: Replayed()}
    document = json.loads(file.read_text())
    edges: dict[str, list[Mapping[str, Any]]] = {each: [] for each in runs}
    for answer in document.get("replays") or [document]:
        edges[answer["trace"]["path"]].append(answer)
    jobs = {each["path"]: each for each in document.get("jobs", ())}
    return {each: Replayed(edges[each], jobs.get(each)) for each in runs}


def slow(
    homes: Mapping[str, Path],
    work: Path,
    base: Exchange,
    *,
    with_rest: bool,
    drawn: Sequence[Case] = (),
) -> list[RecordedCase]:
    """Record every case once, with two subtasks on the first release, three on the second, and so
    on; or drawn ones, on the releases in turn. What is recorded is kept in `work` after each case.

    Args:
        drawn: cases drawn from a seed; empty for the fixed ones.

    Raises:
        FlinkError: a job failed.
    """
    found: list[RecordedCase] = []
    for turn, (release, home) in enumerate(homes.items()):
        place = work / release
        place.mkdir()
        jar = build(home, place)
        own = replace(base, producers=turn + 2, consumers=turn + 2)
        asked = drawn[turn :: len(homes)] if drawn else cases(own)
        possible = [each for each in asked if release.startswith(each.only)]
        for number, needed in enumerate(unique(each.cluster for each in possible)):
            keys, with_links = needed
            tell(f"Flink {release}: starting a cluster and warming it {keys or ''}")
            here = place / f"cluster-{number}"
            with WarmCluster(home, jar, here, True, keys, with_rest, with_links) as cluster:
                for case in (each for each in possible if each.cluster == needed):
                    tell(f"{case.name}: {described(case.exchange)}")
                    recording, uses = record_case(cluster, case)
                    job = measured_job(recording, case.exchange, {}, len(found) + 1, release)
                    right, late_ns = (case.causes, case.task), recording.outcome.latest_ns
                    found.append(RecordedCase(case.name, job, tuple(uses), *right, late_ns))
                    keep_cases(found, work)
    return found


def judge(recorded: Sequence[RecordedCase], work: Path) -> list[Judged]:
    """Replay all of them and compare."""
    # nothing has to be predicted
    few = ("--buffer-timeout", f"{recorded[0].job.recorded_ms}ms", "--max-records", "1")
    answers = replay([each.job.run for each in recorded], work, *few)
    return [judged(each, answers[each.job.run].edges) for each in recorded]


def unique(values: Iterable[_Value]) -> list[_Value]:
    """Each once."""
    found: list[_Value] = []
    for each in values:
        if each not in found:
            found.append(each)
    return found


def cases_json(found: Sequence[Judged]) -> list[dict[str, Any]]:
    """All that was said about each case."""
    return [asdict(each) for each in found]


def show_table(cells: Sequence[Cell]) -> None:
    """All of it as text."""
    print_cells(cells)
    print_calibration(cells)


def table_json(jobs: Sequence[MeasuredJob], cells: Sequence[Cell]) -> dict[str, Any]:
    """Everything that was measured and predicted."""
    return {
        "jobs": [asdict(each) for each in jobs],
        "cells": cells_json(cells),
        "summary": summary([each for each in cells if not each.is_recorded]),
        "summary_recorded": summary([each for each in cells if each.is_recorded]),
        "intervals": calibrations_json(cells),
    }


if __name__ == "__main__":
    sys.exit(main())
