"""`trace watch`, from the command line to what it leaves; and the newest part of runs that are
still being written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from flinknet.cli import main
from flinknet.config import NetworkConfig
from flinknet.core.probe import TracePoint
from flinknet.errors import ConfigError
from flinknet.replay import watch
from flinknet.replay.watch import GrowingRun, Watch, watched
from flinknet.trace import ProcessInfo, RunManifest, TraceReader, TraceWriter, file_index, open_run
from flinknet.trace.metrics import FETCHED_NS, metrics_lines
from flinknet.trace.run import whole_blocks
from flinknet.trace.run_directory import RunDirectory, seal_run
from tests.edited_manifest import edit_manifest
from tests.recorded_run import (
    CONSUME_NS,
    MS,
    RECORDS_PER_BUFFER,
    START_NS,
    TRANSIT_NS,
    event,
    rows_of,
    write_run,
)
from tests.tapped_run import exchange_of, write_tapped_exchange

SECOND = 1000 * MS
RECORDINGS = Path(__file__).parents[2] / "traces/recordings"
TAPPED = RECORDINGS / "tap-slow-sink"


def trace(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["trace", *map(str, arguments)], env={"COLUMNS": "140"})


def test_a_look_at_what_is_there_needs_no_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "run", period_ns=SECOND, block_events=8)
    monkeypatch.chdir(tmp_path)
    shown = trace("watch", ".", "--once", "--window", "20s")
    assert shown.exit_code == 0, shown.output
    assert "the last 20.0 s" in shown.stdout
    assert "buffer-timeout" in shown.stdout
    found = json.loads(trace("watch", tmp_path, "--once", "--json").stdout)
    (edge,) = found["edges"]
    assert edge["run"] == "run"
    assert edge["to_ns"] - edge["from_ns"] == 60 * SECOND
    assert found["bottlenecks"].keys() == {"run"}


def test_in_a_pipe_a_look_is_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "run", period_ns=SECOND, block_events=8)
    monkeypatch.delenv("COLUMNS")
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(main, ["trace", "watch", ".", "--once"])
    assert shown.exit_code == 0, shown.output
    (heads,) = [each for each in shown.stdout.splitlines() if each.startswith("edge ")]
    assert heads.split()[-3:] == ["backlog", "max", "starved"]


def test_runs_that_had_ended_are_left_out_while_others_go_on(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_run(tmp_path / name, period_ns=SECOND, block_events=8)
        seal_run(tmp_path / name)
    work = tmp_path / "work"
    work.mkdir()
    watch = Watch(tmp_path, work, span_ns=10 * SECOND)
    assert {edge.run for edge in watch.look().edges} == {"a", "b"}
    write_run(tmp_path / "c", period_ns=SECOND, block_events=8)
    assert {edge.run for edge in watch.look().edges} == {"c"}
    seal_run(tmp_path / "c")
    assert {edge.run for edge in watch.look().edges} == {"c"}


@pytest.mark.parametrize("says_so", ["manifest.json", "result.json", "capture.json"])
@pytest.mark.parametrize("is_above", [False, True])
def test_a_watch_ends_when_its_runs_have(tmp_path: Path, says_so: str, is_above: bool) -> None:
    run = write_run(tmp_path / "runs/run", period_ns=SECOND, block_events=8)
    if says_so == "manifest.json":
        seal_run(run)
    else:
        (run / says_so).write_text("{}")
    shown = trace("watch", run.parent if is_above else run, "--json")
    assert shown.exit_code == 0, shown.output
    (line,) = shown.stdout.splitlines()
    assert json.loads(line)["has_ended"]
    text = trace("watch", run).stdout
    assert text.startswith("ended ")
    assert "next flinknet trace replay " in " ".join(text.split())


def test_a_watch_goes_on_while_other_runs_may_begin(tmp_path: Path) -> None:
    with RunDirectory(tmp_path / "sweep") as sweep:
        seal_run(write_run(sweep.path / "run-0001", period_ns=SECOND, block_events=8))
        watch = Watch(sweep.path, tmp_path, span_ns=10 * SECOND)
        assert not watch.look().has_ended
        assert not watch.has_grown()
    assert watch.has_grown()
    assert watch.look().has_ended


def test_of_a_run_that_has_ended_the_rate_is_that_of_a_replay(tmp_path: Path) -> None:
    """Its records are under way for 2.6 s at most, and its measured part is 0.5 s long."""
    work = tmp_path / "work"
    work.mkdir()
    run = shutil.copytree(RECORDINGS / "slow-consumer", tmp_path / "run")
    ended = Watch(run, work, span_ns=10 * SECOND).look()
    assert ended.has_ended
    (edge,) = ended.edges
    assert edge.to_ns - edge.from_ns == SECOND // 2
    assert (edge.records_per_s, edge.behind_ns) == (pytest.approx(10_610), 0)
    (run / "result.json").unlink()
    edit_manifest(run, lambda manifest: manifest.update(files={}))
    going_on = Watch(run, work, span_ns=10 * SECOND).look()
    assert not going_on.has_ended
    (edge,) = going_on.edges
    assert edge.behind_ns > 2 * SECOND
    assert edge.records_per_s == pytest.approx(10_000, rel=0.2)


def test_the_rate_of_a_tapped_edge_has_local_channels_as_in_a_replay() -> None:
    found = json.loads(trace("watch", TAPPED, "--json").stdout)
    sink = found["edges"][-1]
    assert sink["local_channels"] == 3
    assert sink["records_per_s"] == pytest.approx(535, rel=0.1)
    shown = " ".join(trace("watch", TAPPED).stdout.split())
    assert "records/s: with those of 5 local channels, by Flink's counters" in shown


def test_a_look_lacks_what_the_run_lacks(tmp_path: Path) -> None:
    whole = open_run(write_run(tmp_path / "whole", period_ns=SECOND, block_events=8))
    run = tmp_path / "run"
    run.mkdir()
    RunManifest.load(whole.path).save(run)
    for reader in whole.readers():
        with reader, TraceWriter(run / reader.path.name, reader.process) as writer:
            data, blocks = reader.path.read_bytes(), reader.blocks()
            for number, each in enumerate(blocks):
                if number == len(blocks) - 2:
                    writer.drop(each.count)
                else:
                    writer.copy_block(data[each.offset : each.offset + each.length_bytes])
    look = watch.GrowingRun(run).excerpt(tmp_path / "look", 10 * SECOND)
    for file, copied in zip(open_run(run).files, open_run(look.directory).files, strict=True):
        with TraceReader(file) as of_run, TraceReader(copied) as of_look:
            assert len(of_look.blocks()) < len(of_run.blocks())
            assert [*of_look.gaps().values()] == [*of_run.gaps().values()] == [8]
            assert of_look.dropped_events == 8


def test_a_run_of_which_nothing_can_be_said_waits(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", buffers=2)
    for file in run.glob("*.fnt"):
        file.write_bytes(b"")
    shown = trace("watch", run, "--once")
    assert shown.exit_code == 0
    assert "no event has been written yet" in " ".join(shown.stdout.split())


@pytest.mark.parametrize("step", ["process_of", "_known_to_ns", "_copy"])
def test_a_run_of_which_a_file_is_dropped_meanwhile_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    run = write_run(tmp_path / "run", period_ns=SECOND, block_events=8)
    rest = getattr(watch, step)

    def drop(*arguments: Any) -> Any:
        (run / "tm-0.fnt").unlink(missing_ok=True)
        return rest(*arguments)

    monkeypatch.setattr(watch, step, drop)
    look = Watch(tmp_path, tmp_path, span_ns=10 * SECOND).look()
    assert not look.edges
    assert look.waiting.keys() == {"run"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--window", "0s"), "--window: 0 is too short"),
        (("--window", "2h"), "at most 1h"),
        (("--every", "soon"), "--every"),
    ],
)
def test_what_cannot_be_watched_is_one_line(
    tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    refused = trace("watch", tmp_path, *arguments)
    assert refused.exit_code == 2
    assert says in refused.stderr
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigError, match="not a directory"):
        Watch(file, tmp_path, span_ns=SECOND)


@contextmanager
def written_again(whole: Path, run: Path) -> Iterator[Callable[[float], None]]:
    """Begin to write a run again, without a block yet. Yields: a function that writes a share of
    the blocks that are left of each file."""
    run.mkdir()
    RunManifest.load(whole).save(run)
    with ExitStack() as stack:
        files = []
        for reader in open_run(whole).readers():
            with reader:
                data = reader.path.read_bytes()
                blocks = [data[x.offset : x.offset + x.length_bytes] for x in reader.blocks()]
                writer = stack.enter_context(TraceWriter(run / reader.path.name, reader.process))
            files.append((writer, blocks))

        def write(share: float) -> None:
            for writer, blocks in files:
                upto = round(len(blocks) * share)
                for block in blocks[:upto]:
                    writer.copy_block(block)
                del blocks[:upto]

        yield write


def test_a_look_follows_what_is_written(tmp_path: Path) -> None:
    whole = write_run(tmp_path / "whole", period_ns=SECOND, block_events=8)
    with written_again(whole, tmp_path / "run") as write:
        write(0.3)
        watch = Watch(tmp_path / "run", tmp_path, span_ns=10 * SECOND)
        first = watch.look()
        assert not watch.has_grown()
        write(0.5)
        assert watch.has_grown()
        later = watch.look()
        assert later.events > first.events > 0
        assert later.edges[0].from_ns > first.edges[0].to_ns
        assert later.edges[0].verdict == "buffer-timeout"
        write(1)
        watch.look()
    (tmp_path / "run/tm-0.fnt").unlink()  # by a ring
    assert watch.look().events == sum(file_index(file).events for file in open_run(whole).files)


def test_an_update_is_printed_when_more_has_been_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = write_run(tmp_path / "whole", period_ns=SECOND, block_events=8)
    with written_again(whole, tmp_path / "run") as write:
        write(0.3)
        shares, has_grown = [0.5, 0.5], Watch.has_grown

        def grown(watching: Watch) -> bool:
            if shares:
                write(shares.pop())
            return has_grown(watching)

        monkeypatch.setattr(Watch, "has_grown", grown)
        shown = trace("watch", tmp_path / "run", "--json", "--every", "10ms", "--duration", "2s")
    assert shown.exit_code == 0, shown.output
    events = [json.loads(line)["events"] for line in shown.stdout.splitlines()]
    assert len(events) == 3
    assert events == sorted(set(events))


def written_until(run: Path, to_ns: int, directory: Path) -> Path:
    """The run as it was when each process had written its blocks up to an instant, and a part of
    the next one."""
    directory.mkdir(exist_ok=True)
    for file in run.glob("*.fnt"):
        ends = [each.to_byte for each in whole_blocks(file) if 0 < each.last_ns <= to_ns]
        (directory / file.name).write_bytes(file.read_bytes()[: ends[-1] + 11])
    manifest = RunManifest.load(run)
    replace(manifest, measured_from_ns=None, measured_to_ns=None).save(directory)
    return directory


def test_the_newest_part_is_a_run_of_its_own(tmp_path: Path) -> None:
    whole = write_run(tmp_path / "whole", period_ns=SECOND, block_events=8)
    path = written_until(whole, START_NS + 60 * SECOND, tmp_path / "run")
    run = GrowingRun(path)
    first = run.excerpt(tmp_path / "first", 20 * SECOND)
    assert first.to_ns - first.from_ns == 20 * SECOND
    opened = open_run(first.directory)
    assert opened.manifest.measured_to_ns == first.to_ns
    for file in opened.files:
        with TraceReader(file) as reader:
            assert reader.is_whole
            blocks = reader.blocks()
        assert min(each.first_ns for each in blocks) > START_NS + 15 * SECOND
    written_until(whole, START_NS + 90 * SECOND, path)
    later = run.excerpt(tmp_path / "later", 20 * SECOND)
    assert later.to_ns > first.to_ns + 20 * SECOND
    assert not run.has_ended()
    (path / "tm-0.fnt").unlink()  # by a ring
    part = run.excerpt(tmp_path / "part", 20 * SECOND)
    assert [each.name for each in part.directory.glob("*.fnt")] == ["tm-1.fnt"]


@pytest.mark.parametrize("window", ["3s", "10s", "20s", "60s"])
def test_a_look_at_a_tapped_job_rests_on_what_flink_says_of_its_tasks(window: str) -> None:
    """However short the part is: the JobManager had new values every ten seconds."""
    found = trace("watch", TAPPED, "--once", "--json", "--window", window)
    (said,) = json.loads(found.stdout)["bottlenecks"].values()
    assert "Sink: snk (1/3) is busy 100% of the time" in said


def test_a_part_has_the_metrics_of_its_time_and_those_that_come_later(tmp_path: Path) -> None:
    run = GrowingRun(write_run(tmp_path / "run", period_ns=SECOND, block_events=8))
    lines = [f'{{"at_ns": {START_NS + at * SECOND}, "n": {at}}}\n' for at in range(120)]
    metrics = run.path / "metrics.jsonl"
    metrics.write_text("".join(lines[:100]) + lines[100][:9])
    first = run.excerpt(tmp_path / "first", 10 * SECOND)
    begin = (first.from_ns - watch.MARGIN_NS - FETCHED_NS - START_NS) // SECOND
    assert 0 < begin < 99
    found = [each["n"] for each in metrics_lines(first.directory)]
    assert found == list(range(found[0], 100))
    assert found[0] in (begin, begin + 1)
    metrics.write_text("".join(lines))
    later = run.excerpt(tmp_path / "later", 10 * SECOND)
    assert [each["n"] for each in metrics_lines(later.directory)] == list(range(found[0], 120))


def test_of_a_part_with_very_many_events_the_newest_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_run(tmp_path / "run", period_ns=SECOND, block_events=8)
    whole = GrowingRun(path).excerpt(tmp_path / "whole", 60 * SECOND)
    (of_whole,), _ = watched("run", whole)
    events = sum(file_index(file).events for file in open_run(whole.directory).files)
    monkeypatch.setattr(watch, "EVENTS_MAX", events // 7)
    part = GrowingRun(path).excerpt(tmp_path / "part", 60 * SECOND)
    assert part.to_ns == whole.to_ns
    assert 5 * SECOND < part.to_ns - part.from_ns < 15 * SECOND
    assert sum(file_index(file).events for file in open_run(part.directory).files) < events // 2
    (edge,), _ = watched("run", part)
    assert edge.records_per_s == pytest.approx(of_whole.records_per_s, rel=0.15)
    assert (edge.verdict, edge.backlog_buffers.max) == ("buffer-timeout", 3)


def test_all_is_known_of_the_newest_part(tmp_path: Path) -> None:
    whole = write_run(tmp_path / "whole", period_ns=SECOND, block_events=8)
    path = written_until(whole, START_NS + 60 * SECOND, tmp_path / "run")
    part = GrowingRun(path).excerpt(tmp_path / "part", 20 * SECOND)
    life_ns = SECOND + TRANSIT_NS + CONSUME_NS
    last_ns = [max(each.last_ns for each in whole_blocks(file)) for file in path.glob("*.fnt")]
    assert part.to_ns <= min(last_ns) + 1 - life_ns
    (edge,), bottleneck = watched("run", part)
    assert edge.records == pytest.approx(2 * RECORDS_PER_BUFFER * 20, abs=2 * RECORDS_PER_BUFFER)
    assert edge.latency.until == "consumed"
    assert edge.latency.p50_min_ns == edge.latency.p50_max_ns
    assert edge.latency.p50_max_ns == pytest.approx(0.55 * SECOND, rel=0.1)
    assert sum(edge.regimes.values()) == pytest.approx(1)
    assert edge.verdict == "buffer-timeout"
    assert edge.backlog_buffers.max == 3
    assert bottleneck


def test_a_process_that_writes_nothing_does_not_hold_the_end_back(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", period_ns=SECOND, block_events=8)
    with TraceWriter(path / "tm-2.fnt", ProcessInfo("tm-2", "tm-2.fnt", 3)) as writer:
        writer.write_events(rows_of([event(at_ns=START_NS, kind=0, point=TracePoint.SENT)]))
    part = GrowingRun(path).excerpt(tmp_path / "part", 20 * SECOND)
    assert part.to_ns > START_NS + 90 * SECOND


@pytest.mark.parametrize("origin", ["tap", "capture"])
def test_between_processes_the_latency_has_an_upper_bound(tmp_path: Path, origin: str) -> None:
    arrivals_ns = [np.arange(0, 400 * MS, 50_000) + each for each in (0, 7_000)]
    network = NetworkConfig(buffer_timeout_ns=5 * MS)
    path = write_tapped_exchange(
        tmp_path / "tap", exchange_of(arrivals_ns, network, duration_ns=400 * MS)
    )
    edit_manifest(path, lambda manifest: manifest.update(origin=origin))
    part = GrowingRun(path).excerpt(tmp_path / "part", 60 * SECOND)
    (edge,), _ = watched("tap", part)
    assert edge.latency.until == "recorded"
    assert edge.latency.p99_min_ns is None
    assert 5 * MS < edge.latency.p99_max_ns < 7 * MS
    assert edge.regimes is None
    assert edge.starved == 0
    assert edge.records == 16_000
    assert edge.verdict == "none"


def test_an_ended_run_whose_file_is_cut_or_gone_is_not_judged(tmp_path: Path) -> None:
    """Half of a file would do for a verdict and not for a true one."""
    shutil.copytree(RECORDINGS / "slow-consumer", tmp_path / "run")
    file = tmp_path / "run" / "tm-1.fnt"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    for fault in ("tm-1.fnt is cut off", "tm-1.fnt, which is not there"):
        look = Watch(tmp_path / "run", tmp_path, span_ns=10**12).look()
        assert look.has_ended
        assert (look.edges, look.bottlenecks) == ((), {})
        assert fault in look.waiting["run"]
        file.unlink(missing_ok=True)
