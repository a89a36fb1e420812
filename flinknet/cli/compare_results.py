"""Output files of compare-configs, and the earlier results for its trends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from flinknet.errors import ConfigError, FlinknetError
from flinknet.results.comparison import (
    Comparison,
    Configuration,
    EarlierResult,
    Trend,
    TrendPoint,
    elsewhere,
    mean_of,
    trend_of,
)
from flinknet.storage import AnyPath, path_of

from .compare_runs import read_earlier
from .configs import setting_changes, unlike_options
from .files import STDOUT, ReportFiles, check_stdout, check_writable_file, put_text, show, target_of
from .sweep import names_at

_FORMATS = ("json", "markdown", "junit", "csv")

_TREND_METRICS = ("throughput", "p50", "p99")
"""Metrics of trends if no limit names any."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Options of a call, and targets of its result: by format, with STDOUT for one at most (none:
    tables and sentences), and the page with its picture."""

    values: Mapping[str, Any]
    targets: Mapping[str, AnyPath | str]
    reports: ReportFiles

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Outputs:
        """Read the options of a call. Raises: ConfigError for a file that cannot be written."""
        check_stdout(values, *_FORMATS)
        found = {name: target_of(values[name], f"--{name}") for name in _FORMATS}
        targets = {name: target for name, target in found.items() if target is not None}
        return cls(values, targets, ReportFiles.of(values))

    @property
    def takes_stdout(self) -> bool:
        """Whether one of the formats is the only output on stdout."""
        return STDOUT in self.targets.values()

    def write(self, comparison: Comparison, trends: Sequence[Trend], out: Path | None) -> None:
        """Print the result and write all files. A file that cannot be written is reported on
        stderr, and does not change the verdict.
        """
        from flinknet.report.bench_words import doubt_lines
        from flinknet.report.comparison import comparison_view
        from flinknet.report.comparison_files import comparison_junit, comparison_markdown
        from flinknet.report.export import comparison_document, dump, runs_csv
        from flinknet.report.page_parts import Page

        document = dump(comparison_document(comparison, trends))
        is_explained = self.values["explain"]
        doubts = doubt_lines(comparison.measured_here, is_explained=is_explained)
        view = comparison_view(comparison, trends, doubts, is_explained=is_explained)
        texts = {
            "json": lambda: document,
            "markdown": lambda: comparison_markdown(comparison, view),
            "junit": lambda: comparison_junit(comparison, view),
            "csv": lambda: runs_csv(comparison.measured_here),
        }
        if not self.takes_stdout:
            show(view, has_details=self.values["details"])
        self._put(texts)
        if out is not None:
            _try("--out", partial(put_text, out / "compare.json", document))
        if (history := self.values["history"]) is not None:
            names = names_at(str(comparison.environment.get("started_at")))
            paths = (path_of(history) / f"{name}.json" for name in names)
            _try("--history", lambda: put_text(next(x for x in paths if not x.exists()), document))
        _try("--report", lambda: self.reports.write(lambda: Page("compare-configs", [view])))

    def write_not_started(self, name: str, why: str) -> None:
        """Report a candidate that cannot start, on stderr, in Markdown and in JUnit XML. The other
        formats are for measurements, and there are none.
        """
        from flinknet.report.comparison_files import not_started_junit, not_started_markdown
        from flinknet.report.comparison_texts import not_started_line

        texts = {"markdown": not_started_markdown, "junit": not_started_junit}
        self._put({each: partial(text_of, name, why) for each, text_of in texts.items()})
        click.echo(f"flinknet: {not_started_line(name)} {name}: {why}", err=True)

    def _put(self, texts: Mapping[str, Callable[[], str]]) -> None:
        for name, text in texts.items():
            if (target := self.targets.get(name)) == STDOUT:
                click.echo(text(), nl=False)
            elif target is not None:
                _try(f"--{name}", partial(put_text, target, text()))


def _try(option: str, write: Callable[[], None]) -> None:
    """Write a file; report a failure on stderr."""
    try:
        write()
    except (FlinknetError, OSError) as error:
        click.echo(f"flinknet: {option} was not written: {error}", err=True)


def history_in(directory: str | None) -> list[EarlierResult] | None:
    """The results in a directory, oldest first; a missing directory is created. None for None.

    Raises: ConfigError if it is not a directory, or cannot be written to.
    """
    if directory is None:
        return None
    path = path_of(directory)
    if path.exists() and not path.is_dir():
        raise ConfigError(f"--history: {path} is not a directory")
    if isinstance(path, Path):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"--history: {path} cannot be made ({error.strerror})") from None
    check_writable_file(path / "result.json", "--history")
    found = []
    files: list[AnyPath] = sorted(path.glob("*.json"), key=str)
    for file in files:
        try:
            found.append(read_earlier(file, "--history"))
        except ConfigError as error:
            click.echo(f"Warning: {error}; ignored", err=True)
    return sorted(found, key=lambda each: each.measured_at or "")


def trends_of(comparison: Comparison, history: Sequence[EarlierResult] | None) -> list[Trend]:
    """Trends of each candidate's metrics over a history and this call."""
    if history is None:
        return []
    base, now = comparison.base, comparison.environment
    configurations = (base, *(each.configuration for each in comparison.candidates))
    this = EarlierResult("this call", now, now.get("started_at"), base.name, configurations)
    limited = dict.fromkeys(each.limit.metric for _, each in comparison.decisions)
    return [
        trend_of(each.name, metric, [*_points([*history, this], each.configuration, metric)])
        for each in comparison.candidates
        for metric in limited or _TREND_METRICS
    ]


def _points(
    results: Sequence[EarlierResult], own: Configuration, metric: str
) -> Iterator[TrendPoint]:
    """A metric of the candidate in each result; the last one is that of this call."""
    config: Mapping[str, Any] | None = None
    for result in results:
        found = result.find(own.name)
        if found is None:
            continue
        before, config = config, found.results[0].config
        base = next((each for each in result.configurations if each.name == result.base), None)
        unlike = unlike_options(found.results[0].workload, own.results[0].workload)
        others = elsewhere(result.environment, results[-1].environment)
        yield TrendPoint(
            source=result.source,
            measured_at=result.measured_at,
            runs=len(found.runs),
            value=mean_of(found, metric),
            base_value=mean_of(base, metric) if base and not base.invalid else None,
            why_not="; ".join([*others, *(f"another {x}" for x in unlike)]) or _doubt(found),
            disturbed=len(found.disturbed),
            changed=tuple(setting_changes((before or config, {}), (config, {}))),
        )


def _doubt(configuration: Configuration) -> str:
    """Why a result does not count (an invalid run, or most runs disturbed); empty if it does."""
    runs = len(configuration.runs)
    if configuration.invalid:
        return f"{len(configuration.invalid)} of {runs} runs invalid"
    disturbed = len(configuration.disturbed)
    return f"{disturbed} of {runs} runs disturbed" if 2 * disturbed > runs else ""
