"""`flinknet bench demo`: what runs, what its JSON holds, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flinknet.cli import main
from flinknet.cli.bench_demo import MessageRow, places_shown, steps_of
from flinknet.cli.sweep import Executor
from flinknet.config import CREDIT, TCP, Link, Scenario, SlowConsumer, WorkloadConfig
from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.results import ChannelProgress, LatencySummary, Progress, RunResult
from tests.report.test_demo_console import mode

MS = 1_000_000


@dataclass
class Demonstration:
    """An executor's run: beside a paused consumer the neighbour keeps 1% without credit."""

    asked: list[tuple[Scenario, Path | None, bool]] = field(default_factory=list)
    p99: float | None = 5e6

    def __call__(
        self,
        scenario: Scenario,
        *,
        out_dir: Path | None,
        trace: bool,
        on_progress: Callable[[Progress], None],
        sample_interval_ns: int,
    ) -> RunResult:
        self.asked.append((scenario, out_dir, trace))
        consumers = scenario.workload.consumers
        for at_ns in range(0, 3 * sample_interval_ns, sample_interval_ns):
            channels = tuple(
                ChannelProgress(index, index, index, 100.0 + index, 0, 0)
                for index in range(consumers)
            )
            on_progress(Progress("measuring", at_ns, 0.5, 1, 1.0, 1.0, None, None, channels))
        shown = mode(scenario.flow_control, 100.0 if scenario.flow_control == TCP else 9_900.0)
        result = shown.solo if consumers == 1 else shown.shared
        latency = LatencySummary(count=9, p99=self.p99)
        return replace(
            result, channels=tuple(replace(each, latency_ns=latency) for each in result.channels)
        )


@pytest.fixture
def run() -> Demonstration:
    return Demonstration()


@pytest.fixture
def flinknet(
    run: Demonstration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    executor = Executor(run, lambda: {})
    return lambda *arguments: CliRunner().invoke(main, ["bench", *arguments], obj=executor)


Call = Callable[..., Result]


@pytest.mark.row("S107")
@pytest.mark.row("S108")
def test_each_mode_runs_the_neighbour_alone_and_next_to_a_paused_consumer(
    flinknet: Call, run: Demonstration
) -> None:
    result = flinknet("demo", "head-of-line", "--duration", "2s")
    assert result.exit_code == 0
    scenarios = [scenario for scenario, _, _ in run.asked]
    assert [scenario.flow_control for scenario in scenarios] == [TCP, TCP, CREDIT, CREDIT]
    assert [scenario.workload.consumers for scenario in scenarios] == [1, 2, 1, 2]
    for scenario in scenarios:
        assert (
            scenario.workload.partitioner == "forward"
        )  # the producers know nothing of each other
        assert scenario.task_managers == 2  # and share one connection
        assert not scenario.workload.is_max_rate
    (paused,) = scenarios[1].workload.slow_consumers
    assert (paused.index, paused.delay_ns_per_record, paused.slow_ns) == (1, -1, 2000 * MS)
    assert scenarios[0].workload.slow_consumers == ()
    assert "keeps 1% of its rate" in result.stdout
    assert "tcp, alone: finished\n" in result.stderr
    assert all(not trace and out is None for _, out, trace in run.asked)
    assert not list(Path().iterdir())


def test_the_json_has_the_agreed_names(flinknet: Call) -> None:
    document = json.loads(flinknet("demo", "head-of-line", "--json", "-").stdout)
    assert list(document) == ["demo", "lesson", "warnings", "measured", "modes"]
    assert document["measured"]["tcp, alone"]["validity"] == "valid"
    assert document["demo"] == "head-of-line"
    assert set(document["modes"]) == {"tcp", "credit"}
    tcp, credit = document["modes"]["tcp"], document["modes"]["credit"]
    assert tcp["neighbour_rate_ratio"] == pytest.approx(0.01)
    assert credit["neighbour_rate_ratio"] == pytest.approx(0.99)
    assert tcp["neighbour_p99_ns"] == 5e6
    assert len(tcp["buffering"]["samples"]) == 40
    assert set(tcp["buffering"]["bounds"]) == set(tcp["buffering"]["samples"][0]["levels"])
    assert len(tcp["rates"]) == 3
    assert tcp["rates"][0] == {
        **{"at_ns": 0, "neighbour_per_s": 100.0, "paused_per_s": 101.0},
        **{"neighbour_credit": 0, "neighbour_backlog": 0, "paused_credit": 0, "paused_backlog": 0},
    }


def test_absent_samples_are_null(flinknet: Call, run: Demonstration) -> None:
    run.p99 = None
    document = json.loads(flinknet("demo", "head-of-line", "--json", "-").stdout)
    assert document["modes"]["tcp"]["neighbour_p99_ns"] is None


def test_traces_and_json_are_kept_where_options_say(flinknet: Call, run: Demonstration) -> None:
    result = flinknet("demo", "head-of-line", "--out", "kept", "--json", "demo.json")
    assert (result.exit_code, "rate kept" in result.stdout) == (0, True)
    assert json.loads(Path("demo.json").read_text())["demo"] == "head-of-line"
    directories = [out for _, out, trace in run.asked if trace and out is not None]
    assert len(directories) == len(set(directories)) == 4
    assert all((directory / "result.json").is_file() for directory in directories)


def test_load_and_network_can_be_set(flinknet: Call, run: Demonstration) -> None:
    flinknet(
        *("demo", "head-of-line", "--rate", "500/s", "--segment-size", "4kb", "--seed", "7"),
        *("-D", "execution.buffer-timeout.interval=1ms", "--link", "rtt=5ms"),
    )
    assert {each.link for each, _, _ in run.asked} == {Link(5 * MS)}
    scenario, _, _ = run.asked[0]
    assert scenario.workload.rate_per_s == 500
    assert scenario.network.segment_size_bytes == 4096
    assert scenario.network.buffer_timeout_ns == MS
    assert scenario.seed == 7


def test_wan_runs_each_round_trip_with_little_credit_and_with_more(
    flinknet: Call, run: Demonstration
) -> None:
    assert flinknet("demo", "wan", "--duration", "1s").exit_code == 0
    assert [(each.link, each.network.exclusive_buffers) for each, _, _ in run.asked] == [
        (Link(ms * MS), buffers) for buffers in (2, 64) for ms in (0, 1, 10, 50)
    ]
    assert all(each.workload.is_max_rate for each, _, _ in run.asked)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["wan", "--link", "rtt=1ms"], "sets --link itself"),
        (["wan", "--rate", "1k/s"], "sets --rate itself"),
        (["head-of-line", "--producers", "3"], "No such option '--producers'"),
        (["head-of-line", "--rate", "max"], "needs a rate, such as 10k/s"),
        (["head-of-line", "-D", "execution.runtime-mode=BATCH"], "execution.runtime-mode itself"),
        (
            ["head-of-line", "-D", "taskmanager.network.credit-model.enabled=false"],
            "credit-model.enabled itself",
        ),
        (["head-of-line", "--buffer-timeout", "1ms,2ms"], "has several values"),
        (["butterfly"], "head-of-line"),
    ],
)
def test_what_the_demo_sets_itself_is_refused(
    flinknet: Call, run: Demonstration, arguments: list[str], why: str
) -> None:
    result = flinknet("demo", *arguments)
    assert result.exit_code == 2
    assert why in result.stderr
    assert "Traceback" not in result.stderr
    assert run.asked == []


def test_the_demo_becomes_a_page(flinknet: Call) -> None:
    result = flinknet("demo", "head-of-line", "--report", "page.html")
    assert result.exit_code == 0
    assert "next       page.html shows it step by step" in result.stdout
    page = Path("page.html").read_text()
    assert "Why there is credit" in page
    assert "flinknet bench demo head-of-line --report page.html" in page
    assert '"kind":"places"' in page


def test_a_page_shows_its_command_without_a_password(flinknet: Call) -> None:
    key = "security.ssl.internal.key-password=swordfish"
    assert flinknet("demo", "wan", "-D", key, "--report", "page.html").exit_code == 0
    page = Path("page.html").read_text()
    assert "swordfish" not in page
    assert "key-password=…" in page or "key-password=\\u2026" in page


@pytest.mark.parametrize("name", ["back-pressure", "unaligned", "debloating", "timeout"])
def test_every_demo_runs_what_it_compares(flinknet: Call, run: Demonstration, name: str) -> None:
    document = json.loads(flinknet("demo", name, "--json", "-").stdout)
    assert document["demo"] == name
    assert document["lesson"]
    assert {each["validity"] for each in document["measured"].values()} == {"valid"}
    scenarios = [scenario for scenario, _, _ in run.asked]
    assert len(scenarios) == {"back-pressure": 1, "timeout": 5}.get(name, 2)
    assert all(not scenario.workload.is_max_rate for scenario in scenarios)
    if name != "back-pressure":
        assert len({scenario.network for scenario in scenarios}) == len(scenarios)


def test_without_a_name_the_demos_are_listed(flinknet: Call, run: Demonstration) -> None:
    result = flinknet("demo")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()[:5]] == [
        *("head-of-line", "back-pressure", "unaligned", "debloating", "timeout")
    ]
    assert run.asked == []


PAUSE = WorkloadConfig(
    warmup_ns=100 * MS, duration_ns=900 * MS, slow_consumers=(SlowConsumer(1, -1, 900 * MS),)
)
"""The consumer of the second channel takes no record from 100 to 1000 ms."""


def buffer(at_ms: float, channel: int, number: int, credit: int) -> MessageRow:
    kinds = (TracePoint.SENT, MessageKind.BUFFER_RESPONSE, DataType.DATA_BUFFER)
    return (round(at_ms * MS), number, channel, *kinds, number, 2048, 0, -1, credit)


def granted(at_ms: float, channel: int, more: int, credit: int) -> MessageRow:
    kinds = (TracePoint.RECEIVED, MessageKind.ADD_CREDIT, DataType.NONE)
    return (round(at_ms * MS), 0, channel, *kinds, -1, 0, -1, more, credit)


def test_the_counter_before_the_first_message_behind_a_gap_is_the_true_one() -> None:
    rows = [
        *(buffer(1, 0, 1, 1), granted(2, 0, 2, 3), buffer(3, 1, 1, 7)),
        *(buffer(4, 0, 2, 2), (*granted(5, 0, 1, -1)[:10], -1), buffer(6, 0, 3, 1)),
    ]
    steps = steps_of(rows, [0, 3, 4, 5], has_credit=True)
    assert [each.text for each in steps] == [
        *("Buffer #1 2.00 KiB backlog 0", "3.00 ms and 2 messages left out"),
        *("Buffer #2 2.00 KiB backlog 0", "AddCredit +1", "Buffer #3 2.00 KiB backlog 0"),
    ]
    assert [each.credits for each in steps] == [(1, None), (3, 7), (2, 7), (2, 7), (1, 7)]
    assert steps[1].channel is None
    without = steps_of(rows, [0, 3], has_credit=False)
    assert {each.credits for each in without} == {(None, None)}


def test_messages_around_the_end_of_the_pause_are_shown() -> None:
    still = [buffer(100 + at, 1, at, 0) for at in range(200)]  # then nothing until the end
    again = [buffer(1001 + at, 0, at, 1) for at in range(50)]
    rows = [*still, *again, *(buffer(1060 + at, 1, at, 1) for at in range(50))]
    shown = [rows[at][0] // MS for at in places_shown(rows, PAUSE)]
    assert shown[:60] == [*range(100, 160)]
    assert shown[60:70] == [*range(290, 300)]  # the last ones before it stood still
    assert shown[70:80] == [*range(1001, 1011)]
    assert shown[80:] == [*range(1041, 1051), *range(1060, 1070)]
