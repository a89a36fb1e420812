"""Reports of a bench: whole tables, lines and panels from plain results."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from flinknet import notebook, report, results
from flinknet.config import NetworkConfig, Scenario, WorkloadConfig
from flinknet.report import bench as views
from flinknet.report import bench_words as tables
from flinknet.report import live
from flinknet.report.comparison import comparison_view
from flinknet.report.comparison_texts import change_cells, changes_table, effect_sentence
from flinknet.report.console import console_for
from flinknet.report.export import write_json
from flinknet.report.warning_lines import doubts, merged_text, print_setting_notes
from flinknet.results.bottleneck import Bottleneck, Cause
from flinknet.results.comparison import (
    METRICS,
    Candidate,
    Comparison,
    Configuration,
    Difference,
    Verdict,
    difference,
)
from flinknet.results.figures import BACK_PRESSURED, BUSY, CPU, FIGURES, IDLE, IN_POOL, OUT_POOL
from tests import made_results as made
from tests.made_results import configuration
from tests.report.printing import printed

LATENCY = results.LatencySummary(count=1000, mean=5e6, p50=5_000_000, p99=9_500_000, max=10_000_000)
BACKLOG = results.BacklogSummary(0.25, 3)


def channel(index: int, consumer: int) -> results.ChannelMeasured:
    return results.ChannelMeasured(index, 0, consumer, 1000, 1000.0, LATENCY, BACKLOG)


def result(throughput: float | None = 2000.0, *warnings: results.RunWarning) -> results.RunResult:
    figures = made.measured(
        records=2000,
        buffers=100,
        duration_ns=1_000_000_000,
        throughput_records_per_s=throughput,
        throughput_bytes_per_s=None if throughput is None else throughput * 100,
        latency_ns=LATENCY,
        backlog_buffers=BACKLOG,
        flushes=results.FlushCounts(1, 98, 1),
    )
    channels = (channel(0, 0), channel(1, 1))
    return made.run_result(figures, channels=channels, warnings=warnings)


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def shown(settings: list[Configuration], *, has_details: bool = False) -> list[str]:
    return lines(printed(views.bench_view(settings), width=200, details=has_details))


def test_a_bench_answers_in_six_lines_and_one_table() -> None:
    verdict, trust, following, header, row = shown([configuration("", [result()])])[1:]
    figures = "2.00 k records/s, p50 5.00 ms, p99 9.50 ms"
    assert verdict == f"verdict    {figures}; the requested rate"
    assert trust.startswith("trust      good: the schedule was kept")
    assert following == "next       --details shows all figures"
    assert header.split() == ["setting", "records/s", "p50", "p99", "buffers/s", "CPU"]
    assert row.split()[2:] == [*("2.00", "k", "5.00", "ms", "9.50", "ms", "100"), "–"]


def test_details_show_all_figures_the_channels_and_the_limit() -> None:
    answer = shown([configuration("", [result()])], has_details=True)
    assert not any("--details" in line for line in answer)  # it was given
    actual = answer[5:]
    groups, header, row, sent, _, channel_groups, channel_header, first, second, limit = actual
    assert sent.split()[:2] == ["buffers", "100"]
    assert groups.split() == ["latency", "uncorrected", "backlog"]
    assert header.split() == [
        *("setting", "records/s", "buffers/s", "CPU", "p50", "p99", "max", "p50", "p99"),
        *("mean", "max", "bytes/s"),
    ]
    assert row.split("  ")[0] == "this configuration"
    assert row.split()[2:] == [
        *("2.00", "k", "100", "–", "5.00", "ms", "9.50", "ms", "10.0", "ms"),
        *("–", "–", "0.25", "3", "195", "KiB"),
    ]
    assert channel_groups.split() == ["latency", "backlog"]
    assert channel_header.split()[:2] == ["channel", "records"]
    assert (first.split()[:3], second.split()[:3]) == (["0", "→", "0"], ["0", "→", "1"])
    assert limit == "Bottleneck: the requested rate."


@pytest.mark.parametrize("width", [40, 60, 80, 120, 160])
def test_whatever_the_width_every_number_and_name_is_there(width: int) -> None:
    names = ["buffer-timeout=100ms segment-size=8kb", "buffer-timeout=5ms segment-size=32kb"]
    settings = [configuration(name, [result()]) for name in names]
    actual = printed(views.bench_table(settings), width=width)
    assert max(map(len, actual.splitlines())) <= width
    headers = [line.split()[1:] for line in lines(actual) if line.startswith("setting")]
    assert "".join(actual.split()).count("segment-size") == 2 * len(headers)
    shown = [name for header in headers for name in header]
    assert (shown[:3], len(shown)) == (["records/s", "buffers/s", "CPU"], 11)
    assert (width >= 120) == (len(headers) == 1)


def measured(p50_ns: float, buffers: int, cpu_cores: float, **config: str) -> results.RunResult:
    plain = result()
    latency = replace(LATENCY, p50=p50_ns)
    return replace(
        plain,
        config=config,
        measured=replace(plain.measured, latency_ns=latency, buffers=buffers),
        processors=results.ProcessorUse(busy_share={}, lacked_share={}, cpu_cores=cpu_cores),
    )


def timeouts(*warnings: results.RunWarning) -> list[Configuration]:
    key = "execution.buffer-timeout.interval"
    short = replace(measured(2e6, 1300, 0.12, **{key: "5 ms"}), warnings=warnings)
    return [
        configuration("buffer-timeout=5ms", [short]),
        configuration("buffer-timeout=100ms", [measured(48e6, 100, 0.08, **{key: "100 ms"})]),
    ]


def test_a_sweep_ends_with_the_trade_in_a_sentence() -> None:
    assert tables.trade_lines(timeouts()) == [
        "buffer-timeout 5ms instead of 100ms: p50 −46.0 ms, p99 unchanged, 13 times the buffers/s,"
        " +4.0% of a core"
    ]
    assert tables.trade_lines([configuration("", [result()])]) == []


def test_the_trade_of_several_rounds_has_its_range() -> None:
    key = "execution.buffer-timeout.interval"
    short, long = ({key: "5 ms"}, {key: "100 ms"})
    settings = [
        configuration(
            "5ms",
            [
                measured(ns, 10, cores, **short)
                for ns, cores in ((2e6, 0.12), (3e6, 0.11), (4e6, 0.13))
            ],
        ),
        configuration("100ms", [measured(each, 10, 0.08, **long) for each in (50e6, 48e6, 48e6)]),
    ]
    line, note = tables.trade_lines(settings)
    assert line.startswith("5ms instead of 100ms: p50 −45.0 ms (−48.0 … −44.0), p99 unchanged, ")
    assert line.endswith(", +4.0% (+3.0% … +5.0%) of a core")
    assert note == "In brackets: the smallest and the largest change in a round."


@pytest.mark.parametrize(
    ("code", "mark", "end"),
    [
        ("p99-disturbed", "!", "+4.0% of a core (doubtful)"),
        ("disturbed", "!", "13 times the buffers/s, +4.0% of a core"),
        ("rate-not-reached", "✗", "100ms: not comparable, invalid: buffer-timeout=5ms"),
        ("strangers", "buffer-timeout=5ms", "+4.0% of a core"),
    ],
)
def test_what_is_doubtful_looks_so(code: str, mark: str, end: str) -> None:
    settings = timeouts(results.RunWarning(code, "why; what to do", "what"))
    found = shown(settings, has_details=True)
    header = next(number for number, line in enumerate(found) if line.startswith("setting  "))
    rows = found[header + 1 : header + 3]
    assert [line.split()[0] for line in rows] == [mark, "buffer-timeout=100ms"]
    line = next(each for each in reversed(found) if each.endswith(end))
    begin = "disturbed by other processes, do not rely on it: buffer-timeout 5ms instead of"
    assert line.startswith(begin) == (code == "disturbed")


def test_figures_of_disturbed_runs_are_not_in_the_answer() -> None:
    settings = timeouts(results.RunWarning("disturbed", "why; what to do", "what"))
    (line,) = (each for each in shown(settings) if each.startswith("trade-off"))
    assert line == (
        "trade-off  buffer-timeout 5ms instead of 100ms: not compared, other processes disturbed"
        " the runs"
    )


def test_warnings_come_worst_first_and_each_event_once() -> None:
    codes = ("no-checkpoints", "schedule-missed", "p99-disturbed", "rate-not-reached", "disturbed")
    result_of_all = result(1.0, *(results.RunWarning(code, f"{code}; do this") for code in codes))
    settings = [configuration("", [result_of_all])]
    assert tables.doubt_lines(settings) == [
        "Invalid: rate-not-reached",
        "Warning: disturbed",
        "Warning: p99-disturbed",
        "Note: no-checkpoints",
    ]
    explained = tables.doubt_lines(settings, is_explained=True)
    assert explained[3] == "Warning: schedule-missed; do this"


def test_several_runs_show_their_median() -> None:
    runs = [result(1000), result(9000), result(2000), result(None)]
    found = shown([configuration("a=1", runs), configuration("a=2", runs[:1])])
    assert "medians of 4 runs" in found
    assert [line.split()[:2] for line in found[-2:]] == [["a=1", "2.00"], ["a=2", "1.00"]]


def test_a_warning_is_reported_once_with_the_runs_it_belongs_to() -> None:
    late = results.RunWarning("late", "a record was late [5 ms].")
    settings = [
        configuration("a=1", [result(1.0, late), result(1.0, late)]),
        configuration("a=2", [result(1.0)]),
    ]
    assert tables.doubt_lines(settings) == [
        "Warning in 2 of 3 runs (a=1): a record was late [5 ms]."
    ]
    numbered = [
        configuration(each.name, each.results, numbers)
        for each, numbers in zip(settings, ([1, 3], [2]), strict=True)
    ]
    assert tables.doubt_lines(numbered) == [
        "Warning in runs 1 and 3 of 3 (a=1): a record was late [5 ms]."
    ]
    assert tables.doubt_lines(numbered[:1]) == [
        "Warning in 2 of 2 runs (a=1): a record was late [5 ms]."
    ]
    own = configuration("a=2", [result(1.0), result(1.0, late), result(1.0)], [2, 4, 5])
    assert tables.doubt_lines([own]) == ["Warning in 1 of 3 runs (a=2): a record was late [5 ms]."]


def test_a_note_on_a_setting_or_its_file_is_not_counted_in_runs() -> None:
    stream = io.StringIO()
    known = results.RunWarning("option-not-acted-on", "ignored by flinknet")
    fixed = results.RunWarning("fixed-in-flink-2", "ignored by Flink 2.x" + 20 * " indeed")
    mine, other = (
        results.RunWarning("keys-left-out", f"{name}.yaml: no network keys: rest.port")
        for name in ("main", "new")
    )
    settings = [
        configuration("main.yaml", [result(1.0, known, mine)] * 2),
        configuration("new.yaml", [result(1.0, known, fixed, other)] * 2),
    ]
    assert tables.doubt_lines(settings) == []  # it was said before the first run
    out = console_for(stream)
    print_setting_notes(out, [(each.name, each.results[0].warnings) for each in settings])
    text = " ".join(lines(stream.getvalue()))
    assert "Note: ignored by flinknet" in text
    assert "Note (new.yaml): ignored by Flink 2.x" in text
    assert "Note: main.yaml, new.yaml: no network keys: rest.port" in text


def test_warnings_of_one_code_are_distinguished_unless_only_their_numbers_differ() -> None:
    one, other = (
        results.RunWarning("key", "b: not acted on"),
        results.RunWarning("key", "c: not acted on"),
    )
    lates = results.RunWarning("late", "5 ms late"), results.RunWarning("late", "7.5 ms late")
    runs = [result(1.0, one, other, late) for late in lates]
    assert tables.doubt_lines([configuration("a=1", runs)]) == [
        "Warning in 2 of 2 runs (a=1): b: not acted on",
        "Warning in 2 of 2 runs (a=1): c: not acted on",
        "Warning in 2 of 2 runs (a=1): 5 … 7.5 ms late",
    ]


def test_who_ran_next_to_a_disturbed_run_is_reported_with_the_most_it_took() -> None:
    doubt = results.RunWarning("p99-disturbed", "taken.")
    first, second, calm = (
        replace(
            result(1.0, *warnings),
            processors=results.ProcessorUse(host, others, busy_share={}, lacked_share={}),
        )
        for warnings, host, others in (
            ([doubt], 0.003, {"kdamond": 0.012, "backup": 0.002}),
            ([doubt], 0.0, {"backup": 0.05}),
            ([], None, {"browser": 0.9}),
        )
    )
    assert tables.doubt_lines([configuration("", [first, second, calm])]) == [
        "Warning in 2 of 3 runs: taken.",
        "Other processes: backup used 0.05 cores, kdamond used 0.012 cores, the host"
        " used 0.003 cores.",
    ]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1 of 3"], "1 of 3"),
        (["9 ms", "21.6 ms", "10.0 ms"], "9 … 21.6 ms"),
        (["1.91 k of 2 k", "950 of 2 k"], "950 … 1.91 k of 2 k"),
        (["none", "none"], "none"),
        (["up to 5.1 ms late", "up to 12 ms late"], "up to 12 ms late"),
        (["limit of 5ms", "limit of 100ms"], "limit of 5 … 100ms"),
        (["1.00 KiB", "3.50 KiB"], "1.00 … 3.50 KiB"),
    ],
)
def test_texts_that_differ_in_numbers_are_reported_with_their_range(
    texts: list[str], expected: str
) -> None:
    assert merged_text(texts) == expected


def test_digits_of_a_name_are_no_range() -> None:
    files = ("d1/config.yaml", "d2/config.yaml", "1/b.yaml", "2/b.yaml", "3.yaml", "tm-1", "tm-2")
    runs = [
        result(1.0, results.RunWarning("conf", f"{name}: 4 keys were ignored")) for name in files
    ]
    found = tables.doubt_lines([configuration("", runs)])
    assert [line.partition(": ")[2] for line in found] == [
        f"{name}: 4 keys were ignored" for name in files
    ]


def test_a_verdict_begins_with_the_state_of_the_settings() -> None:
    causes = (Cause.BUFFER_TIMEOUT, Cause.BUFFER_TIMEOUT, Cause.SLOW_TASKS)
    settings = [
        configuration(
            f"a={at}", [replace(result(), verdict=Bottleneck(cause=each, evidence=("it is",)))]
        )
        for at, each in enumerate(causes)
    ]
    assert tables.state_words(settings) == ["healthy (a=0, a=1); slow (a=2):"]
    assert tables.state_words(settings[:2]) == ["healthy:"]
    assert tables.state_words([configuration("", [result()])]) == []


def test_a_clause_that_is_true_of_all_settings_names_none() -> None:
    limits = [
        "nothing holds the job up; the sink is busy 12%",
        "nothing holds the job up; records wait for the timeout",
        "nothing holds the job up; the sink is busy 20%; it queues",
    ]
    runs = [replace(result(), limited_by=each) for each in limits]
    settings = [configuration(f"a={at}", [run]) for at, run in enumerate(runs)]
    assert tables.limit_clauses(settings) == [
        "nothing holds the job up;",
        "the sink is busy 12 … 20% (a=0, a=2);",
        "records wait for the timeout (a=1);",
        "it queues (a=2);",
    ]
    ends = [replace(result(), limited_by=each) for each in ("It waits. More.", "It waits.")]
    settings = [configuration(f"a={at}", [run]) for at, run in enumerate(ends)]
    assert tables.limit_clauses(settings) == ["It waits.", "More (a=0);"]


def progress(elapsed_ns: int, phase: str = "measuring") -> results.Progress:
    channels = (
        results.ChannelProgress(0, 1, 2, 1500.0, 4, 0),
        results.ChannelProgress(1, 1, 3, 10.0, None, None),
    )
    return results.Progress(phase, elapsed_ns, 0.25, 10, 2000.0, 1 << 20, 1e6, None, channels)


def test_off_a_terminal_lines_are_sparse() -> None:
    stream = io.StringIO()
    with live.RunsView(Console(file=stream)) as view:
        view.start_run(1, 2, "a=1")
        for tenth in range(120):
            view.update(progress(tenth * 100_000_000))
        view.finish_run(result())
    assert lines(stream.getvalue()) == [
        "run 1/2 a=1: starting",
        *[
            "run 1/2 a=1: measuring 25%, 2.00 k records/s, 1.00 MiB/s,"
            " p50 1.00 ms, p99 – over all channels"
        ]
        * 2,
        "run 1/2 a=1: 2.00 k records/s, p50 5.00 ms, p99 9.50 ms",
    ]


@pytest.mark.parametrize(
    ("code", "name"), [("disturbed", "disturbed"), ("schedule-missed", "doubtful")]
)
def test_the_line_of_a_run_that_may_be_repeated_calls_it_disturbed(code: str, name: str) -> None:
    line = live.result_line(result(2000.0, results.RunWarning(code, "why it is so")))
    assert line.endswith(f"({name}: why it is so)")


def test_on_a_terminal_a_panel_shows_channels_with_backlog_and_credit() -> None:
    stream = io.StringIO()
    with live.RunsView(Console(file=stream, force_terminal=True, width=100)) as view:
        view.start_run(1, 1, "")
        view.update(progress(1))
        view.finish_run(result())
    shown = lines(printed(live.panel("run 1/1", progress(1))))
    assert shown[0].startswith("run        1/1: measuring 25%, 2.00 k records/s")
    assert "1 → 2 1.50 k ▮▮▮▮ 4 0" in [" ".join(line.split()) for line in shown]
    assert "run 1/1: 2.00 k records/s" in stream.getvalue()


def test_a_panel_shows_the_channels_and_tasks_under_pressure_in_their_order() -> None:
    local = results.ChannelProgress(0, 0, 0, 1.0, 9, None, is_local=True)
    others = (
        results.ChannelProgress(i, 0, i, 1.0, 9 if i == 39 else 0, 0, 1) for i in range(1, 40)
    )
    tasks = (
        *(results.TaskProgress(f"source {i}", 0.1, 0.0, i / 40, None, 1.25) for i in range(40)),
        results.TaskProgress("sink 0", 0.995, 0.005, 0.98, 0.5, None),
    )
    pressed = replace(progress(1), channels=(local, *others), tasks=tasks)
    found = [" ".join(line.split()) for line in lines(printed(live.panel("run", pressed)))]
    assert any(line.startswith("edge 1: 0 → 0 local ") for line in found)
    assert any(line.startswith("edge 2: 0 → 39 ") for line in found)
    assert "and 28 more channels" in found
    assert found[-9] == "task busy idle back-pressured in pool out pool"
    assert [line.split()[1] for line in found[-8:-1]] == [str(number) for number in range(33, 40)]
    assert found[-8] == "source 33 10% 0% 82% – 125%"
    assert found[-1] == "sink 0 100% 0% 98% 50% –"


def gate(name: str, *samples: results.DebloatingSample) -> results.DebloatedGate:
    return results.DebloatedGate(name, 100_000_000, samples)


def test_debloating_shows_sizes_over_time_and_what_is_in_flight() -> None:
    sizes = (1024, 2048, 4096, 8192)
    slow = [
        results.DebloatingSample(i, size, 10_000, 40 * size, 95_000_000)
        for i, size in enumerate(sizes)
    ]
    fast = results.DebloatingSample(0, 32_768, 10_000, 0, 0)
    debloated = replace(result(), debloating=(gate("sink 0", *slow), gate("sink 1", fast)))
    answer = shown([configuration("", [debloated])])
    found = [line for line in answer if line.startswith("Buffers of")]
    assert found == [
        "Buffers of sink 0: ▂▃▅█ 1.00 KiB … 8.00 KiB;"
        " 240 KiB in flight, consumed in 95.0 ms (target 100 ms).",
        "Buffers of sink 1: █ 32.0 KiB … 32.0 KiB; nothing in flight most of the time"
        " (target 100 ms).",
    ]


@pytest.mark.parametrize(
    ("network", "workload", "codes"),
    [
        (NetworkConfig(), WorkloadConfig(rate_per_s=2000), []),
        (NetworkConfig(), WorkloadConfig(), []),
        (NetworkConfig(), WorkloadConfig(rate_per_s=3000), []),  # its queue is the runtime's to see
        (NetworkConfig(buffer_timeout_ns=200_000_000), WorkloadConfig(), ["few-flushes"]),
        (NetworkConfig(buffer_timeout_ns=-1), WorkloadConfig(), []),
        (NetworkConfig(), WorkloadConfig(warmup_ns=0), ["no-warmup"]),
        # nothing is read at a rate, and nothing needs to get warm
        (
            NetworkConfig(buffer_timeout_ns=-1),
            WorkloadConfig(rate_per_s=9000, warmup_ns=0, partition_type="blocking"),
            [],
        ),
    ],
)
def test_doubts_follow_from_scenario_and_numbers(
    network: NetworkConfig, workload: WorkloadConfig, codes: list[str]
) -> None:
    scenario = Scenario(network=network, workload=workload)
    assert [warning.code for warning in doubts(scenario, result())] == codes


@pytest.mark.parametrize(("stored_bytes", "codes"), [(10, ["compresses-too-well"]), (100, [])])
def test_what_compression_made_of_records_that_are_alike_is_doubted(
    stored_bytes: int, codes: list[str]
) -> None:
    network = NetworkConfig(buffer_timeout_ns=-1)
    workload = WorkloadConfig(partition_type="blocking")
    exchange = results.BlockingExchange(1, 1, 1.0, 1, 1.0, 100, stored_bytes, "LZ4")
    found = doubts(Scenario(network, workload), replace(result(), blocking=(exchange,)))
    assert [warning.code for warning in found] == codes


def test_a_document_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "result.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="Out of range"):
        write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [each.name for each in path.parent.iterdir()] == ["result.json"]


def test_a_change_that_rounds_to_nothing_has_no_sign() -> None:
    found = difference([0, 0.003, 0.001], [0.001, 0, 0.002], direction=-1)
    assert change_cells(found, "backlog") == ["0.00", "−0.01…+0.01"]


def test_an_interval_of_two_runs_that_says_nothing_has_no_figures() -> None:
    found = difference([1, 900], [400, 1], direction=-1)
    assert change_cells(found, "p99")[1] == ">100-fold"


def compared(base: str, name: str, **differences: Difference) -> Comparison:
    own, other = (configuration(each, [result()] * 3) for each in (name, base))
    return Comparison(other, (Candidate(own, differences, (), (), ()),), 0.95, 1, {})


def changes(comparison: Comparison, width: int) -> str:
    (candidate,) = comparison.candidates
    return printed(changes_table(comparison, candidate, has_notes=False), width=width)


def test_a_comparison_on_a_narrow_terminal_has_nothing_cut() -> None:
    means = 0.5e6, 9.99 * 1024
    large = Difference(*means, *means, 10.96, -0.978, 102.274, 4, Verdict.NONE)
    name = "execution.buffer-timeout.interval=5ms"
    text = changes(compared("base", name, throughput_bytes=large, p99=large), 80)
    assert max(map(len, text.splitlines())) <= 80
    for whole in ("9.99 KiB", "+1096.0%", "−97.8…+10227.4", "no difference", "95% interval"):
        assert whole in text
    assert text.count("…") == 2


@pytest.mark.parametrize("width", [60, 120])
def test_names_of_configurations_are_no_markup(width: int) -> None:
    alike = Difference(0.5e6, 0.5e6, 0.5e6, 0.5e6, 10.96, -0.978, 102.274, 4, Verdict.NONE)
    names = ("[/a]/base.yaml", "[/x]y")
    shown = " ".join(changes(compared(*names, p99=alike), width).split())
    assert "[/x]y against [/a]/base.yaml" in shown
    assert ("metric [/x]y" if width == 60 else " ".join(names)) in shown


def test_what_a_comparison_measured_and_one_way_to_decide_are_in_its_answer() -> None:
    wide = difference([10, 10, 10], [9, 12, 10], direction=-1)
    comparison = compared("base", "new", p50=wide, p99=wide, mean=wide)
    text = printed(comparison_view(comparison), width=100, details=False)
    assert "unclear in p50, p99 (about 127 runs would decide)" in text
    assert text.count("would decide") == 1
    assert "measured in flinknet's own network stack" in text


def test_the_reason_of_a_doubt_comes_before_the_scope() -> None:
    alike = difference([10, 10], [10, 10], direction=-1)
    late = results.RunWarning("late", "sources were late.")
    comparison = compared("base", "new", p50=alike)
    own = configuration("new", [result(1.0, late)] * 3)
    candidate = replace(comparison.candidates[0], configuration=own)
    shown = comparison_view(replace(comparison, candidates=(candidate,)))
    text = printed(shown, width=100, details=False)
    assert "fair: warning in 3 of 6 runs (new): sources were late" in text


def test_a_sentence_names_what_is_worse_and_what_is_better() -> None:
    differences = {
        "throughput": difference([10, 10], [11, 11], direction=1),
        "p99": difference([10, 10], [20, 20], direction=-1),
        "mean": difference([10, 10], [10, 10], direction=-1),
    }

    def sentence(unlike: tuple[str, ...] = (), **named: Difference) -> str:
        comparison = compared("A", "B", **named)
        return effect_sentence(comparison, replace(comparison.candidates[0], unlike=unlike))

    assert sentence(**differences) == (
        "B against A: worse in p99 (+100.0%); better in throughput (+10.0%)."
    )
    assert sentence(mean=differences["mean"]) == "B against A: no difference."
    more = difference([10, 10], [20, 20], direction=0)
    assert sentence(("rate",), buffers=more) == (
        "B against A (another workload: rate): higher in buffers/s (+100.0%)."
    )
    wide = difference([10, 10, 10], [9, 12, 10], direction=-1)
    assert sentence(**differences, p50=wide).endswith(
        "; unclear in p50 (about 127 runs would decide)."
    )


def test_no_figure_has_two_headings_or_two_meanings() -> None:
    figures = [*FIGURES.values(), CPU, BUSY, IDLE, BACK_PRESSURED, IN_POOL, OUT_POOL]
    titles = [each.title for each in figures]
    assert len(set(titles)) == len(titles)
    rooms = (Path(report.__file__).parent, Path(results.__file__).parent)
    paths = [*(path for room in rooms for path in room.rglob("*.py")), Path(notebook.__file__)]
    texts = "".join(path.read_text(encoding="utf-8") for path in paths)
    assert [x.meaning for x in figures if x.meaning and texts.count(x.meaning) > 1] == []
    assert all(metric.figure.title in titles for metric in METRICS.values())
