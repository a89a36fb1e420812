"""Output files of compare-configs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from flinknet.errors import FlinknetError
from flinknet.results.comparison import Comparison
from flinknet.storage import AnyPath

from .files import STDOUT, ReportFiles, check_stdout, put_text, show, target_of

_FORMATS = ("json", "markdown", "junit", "csv")


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

    def write(self, comparison: Comparison, out: Path | None) -> None:
        """Print the result and write all files. A file that cannot be written is reported on
        stderr, and does not change the verdict.
        """
        from flinknet.report.comparison import comparison_view
        from flinknet.report.comparison_files import comparison_junit, comparison_markdown
        from flinknet.report.export import comparison_document, dump, runs_csv
        from flinknet.report.page_parts import Page

        document = dump(comparison_document(comparison))
        view = comparison_view(comparison)
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
