"""`--report` and `--plot`: a result as a page, and its main chart as a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flinknet.errors import ConfigError
from flinknet.storage import path_of

from .missing_packages import install_line
from .paths import check_writable_file

if TYPE_CHECKING:
    from flinknet.report.page_parts import Page
    from flinknet.storage import AnyPath

_Command = TypeVar("_Command", bound=Callable[..., Any])


plot_option = click.option(
    "--plot", metavar="FILE", help="Draw the main chart: FILE.svg or FILE.png."
)


report_option = click.option(
    "--report", metavar="FILE", help="Write an HTML page that works without a network."
)


def report_options(command: _Command) -> _Command:
    """Add the two options to a command."""
    return report_option(plot_option(command))


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """Files for the page and the picture of a result; None if not wanted."""

    page: AnyPath | None
    plot: AnyPath | None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ReportFiles:
        """Read the options and check them.

        Raises: ConfigError if a file cannot be written, or its format is unknown.
        """
        page, plot = (
            path_of(values[name]) if values.get(name) is not None else None
            for name in ("report", "plot")
        )
        for path, option in ((page, "--report"), (plot, "--plot")):
            if path is not None:
                check_writable_file(path, option)
        if page is not None and not str(page).lower().endswith((".html", ".htm")):
            raise ConfigError(f"--report: {page} must end in .html; --plot draws .svg and .png")
        if plot is not None:
            _check_plot(plot)
        return cls(page, plot)

    def write(self, make: Callable[[], Page]) -> None:
        """Write the wanted files; `make` is called only if there are any."""
        if self.page is None and self.plot is None:
            return
        page = make()
        if self.page is not None:
            from flinknet.report.page import write_page

            write_page(self.page, page)
        if self.plot is not None:
            from flinknet.report.plot import write_plot

            if not write_plot(self.plot, page):
                say_nothing_to_draw(self.plot)


def say_nothing_to_draw(plot: AnyPath) -> None:
    """Print on stderr that there is no chart."""
    click.echo(f"--plot: nothing to draw, {plot} is not written", err=True)


def _check_plot(path: AnyPath) -> None:
    from flinknet.report.plot import FORMATS, format_of

    if format_of(path) is None:
        endings = " or ".join(f".{each}" for each in FORMATS)
        raise ConfigError(f"--plot: {path} must end in {endings}")
    if find_spec("matplotlib") is None:
        raise ConfigError(f"--plot: needs matplotlib; {install_line('plot')}")
