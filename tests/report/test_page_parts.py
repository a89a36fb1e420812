"""Pages that are described by their parts, and the pictures of their main charts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from flinknet.report import charts, page_parts
from flinknet.report.bench import bench_page
from flinknet.report.demos.links import timeout
from flinknet.report.demos.overload import back_pressure, unaligned
from flinknet.report.page import page_of
from flinknet.report.plot import draw, main_chart
from flinknet.report.replay import replay_page
from flinknet.results import LatencySummary, RunResult, RunWarning
from flinknet.results.comparison import Configuration
from tests.chromium import Chromium
from tests.made_results import configuration
from tests.page_answer import answer, typed
from tests.report.test_demo_console import mode, shown
from tests.report.test_demos import LOAD, chain, checkpointed, debloated, timed
from tests.report.test_page import (
    browser_test,
    embedded,
    place_of,
    slide,
    text_of,
    texts_of,
    tooltip,
)

MS = 1_000_000

CURVES = charts.Curves(
    "Latency",
    ["0", "5ms", "100ms"],
    [charts.Series("p50", [1e5, 3e6, None], low=[9e4, 2e6, None], high=[2e5, 4e6, None])],
    unit="ns",
    is_log=True,
    marks=[(1, "baseline")],
    by="buffer timeout",
    y="latency",
)
OVER_TIME = charts.OverTime(
    "Buffers in use",
    [charts.TimeSeries("sink", [0, 50 * MS, 100 * MS], [0.0, None, 1.0])],
    unit="share",
    limits=[charts.Limit(0.8, "target")],
    spans=[charts.Span("slow", 40 * MS, 90 * MS)],
    y="share of the pool",
    lanes=[charts.Lane("aligned", "blue", [(10 * MS, 30 * MS)])],
    in_lanes="checkpoints",
)
PERCENTILES = charts.Percentiles(
    "By percentile", [charts.PercentileSeries("all", [(0.5, 1e6), (0.99, 5e6)])]
)
INTERVALS = charts.Intervals(
    "Change",
    [
        charts.Interval("p99", -0.2, -0.3, -0.1, "green", limits=[0.1]),
        charts.Interval("backlog", None, None, None),
    ],
)
BARS = charts.Bars(
    "Time",
    [charts.BarPart("busy", "busy", "orange"), charts.BarPart("idle", "idle", "grey")],
    [charts.Bar("sink 0", {"busy": 0.9, "idle": 0.1})],
)
PLACES = charts.Places(
    ["socket", "gate"],
    ["In the kernel.", "In the gate."],
    [
        charts.PlacesRun(
            "tcp",
            [100, 200],
            [
                charts.PlacesStep(0, [0, 0]),
                charts.PlacesStep(MS, [95, 20], ["It waits."], [[], [5, 15]]),
            ],
        )
    ],
    OVER_TIME,
    channels=[charts.PlacesChannel("for B.3", "green"), charts.PlacesChannel("for B.4", "purple")],
)
MESSAGES = charts.Messages(
    [("A.1", "B.3")],
    {
        "tcp": [charts.MessageStep(0, 0, False, "PartitionRequest 0", [None])],
        "credit": [
            charts.MessageStep(0, 0, False, "PartitionRequest 2", [2]),
            charts.MessageStep(1 * MS, 0, True, "Buffer #1 2100 B", [1]),
            charts.MessageStep(9 * MS, None, True, "8.00 ms and 4 messages left out", [3]),
            charts.MessageStep(9 * MS, 0, True, "Buffer #2 2100 B", [0]),
        ],
    },
    {"Buffer": "Records."},
)
EVERYTHING = page_parts.Page(
    "bench",
    [
        page_parts.View(
            name="first",
            title="All <parts> & more",
            parts=[
                page_parts.Lines(["The verdict.", "And more."], is_headed=True),
                page_parts.Facts([page_parts.Fact("p50", "1.00 ms", "Half.")]),
                page_parts.Section(
                    "all",
                    "Everything",
                    "A lead.",
                    [
                        *(CURVES, OVER_TIME, PERCENTILES, INTERVALS, BARS, PLACES, MESSAGES),
                        page_parts.Table(
                            [page_parts.Head("name"), page_parts.Head("p50", "Half.", "latency")],
                            [page_parts.Row(["a", "1"], True)],
                        ),
                        page_parts.Code("Keys", "a: 1"),
                        page_parts.Pairs("Environment", {"cores": "2"}),
                    ],
                ),
            ],
        ),
        page_parts.View(
            name="second", title="Another", parts=[page_parts.Lines(["Doubtful."], is_doubt=True)]
        ),
    ],
)


def test_the_page_holds_its_parts_each_with_its_kind() -> None:
    document = embedded(page_of(EVERYTHING))
    assert document["command"] == "bench"
    first, second = document["views"]
    assert first["title"] == "All <parts> & more"
    assert [each["kind"] for each in first["parts"]] == ["lines", "facts", "section"]
    assert [each["kind"] for each in first["parts"][2]["parts"]] == [
        *("curves", "over_time", "percentiles", "intervals", "bars", "places", "messages"),
        *("table", "code", "pairs"),
    ]
    assert second["parts"][0]["is_doubt"]


def test_a_sweep_compares_its_settings_first_and_then_shows_each() -> None:
    page = bench_page([setting("buffer-timeout=0", 1e6), setting("buffer-timeout=5ms", 4e6)], {})
    assert [view.name for view in page.views] == [
        *("all settings", "buffer-timeout=0", "buffer-timeout=5ms")
    ]
    chart = main_chart(page)
    assert isinstance(chart, charts.Curves)
    assert chart.labels == ["0", "5ms"]
    assert chart.series[0].values == [1e6, 4e6]
    alone = bench_page([setting("", 1e6)], {})
    assert [view.title for view in alone.views] == ["This configuration"]
    assert isinstance(main_chart(alone), charts.Percentiles)


def setting(name: str, p50: float) -> Configuration:
    """One run of a configuration, made by hand."""
    result: RunResult = mode("tcp", 100.0).shared
    latency = LatencySummary(count=1000, p50=p50, p99=3 * p50)
    measured = replace(result.measured, latency_ns=latency, latency_uncorrected_ns=latency)
    return configuration(name, [replace(result, measured=measured)])


def places_in(page: page_parts.Page) -> charts.Places:
    (places,) = [part for part in page.views[0].parts if isinstance(part, charts.Places)]
    return places


def test_the_places_of_both_modes_stand_under_one_slider() -> None:
    page = shown(mode("tcp", 100.0), mode("credit", 9_900.0)).page
    places = places_in(page)
    assert [run.name for run in places.runs] == [
        *("TCP only (Flink < 1.5)", "credit-based (since 1.5)")
    ]
    steps = places.runs[0].steps
    assert steps[0].lines[0].startswith("Before the pause.")
    assert steps[20].lines[0].startswith("B.4 has been paused for 500 ms.")
    assert places.names[-2:] == ["6 input channels, B.3", "6 input channels, B.4"]
    assert steps[20].levels == [10_240, 10_240, 0, 0, 0, 0, 0, 2048]
    assert steps[20].by_channel[-2:] == [[0, 0], [0, 2048]]
    assert places.runs[0].bounds[-2:] == [1 << 18, 1 << 18]
    assert [each.name for each in places.channels] == ["for B.3", "for B.4"]
    assert main_chart(page) == places.curve


def test_the_quota_of_a_channel_bounds_its_first_place() -> None:
    credit = mode("credit", 9_900.0)
    config = {
        "taskmanager.network.memory.max-buffers-per-channel": "3",
        "taskmanager.memory.segment-size": "32 kb",
    }
    credit = replace(credit, shared=replace(credit.shared, config=config), credits=(2, 0))
    page = shown(mode("tcp", 100.0), credit).page
    tcp, with_credit = places_in(page).runs
    assert tcp.bounds[0] == 1 << 19
    assert with_credit.bounds[0] == 3 * 32 * 1024
    said = with_credit.steps[20].lines
    assert "with 1 buffer queued; of A.1: 2, with 0 buffers queued" in said[1]


@pytest.mark.parametrize("chart", [CURVES, OVER_TIME, PERCENTILES, INTERVALS])
def test_every_chart_can_be_drawn(chart: charts.Curves) -> None:
    pytest.importorskip("matplotlib")
    picture = draw(chart, "svg", "a title")
    assert picture.startswith(b"<?xml")
    assert picture == draw(chart, "svg", "a title")


def test_an_axis_of_bytes_has_round_ticks_and_no_unit_at_0() -> None:
    pytest.importorskip("matplotlib")
    series = [charts.TimeSeries("on", [0, 2000 * MS], [0, 590_000])]
    picture = draw(charts.OverTime("In flight", series, unit="bytes"), "svg", "a title").decode()
    labels = re.findall(r"<!-- (.*?) -->", picture)
    assert [each for each in labels if each.endswith("KiB")] == ["200 KiB", "400 KiB", "600 KiB"]
    assert labels.count("0") == 2
    assert "2 s" in labels


@browser_test
@pytest.mark.parametrize("width", [1280, 390])
def test_every_part_is_drawn_and_nothing_runs_over(
    show_page: Callable[..., Chromium], width: int
) -> None:
    browser = show_page(EVERYTHING, width, scheme="dark")
    assert browser.run("document.querySelectorAll('#all svg').length") == 6
    assert browser.run("document.documentElement.scrollWidth") == width
    assert text_of(browser, "h1") == "All <parts> & more"
    assert "latency p50" in text_of(browser, "#all thead")
    browser.run("document.querySelectorAll('#runs button')[1].click()")
    assert text_of(browser, "main").split() == ["Another", "Doubtful."]


@browser_test
def test_text_grows_for_a_projector_and_nothing_runs_over(
    show_page: Callable[..., Chromium],
) -> None:
    browser = show_page(EVERYTHING)
    height = "document.querySelector('h1').getBoundingClientRect().height"
    before = browser.run(height)
    browser.run("[1, 2, 3, 4, 5].map(() => document.querySelector('#sizes :last-child').click())")
    assert browser.run(height) == pytest.approx(2 * before, rel=0.1)
    assert browser.run("location.hash") == "#size=200"
    assert browser.run("document.documentElement.scrollWidth") == 1280
    browser.mouse("mouseMoved", *place_of(browser, "#all .pair svg:nth-of-type(1)", 0.5))
    assert tooltip(browser)
    browser.run("[1, 2, 3, 4].map(() => document.querySelector('#sizes :first-child').click())")
    assert browser.run(height) == pytest.approx(before)


@browser_test
def test_the_slider_goes_through_the_places(show_page: Callable[..., Chromium]) -> None:
    browser = show_page(EVERYTHING)
    heights = "[...document.querySelectorAll('.level')].map((each) => each.style.height)"
    assert browser.run(heights) == ["95%", "10%"]  # where most lies in the places
    assert text_of(browser, ".said") == "It waits."
    layers = "[...document.querySelectorAll('.layer')].map((each) => each.offsetHeight > 0)"
    assert browser.run(layers) == [True, True, True]  # one of both, then one of each
    browser.run("document.querySelector('[aria-label=\"one step back\"]').click()")
    assert browser.run(heights) == ["0%", "0%"]
    assert text_of(browser, ".clock") == "0.00 s"


@browser_test
def test_what_lies_beyond_the_axis_is_no_plateau(show_page: Callable[..., Chromium]) -> None:
    values = [10, 10, 90, 90, 90, 90, 10]
    series = charts.TimeSeries("tcp", [at * MS for at in range(7)], values)
    view = page_parts.View(parts=[charts.OverTime("Throughput", [series], top=20.0)])
    browser = show_page(page_parts.Page("bench", [view]))
    paths = "[...document.querySelectorAll('path')].map((each) => each.getAttribute('d'))"
    (drawn,) = [each for each in browser.run(paths) if each and each.count("L") > 1]
    assert (drawn.count("M"), drawn.count("L")) == (2, 3)  # up to the axis, and down from it


@browser_test
def test_two_runs_stand_side_by_side_each_with_the_instant_that_it_shows(
    show_page: Callable[..., Chromium],
) -> None:
    names = [*(f"1 subpartitions, A.{each}" for each in "12"), "2 Netty", "3 socket", "4 socket"]
    names += ["5 Netty", *(f"6 input channels, B.{each}" for each in "34")]
    every, late = [0, 100, 200, 300], [0, 160, 240]
    runs = [
        charts.PlacesRun(
            name,
            [100] * 8,
            [charts.PlacesStep(at * MS, [50] * 8, [f"at {at} ms"], (), [3]) for at in instants],
        )
        for name, instants in (("tcp", every), ("credit", late))
    ]
    view = page_parts.View(parts=[charts.Places(names, [""] * 8, runs)])
    browser = show_page(page_parts.Page("bench", [view]))
    step_on = "document.querySelector('[aria-label=\"one step on\"]').click()"
    browser.run(step_on)
    browser.run(step_on)
    assert text_of(browser, ".clock") == "0.20 s"
    assert texts_of(browser, ".placed h3") == ["tcp, at 0.20 s", "credit, at 0.16 s"]
    half = ["of 100 B"]
    assert texts_of(browser, ".bound") == 2 * [*3 * half, "full", *4 * half]
    browser.run(step_on)
    assert texts_of(browser, ".placed h3") == ["tcp, at 0.30 s", "credit, at 0.24 s"]
    tops = "[...document.querySelectorAll('.placed h3')].map((each) => each.offsetTop)"
    runs_over = (
        "[...document.querySelectorAll('.name')].some((one) => one.scrollWidth > one.clientWidth)"
    )
    for _ in range(4):
        assert len(set(browser.run(tops))) == 1
        assert not browser.run(runs_over)
        browser.run("document.querySelector('#sizes :last-child').click()")


@browser_test
def test_messages_are_shown_step_by_step_with_the_credit_that_is_left(
    show_page: Callable[..., Chromium],
) -> None:
    browser = show_page(EVERYTHING)
    assert text_of(browser, ".credits") == "Credit of A.1: 0"
    assert "■" not in text_of(browser, ".credits")
    assert "Buffer #2 2100 B" in text_of(browser, ".message.last")
    assert text_of(browser, ".meaning") == "Records."
    browser.run("document.querySelector('[aria-label=\"one message back\"]').click()")
    assert text_of(browser, ".left-out") == (
        "… 8.00 ms and 4 messages left out; credit is now 3 (A.1)"
    )
    assert (
        text_of(browser, ".credits") == "Credit of A.1: 3 ■■■"
    )  # before the message behind the gap
    browser.run("document.querySelector('[aria-label=\"one message back\"]').click()")
    assert text_of(browser, ".credits") == "Credit of A.1: 1 ■"
    assert texts_of(browser, ".arrow") == ["PartitionRequest 2", "Buffer #1 2100 B"]
    browser.run("document.querySelector('[aria-label=\"one message back\"]').click()")
    heights = "[...document.querySelectorAll('.level')].map((each) => each.style.height)"
    assert browser.run(heights) == ["0%", "0%"]  # the places go where the message is
    browser.run("document.querySelector('[aria-label=\"one message on\"]').click()")
    assert browser.run(heights) == ["95%", "10%"]


@browser_test
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("demo", ["head-of-line", "back-pressure", "unaligned", "debloating"])
def test_every_demo_over_time_goes_step_by_step_and_nothing_runs_over(
    show_page: Callable[..., Chromium], demo: str, width: int
) -> None:
    long = charts.MessageStep(0, 0, True, "Buffer #0 EndOfOutputChannelStateEvent backlog 0", [2])
    pages = {
        "head-of-line": lambda: shown(mode("tcp", 100.0), mode("credit", 9_900.0)).page,
        "back-pressure": lambda: back_pressure([replace(chain(), messages=(long,))], LOAD).page,
        "unaligned": lambda: (
            unaligned(
                [checkpointed("aligned", 400, 0), checkpointed("unaligned", 8, 65_536)], LOAD
            ).page
        ),
        "debloating": lambda: debloated(500_000).page,
    }
    browser = show_page(pages[demo](), width)
    state = "document.querySelector('.placed').innerText"
    before = browser.run(state)
    browser.run("document.querySelector('[aria-label=\"one step back\"]').click()")
    assert browser.run(state) != before
    assert browser.run("document.documentElement.scrollWidth") == width


@browser_test
def test_pools_that_fill_up_one_after_another_are_first_shown_when_half_is_in_use(
    show_page: Callable[..., Chromium],
) -> None:
    steps = [charts.PlacesStep(at * MS, [min(1.0, at / 4)] * 2) for at in range(9)]
    run = charts.PlacesRun("Pools", [1.0] * 2, steps)
    places = charts.Places(["source", "sink"], [""] * 2, [run], unit="share")
    view = page_parts.View(parts=[places])
    browser = show_page(page_parts.Page("bench", [view]))
    assert texts_of(browser, ".amount") == ["50%"] * 2
    assert texts_of(browser, ".bound") == [""] * 2
    browser.run("[1, 2].map(() => document.querySelector('[aria-label=\"one step on\"]').click())")
    assert texts_of(browser, ".amount") == ["100%"] * 2
    assert texts_of(browser, ".bound") == ["full"] * 2


@browser_test
def test_the_timeouts_of_a_demo_are_moved_by_hand(show_page: Callable[..., Chromium]) -> None:
    runs = [timed("0", 1, 1000), timed("5ms", 3, 200), timed("100ms", 50, 10)]
    late = RunWarning("rate-not-reached", "rate not reached")
    runs[1] = replace(runs[1], result=replace(runs[1].result, warnings=(late,)))
    browser = show_page(timeout(runs, LOAD).page)
    hollow = "document.querySelectorAll('.grid circle[fill=\"var(--card)\"]').length"
    assert browser.run(hollow) == 3  # p50, p99 and buffers of the invalid run
    assert text_of(browser, ".sliders output") == "100ms (reference)"
    assert slide(browser, 0, 0) == "0"
    assert text_of(browser, ".grid .facts").startswith("p50\n1.00 ms −98.0%")
    assert "1.00 k \N{MULTIPLICATION SIGN}100" in text_of(browser, ".grid .facts")


@browser_test
def test_charts_have_their_limits_titles_of_axes_and_lanes(
    show_page: Callable[..., Chromium],
) -> None:
    browser = show_page(EVERYTHING)
    assert browser.run("document.querySelectorAll('#all svg .limit').length") == 1
    assert "target" in texts_of(browser, "#all svg .of-mark")
    assert texts_of(browser, "#all .pair svg .axis-title") == [
        *("↑ latency, log scale", "buffer timeout →"),
        *("↑ share of the pool", "time since the start →"),
        *("↑ latency, log scale", "percentile of the records →"),
    ]
    assert texts_of(browser, "#all .pair svg .lane") == ["aligned"]
    assert "▬ checkpoints" in text_of(browser, "#all .pair .legend")


def test_the_chart_of_a_replay_goes_along_the_setting_with_the_most_values() -> None:
    chart = main_chart(replay_page([typed(answer((0, 10, 100, -1), (2, 8))).alone]))
    assert isinstance(chart, charts.Curves)
    assert (chart.title, chart.by) == ("Latency", "buffer timeout")
    assert list(chart.labels) == ["0", "10ms", "100ms", "-1"]
    assert chart.marks == [(1, "recorded")]
    assert [each.name for each in chart.series] == ["p50", "p99"]
    assert chart.series[0].low
    assert main_chart(replay_page([typed(answer(model_error={"throughput": 0.6})).alone])) is None


@pytest.mark.parametrize(
    ("phrase", "more"),
    [
        ("warning in runs 1, 3 and 5 of 6: the schedule was missed", " by 3 ms in a second"),
        ("warning in all 6 runs (main.yaml, main.yaml (2); both): p99 is late", ", by 3 ms, often"),
    ],
)
def test_a_long_answer_is_cut_where_a_clause_ends(phrase: str, more: str) -> None:
    """Not at a comma in mid-phrase, nor within brackets."""
    clause = f"fair: {phrase}{more}; {'another process was busy meanwhile, ' * 4}as it seems"
    others = [page_parts.Sentence(f"s{each}", ["it is"]) for each in range(5)]
    lines = page_parts.headline([*others, page_parts.Sentence("trust", [clause, "a last one"])])
    assert lines[5:] == [f"trust      fair: {phrase}{more}"]


def test_a_clause_without_commas_wraps_and_is_never_cut_off() -> None:
    clause = " ".join(["fair: a TaskManager waited"] + ["up to 44% of the time"] * 12)
    others = [page_parts.Sentence(f"s{each}", ["it is"]) for each in range(6)]
    lines = page_parts.headline([*others, page_parts.Sentence("trust", [clause])])
    assert "…" not in "".join(lines)
    assert " ".join(" ".join(lines).split()).endswith(clause)
