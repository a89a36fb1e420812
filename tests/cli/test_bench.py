"""flinknet bench: options to scenarios, order of runs, files, JSON, and errors in one line."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from flinknet.config import CREDIT, EXPONENTIAL, TCP, Link, RecordSize, SlowConsumer
from flinknet.errors import LocalTransportError, RunFailedError, TraceError
from flinknet.options.keys import CREDIT_MODEL
from flinknet.trace.run_directory import RunDirectory

from .conftest import Flinknet

SHUFFLE = str(Path(__file__).parents[2] / "bench" / "jobs" / "shuffle.py")


def test_every_option_reaches_the_scenario(flinknet: Flinknet, run: Any) -> None:
    arguments = (
        "bench --rate 20k/s --record-size 100b..1kb --producers 2 --consumers 3"
        " --task-managers 4 --partitioner hash --arrivals poisson --buffer-timeout 5ms"
        " --exclusive-buffers 4 --floating-buffers 6 --segment-size 8kb --slow-consumer 1:5ms"
        " --slow-consumer 2:pause --duration 2s --warmup 1s --seed 9 --no-trace"
        " -D taskmanager.data.port=50100 --link rtt=2ms,jitter=0.2ms"
        " -D heartbeat.interval=1s -D heartbeat.timeout=3s"
    )
    result = flinknet(*arguments.split())
    assert result.exit_code == 0, result.output
    (scenario,) = run.scenarios
    workload, network = scenario.workload, scenario.network
    assert (workload.rate_per_s, workload.records) == (20_000, None)
    assert workload.record_size == RecordSize(100, 1024)
    assert (workload.producers, workload.consumers, scenario.task_managers) == (2, 3, 4)
    assert (workload.partitioner, workload.arrivals) == ("hash", "poisson")
    assert workload.slow_consumers == (SlowConsumer(1, 5_000_000), SlowConsumer(2, -1))
    assert (workload.duration_ns, workload.warmup_ns) == (2_000_000_000, 1_000_000_000)
    assert scenario.seed == 9
    assert network.buffer_timeout_ns == 5_000_000
    assert (network.exclusive_buffers, network.floating_buffers) == (4, 6)
    assert (network.segment_size_bytes, network.data_port) == (8192, "50100")
    assert scenario.link == Link(2_000_000, jitter_ns=200_000)
    assert (scenario.heartbeat_interval_ns, scenario.heartbeat_timeout_ns) == (10**9, 3 * 10**9)


def test_a_bench_takes_no_addresses_of_a_clusters_file(flinknet: Flinknet, run: Any) -> None:
    keys = {"data.port": "7001", "data.bind-port": "7101", "bind-host": "0.0.0.0"}
    Path("main.yaml").write_text("".join(f"taskmanager.{k}: {v}\n" for k, v in keys.items()))
    result = flinknet("bench", "--flink-conf", "main.yaml", "-D", "taskmanager.data.port=50100")
    network = run.scenarios[0].network
    assert (network.bind_host, network.data_port, network.bind_port) == ("127.0.0.1", "50100", None)
    named = ", ".join(f"taskmanager.{key}" for key in keys)
    assert f"Note: main.yaml: a cluster's addresses, not used here: {named}" in result.stdout
    result = flinknet("compare-configs", "base", "main.yaml", "--runs", "2")
    assert (result.exit_code, named in result.stdout) == (0, True)
    assert {each.network.data_port for each in run.scenarios[1:]} == {"0"}


def test_irregular_loads_and_unequal_relays_reach_the_scenario(
    flinknet: Flinknet, run: Any
) -> None:
    result = flinknet(
        *("bench", "--no-trace", "--rate", "1k/s", "--arrivals", "on-off:50ms:150ms"),
        *("--record-size", "exponential:200b", "--partitioner", "hash", "--keys", "1_000"),
        *("--key-skew", "1.2", "--relays", "2", "--relay-parallelism", "2,4"),
        *("--relay-delay", "0,20us"),
    )
    assert result.exit_code == 0, result.output
    workload = run.scenarios[0].workload
    assert workload.arrivals == "on-off:50ms:150ms"
    assert workload.record_size == RecordSize(8, 20_000, EXPONENTIAL, 200)
    assert (workload.keys, workload.key_skew) == (1000, 1.2)
    assert workload.parallelisms == [1, 2, 4, 1]
    assert workload.relay_delays_ns == [0, 20_000]


def test_alone_it_measures_a_few_seconds_at_full_speed_and_leaves_no_files(
    flinknet: Flinknet, run: Any, tmp_path: Path
) -> None:
    assert flinknet("bench", "--no-trace").exit_code == 0
    flinknet("bench", "--no-trace", "--records", "10")
    scenario, by_records = run.scenarios
    assert scenario.workload.is_max_rate
    assert scenario.workload.duration_ns == 3_000_000_000
    assert scenario.task_managers == 2
    assert by_records.workload.duration_ns is None
    assert list(tmp_path.iterdir()) == []


def test_comma_lists_of_options_and_keys_make_a_sweep(flinknet: Flinknet, run: Any) -> None:
    result = flinknet(
        *("bench", "--no-trace", "--buffer-timeout", "0,5ms,-1"),
        *("-D", "taskmanager.memory.segment-size=4kb,32kb"),
    )
    assert result.exit_code == 0, result.output
    assert sorted(
        (s.network.buffer_timeout_ns, s.network.segment_size_bytes) for s in run.scenarios
    ) == [(t, size) for t in (-1, 0, 5_000_000) for size in (4096, 32_768)]
    assert "buffer-timeout=5ms" in result.stdout


def test_links_make_a_sweep_with_other_lists(flinknet: Flinknet, run: Any) -> None:
    result = flinknet(
        *("bench", "--no-trace", "--link", "none", "--link", "rtt=0,10ms,bandwidth=1gbit"),
        *("--floating-buffers", "8,64"),
    )
    assert result.exit_code == 0, result.output
    near, far = Link(0, 125_000_000), Link(10_000_000, 125_000_000)
    assert [(s.link, s.network.floating_buffers) for s in run.scenarios] == [
        (link, buffers) for link in (None, near, far) for buffers in (8, 64)
    ]
    assert "rtt=10ms floating-buffers=64" in result.stdout


def test_named_options_and_definitions_win_over_the_file(
    flinknet: Flinknet, run: Any, tmp_path: Path
) -> None:
    conf = tmp_path / "config.yaml"
    conf.write_text(
        "execution.buffer-timeout.interval: 1 ms\n"
        "taskmanager.memory.segment-size: 4kb\n"
        "parallelism.default: 7\n"
    )
    flinknet(
        *("bench", "--no-trace", "--flink-conf", str(conf), "--buffer-timeout", "3ms"),
        *("-D", "taskmanager.memory.segment-size=8kb"),
    )
    network = run.scenarios[0].network
    assert network.buffer_timeout_ns == 3_000_000
    assert network.segment_size_bytes == 8192


@pytest.mark.parametrize("command", [("bench", "--flink-conf"), ("compare-configs", "base")])
def test_keys_that_flink_2_has_fixed_count_in_files_of_flink_1_alone(
    flinknet: Flinknet, run: Any, command: tuple[str, str]
) -> None:
    text = "taskmanager.memory.process.size: 2gb\n"
    text += "taskmanager.network.memory.buffers-per-channel: 4\n"
    for name, exclusive, overdraft in (("flink-conf.yaml", 4, 5), ("config.yaml", 2, 20)):
        Path(name).write_text(text)
        run.scenarios.clear()
        result = flinknet(*command, name, "--no-trace")
        assert min(each.network.max_overdraft_buffers for each in run.scenarios) == overdraft
        assert max(each.network.exclusive_buffers for each in run.scenarios) == exclusive
        note = "config.yaml: ignored, fixed in Flink 2.x: taskmanager.network.memory.buffers-per-"
        assert (note in result.output) is (name == "config.yaml")


@pytest.mark.parametrize(
    ("option", "definition"),
    [
        (("--buffer-timeout", "10ms"), "execution.buffer-timeout.interval=5ms"),
        (("--buffer-timeout", "10ms"), "execution.buffer-timeout=5ms"),
        (("--buffer-timeout", "5ms,10ms"), "execution.buffer-timeout.interval=5ms"),
        (("--buffer-timeout", "10ms"), "execution.buffer-timeout.enabled=false"),
        (("--segment-size", "4kb"), "taskmanager.memory.segment-size=8kb"),
        (("--floating-buffers", "4"), "taskmanager.network.memory.floating-buffers-per-gate=5"),
        (("--exclusive-buffers", "4"), "taskmanager.network.memory.buffers-per-channel=5"),
        (("--checkpoint-interval", "1s"), "execution.checkpointing.interval=2s"),
    ],
)
def test_an_option_and_a_definition_that_contradict_each_other_are_refused(
    flinknet: Flinknet, run: Any, option: tuple[str, str], definition: str
) -> None:
    result = flinknet("bench", "--no-trace", *option, "-D", definition)
    assert (result.exit_code, run.scenarios) == (2, [])
    assert result.stderr == (
        f"flinknet: {' '.join(option)} and -D {definition} contradict each other;"
        " drop one of them\n"
    )


@pytest.mark.parametrize(
    ("option", "definition"),
    [
        (("--buffer-timeout", "1s"), "execution.buffer-timeout.interval=1000 ms"),
        (("--buffer-timeout", "-1"), "execution.buffer-timeout.enabled=false"),
        (("--buffer-timeout", "5ms"), "execution.buffer-timeout.enabled=true"),
        (("--segment-size", "4kb,8kb"), "taskmanager.memory.segment-size=8 kb,4096"),
        (("--segment-size", "4kb"), "taskmanager.network.memory.floating-buffers-per-gate=5"),
    ],
)
def test_an_option_and_a_definition_may_say_the_same(
    flinknet: Flinknet, option: tuple[str, str], definition: str
) -> None:
    result = flinknet("bench", "--no-trace", *option, "-D", definition)
    assert result.exit_code == 0, result.output


def test_runs_are_interleaved_and_a_round_shares_its_seed(flinknet: Flinknet, run: Any) -> None:
    flinknet("bench", "--no-trace", "--runs", "2", "--buffer-timeout", "1ms,2ms", "--seed", "5")
    assert [scenario.seed for scenario in run.scenarios] == [5, 5, 6, 6]
    timeouts = [scenario.network.buffer_timeout_ns for scenario in run.scenarios]
    assert timeouts[:2] == timeouts[:1:-1]
    assert set(timeouts[:2]) == {1_000_000, 2_000_000}


def test_the_json_holds_the_agreed_names_and_nothing_else(flinknet: Flinknet) -> None:
    result = flinknet("bench", "--no-trace", "--json", "-")
    document = json.loads(result.stdout)
    assert list(document) == ["schema_version", "environment", "runs"]
    assert document["schema_version"] == 2
    (one,) = document["runs"]
    assert list(one) == [
        *("validity", "config", "workload", "measured", "warnings", "trace"),
        *("wiring", "buffering", "blocking", "debloating", "metrics", "processors"),
        *("deployments", "verdict", "link_records_per_s"),
    ]
    assert one["config"]["execution.buffer-timeout.interval"] == "100 ms"
    assert one["trace"] is None
    measured = one["measured"]
    assert list(measured) == [
        *("records", "bytes", "buffers", "events", "duration_ns"),
        *("throughput_records_per_s", "throughput_bytes_per_s"),
        *("latency_ns", "latency_uncorrected_ns", "backlog_buffers", "credits", "flushes"),
        "checkpoints",
    ]
    assert measured["checkpoints"] is None
    percentiles = ["p50", "p75", "p90", "p95", "p99", "p99_9", "p99_99"]
    assert list(measured["latency_ns"]) == ["count", "min", "mean", *percentiles, "max"]
    assert measured["latency_ns"]["min"] is None
    assert measured["credits"] == {"announced": 20, "messages": 10, "starved_ns": None}
    assert measured["flushes"] == {"full": 1, "timeout": 28, "event": 1}


def test_each_run_has_a_directory_with_its_result(flinknet: Flinknet, tmp_path: Path) -> None:
    flinknet("bench", "--out", "out", "--buffer-timeout", "0,5ms")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["bench.json", "run-0001-buffer-timeout-0", "run-0002-buffer-timeout-5ms"]
    result = json.loads((tmp_path / "out" / names[2] / "result.json").read_text())
    assert result["limited_by"] == "the requested rate."
    assert result["trace"] == "out/run-0002-buffer-timeout-5ms"
    assert len(json.loads((tmp_path / "out/bench.json").read_text())["runs"]) == 2


def test_traces_without_a_wish_go_to_a_fresh_directory(flinknet: Flinknet, tmp_path: Path) -> None:
    for _ in range(2):
        assert flinknet("bench").exit_code == 0
    directories = list((tmp_path / "flinknet-runs").iterdir())
    assert len(directories) == 2
    assert all((directory / "run-0001/result.json").exists() for directory in directories)


def test_a_directory_with_runs_is_not_written_over(flinknet: Flinknet, run: Any) -> None:
    flinknet("bench", "--out", "out")
    result = flinknet("bench", "--out", "out")
    assert result.exit_code == 2
    assert "holds a run already" in result.stderr
    assert len(run.scenarios) == 1


@pytest.mark.parametrize(
    "call",
    [
        ("bench",),
        ("bench", "--no-trace"),
        ("bench", "demo", "head-of-line"),
        ("job", "run", SHUFFLE),
        ("bench", "produce", "--listen", "127.0.0.1:0"),
        ("compare-configs", "base", "execution.buffer-timeout.interval=5ms"),
    ],
    ids=lambda call: " ".join(call[:2]),
)
def test_a_directory_that_another_run_is_writing_to_is_refused(
    flinknet: Flinknet, run: Any, tmp_path: Path, call: tuple[str, ...]
) -> None:
    with RunDirectory(tmp_path / "out"):
        result = flinknet(*call, "--out", "out")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == (
        "flinknet: --out: another run is writing to out; give another directory"
    )
    assert run.scenarios == []
    assert list((tmp_path / "out").iterdir()) == []


def test_the_table_has_corrected_and_uncorrected_latency_and_the_limit(flinknet: Flinknet) -> None:
    result = flinknet("bench", "--no-trace", "--rate", "1k/s", "--details")
    assert "uncorrected" in result.stdout
    assert "Bottleneck: the requested rate." in result.stdout
    assert "seed 1" in result.stderr


def test_all_ignored_keys_of_a_file_are_in_the_details_and_in_the_json(flinknet: Flinknet) -> None:
    names = [f"jobmanager.memory.{name}.size" for name in ("heap", "process", "flink", "off-heap")]
    Path("config.yaml").write_text("".join(f"{key}: 1g\n" for key in names))
    call = ("bench", "--no-trace", "--flink-conf", "config.yaml")
    assert names[-1] not in flinknet(*call).stdout
    assert names[-1] in flinknet(*call, "--details").stdout
    assert names[-1] in flinknet(*call, "--json", "-").stdout


def test_settings_that_need_a_word_are_warnings_of_the_result(flinknet: Flinknet) -> None:
    result = flinknet("bench", "--no-trace", "--exclusive-buffers", "5", "--rate", "9k/s")
    first, *rest = result.stdout.splitlines()
    assert "ignored by Flink 2.x, which always uses 2" in first
    assert not any("ignored by Flink" in line for line in rest)
    assert (
        "was not reached" not in result.stdout
    )  # the run has seen no queue, whatever went through
    document = json.loads(flinknet("bench", "--no-trace", "--warmup", "0", "--json", "-").stdout)
    assert [warning["code"] for warning in document["runs"][0]["warnings"]] == ["no-warmup"]


def _noted(error: BaseException, note: str) -> BaseException:
    error.add_note(note)
    return error


@pytest.mark.parametrize(
    ("error", "exit_code", "line"),
    [
        (RunFailedError("3 records lost"), 1, "flinknet: 3 records lost"),
        (LocalTransportError("port 50100 is in use"), 4, "flinknet: port 50100 is in use"),
        (TraceError("no space left\non device"), 4, "flinknet: no space left on device"),
        (OSError(errno.ENOSPC, "No space left on device", "x.fnt"), 4, "x.fnt: No space left"),
        (OSError(errno.EIO, "Input/output error", "x.json"), 4, "x.json: Input/output error; the"),
        (OSError(errno.EACCES, "Permission denied", "x.fnt"), 4, "x.fnt: Permission denied"),
        (KeyboardInterrupt(), 130, "flinknet: interrupted"),
        (_noted(KeyboardInterrupt(), "it is in out"), 130, "flinknet: interrupted; it is in out"),
    ],
)
def test_a_failed_run_is_one_line_and_keeps_earlier_results(
    flinknet: Flinknet, run: Any, tmp_path: Path, error: BaseException, exit_code: int, line: str
) -> None:
    run.error, run.fail_at = error, 2
    result = flinknet("bench", "--out", "out", "--buffer-timeout", "1ms,2ms")
    assert result.exit_code == exit_code
    assert line in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.output
    assert "buffer-timeout=1ms" in result.stdout
    assert "results: out/bench.json" in result.stderr
    assert len(json.loads((tmp_path / "out/bench.json").read_text())["runs"]) == 1


def test_json_on_stdout_keeps_earlier_results_of_a_failed_sweep(
    flinknet: Flinknet, run: Any
) -> None:
    run.error, run.fail_at = KeyboardInterrupt(), 2
    result = flinknet("bench", "--no-trace", "--buffer-timeout", "1ms,2ms", "--json", "-")
    assert result.exit_code == 130
    (kept,) = json.loads(result.stdout)["runs"]
    assert kept["config"]["execution.buffer-timeout.interval"] == "1 ms"


@pytest.mark.parametrize("command", ["bench", "compare-configs base buffer-timeout=1ms"])
def test_runs_that_came_to_nothing_leave_no_empty_directory(
    flinknet: Flinknet, run: Any, tmp_path: Path, command: str
) -> None:
    run.error, run.fail_at = LocalTransportError("port 50100 is in use"), 1
    assert flinknet(*command.split(), "--trace").exit_code == 4
    assert list(tmp_path.glob("flinknet-runs/*")) == []


@pytest.mark.parametrize(
    ("records", "where"), [([0], " in all 2 runs"), ([5, 0], " in run 2 of 2")]
)
def test_a_run_that_measured_nothing_fails_in_one_line_when_its_results_are_saved(
    flinknet: Flinknet, run: Any, tmp_path: Path, records: list[int], where: str
) -> None:
    run.measured_records = records
    result = flinknet("bench", "--no-trace", "--runs", "2", "--json", "result.json")
    assert result.exit_code == 1
    assert f"flinknet: no record was measured{where}" in result.stderr
    assert "give a --rate" in result.stderr.splitlines()[-1]
    assert "setting" in result.stdout
    assert len(json.loads((tmp_path / "result.json").read_text())["runs"]) == 2


def test_tasks_are_placed_and_joined_as_asked(flinknet: Flinknet, run: Any) -> None:
    flinknet("bench", "--no-trace", "--relays", "2", "--relay-delay", "10us")
    flinknet("bench", "--no-trace", "--placement", "spread", "--relays", "2")
    flinknet("bench", "--no-trace", "--slow-consumer", "0:1ms:2s")
    split, spread, slow = run.scenarios
    assert (split.task_managers, split.placement) == (4, "split")
    assert (split.workload.relays, split.workload.relay_delay_ns_per_record) == (2, (10_000,))
    assert (spread.task_managers, spread.placement) == (2, "spread")
    assert slow.workload.slow_consumers == (SlowConsumer(0, 1_000_000, 2_000_000_000),)


@pytest.mark.parametrize("charset", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_results_and_help_can_be_written_in_any_encoding(flinknet: Flinknet, charset: str) -> None:
    result = flinknet("bench", "--buffer-timeout", "5ms,100ms", "--no-trace", charset=charset)
    assert result.exit_code == 0, result.exception
    assert "buffer-timeout=100ms" in result.stdout
    assert flinknet("bench", "--help", charset=charset).exit_code == 0


@pytest.mark.row("S074")
@pytest.mark.parametrize(
    ("arguments", "flow_control"),
    [
        ((), CREDIT),
        (("--flow-control", "tcp"), TCP),
        (("-D", f"{CREDIT_MODEL}=false"), TCP),
        (("-D", f"{CREDIT_MODEL}=true"), CREDIT),
        (("-D", f"{CREDIT_MODEL}=false", "--flow-control", "credit"), CREDIT),
    ],
)
def test_flow_control_by_option_and_by_the_classic_key(
    flinknet: Flinknet, run: Any, arguments: tuple[str, ...], flow_control: str
) -> None:
    result = flinknet("bench", "--no-trace", *arguments)
    assert result.exit_code == 0, result.output
    assert [each.flow_control for each in run.scenarios] == [flow_control]
    has_note = "2.x, which always uses true" in result.stdout
    assert has_note == (f"{CREDIT_MODEL}=false" in arguments)


def test_a_sweep_becomes_a_page_and_a_picture(flinknet: Callable[..., Result]) -> None:
    pytest.importorskip("matplotlib")
    files = ("--report", "page.html", "--plot", "plot.svg")
    result = flinknet("bench", "--buffer-timeout", "0,5ms", "--no-trace", *files)
    assert result.exit_code == 0
    assert '"name":"all settings"' in Path("page.html").read_text()
    assert Path("plot.svg").read_text().startswith("<?xml")
