"""The head-of-line demo on a terminal, and sparklines."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from flinknet.config import CREDIT, TCP, WorkloadConfig
from flinknet.report.charts import Places
from flinknet.report.demos import DemoRun, DemoShown
from flinknet.report.demos.links import head_of_line
from flinknet.report.plain_text import sparkline
from flinknet.results import (
    Buffering,
    ChannelLevels,
    ChannelMeasured,
    ChannelProgress,
    FillLevels,
    FillSample,
    LatencySummary,
    Progress,
    RunResult,
    RunWarning,
)
from tests.made_results import measured, run_result
from tests.report.printing import printed

MS = 1_000_000


def result(
    neighbour_per_s: float | None,
    p99: float | None,
    buffering: Buffering | None = None,
    warnings: tuple[RunWarning, ...] = (),
) -> RunResult:
    latency = LatencySummary(count=1000, p99=p99)
    figures = measured(latency_ns=latency, latency_uncorrected_ns=latency)
    channels = tuple(
        ChannelMeasured(index, index, index, 1000, None, latency, figures.backlog_buffers, rate)
        for index, rate in enumerate((neighbour_per_s, 0.0))
    )
    return run_result(figures, channels=channels, warnings=warnings, buffering=buffering)


@dataclass(frozen=True)
class Mode:
    """The two runs of a flow control: the neighbour alone, and with a paused consumer."""

    flow_control: str
    solo: RunResult
    shared: RunResult
    credits: tuple[int | None, int | None] = (None, None)

    def runs(self) -> list[DemoRun]:
        """Both as runs of a demo."""
        samples = tuple(
            Progress(
                *("measuring", at * 50 * MS, 0.5, 1, 1.0, 1.0, None, None),
                tuple(
                    ChannelProgress(number, number, number, rate, number, self.credits[number])
                    for number, rate in enumerate((10_000.0 + at, 0.0))
                ),
            )
            for at in range(40)
        )
        ends = (samples, 500 * MS, 2000 * MS, 32_768)
        return [
            DemoRun(f"{self.flow_control}, {name}", result, *ends)
            for name, result in (("alone", self.solo), ("paused", self.shared))
        ]


def mode(
    flow_control: str, beside_per_s: float | None, p99: float | None = 5e6, **more: object
) -> Mode:
    samples = tuple(
        FillSample(
            at * 50 * MS,
            FillLevels(subpartition_bytes=at * 1024, input_channel_bytes=2048),
            True,
            True,
            True,
            (ChannelLevels(0, at * 512, 0), ChannelLevels(1, at * 512, 2048)),
        )
        for at in range(40)
    )
    bounds = FillLevels(1 << 20, 1 << 16, 1 << 22, 1 << 22, 1 << 17, 1 << 19)
    return Mode(
        flow_control,
        result(10_000.0, 4e6),
        result(beside_per_s, p99, Buffering(bounds, samples), **more),  # type: ignore[arg-type]
    )


def shown(*modes: Mode) -> DemoShown:
    """The output of head-of-line, with a pause from 0.5 to 2 s."""
    load = WorkloadConfig(rate_per_s=10_000, warmup_ns=500 * MS, duration_ns=1500 * MS)
    return head_of_line([run for each in modes for run in each.runs()], load)


def text_of(*modes: Mode, width: int = 140) -> str:
    return printed(shown(*modes).view, width=width)


@pytest.mark.parametrize(
    ("values", "width", "top", "drawn"),
    [
        ([0, 1, 4, 8], 4, 8, " ▂▅█"),
        ([0, 0.001], 4, 8, " ▁"),
        ([8, 100], 4, 8, "██"),
        ([1, 8, 1, 1], 2, 8, "█▂"),
        ([], 4, 8, ""),
        ([0, 0], 2, 0, "  "),
    ],
)
def test_sparklines(values: list[float], width: int, top: float, drawn: str) -> None:
    assert sparkline(values, width, top) == drawn


@pytest.mark.row("S101")
def test_every_place_is_drawn_over_time_for_both_modes() -> None:
    out = text_of(mode("tcp", 100.0), mode("credit", 9_900.0))
    for place in (
        *("1 subpartitions, A.1", "1 subpartitions, A.2", "2 Netty, sender", "3 socket, sender"),
        *("4 socket, receiver", "5 Netty, receiver", "6 input channels, B.3"),
        "6 input channels, B.4",
    ):
        (line,) = [line for line in out.splitlines() if line.lstrip().startswith(place)]
        assert line.count("0 B") + line.count("KiB") == 2  # the most in each mode
    (drawn,) = [line for line in out.splitlines() if "1 subpartitions, A.1" in line]
    assert drawn.count("█") >= 2
    assert "▁▁" in drawn
    assert "lay between the tasks with TCP only" in out
    front = "With TCP only, 2.00 KiB at the front (place 6) were then for B.4, and 0 B for B.3"
    assert front in " ".join(out.split())


def test_the_pause_is_marked_where_it_was() -> None:
    out = text_of(mode("tcp", 100.0), mode("credit", 9_900.0))
    (line,) = [line for line in out.splitlines() if "is paused" in line]
    assert line.split("paused")[1].lstrip().startswith("━")
    assert line.count("━") == 30  # 1.5 of 2 s


def test_rates_and_p99_stand_side_by_side() -> None:
    out = text_of(mode("tcp", 100.0, 2.9e9), mode("credit", 9_900.0, 6e6))
    tcp, credit = (
        next(line for line in out.splitlines() if line.startswith(name) and "%" in line)
        for name in ("TCP only (", "credit-based (")
    )
    assert tcp.split()[-6:] == ["4.00", "ms", "100", "2.90", "s", "1%"]
    assert credit.split()[-1] == "99%"


def test_the_lesson_is_drawn_from_the_numbers() -> None:
    taught = shown(mode(TCP, 100.0), mode(CREDIT, 9_900.0)).lesson[0]
    assert "keeps 1% of its rate" in taught
    assert "keeps 99%" in taught


def test_a_terminal_shows_both_halves_of_the_verdict_next_to_a_long_doubt() -> None:
    doubt = "other processes: a TaskManager waited up to 64% of the time for a CPU"
    warnings = (RunWarning("disturbed", f"{doubt}.", doubt),)
    found = text_of(mode(TCP, 100.0, warnings=warnings), mode(CREDIT, 9_900.0), width=100)
    answer = " ".join(found.partition("next")[0].split())
    assert doubt in answer
    assert "keeps 1% of its rate), and" in answer
    assert "(the neighbour keeps 99%)" in answer


def test_a_rate_that_was_not_measured_again_is_not_drawn() -> None:
    """From the 10th to the 29th sample only the producer's TaskManager speaks."""
    runs = [run for each in (mode(TCP, 100.0), mode(CREDIT, 9_900.0)) for run in each.runs()]
    samples = [
        replace(
            each,
            channels=tuple(
                replace(x, rate_age_ns=max(0, at - 9) * 50 * MS if at < 30 else 0)
                for x in each.channels
            ),
        )
        for at, each in enumerate(runs[3].samples)
    ]
    runs[3] = replace(runs[3], samples=tuple(samples))
    found = head_of_line(runs, WorkloadConfig(rate_per_s=10_000, duration_ns=2000 * MS))
    rates = found.figures["modes"][CREDIT]["rates"]
    known = [at for at, row in enumerate(rates) if row["neighbour_per_s"] is not None]
    assert known == [*range(10), *range(30, 40)]
    (chart,) = found.charts
    assert isinstance(chart, Places)
    assert chart.curve is not None
    assert [len(each.at_ns) for each in chart.curve.series] == [40, 20]
    lines = [" ".join(each.lines) for each in chart.runs[1].steps]
    assert "Between 0.45 and 0.50 s" not in lines[10]
    assert "Between 0.45 and 1.50 s: B.3" in lines[30]


@pytest.mark.parametrize(("tcp", "credit"), [(5_000.0, 9_900.0), (100.0, 5_000.0), (None, 9_900.0)])
def test_what_was_not_shown_is_not_taught(tcp: float | None, credit: float) -> None:
    assert shown(mode(TCP, tcp), mode(CREDIT, credit)).lesson[0].startswith("Unexpected")


def test_a_share_of_a_rate_that_was_not_reached_is_no_verdict() -> None:
    behind = (RunWarning("rate-not-reached", "5.37 k of 10.0 k records/s"),)
    alone = replace(mode(CREDIT, 9_900.0), solo=result(5_370.0, 4e6, warnings=behind))
    found = shown(mode(TCP, 100.0), alone)
    assert found.lesson[0].startswith("No verdict: credit, alone is invalid")
    assert found.figures["modes"][CREDIT]["neighbour_rate_ratio"] is None
    assert "188%" not in printed(found.view, width=140)
    assert shown(mode(TCP, 100.0, warnings=behind), mode(CREDIT, 9_900.0)).verdict == "lesson"


def test_a_disturbed_machine_is_reported_and_late_sources_are_not() -> None:
    warnings = (
        RunWarning("schedule-missed", "it was late"),
        RunWarning("disturbed", "others took it"),
    )
    out = text_of(mode("tcp", 100.0, warnings=warnings), mode("credit", 9_900.0))
    assert "Warning in 1 of 4 runs (tcp, paused): others took it" in " ".join(out.split())
    assert "it was late" not in out


def test_eighty_columns_are_enough() -> None:
    out = text_of(mode("tcp", 100.0), mode("credit", 9_900.0), width=80)
    table = [line for line in out.splitlines() if line[:2].strip()[:1].isdigit()]
    assert len(table) == 8
    assert all(len(line) <= 80 and "…" not in line for line in table)
