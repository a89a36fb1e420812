"""A replay as a terminal shows it, table by table."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from flinknet.report.advice import model_error_part
from flinknet.report.console import console_for, print_line, print_part
from flinknet.report.observed_tables import diagnosis_table
from flinknet.report.page_parts import LINES_MAX, WIDTH, Head, Row, Sentence, Table, headline
from flinknet.report.predicted import grid_of
from flinknet.report.replay_headline import replay_sentences
from flinknet.results import OPEN_TAIL, JobAnswer, TaskTimeouts
from flinknet.results.bottleneck import Bottleneck, Cause
from flinknet.results.recordings import EdgeShare, FlinkMetrics, TaskManagerMetrics, VertexMetrics
from flinknet.units import human_duration
from tests import page_answer
from tests.page_answer import S, latency, print_replays, typed

LATENCY = latency()
LOST_METRICS, LOST_BLOCK = (
    {"path": "runs/one", "file": file, "kind": kind, "count": None, "text": text}
    for file, kind, text in (
        ("metrics.jsonl", "damaged_file", "Flink's metrics are not used: missing or damaged"),
        ("a.fnt", "damaged_blocks", "1 of 47 blocks damaged and skipped: lost 16 events"),
    )
)


def point(timeout: str, *, is_recorded: bool = False, **changes: Any) -> dict[str, Any]:
    return page_answer.point(int(timeout.split()[0]), is_recorded=is_recorded) | changes


def answer(**changes: Any) -> dict[str, Any]:
    """The answer of a run with 20 channels, recorded with 10 ms, without advice."""
    given = page_answer.answer((0, 10, 100), channels=20)
    given["trace"] |= {"path": "runs/one"}
    given["trade_offs"][2] |= {
        "throughput_records_per_s": None,
        "latency_ns": dict.fromkeys(LATENCY),
    }
    given["over_time"] = [
        {
            "from_ns": start * 10**8,
            "width_ns": 10**8,
            "throughput_records_per_s": 1000.0 * start,
            "backlog_buffers": {"mean": None if start == 1 else 0.5, "max": 1},
        }
        for start in range(3)
    ]
    given["model_error"] = {"throughput": 0.01, "p50": -0.052, "p99": None}
    del given["advice"]
    return given | changes


def printed(*answers: dict[str, Any], width: int = 120, **options: Any) -> list[str]:
    """The lines of `--details`, from the rule on under which the first answer stands."""
    lines = printed_first(*answers, width=width, details=True, **options)
    return lines[next(n for n, line in enumerate(lines) if line.startswith("───")) :]


def printed_first(*answers: dict[str, Any], width: int = 120, **options: Any) -> list[str]:
    stream = io.StringIO()
    print_replays(
        [typed(each).alone for each in answers],
        Console(file=stream, width=width, highlight=False),
        **options,
    )
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_a_throughput_that_the_model_was_fitted_to_has_no_error() -> None:
    fitted = answer(model_error={"throughput": None, "p50": -0.052, "p99": None})
    fitted["trace"]["is_max_rate"] = True
    (trust,) = (line for line in printed_first(fitted) if line.startswith("trust"))
    assert "records/s fitted, p50 −5.2%" in trust
    assert "records/s fitted to the recorded one, p50 −5.2%" in printed(fitted)[1]


def test_predictions_that_must_not_be_relied_on_are_not_printed() -> None:
    off = answer(model_error={"throughput": 2.8, "p50": -0.1, "p99": None})
    lines = printed_first(off)
    assert (
        "trade-off  not predicted: the model misses the recorded records/s by more than"
        in "\n".join(lines)
    )
    assert not any("records/s  p50" in line for line in lines)
    assert "5.00 ms" not in "\n".join(lines)
    assert "predictions are not shown: the model misses" in printed(off)[2]


def test_a_long_verdict_leaves_out_its_last_clauses_and_no_line_is_longer() -> None:
    clauses = [f"clause {n} of a verdict with many words to say;" for n in range(12)]
    sentences = [Sentence("verdict", clauses, " ", takes_rest=True), Sentence("next", ["go on"])]
    lines = headline(sentences)
    assert len(lines) == LINES_MAX
    assert all(len(line) <= WIDTH for line in lines)
    assert "clause 8" in " ".join(lines)
    assert lines[-1] == "next       go on"
    shorter = headline([Sentence("trust", ["its basis"]), *sentences])
    assert len(shorter) == LINES_MAX
    assert shorter[0] == "trust      its basis"
    wide = Sentence("trust", ["fair: " + "many words " * 12 + "in one clause"])
    assert len(headline([wide, *sentences])) == LINES_MAX
    happened = ["snk is busy.", "3 of 4 checkpoints expired:", "their barriers wait " * 20]
    shown = headline([Sentence("verdict", happened, " "), *sentences])
    assert "3 of 4 checkpoints expired" in " ".join(shown)
    narrow = headline(sentences, 60)
    assert "clause 11" in " ".join(narrow)
    assert all(len(line) <= 60 for line in narrow)


def test_a_p99_that_must_not_be_relied_on_is_left_out_alone() -> None:
    lines = printed_first(answer(model_error={"throughput": 0.0, "p50": -0.1, "p99": 0.8}))
    trust = " ".join(" ".join(lines[: lines.index("")]).split())
    assert "poor: p99 left out (+80.0%); model error as recorded: p50 −10.0%" in trust
    (head,) = (line for line in lines if line.startswith("timeout "))
    assert head.split() == ["timeout", "records/s", "p50", "buffers/s"]


def test_buffers_per_s_count_for_the_grade_and_are_left_out_where_they_are_off() -> None:
    error = {"throughput": 0.0, "p50": 0.04, "p99": 0.1}
    job = answer(model_error=error | {"buffers_per_s": 1.11})
    shown = printed_first(job)
    trust = " ".join(" ".join(shown[: shown.index("")]).split())
    assert "poor: buffers/s left out (+111.0%); model error as recorded: p50 +4.0%, p99" in trust
    near = sentences_of(typed(answer(model_error=error | {"buffers_per_s": 0.2})).alone)
    assert near["trust"].startswith("fair: model error as recorded: p50 +4.0%, p99 +10.0%, buffers")


def test_a_p99_that_cannot_be_predicted_is_no_trade_off() -> None:
    given = answer()
    note = f"{OPEN_TAIL}: the ends of its interval differ by a factor of 102"
    for each in given["trade_offs"]:
        each["latency_ns"] = each["latency_ns"] | {"p99": None, "p99_9": None, "max": None}
        each["notes"] = [note]
    said = sentences_of(typed(given).alone)
    assert "p99" not in said["trade-off"]
    assert f"; {OPEN_TAIL}" in said["trust"]
    given["trade_offs"][0]["notes"] = []
    assert f"{OPEN_TAIL} at 2 of 3 settings" in sentences_of(typed(given).alone)["trust"]


CHOICE = {
    **{"targets": ["p99<=12ms"], "point": 2, "is_safe": True, "margin": 0.3, "nearest": None},
    **{"patch": "execution.buffer-timeout.interval: 100 ms", "recorded_margin": 0.2},
}


def sentences_of(job: JobAnswer) -> dict[str, str]:
    return {each.name: each.text for each in replay_sentences(job)}


def with_choice(**changes: Any) -> dict[str, Any]:
    """An answer with a choice at the recorded rate."""
    choice = CHOICE | changes
    situations = [page_answer.situation(choice=choice)]
    return answer(advice={"frontier": [], "choice": choice, "situations": situations})


@pytest.mark.parametrize(
    ("other", "next_step"),
    [
        (point("0 ms"), "give a limit, as in --target 'p99<=4.5ms', for the keys to set"),
        (point("8 ms"), "give a limit, as in --target 'p99<=8.3ms', for the keys to set"),
        (point("9 ms"), "no setting has clearly less latency; try others"),
        (
            point("1 ms") | {"latency_high_ns": latency(0.6) | {"p99": 8.5e6}},
            "give a limit, as in --target 'p50<=3.4ms', for the keys to set",
        ),
        (point("100 ms"), "no setting has clearly less latency; try others"),
        (point("1 ms", consumer_speed=2.0), "no setting has clearly less latency; try others"),
    ],
)
def test_a_limit_is_an_example_only_where_a_predicted_setting_keeps_it(
    other: dict[str, Any], next_step: str
) -> None:
    given = answer(trade_offs=[other, point("10 ms", is_recorded=True)])
    assert sentences_of(typed(given).alone)["next"].startswith(next_step)


def test_a_limit_on_a_p99_that_is_left_out_is_said_to_have_no_answer() -> None:
    given = with_choice(point=None, is_known=False, margin=None, recorded_margin=None)
    off = given | {"model_error": {"throughput": 0.0, "p50": -0.1, "p99": 0.8}}
    said = sentences_of(typed(off).alone)
    assert "p99 and all beyond it cannot be answered from this recording" in said["trade-off"]
    assert said["next"] == "give a limit on p50 or p90, or record again"
    assert "a figure is missing" in sentences_of(typed(given).alone)["trade-off"]


def test_a_limit_on_what_is_not_predicted_is_said_to_be_undecided() -> None:
    given = with_choice(point=None, is_known=False, margin=None, recorded_margin=None)
    given["trade_offs"] = [each | {"latency_ns": None} for each in given["trade_offs"]]
    said = sentences_of(typed(given).alone)["trade-off"]
    assert said.startswith("p99<=12ms undecided, not predicted: ")


def test_the_recorded_situation_comes_first_and_others_that_miss_the_limit_behind_it() -> None:
    missed = CHOICE | {"point": None, "nearest": 0, "margin": -1.0, "recorded_margin": None}
    kept = CHOICE | {"point": 1, "patch": ""}
    situations = [
        page_answer.situation(consumer_speed=0.01, choice=missed),
        page_answer.situation(choice=kept),
    ]
    points = [point("10 ms", consumer_speed=0.01), point("10 ms", is_recorded=True)]
    advice = {"frontier": [], "choice": kept, "situations": situations}
    said = sentences_of(typed(answer(trade_offs=points, advice=advice)).alone)
    assert said["trade-off"].startswith("already met: p99<=12ms with consumer speed x1")
    assert "; no predicted setting meets p99<=12ms at consumer speed x0.01" in said["trade-off"]
    assert said["next"] == "nothing to change: the recorded settings meet the limit"


@pytest.mark.parametrize("is_by_task", [False, True])
@pytest.mark.parametrize("is_cheaper", [False, True])
def test_where_the_recorded_setting_keeps_the_limit_a_change_only_lowers_the_cost(
    is_by_task: bool, is_cheaper: bool
) -> None:
    given = with_choice(point=2 if is_cheaper else 0)
    job = typed(given).alone
    if is_by_task:
        assert job.choice is not None
        timeouts_ns = (1_000_000, 2_000_000)
        job = replace(
            job,
            points=tuple(replace(each, timeouts_ns=timeouts_ns) for each in job.points),
            edges=("A → B", "B → C"),
            edge_numbers=(1, 2),
            feeding=(None, 0),
            by_task=TaskTimeouts(
                tasks=("A", "B"),
                timeouts_ns=timeouts_ns,
                choice=job.choice,
                longer=(None, None),
                saved=0.2,
                settings=3,
                is_ended=True,
            ),
        )
    change = "flinknet bench again runs/one --edge-timeout 1=1ms,2=2ms" if is_by_task else "set "
    said = sentences_of(job)["next"]
    assert said.startswith("nothing has to change")
    assert said.startswith(f"nothing has to change; for less cost: {change}") == is_cheaper


def test_where_bench_cannot_check_it_is_not_sent_there() -> None:
    edge = answer()
    edge["trace"]["edge"] = "map → sink"
    assert printed(edge)[2] == "from 30.0 k records; other settings may be further off"


def test_without_a_latency_nothing_is_said_of_how_far_other_settings_are_off() -> None:
    silent = {"latency_ns": {"count": 0}}
    given = answer(
        model_error={"throughput": 0.0, "p50": None, "p99": None},
        trade_offs=[point("10 ms", is_recorded=True, **silent), point("5 ms", **silent)],
    )
    lines = printed(given)
    assert lines[1].startswith("model error on the recorded setting: records/s 0.0%")
    assert not any("further off" in line for line in lines)


def test_of_a_job_all_of_a_part_is_not_all_of_the_trace() -> None:
    given = answer(trace=answer()["trace"] | {"origin": "tap"})
    whole = replace(typed(given).alone, feeding=(None, 0), is_whole=True)
    assert model_error_part(whole).lines[1].startswith("from all of the trace; ")
    given["trace"]["part"] |= {"from_ns": S, "whole_ns": 9 * S}
    part = replace(whole, answers=(typed(given),))
    assert model_error_part(part).lines[1].startswith("from all of the part used; ")


def test_latencies_below_the_error_of_the_clocks_are_not_called_too_few() -> None:
    given = answer(trade_offs=[point("10 ms", is_recorded=True, latency_ns={"count": 10})])
    below = "not predicted: latencies are below the error of the hosts' clocks"
    assert any(below in line for line in printed_first(given))
    given["trade_offs"][0]["latency_ns"]["count"] = 9
    few = "not predicted: too few records support a percentile"
    assert any(few in line for line in printed_first(given))


def test_intervals_of_the_clocks_alone_are_not_called_likely() -> None:
    ends = {"latency_low_ns": latency(0.5), "latency_high_ns": latency(2)}
    given = answer(trade_offs=[point("10 ms", is_recorded=True, **ends), point("5 ms", **ends)])
    text = "\n".join(printed(given))
    assert "in brackets: bounds, because the clocks of two hosts agree within their error" in text
    assert "90% interval" not in text
    job = typed(given).alone
    assert grid_of(job).meaning == "The band is within the error of the hosts' clocks."
    given["trade_offs"][0]["buffers_low_per_s"] = 1.0
    assert grid_of(typed(given).alone).meaning == "The band is the 90% interval."
    assert "clocks of two hosts" not in "\n".join(printed(given))


def test_a_model_that_is_far_off_says_so_in_words() -> None:
    buffers = answer(model_error={"throughput": 0.0, "p50": 0.0, "p99": 0.1, "buffers_per_s": 0.63})
    first, consequence = printed(buffers)[1:3]
    assert "p99 +10.0%, buffers/s +63.0%" in first
    assert "; do not rely on buffers/s and prices; other settings" in consequence
    near = answer(model_error={"throughput": 0.1, "p50": -0.49, "p99": None})
    assert not any("not shown" in line for line in printed(near))


def test_a_part_of_a_run_is_called_a_part() -> None:
    part = {"records": 500, "window_ns": 5 * 10**8, "is_whole": False}
    line = printed(answer(simulated=part))[2]
    assert line.startswith("from 500 records, the first 500 ms of the measured part; ")
    text = " ".join(printed(answer(simulated=part | {"windows": 8}))[2:4])
    assert ", 8 windows, 500 ms of the measured part's" in text
    assert ", compared with all of it; " in text


def test_without_a_prediction_of_the_recorded_setting_the_error_is_unknown() -> None:
    unknown = dict.fromkeys(("throughput", "p50", "p99"))
    given = answer(model_error=unknown)
    assert printed(given)[1].startswith("! model error unknown")
    for each in given["trade_offs"]:
        each["throughput_records_per_s"] = None
    assert printed(given)[2] == "! from 30.0 k records; the recorded setting could not be predicted"


def test_without_an_observed_record_neither_the_model_nor_the_verdict_is_trusted() -> None:
    given = answer(model_error=dict.fromkeys(("throughput", "p50", "p99")))
    healthy = Bottleneck(cause=Cause.NONE, evidence=("nothing holds the job up",))
    said = []
    for given["observed"]["records"] in (1, 0):
        job = replace(typed(given), bottleneck=healthy).alone
        said.append({each.name: each.text for each in replay_sentences(job)})
    why = "not predicted: nothing was recorded to check the model with"
    assert [each["trade-off"] for each in said] == [why, why]
    basis = "the verdict rests on its own events, over 3.00 s"
    assert [each["trust"] for each in said] == [basis, ""]


def test_losses_are_in_the_first_lines_and_lost_metrics_are_nothing_to_rest_on() -> None:
    given = answer(model_error=dict.fromkeys(("throughput", "p50", "p99")))
    given["trace"] |= {"origin": "tap", "losses": [LOST_METRICS, LOST_BLOCK]}
    healthy = Bottleneck(cause=Cause.NONE, evidence=("nothing holds the job up",))
    share = EdgeShare(None, None, None, None, None)
    vertex = VertexMetrics("sink", 1, None, None, None, None, None, ())
    flink = FlinkMetrics((vertex, vertex), (), share)
    job = replace(typed(given), bottleneck=healthy, flink=flink).alone
    said = {each.name: each for each in replay_sentences(job)}
    losses = ["Flink's metrics are not used", "1 more loss"]
    assert said["recorded"].clauses[1:3] == losses
    assert said["trust"].text == "the verdict rests on the messages of the tap, over 3.00 s"
    assert said["next"].text.startswith("copy metrics.jsonl back")
    hosts = replace(flink, task_managers=(TaskManagerMetrics("tm0", 1.0, None, None),))
    job = replace(typed(given), bottleneck=healthy, flink=hosts).alone
    assert sentences_of(job)["trust"] == said["trust"].text


def test_a_long_loss_or_a_long_name_leaves_length_and_rate_in_the_first_line() -> None:
    text = "as many things as a line has no room for are lost " * 3
    loss = {"path": "runs/one", "file": None, "kind": "x", "count": None, "text": text}
    seen = {"records": 1000, "throughput_records_per_s": 538.0}
    lossy = answer(observed=seen)
    lossy["trace"] |= {"losses": [loss]}
    edge = "Source: lines of orders → an operator with a name"
    named = answer(observed=seen)
    named["trace"] |= {"path": f"runs/{'long' * 8}", "edge": edge}
    for each in (lossy, named):
        first = printed_first(each)[0]
        assert "538 records/s" in first, first
        assert len(first) <= WIDTH
        assert ("; 1 loss; " in first) == (each is lossy)


@pytest.mark.parametrize(("missed", "begin"), [(6, "poor: 6% of the buffers"), (2, "good: model")])
def test_a_recording_that_lacks_many_buffers_is_poor_in_a_replay_as_in_its_import(
    missed: int, begin: str
) -> None:
    figures = {"throughput": 0.0, "p50": 0.01, "p99": 0.01}
    given = answer(observed={"buffers": 84, "events": 5}, model_error=figures)
    loss = {"path": "runs/one", "file": None, "kind": "missed_buffers", "count": missed}
    given["trace"] |= {"origin": "capture", "losses": [loss | {"text": "buffers are missing"}]}
    assert sentences_of(typed(given).alone)["trust"].startswith(begin)


def test_a_recording_that_is_left_out_is_named_in_the_first_line() -> None:
    given = answer()
    lost = {"path": "runs/two", "file": None, "kind": "left_out", "count": None}
    given["trace"]["losses"] = [lost | {"text": "left out: its manifest is damaged"}]
    assert sentences_of(typed(given).alone)["recorded"].startswith("one; two: left out; ")


def test_a_verdict_that_credit_would_give_is_unknown_without_it() -> None:
    given = answer(diagnosis=[])
    given["observed"]["credits"]["starved_ns"] = None
    said = sentences_of(typed(given).alone)
    assert said["verdict"] == "unknown: how long data waited for credit was not seen"


def test_of_many_channels_the_slowest_are_shown_and_the_rest_counted() -> None:
    lines = printed(answer())
    assert "  The 16 channels with the highest p99 are here, 4 more are not." in lines
    assert not any(line.startswith("3: 0 → 3 ") for line in lines)
    assert any(line.startswith("4: 0 → 4 ") for line in lines)


def test_channels_asked_for_are_the_ones_shown() -> None:
    lines = printed(answer(), channels=[3])
    assert any(line.startswith("3: 0 → 3 ") for line in lines)
    assert not any(line.startswith("4: 0 → 4 ") for line in lines)


def test_the_emulated_link_of_a_recording_is_named_first() -> None:
    far = answer()
    far["trace"]["link"] = "rtt=10ms"
    assert "; link rtt=10ms; buffer timeout " in printed_first(far)[0]


def test_a_part_of_a_table_without_groups_has_no_line_for_them() -> None:
    wide = [Head("name"), *(Head(f"figure-{n}") for n in range(4)), Head("mean", group="backlog")]
    stream = io.StringIO()
    table = Table(wide, [Row(["one", *map(str, range(5))])])
    print_part(Console(file=stream, width=40), table)
    heads = [line.split() for line in stream.getvalue().splitlines()]
    assert heads[0] == ["name", *(f"figure-{n}" for n in range(4))]
    assert heads[2:4] == [["backlog"], ["name", "mean"]]


def test_pauses_of_task_managers_stand_below_the_verdicts() -> None:
    pauses = "TaskManagers stood still 3 times, for 300 ms at most"
    points = [point("10 ms", is_recorded=True, notes=[f"{pauses}: the ranges reach from none"])]
    assert diagnosis_table(typed(answer(trade_offs=points)).alone).notes == [pauses]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_what_happens_over_time_fits_the_terminal(width: int) -> None:
    windows = [answer()["over_time"][2] | {"from_ns": at * 10**8} for at in range(100)]
    lines = printed(answer(over_time=windows), width=width)
    marks = min(width - 32, 80)
    titles = [line for line in lines if ", a mark is " in line]
    mark = human_duration(100 * 10**8 / marks)
    assert titles == [f"{name}, a mark is {mark}" for name in ("Throughput", "Backlog")]
    assert sum(line.count("█") == marks for line in lines) == 2


def varied_in_all(count: int = 1, **changes: Any) -> dict[str, Any]:
    """An answer whose settings differ in everything that can be asked for."""
    first = point("10 ms", is_recorded=True)
    other = point(
        "100 ms",
        flow_control="tcp",
        round_trip_ns=10_000_000,
        consumer_speed=0.01,
        rate_factor=4.0,
        throughput_records_per_s=5_820.0,
    )
    for each, size, floating, debloating in (
        (first, "32 kb", "8", "false"),
        (other, "8 kb", "2", "true"),
    ):
        each["flow_control"] = each.get("flow_control", "credit")
        each["config"] |= {
            "taskmanager.memory.segment-size": size,
            "taskmanager.network.memory.floating-buffers-per-gate": floating,
            "taskmanager.network.memory.buffer-debloat.enabled": debloating,
        }
    given = answer(trade_offs=[first, *[other] * count])
    advice = {"frontier": [0, 1], "withheld": None, "situations": []}
    return given | {"advice": advice} | changes


@pytest.mark.parametrize("width", [80, 100, 140])
def test_many_lists_cut_no_value_no_heading_and_no_mark(width: int) -> None:
    lines = printed(varied_in_all(2), width=width)
    table = lines[lines.index("All 3 settings") :]
    table = table[: next(n for n, line in enumerate(table) if line.startswith("  ◆"))]
    assert not any("…" in line for line in table)
    text = "\n".join(table)
    for part in ("timeout", "segment", "floating", "consumer", "buffers/s", "p99", "← recorded"):
        assert part in text
    assert "5.82 k" in text
    parts = text.count("records/s") + text.count("memory") - 1
    assert 1 <= sum("◆" in line for line in table) <= parts + 1
    assert any(re.split(r",? +", line.strip())[:3] == ["100ms", "8kb", "2"] for line in table)


def test_of_many_settings_those_of_the_advice_are_among_the_first_and_details_have_all() -> None:
    points = [point(f"{number} ms", is_recorded=number == 7) for number in range(200)]
    choice = {
        **{"targets": ["p99<=1s"], "point": 111, "is_safe": True, "margin": 0.3, "nearest": None},
        **{"patch": "", "next_longer_ns": None},
    }
    situation = {"is_alike": False, "choice": choice, "beyond_keys": []}
    advice = {"frontier": [93], "withheld": None, "situations": [situation]}
    lines = printed(answer(trade_offs=points, advice=advice))
    start = lines.index("All 200 settings")
    rows = {line.split()[0]: line for line in lines[start + 3 : start + 203]}
    assert "← recorded" in rows["7ms"]
    assert "◆" in rows["93ms"]
    assert "← choice" in rows["111ms"]
    assert len(rows) == 200
    first = printed_first(answer(trade_offs=points, advice=advice))
    assert any(line.startswith("111ms ") for line in first)
    assert any("p99<=1s is met" in line for line in lines)  # without its markup
    assert not re.search(r"\[/?(dim|bold|yellow)", "\n".join(lines))


def test_where_nothing_is_predicted_one_line_says_so() -> None:
    silent = [
        point(
            timeout,
            throughput_records_per_s=None,
            latency_ns=dict.fromkeys(LATENCY),
            why_unknown="its records come from another task",
        )
        for timeout in ("0 ms", "10 ms")
    ]
    lines = printed_first(answer(trade_offs=silent), details=True)
    assert "trade-off  not predicted: its records come from another task" in lines
    assert "All 2 settings" not in lines


def test_off_a_terminal_columns_are_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert console_for(io.StringIO()).width == WIDTH
    monkeypatch.setenv("COLUMNS", "93")
    assert console_for(io.StringIO()).width == 93
    monkeypatch.setenv("COLUMNS", "wide")
    assert console_for(io.StringIO()).width == WIDTH


def test_what_to_doubt_stands_under_the_error() -> None:
    given = answer(
        remarks=["a.fnt is cut off: the answer is that of the first half", "so [1] it is"]
    )
    given["trace"] |= {"damaged_files": ["a.fnt", "b.fnt"], "warnings": ["disturbed for 19%"]}
    given["trace"]["part"] = {"cut": ["the run was interrupted", "b.fnt is cut off"]}
    lines = [line.rstrip() for line in printed(given)]
    said = printed_first(given, width=80)[0]
    assert said.split("; ")[1:2] == ["the run was interrupted"]
    first = lines.index("! b.fnt is cut off; its whole blocks are used")
    assert lines[1].startswith("model error")
    assert first < 5
    assert lines[first : first + 4] == [
        "! b.fnt is cut off; its whole blocks are used",
        "! disturbed for 19%",
        "! a.fnt is cut off: the answer is that of the first half",
        "! so [1] it is",
    ]


def test_of_a_tap_the_part_used_is_stated_and_no_empty_column_is_shown() -> None:
    given = answer(regimes=None)
    given["trace"] |= {
        "origin": "tap",
        "part": {"from_ns": 4_000_000_000, "to_ns": 30_000_000_000, "whole_ns": 60_000_000_000},
    }
    given["simulated"] = {"records": 100, "window_ns": 6_000_000_000, "is_whole": False}
    for each in given["channels"]:
        each["regimes"] = None
    lines = printed(given)
    assert any("from 100 records, 4.00 s to 10.0 s of the trace;" in line for line in lines)
    assert any("Observed in 4.00 s to 30.0 s of the trace of" in line for line in lines)
    (heading,) = [line for line in lines if line.startswith("channel ")]
    assert heading.split()[-1] == "credit"
    assert "Latency is not observed" in "\n".join(lines)
    assert not any(line.startswith("latency p50") for line in lines)


def test_of_a_run_a_part_is_one_of_its_measured_part() -> None:
    given = answer()
    given["trace"]["part"] = {"from_ns": 0, "to_ns": 1_000_000_000, "whole_ns": 4_000_000_000}
    lines = printed(given)
    assert any("Observed in the first 1.00 s of the measured part of" in line for line in lines)


def test_the_channel_that_holds_a_watermark_back_stands_in_the_answer() -> None:
    """The rest is in the details: ages, markers, lag; where timestamps are not near the clock, a
    line instead."""
    times = {
        "records": 5000,
        "follows_clock": True,
        "age_ns": LATENCY | {"p50": 30e6, "p99": 250e6},
        "travel_ns": LATENCY | {"p50": 44e6},
        "over_time": [{"from_ns": 0, "width_ns": 10**8, "p50": 30e6, "p99": 250e6}],
        "watermarks": [
            {"channel": n, "name": f"src ({n + 1}/2) → map (1/2)", "lag_ns": lag, "behind_ns": lag,
             "held_share": share, "idle_share": 0.0}
            for n, lag, share in ((0, 2e8, 0.0), (1, 12e9, 0.75))
        ],
    }  # fmt: skip
    held = "held back by src (2/2) → map (1/2): 12.0 s behind its siblings, 75% of the time"
    text = "\n".join(printed_first(answer(record_times=times), details=True))
    assert f"watermark  {held}" in text
    assert re.search(r"30.0 ms +250 ms +44.0 ms", text)
    away = times | {"follows_clock": False, "watermarks": []}
    text = "\n".join(printed_first(answer(record_times=away), details=True))
    assert "held back" not in text
    assert "timestamps are not near the clock: no ages" in text


def test_an_option_is_not_broken_at_its_hyphens_and_a_note_ends_without_blanks() -> None:
    for length in range(60, 90):
        clause = f"{'x' * length} --fail-on-disturbed"
        lines = headline([Sentence("next", [clause])])
        assert any("--fail-on-disturbed" in line for line in lines)
    console = Console(file=io.StringIO(), width=40)
    print_line(console, "a note", indent=2)
    assert console.file.getvalue() == "  a note\n"  # type: ignore[attr-defined]
