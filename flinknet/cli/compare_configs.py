"""`flinknet compare-configs`: which of several configurations is better, and how surely."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from flinknet import comparison
from flinknet.comparison import Difference, Limit, Outcome
from flinknet.errors import ConfigError
from flinknet.results import Measured
from flinknet.storage import AnyPath
from flinknet.units import parse_percent

from .commands import SectionedCommand
from .configs import plan_configs, unlike_options
from .options import collect, load_options, output_options

if TYPE_CHECKING:
    from .sweep import Executor, Finished, Plan

_EPILOG = """\b
CONFIG is one of
  base                        the options of this call, unchanged
  KEY=VALUE[,KEY=VALUE...]    Flink keys or bench options on top of them, such as
                              buffer-timeout=5ms or execution.buffer-timeout.interval=5ms
  NAME:KEY=VALUE[,...]        the same under a name
  FILE.toml                   [network] with Flink keys, [workload] with bench options
  FILE.yaml                   a Flink config.yaml
The first one is the baseline.

\b
Examples:
  flinknet compare-configs base buffer-timeout=5ms --rate 2k/s
  flinknet compare-configs old.toml new.toml --runs 10 --json result.json
  flinknet compare-configs conf/config.yaml 'small: segment-size=8kb' --fail-if 'p99>+10%'

In each round every configuration runs once, in an order that rotates, with the same seed. A
difference is the mean change within rounds, with a confidence interval (Student's t of the
logarithms); columns are geometric means, whose ratio is that change. A metric that was zero in a
round has no ratio: its means are arithmetic and its change is in its own unit. The verdict is "no
difference" if the whole interval lies within 1 %, "undecided" if the interval is wider and includes
no change: more --runs narrow it. With 95 % confidence one metric in twenty differs by chance.

\b
Configurations that set bench options for other work (a rate, a record size, a number of tasks) are
compared with a warning, their changes are "higher" or "lower" instead of better or worse, and
--fail-if is refused: a limit holds between equal workloads only. --flow-control, --placement,
--task-managers, --partition-type, --scheduling and --partitioner (other than broadcast) may differ.

\b
--fail-if METRIC>CHANGE, with the metrics
  throughput throughput_bytes mean p50 p99 p99_9 backlog buffers (per second)
breaks when the whole interval lies beyond the limit and holds when it lies within. The change has
a sign: p99>+10% is ten percent more than the base, throughput<-5% five percent less.

Exit code: 0 every limit holds, 1 a limit is broken, 2 the call is wrong, 3 a limit can neither be
said to hold nor to be broken (more --runs narrow the interval).
"""


@dataclass(frozen=True, slots=True)
class _Metric:
    """How a metric is read, whether more of it is better (1), worse (-1) or neither (0)."""

    read: Callable[[Measured], float | None]
    direction: int
    unit: str


METRICS: Mapping[str, _Metric] = {
    "throughput": _Metric(lambda m: m.throughput_records_per_s, 1, "records/s"),
    "throughput_bytes": _Metric(lambda m: m.throughput_bytes_per_s, 1, "bytes"),
    "mean": _Metric(lambda m: m.latency_ns.mean, -1, "ns"),
    "p50": _Metric(lambda m: m.latency_ns.p50, -1, "ns"),
    "p99": _Metric(lambda m: m.latency_ns.p99, -1, "ns"),
    "p99_9": _Metric(lambda m: m.latency_ns.p99_9, -1, "ns"),
    "backlog": _Metric(lambda m: m.backlog_buffers.mean, -1, "buffers"),
    "buffers": _Metric(lambda m: m.buffers / m.duration_ns * 1e9, 0, "buffers/s"),
}
"""Latencies are those from intended instants."""

_LABELS = {"buffers": "buffers/s"}
"""How tables name rates whose metric names do not say so."""

_EXIT_CODES = {Outcome.PASS: 0, Outcome.REGRESSION: 1, Outcome.INCONCLUSIVE: 3}


@click.command("compare-configs", cls=SectionedCommand, epilog=_EPILOG)
@click.argument("configs", metavar="CONFIG CONFIG...", nargs=-1)
@click.option(
    "--runs",
    type=click.IntRange(2),
    default=5,
    show_default=True,
    help="Runs of each configuration.",
)
@click.option(
    "--confidence",
    metavar="PERCENT",
    default="95%",
    show_default=True,
    help="Confidence level of the intervals.",
)
@click.option(
    "--fail-if", metavar="LIMIT", multiple=True, help="Such as 'p99>+10%'. May be repeated."
)
@click.option(
    "--trace/--no-trace",
    default=False,
    help="Record every message, for `trace`. [default: no-trace]",
)
@load_options()
@output_options
@click.pass_obj
def compare_configs(executor: Executor | None, /, configs: tuple[str, ...], **values: Any) -> int:
    """Run configurations in turns: which is better, with what confidence?"""
    from flinknet.report.console import console_for
    from flinknet.report.live import view

    from . import sweep

    plans = plan_configs(configs, collect(values), values["seed"])
    limits = [comparison.parse_limit(text, list(METRICS)) for text in values["fail_if"]]
    _check_limits(plans, limits)
    confidence = _confidence(values["confidence"])
    json_file = sweep.json_file(values["json"])
    out = sweep.out_directory(values["out"], trace=values["trace"])
    executor = executor or sweep.default_executor()
    environment = executor.environment()
    with view(console_for(sys.stderr)) as watcher:
        finished = list(
            sweep.run_all(
                plans,
                executor,
                rounds=values["runs"],
                seed=values["seed"],
                trace=values["trace"],
                out=out,
                watcher=watcher,
            )
        )
    verdicts = Verdicts.of(plans, finished, limits, confidence)
    document = {"schema_version": 1, "environment": environment, "seed": values["seed"]}
    document |= verdicts.document(plans, finished)
    for path in (json_file, out / "compare.json" if out else None):
        if path is not None:
            _write(path, document)
    if values["json"] == "-":
        _write(None, document)
    else:
        verdicts.print(plans, finished)
    click.echo(f"seed {values['seed']}" + (f"; runs: {out}" if out else ""), err=True)
    return _EXIT_CODES[verdicts.outcome]


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Every candidate against the base, and what the limits come to."""

    base: str
    differences: Mapping[str, Mapping[str, Difference]]  # candidate -> metric -> difference
    unlike: Mapping[str, Sequence[str]]  # candidate -> options that give it another workload
    outcomes: Sequence[tuple[str, str, Outcome]]  # candidate, limit, outcome
    confidence: float

    @classmethod
    def of(
        cls,
        plans: Sequence[Plan],
        finished: Sequence[Finished],
        limits: Sequence[Limit],
        confidence: float,
    ) -> Verdicts:
        """Compare the runs of every plan with those of the first, round by round."""
        base, *others = (
            {each.round_index: each.result.measured for each in finished if each.plan_index == i}
            for i in range(len(plans))
        )
        rounds = sorted(base)
        unlike = {plan.name: unlike_options(plans[0], plan) for plan in plans[1:]}
        differences = {
            plan.name: {
                name: comparison.difference(
                    [metric.read(base[r]) for r in rounds],
                    [metric.read(candidate[r]) for r in rounds],
                    direction=0 if unlike[plan.name] else metric.direction,
                    confidence=confidence,
                )
                for name, metric in METRICS.items()
            }
            for plan, candidate in zip(plans[1:], others, strict=True)
        }
        outcomes = [
            (name, limit.text, limit.outcome(by_metric[limit.metric]))
            for name, by_metric in differences.items()
            for limit in limits
        ]
        return cls(plans[0].name, differences, unlike, outcomes, confidence)

    @property
    def outcome(self) -> Outcome:
        """A regression outweighs what is inconclusive, and that outweighs a pass."""
        outcomes = {outcome for _, _, outcome in self.outcomes}
        return next(
            (o for o in (Outcome.REGRESSION, Outcome.INCONCLUSIVE) if o in outcomes), Outcome.PASS
        )

    def sentences(self) -> list[str]:
        """One sentence for each candidate."""
        return [
            comparison.summary(name, self.base, dict(by_metric), self.unlike[name])
            for name, by_metric in self.differences.items()
        ]

    def document(self, plans: Sequence[Plan], finished: Sequence[Finished]) -> dict[str, Any]:
        """The comparison as JSON, with every run behind it."""
        from flinknet.report.export import bench_document, difference_document

        from .sweep import by_plan

        return {
            "base": self.base,
            "confidence": self.confidence,
            "configs": [
                {"name": each.name, "runs": bench_document({}, each.results)["runs"]}
                for each in by_plan(plans, finished)
            ],
            "comparisons": [
                {
                    "config": name,
                    "unlike_workload": list(self.unlike[name]),
                    "metrics": {m: difference_document(each) for m, each in by_metric.items()},
                    "sentence": sentence,
                }
                for (name, by_metric), sentence in zip(
                    self.differences.items(), self.sentences(), strict=True
                )
            ],
            "limits": [
                {"config": name, "limit": limit, "outcome": outcome.value}
                for name, limit, outcome in self.outcomes
            ],
            "outcome": self.outcome.value,
        }

    def print(self, plans: Sequence[Plan], finished: Sequence[Finished]) -> None:
        """Tables, sentences, limits and warnings on stdout."""
        from flinknet.report.bench_console import print_doubts
        from flinknet.report.console import console_for, print_comparison, print_outcomes

        from .sweep import by_plan

        console = console_for(sys.stdout)
        units = {name: metric.unit for name, metric in METRICS.items()}
        for name, by_metric in self.differences.items():
            print_comparison(
                console,
                self.base,
                name,
                {_LABELS.get(metric, metric): each for metric, each in by_metric.items()},
                {_LABELS.get(metric, metric): unit for metric, unit in units.items()},
                self.confidence,
            )
        for sentence in self.sentences():
            console.print(sentence, markup=False, soft_wrap=True)
        if any(not plan.scenario.workload.is_max_rate for plan in plans):
            console.print(
                "CPU time is not compared: at a fixed rate the event loops poll, so it"
                " says nothing.",
                soft_wrap=True,
            )
        print_outcomes(console, self.outcomes)
        print_doubts(console, by_plan(plans, finished))


def _check_limits(plans: Sequence[Plan], limits: Sequence[Limit]) -> None:
    """Raises: ConfigError for a limit between workloads that are not the same."""
    for plan in plans[1:]:
        if limits and (unlike := unlike_options(plans[0], plan)):
            raise ConfigError(
                f"--fail-if: {plan.name} and {plans[0].name} differ in their workload"
                f" ({', '.join(unlike)}), so a limit between them would mean nothing; give both"
                " the same, or leave --fail-if out"
            )


def _confidence(text: str) -> float:
    ratio = parse_percent(text if text.endswith("%") else text + "%", "--confidence")
    if not 0.5 <= ratio < 1:
        raise ConfigError(f"--confidence: {text} is out of range: use 50% to 99.9%, such as 95%")
    return ratio


def _write(path: AnyPath | None, document: Mapping[str, Any]) -> None:
    """Into a file, or to stdout."""
    from flinknet.report.export import dump, write_json

    if path is None:
        click.echo(dump(document), nl=False)
    else:
        write_json(path, document)
