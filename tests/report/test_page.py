"""The page of a replay: what is in it, and what a browser makes of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from flinknet.plain_values import from_plain
from flinknet.report.page import capital, page_of
from flinknet.report.replay import replay_page
from flinknet.results import JobAnswer
from flinknet.units import human_bytes, human_change, human_count, human_share
from tests.chromium import PROGRAM, WHY_NOT, Chromium
from tests.page_answer import answer, filled, latency, point, situation, typed


def browser_test(test: Any) -> Any:
    """Marks a test that needs Chromium."""
    return pytest.mark.browser(pytest.mark.skipif(PROGRAM is None, reason=WHY_NOT)(test))


SECTIONS = (
    "headline",
    "",  # the settings that decide
    "trade-offs",
    "answer",
    "settings",
    "observed",
    "latency",
    "over-time",
    "regimes",
    "fill",
    "channels",
    "environment",
)


def embedded(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def replayed(*answers: dict[str, Any]) -> str:
    """The page of some answers."""
    return page_of(replay_page([typed(each).alone for each in answers]))


def part_of(page: str, kind: str, *, is_folded: bool = False) -> Any:
    """The first part of a kind within the sections of the first view."""
    parts = [each for part in embedded(page)["views"][0]["parts"] for each in part.get("parts", ())]
    return next(x for x in parts if x["kind"] == kind and (x.get("fold") or not is_folded))


def test_the_page_has_a_slider_for_each_setting_that_varies() -> None:
    page = replayed(answer((0, 10, -1), (2, 8)))
    grid, settings = part_of(page, "grid"), part_of(page, "table", is_folded=True)
    assert [(each["name"], each["labels"]) for each in grid["sliders"]] == [
        ("buffer timeout", ["0", "10ms", "-1"]),
        ("floating", ["2", "8"]),
    ]
    assert [each["at"] for each in grid["sliders"]] == [1, 1]  # the recorded setting
    assert [each["name"] for each in grid["figures"]] == [
        *("p50", "p99", "records/s", "buffers/s", "memory")
    ]
    assert grid["points"][grid["recorded"]]["values"] == [5e6, 9e6, 10_008.0, 400.0, 8 << 16]
    assert settings["notes"][-2:] == ["assumed: something", "buffer timeout 0: just this one"]


def test_a_recording_without_windows_and_details_has_no_section_over_time() -> None:
    page = replayed(answer((0, 10)) | {"over_time": [], "details": None})
    ids = [each.get("id") for each in embedded(page)["views"][0]["parts"]]
    assert "observed" in ids
    assert "over-time" not in ids


def test_work_follows_the_predicted_throughput_and_the_speed_of_the_consumer() -> None:
    vertices = [{"tasks": [{"name": name, "busy": 0.4}]} for name in ("map", "sink")]
    given = answer((10,), flink={"vertices": vertices})
    slow = point(10) | {"consumer_speed": 0.5, "throughput_records_per_s": 5_004.0}
    given["trade_offs"].append(slow)
    points = part_of(replayed(given), "grid")["points"]
    assert [[bar["shares"]["busy"] for bar in each["bars"]] for each in points] == [
        [0.4, 0.4],
        [0.2, 0.4],
    ]


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        ({"p50": 0.51}, None),
        ({"p99": 0.51}, ["p50", "records/s", "buffers/s"]),
        ({"p99": 0.49}, ["p50", "p99", "records/s", "buffers/s"]),
        ({"buffers_per_s": 0.51}, ["p50", "p99", "records/s"]),
    ],
)
def test_figures_that_may_not_be_relied_on_are_not_shown(
    error: dict[str, float], shown: list[str] | None
) -> None:
    page = replayed(answer(model_error={"throughput": 0.01, "p50": 0.01, "p99": 0.01} | error))
    if shown is None:
        assert '"kind":"grid"' not in page
        assert "predictions are not shown" in page
        return
    assert [each["name"] for each in part_of(page, "grid")["figures"]] == shown
    heads = [each["name"] for each in part_of(page, "table", is_folded=True)["heads"]]
    assert ("buffers/s" in heads) == ("buffers/s" in shown)
    assert "packets/s" not in heads  # no price is known


def test_the_page_refers_to_nothing_outside() -> None:
    page = replayed(answer())
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'")
    without_names = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.findall(r"https?://|src=|@import|url\((?!#)", without_names)


def test_a_name_with_markup_stays_a_name() -> None:
    page = replayed(answer())
    assert page.count("</script>") == 2
    assert embedded(page)["views"][0]["meaning"] == "runs/<one> & </script>"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("disturbed for 19%", "Disturbed for 19%"),
        ("a.fnt is cut off", "a.fnt is cut off"),
        ("tm-0 → tm-1: credit returns", "tm-0 → tm-1: credit returns"),
        ("p99<=20ms is met", "p99<=20ms is met"),
        ("buffer-timeout=5ms: measured", "buffer-timeout=5ms: measured"),
    ],
)
def test_a_paragraph_begins_with_a_capital_letter_unless_with_a_name(text: str, shown: str) -> None:
    assert capital(text) == shown


def test_full_buffers_with_few_bytes_are_explained() -> None:
    why, without = "may still carry few bytes", answer()
    without["observed"]["flushes"]["full"] = 0
    assert why in replayed(answer())
    assert why not in replayed(without)


@pytest.fixture
def show(show_page: Callable[..., Chromium]) -> Callable[..., Chromium]:
    """Open the page of some answers."""

    def open_page(*answers: dict[str, Any], width: int = 1280, **options: Any) -> Chromium:
        return show_page(replay_page([typed(each).alone for each in answers]), width, **options)

    return open_page


def text_of(browser: Chromium, selector: str) -> str:
    return str(browser.run(f"document.querySelector({selector!r}).innerText"))


def texts_of(browser: Chromium, selector: str) -> list[str]:
    """The texts of all elements that a selector finds."""
    found = f"[...document.querySelectorAll({selector!r})].map((each) => each.textContent)"
    texts: list[str] = browser.run(found)
    return texts


def sections_of(browser: Chromium) -> tuple[str, ...]:
    """The ids of all sections; those without one are empty."""
    return tuple(browser.run("[...document.querySelectorAll('section')].map((each) => each.id)"))


def tooltip(browser: Chromium) -> str:
    """What the tooltip says; nothing if it does not show."""
    is_hidden = browser.run("document.getElementById('tip').hidden")
    return "" if is_hidden else text_of(browser, "#tip")


def place_of(
    browser: Chromium, selector: str, x: float = 0.5, y: float = 0.5
) -> tuple[float, float]:
    """A point of an element that is brought into view, as a share of its width and height."""
    left, top, width, height = browser.run(
        f"(async () => {{ const e = document.querySelector({selector!r});"
        " e.scrollIntoView({block: 'center', behavior: 'instant'});"
        " await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));"
        " const r = e.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()"
    )
    return left + x * width, top + y * height


@browser_test
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("floating", [(8,), (2, 8, 32)])
def test_every_section_has_its_plot_and_nothing_runs_over(
    show: Callable[..., Chromium], width: int, scheme: str, floating: tuple[int, ...]
) -> None:
    browser = show(answer(floating=floating), width=width, scheme=scheme)
    assert sections_of(browser) == SECTIONS
    plots = browser.run(
        "Object.fromEntries([...document.querySelectorAll('section')].map((each) => [each.id,"
        " [...each.querySelectorAll('svg')].map((svg) =>"
        "  svg.querySelectorAll('path, rect, circle').length)]))"
    )
    charts = 3 if floating == (8,) else 4  # latency, throughput, buffers; memory
    assert [len(plots[name]) for name in SECTIONS] == [0, 0, charts, 0, 0, 0, 2, 1, 2, 1, 0, 0]
    assert all(count > 3 for counts in plots.values() for count in counts), plots
    assert browser.run("document.documentElement.scrollWidth") == width
    cut = browser.run(
        "[...document.querySelectorAll('svg text')].filter((text) => {"
        " const own = text.getBoundingClientRect();"
        " const room = text.closest('section').getBoundingClientRect();"
        " return own.left < room.left || own.right > room.right; })"
        ".map((text) => text.textContent)"
    )
    assert cut == []
    paper = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(251, 251, 250)") == (scheme == "light")


@browser_test
@pytest.mark.parametrize("width", [1280, 390])
def test_labels_of_a_plot_do_not_lie_on_each_other(
    show: Callable[..., Chromium], width: int
) -> None:
    browser = show(answer((0, 1, 2, 5, 10, 20, 50, 100, 1_000, 10_000, -1), (2, 8)), width=width)
    overlapping = browser.run(
        "[...document.querySelectorAll('svg')].flatMap((svg) => {"
        " const texts = [...svg.querySelectorAll('text:not([transform])')]"
        "  .map((text) => [text.textContent, text.getBoundingClientRect()]);"
        " return texts.flatMap(([a, p], i) => texts.slice(i + 1).filter(([, q]) =>"
        "  p.left < q.right - 1 && q.left < p.right - 1"
        "  && p.top < q.bottom - 3 && q.top < p.bottom - 3).map(([b]) => [a, b])); })"
    )
    assert overlapping == []


@browser_test
def test_names_of_marks_that_stand_close_do_not_run_together(show: Callable[..., Chromium]) -> None:
    gaps = show(answer()).run(
        "Array.from({length: 120}, (_, index) => {"
        " const svg = histogram({edges: [[0, 300], [300, 600]], x: 'a', y: 'b',"
        "  xFormat: String, yFormat: String,"
        "  series: [{name: 'a', color: 'red', values: [1, 1]}], label: 'a', tip: String,"
        "  marks: [[200, 'p50 4.41 ms'], [200 + index, 'p99 12.2 ms']]}, 560);"
        " document.querySelector('section').append(svg);"
        " const [p, q] = [...svg.querySelectorAll('text.strong')]"
        "  .map((text) => text.getBoundingClientRect());"
        " svg.remove();"
        " return Math.abs(p.top - q.top) > 5 ? null : q.left - p.right; })"
    )
    assert None in gaps
    beside = [each for each in gaps if each is not None]
    assert min(beside) >= 6


@browser_test
def test_the_error_of_the_model_is_green_only_where_it_is_small(
    show: Callable[..., Chromium],
) -> None:
    small = {"throughput": 0.01, "p50": -0.09, "p99": 0.1}
    tones = {
        "banner": small,
        "banner plain": small | {"p99": 0.2},
        "banner plain ": small | {"p50": None, "p99": None, "buffers_per_s": 0.01},
        "banner doubt": small | {"p99": -0.51},
    }
    for tone, error in tones.items():
        browser = show(answer() | {"model_error": error})
        found = browser.run("document.getElementById('model-error').className")
        assert found == tone.strip()


@browser_test
def test_a_value_below_one_is_within_its_plot(show: Callable[..., Chromium]) -> None:
    given = answer((0, 10, 100))
    given["trade_offs"][2]["buffers_per_s"] = 0.02
    given["trade_offs"][0]["buffers_per_s"] = 0
    browser = show(given)
    places = browser.run(
        "(() => { const svg = document.querySelectorAll('#trade-offs svg')[2];"
        " return [svg.querySelector('.axis').y1.baseVal.value,"
        "  [...svg.querySelectorAll('circle')].map((each) => each.cy.baseVal.value)]; })()"
    )
    bottom, points = places
    assert points[1] < points[2] <= points[0] <= bottom


@browser_test
def test_the_answer_comes_first_and_then_the_error_of_the_model(
    show: Callable[..., Chromium],
) -> None:
    browser = show(answer())
    names = texts_of(browser, ".headline b")
    assert (names[0], names[-1]) == ("recorded", "next")
    first = text_of(browser, "#model-error")
    assert first.startswith("Model error on the recorded setting: records/s +1.0%, p50 −5.2%")


CHOICE = {
    **{"targets": ["p99<=20ms"], "point": 2, "is_safe": True, "margin": 0.27, "nearest": None},
    **{"patch": "execution.buffer-timeout.interval: 100 ms", "next_longer_ns": 150_000_000},
}


def advised(*situations: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return answer(
        advice={"frontier": [0], "withheld": None, "situations": list(situations)} | changes
    )


@browser_test
def test_the_answer_stands_on_the_page_with_keys_to_copy(show: Callable[..., Chromium]) -> None:
    browser = show(advised(situation(choice=CHOICE)))
    actual = text_of(browser, "#answer")
    assert "p99<=20ms is met with buffer timeout 100ms: 90.0 ms, 27% below the limit" in actual
    assert "Next longer predicted timeout: 150ms" in actual
    assert text_of(browser, "pre") == "execution.buffer-timeout.interval: 100 ms"
    browser.run(
        "document.querySelector('main button').click(),"
        " new Promise((done) => setTimeout(done, 100))"
    )
    assert text_of(browser, "main button") in ("copied", "selected")
    assert browser.run("getSelection().toString()").strip() == CHOICE["patch"]


@browser_test
@pytest.mark.parametrize("width", [1280, 390])
def test_the_choice_is_marked_in_curves_and_table(
    show: Callable[..., Chromium], width: int
) -> None:
    browser = show(advised(situation(choice=CHOICE)), width=width)
    browser.run("document.querySelector('#settings details').open = true")
    marks = browser.run(
        "[...document.querySelector('#trade-offs svg').querySelectorAll('.of-mark')]"
        ".map((each) => each.textContent)"
    )
    assert marks == ["recorded", "choice"]
    rows = "[...document.querySelectorAll('#settings tbody tr')]"
    cells = browser.run(f"{rows}.map((row) => row.cells[1].textContent)")
    assert cells == ["◆", "← recorded", "← choice", ""]
    assert browser.run(f"{rows}[0].cells[0].textContent") == "0"


LABELS = (
    "[...document.querySelector('#trade-offs svg').querySelectorAll('text')]"
    ".map((each) => each.textContent)"
)


def slide(browser: Chromium, number: int, value: int) -> str:
    """Move a slider; gives the texts next to all of them."""
    browser.run(
        f"(() => {{ const slider = document.querySelectorAll('.sliders input')[{number}];"
        f" slider.value = {value}; slider.dispatchEvent(new Event('input'));"
        " return new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50))); })()"
    )
    return ", ".join(texts_of(browser, ".sliders output"))


@browser_test
def test_numbers_are_rounded_as_on_a_terminal(show: Callable[..., Chromium]) -> None:
    numbers = [0.125, 1.375, 12.25, 12.75, 396.5, 766.5, 767.5, 772.5, 2_515_000.0, 0.615, 0.0004]
    browser = show(answer())
    assert browser.run(f"{numbers}.map(count)") == [human_count(each) for each in numbers]
    assert browser.run(f"{numbers}.map(bytes)") == [human_bytes(each) for each in numbers]
    assert browser.run(f"{numbers}.map(change)") == [human_change(each) for each in numbers]
    shares = [0.125, 0.625, 0.00125, 0.0625, 0.3]
    assert browser.run(f"{shares}.map((x) => percent(x, 0))") == [human_share(x) for x in shares]
    assert browser.run(f"{shares}.map((x) => percent(x))") == [f"{x:.1%}" for x in shares]


@browser_test
@pytest.mark.parametrize("width", [1280, 390])
def test_figures_and_curves_follow_the_sliders(show: Callable[..., Chromium], width: int) -> None:
    browser = show(answer((0, 10, 100), (2, 8)), width=width)
    assert slide(browser, 0, 2) == "100ms, 8 (recorded)"
    assert text_of(browser, ".grid .fact dd").startswith("50.0 ms")
    assert "\N{MULTIPLICATION SIGN}10" in text_of(browser, ".grid .fact dd")
    ends = "document.querySelector('.fact .range [data-tip]').dataset.tip"
    assert browser.run(ends).startswith("The range is as wide as the model's error on")
    assert browser.run("document.querySelectorAll('#trade-offs svg .now').length") == 4
    assert slide(browser, 1, 0) == "100ms, 2"
    assert "Latency by floating" in text_of(browser, "#trade-offs figcaption")
    assert [each for each in browser.run(LABELS) if each in ("2", "8")] == ["2", "8"]
    assert "128 KiB" in text_of(browser, ".grid .facts")
    assert browser.run("document.documentElement.scrollWidth") == width


@browser_test
def test_a_slider_takes_the_others_along_to_what_was_predicted(
    show: Callable[..., Chromium],
) -> None:
    points = [point(each, is_recorded=each == 10) for each in (0, 10, 20, -1)]
    points += [point(each) | {"rate_factor": 2.0} for each in (0, 10, 15, 20, 1000, -1)]
    browser = show(answer(trade_offs=points))
    assert "15ms" not in browser.run(LABELS)  # it was not predicted at the recorded rate
    assert slide(browser, 1, 1) == "10ms (recorded), x2"
    assert slide(browser, 1, 0) == "10ms (recorded), x1 (recorded)"
    assert slide(browser, 0, 2) == "15ms, x2"
    shown = [each for each in browser.run(LABELS) if re.fullmatch(r"-?[0-9]+(m?s)?", each)]
    assert shown[-6:] == ["0", "10ms", "15ms", "20ms", "1s", "-1"]


@browser_test
def test_an_interval_or_the_error_of_the_model_is_a_band(show: Callable[..., Chromium]) -> None:
    bands = (
        "[...document.querySelectorAll('#trade-offs .pair svg')]"
        ".map((svg) => svg.querySelectorAll('.band').length)"
    )
    given = answer()
    assert show(given).run(bands) == [2, 1, 0]
    for each in given["trade_offs"]:
        each |= {"latency_low_ns": latency(0.01), "latency_high_ns": latency(40)}
        each |= {"buffers_low_per_s": 1.0}
    browser = show(given)
    assert browser.run(bands) == [2, 1, 0]
    actual = browser.run("document.querySelector('#trade-offs h3 [data-tip]').dataset.tip")
    assert actual == "The band is the 90% interval."
    browser.mouse("mouseMoved", *place_of(browser, "#trade-offs svg", 0.4))
    assert "9.00 ms (90.0 us … 360 ms)" in tooltip(browser)


@browser_test
def test_a_table_that_scrolls_says_so_and_on_a_telephone_it_is_a_list(
    show: Callable[..., Chromium],
) -> None:
    hints = (
        "document.querySelectorAll('details').forEach((each) => { each.open = true; }),"
        " new Promise((done) => setTimeout(done, 50)).then(() =>"
        " [...document.querySelectorAll('.table')].map((each) =>"
        " [each.querySelector('.scroll').scrollWidth > each.querySelector('.scroll').clientWidth,"
        "  !each.querySelector('.scrolls').hidden]))"
    )
    narrow = show(answer(), width=600).run(hints)
    assert [True, True] in narrow
    assert all(scrolls == says for scrolls, says in narrow)
    telephone = show(answer(), width=390)
    assert not any(scrolls or says for scrolls, says in telephone.run(hints))
    heads = "[...document.querySelectorAll('.stacked td')].map((each) => each.dataset.head)"
    assert {"records/s", "p50", "p99"} <= set(telephone.run(heads))
    assert not any(says for _, says in show(answer()).run(hints))


@browser_test
def test_what_passed_between_processes_is_drawn_without_what_nobody_saw(
    show: Callable[..., Chromium],
) -> None:
    given = answer(channels=1, regimes=None)
    given["trace"] |= {"origin": "tap"}
    given["model_error"] = {"throughput": 0.0, "p50": None, "p99": None, "buffers_per_s": 0.01}
    observed = given["details"]["channels"][0]
    observed["windows"]["records"] = [0] * len(observed["windows"]["records"])
    observed["regimes"] = {name: [] for name in observed["regimes"]}
    browser = show(given)
    assert texts_of(browser, "#over-time svg .strong") == ["backlog, buffers", "credit, buffers"]
    assert "is not observed" in text_of(browser, "#latency")
    assert "records/s 0.0%, buffers/s +1.0%" in text_of(browser, "#model-error")


@browser_test
@pytest.mark.parametrize("width", [1280, 390])
def test_a_job_opens_with_its_answer_and_curves_and_its_edges_have_their_names(
    show_page: Callable[..., Chromium], width: int
) -> None:
    edges = ("source → map", "map → sink")
    points = [
        {
            **point(each, is_recorded=each == 10),
            **{"latency_low_ns": latency(each / 12), "latency_high_ns": latency(each / 8)},
            **{"timeouts_ns": [each * 1_000_000] * 2, "edges": [{}, {}]},
        }
        for each in (5, 10, 100)
    ]
    plain = {"path": "runs/a/tap", "edges": edges, "edge_numbers": [1, 2], "points": points}
    plain["model_error"] = {"throughput": 0.01, "p50": 0.02, "p99": -0.1}
    choice = CHOICE | {"point": 0, "margin": 0.1, "next_longer_ns": None}
    plain["advice"] = {"choice": choice, "situations": [situation(choice=choice)]}
    plain["feeding"] = [None, 0]
    replays = [
        typed(given | {"trace": given["trace"] | named | {"path": "runs/a/tap"}})
        for named in ({"edge_number": n, "edge": edge} for n, edge in enumerate(edges, 1))
        for given in [answer((5, 10, 100))]
    ]
    job = replace(from_plain(JobAnswer, filled(JobAnswer, plain)), answers=tuple(replays))
    chromium = show_page(replay_page([job]), width)
    assert sections_of(chromium) == ("headline", "", *SECTIONS[2:5], "edges", "environment")
    assert "p99<=20ms is met by the job as a whole" in text_of(chromium, "#answer")
    assert texts_of(chromium, "#trade-offs svg .strong") == ["choice"] * 3
    assert texts_of(chromium, "#trade-offs svg .of-mark") == ["choice", "recorded"] * 3
    slide(chromium, 0, 0)
    assert "2.08 ms … 3.12 ms" in text_of(chromium, ".grid .facts")
    tabs = texts_of(chromium, "#runs button")
    assert tabs == ["the job", *(f"{n} {edge}" for n, edge in enumerate(edges, 1))]
    assert chromium.run("document.documentElement.scrollWidth") == width


@browser_test
def test_over_time_opens_on_the_slowest_channel(show: Callable[..., Chromium]) -> None:
    browser = show(answer(channels=3))
    assert browser.run("document.querySelector('#over-time select').value") == "2"


@browser_test
def test_one_burst_is_noticed(show: Callable[..., Chromium]) -> None:
    given = answer(channels=1)
    windows = given["details"]["channels"][0]["windows"]
    for name, values in windows.items():
        windows[name] = values[:3]
    browser = show(given)
    radii = browser.run(
        "[...document.querySelectorAll('#over-time circle')].map((each) => each.r.baseVal.value)"
    )
    assert radii
    assert max(radii) >= 3
    gap = browser.run(
        "document.querySelector('#over-time svg text.strong').getBoundingClientRect().top"
        " - document.querySelector('#over-time .legend').getBoundingClientRect().bottom"
    )
    assert gap >= 4


@browser_test
def test_a_number_is_explained_on_hover_and_on_focus(show: Callable[..., Chromium]) -> None:
    browser = show(answer())
    assert tooltip(browser) == ""
    browser.mouse("mouseMoved", *place_of(browser, ".facts .fact:nth-child(8) [data-tip]"))
    assert "99 of 100 records" in tooltip(browser)
    browser.mouse("mouseMoved", 1, 1)
    assert tooltip(browser) == ""
    browser = show(answer())  # so that the focus begins at the top
    observed = []
    for _ in range(40):
        browser.key("Tab")
        observed.append(tooltip(browser))
    assert any("the one prediction that can be checked" in text for text in observed)
    assert any("Due in the measured part" in text for text in observed)


@browser_test
def test_a_plot_shows_its_values_to_the_mouse_and_to_the_keyboard(
    show: Callable[..., Chromium],
) -> None:
    browser = show(answer((0, 10, 100, -1)))
    browser.mouse("mouseMoved", *place_of(browser, "#trade-offs svg", 0.42))
    assert "10ms" in tooltip(browser)
    assert "9.00 ms" in tooltip(browser)
    browser.mouse("mouseMoved", 1, 1)
    browser.key("Tab")
    browser.run("document.querySelector('#trade-offs svg').focus({focusVisible: true})")
    browser.key("ArrowRight")
    assert "100ms" in tooltip(browser)
    browser.key("ArrowLeft")
    assert "10ms" in tooltip(browser)


@browser_test
def test_time_is_zoomed_by_dragging_and_reset_by_a_double_click(
    show: Callable[..., Chromium],
) -> None:
    browser = show(answer())
    ticks = "#over-time svg.zoomable text"
    whole = texts_of(browser, ticks)
    assert "3 s" in whole
    start = place_of(browser, "#over-time svg.zoomable", 0.4)
    end = place_of(browser, "#over-time svg.zoomable", 0.6)
    browser.mouse("mouseMoved", *start)
    browser.mouse("mousePressed", *start, clicks=1)
    browser.mouse("mouseMoved", *end)
    assert browser.run("document.querySelector('.brush').getAttribute('width') > 50")
    browser.mouse("mouseReleased", *end, clicks=1)
    zoomed = texts_of(browser, ticks)
    assert "3 s" not in zoomed
    assert "500 ms" not in zoomed
    range_shown = text_of(browser, "#over-time .controls")
    low_s, high_s = map(float, re.findall(r"([\d.]+) s\b", range_shown))
    assert 1.0 < low_s < 1.2 < 1.6 < high_s < 1.8  # 40 and 60% of the width, less the axis' labels
    assert not browser.run("document.querySelector('#over-time button').disabled")
    place = place_of(browser, "#over-time svg.zoomable")
    for clicks in (1, 2):
        browser.mouse("mousePressed", *place, clicks=clicks)
        browser.mouse("mouseReleased", *place, clicks=clicks)
    assert texts_of(browser, ticks) == whole
    assert browser.run("document.querySelector('#over-time button').disabled")


@browser_test
def test_joined_windows_add_up(show: Callable[..., Chromium]) -> None:
    browser = show(answer())
    sums = browser.run(
        "[30, 100, 1000].map((points) => {"
        " const {channels: [channel]} = described[0].parts.flatMap((each) => each.parts || [])"
        "  .find((each) => each.kind === 'timeline');"
        " const found = joined(channel, 0, 3e9, 3e9, points);"
        " return [found.length <= points,"
        "  Math.round(found.reduce((sum, one) => sum + one.rate * one.width / 1e9, 0)),"
        "  Math.max(...found.map((one) => one.backlogMax)),"
        "  Math.min(...found.map((one) => one.creditMin ?? 9))]; })"
    )
    assert sums == [[True, 270 * 50, 5, 1]] * 3


@browser_test
def test_regimes_of_a_joined_window_are_those_of_its_time(show: Callable[..., Chromium]) -> None:
    given = answer()
    regimes = given["details"]["channels"][0]["regimes"]
    for name in regimes.keys() - {"from_ns", "width_ns"}:
        regimes[name] = [0] * 30
    regimes["idle"][0] = regimes["in_socket"][1] = 100_000_000
    browser = show(given)
    shares = browser.run(
        "(({channels, regimes}) => regimesWithin({...channels[0], parts: regimes},"
        " 75_000_000, 175_000_000))(described[0].parts.flatMap((each) => each.parts || [])"
        ".find((each) => each.kind === 'timeline'))"
    )
    assert shares == [["in the socket", "75%"], ["idle", "25%"]]


@browser_test
def test_several_runs_are_next_to_each_other_and_one_by_one(show: Callable[..., Chromium]) -> None:
    second = answer(channels=1)
    second["trace"] = second["trace"] | {"path": "runs/two/"}
    browser = show(answer(), second)
    assert browser.run("document.querySelectorAll('main tbody tr').length") == 2
    browser.run("document.querySelectorAll('#runs button')[2].click()")
    assert text_of(browser, "h1") == "two"
    assert browser.run("document.querySelectorAll('#runs button')[2].ariaPressed") == "true"


@browser_test
def test_what_is_not_known_leaves_gaps_and_no_complaint(show: Callable[..., Chromium]) -> None:
    given = answer((0, 10))
    nothing = dict.fromkeys(given["observed"]["latency_ns"])
    for each in given["trade_offs"]:
        each |= {"latency_ns": nothing, "throughput_records_per_s": None, "buffers_per_s": None}
        each |= {"why_unknown": "nothing to go by"}
        each |= {"memory_bytes": None, "backlog_buffers": {"mean": None, "max": None}}
    given["observed"] |= {"latency_ns": nothing, "throughput_records_per_s": None}
    given["details"] |= {"channels": []}
    given["latency_distribution"] = {name: [] for name in given["latency_distribution"]}
    given["details"]["fill"] |= {name: [0] * 20 for name in ("full", "timeout", "event")}
    given["details"]["fill"]["mean"] = None
    browser = show(given, width=390)
    missing = ("", "answer", "settings", "over-time")
    assert sections_of(browser) == tuple(name for name in SECTIONS if name not in missing)
    # two of the latency, the fill ratio
    assert texts_of(browser, "svg text").count("no values") == 3
    assert text_of(browser, "#trade-offs").endswith("Not predicted: nothing to go by.")


@browser_test
def test_many_channels_and_settings_are_named_as_left_out(show: Callable[..., Chromium]) -> None:
    given = answer(channels=100)
    given["details"]["channels_left_out"] = 84
    browser = show(given, width=390)
    assert "84 more are not" in text_of(browser, "#over-time .lead")
    assert "84 more are not" in text_of(browser, "#channels")
    assert browser.run("document.documentElement.scrollWidth") == 390


@browser_test
def test_on_paper_it_is_light_and_shows_what_is_folded(show: Callable[..., Chromium]) -> None:
    browser = show(answer(), width=800, scheme="dark", media="print")
    assert browser.run("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("[...document.querySelectorAll('details')].every((each) => each.open)")
