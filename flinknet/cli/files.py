"""Files of a call: checks of paths, what `--json`, `--report` and other options write, and a
progress line that counts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flinknet.errors import ConfigError
from flinknet.storage import AnyPath, StoragePath, matching, path_of

from .commands import install_line

if TYPE_CHECKING:
    from flinknet.report.page_parts import Page, View
    from flinknet.results import RunWarning

_RUNS_NAMED = 6
"""Most runs named in an error about several runs."""


def existing_path(text: str | AnyPath) -> AnyPath:
    """An existing file or directory; a click type.

    Raises: ConfigError, StorageError.
    """
    path = path_of(text)
    if not path.exists():
        raise ConfigError(f"{path}: there is no such file or directory")
    return path


def path_of_runs(text: str | AnyPath) -> AnyPath:
    """An existing file or directory, or a pattern that matches some; a click type.

    Raises: ConfigError, StorageError.
    """
    path = path_of(text)
    if not matching(path):
        raise ConfigError(f"{path}: there is no such file or directory")
    return path


def one_run(path: AnyPath) -> AnyPath:
    """The run at a path, or the only run directly below it.

    Raises: ConfigError for several runs, TraceFormatError for none.
    """
    from flinknet.trace import find_runs

    runs = find_runs(path)
    if len(runs) > 1:
        more = ", …" if len(runs) > _RUNS_NAMED else ""
        names = ", ".join(map(str, runs[:_RUNS_NAMED]))
        raise ConfigError(f"{path}: there are {len(runs)} runs below it; give one: {names}{more}")
    return runs[0]


def directory_here(text: str | Path) -> Path:
    """An existing local path, whose files can be followed while they grow; a click type."""
    path = existing_path(text)
    if not isinstance(path, Path):
        raise ConfigError(f"{path}: only files of a file system can be followed")
    return path


def first_line(file: str, option: str) -> str:
    """The first line of a file with a secret; empty for an empty file. Raises: ConfigError."""
    lines = secret_text(file, option).splitlines()
    return lines[0] if lines else ""


def secret_text(file: str, option: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{option}: {file}: cannot be read") from error


def check_writable_file(path: AnyPath, option: str) -> None:
    """Check that a file can be written. Raises: ConfigError if it cannot, or if stdout seems to be
    meant; StorageError if the store cannot be reached.
    """
    if isinstance(path, StoragePath):
        if not path.key or path.is_dir() or not path.bucket.exists():
            raise ConfigError(f"{option}: {path} is not the name of a file in an existing bucket")
        path.check_writable()
        return
    if str(path) == "-":
        raise ConfigError(f"{option}: - does not mean stdout here; give the name of a file")
    if path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{option}: {path} cannot be written; give a file in a directory that can be written to"
        )


def check_new_directory(path: AnyPath) -> None:
    """Check that a path is an empty directory, or one that can be made. Raises: ConfigError."""
    with usable(path):
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise ConfigError(f"--out: {path} is not empty; give a new directory")
        if isinstance(path, Path):
            above = (path.absolute(), *path.absolute().parents)
            existing = next(each for each in above if each.exists())
            if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
                raise ConfigError(f"--out: {existing} cannot be written to; give another directory")


@contextmanager
def usable(directory: AnyPath) -> Iterator[None]:
    """Name a directory that the kernel refuses, as for a long name. Raises: ConfigError."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise ConfigError(f"--out: {directory} cannot be used ({why}); give another") from error


def say_warnings(warnings: Iterable[RunWarning]) -> None:
    """Print warnings on stderr, a line for each."""
    for warning in warnings:
        click.echo(f"flinknet: {warning.brief or warning.text}", err=True)


class CountingLine:
    """A progress line on stderr that overwrites itself; shown only on a terminal."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._is_shown = sys.stderr.isatty()

    def __enter__(self) -> CountingLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            click.echo("\r\x1b[K", nl=False, err=True)

    def show(self, count: int) -> None:
        if self._is_shown:
            click.echo(f"\r\x1b[Kflinknet: {count:,} {self._noun} …", nl=False, err=True)


STDOUT = "-"


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where the result of a call goes.

    Attributes:
        targets: by format, those that are wanted; STDOUT for one at most, and then nothing else is
            printed there.
        page, plot: files for the page and the picture; None if not wanted.
        step: writes the file of an option; of stdout a failure is never left out.
    """

    targets: Mapping[str, AnyPath | str]
    page: AnyPath | None
    plot: AnyPath | None
    has_details: bool
    step: Callable[[str, Callable[[], None]], None] = lambda _, write: write()

    @classmethod
    def of(cls, values: Mapping[str, Any], *formats: str) -> Outputs:
        """Read the options of a call: --json, those of other formats, --report, --plot, --details.

        Raises: ConfigError if a file cannot be written or has another format, and if two want
            stdout.
        """
        names = ("json", *formats)
        alone = [f"--{each}" for each in names if values[each] == STDOUT]
        if len(alone) > 1:
            raise ConfigError(f"{' and '.join(alone)} both want stdout; name a file for one")
        found = {each: target_of(values[each], f"--{each}") for each in names}
        targets = {each: target for each, target in found.items() if target is not None}
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
            from flinknet.report.plot import FORMATS, format_of

            if format_of(plot) is None:
                endings = " or ".join(f".{each}" for each in FORMATS)
                raise ConfigError(f"--plot: {plot} must end in {endings}")
            if find_spec("matplotlib") is None:
                raise ConfigError(f"--plot: needs matplotlib; {install_line('plot')}")
        return cls(targets, page, plot, bool(values.get("details")))

    @property
    def takes_stdout(self) -> bool:
        """Whether one of the formats is the only output on stdout."""
        return STDOUT in self.targets.values()

    def json_files(self, own: Path | None) -> list[AnyPath]:
        """The file of --json and one in the directory of the call, to be written after each run."""
        found = (own, self.targets.get("json"))
        return [each for each in found if each is not None and not isinstance(each, str)]

    def write(
        self,
        shown: View | Page,
        document: Any,
        make_page: Callable[[], Page] | None = None,
        **texts: Callable[[], str],
    ) -> None:
        """Write all files, and print a view unless stdout is taken, also if the page fails.

        Args:
            document: for --json.
            make_page: called only if a page or a picture is wanted.
            texts: of other formats, called only if they are wanted.
        """
        from flinknet.report.export import dump

        try:
            if make_page is not None:
                self.step("--report", partial(self.write_page, make_page))
        finally:
            self.put({"json": partial(dump, document), **texts})
            if not self.takes_stdout:
                show(shown, has_details=self.has_details)

    def put(self, texts: Mapping[str, Callable[[], str]]) -> None:
        """Write texts of some formats, as far as they are wanted."""
        for name, text in texts.items():
            if (target := self.targets.get(name)) == STDOUT:
                put_text(target, text())
            elif target is not None:
                self.step(f"--{name}", partial(put_text, target, text()))

    def write_page(self, make: Callable[[], Page]) -> None:
        """Write the page and the picture; `make` is called only if one of them is wanted."""
        if self.page is None and self.plot is None:
            return
        page = make()
        if self.page is not None:
            from flinknet.report.page import write_page

            write_page(self.page, page)
        if self.plot is not None:
            from flinknet.report.plot import write_plot

            if not write_plot(self.plot, page):
                click.echo(f"--plot: nothing to draw, {self.plot} is not written", err=True)


def target_of(text: str | None, option: str = "--json") -> AnyPath | str | None:
    """The file to write, STDOUT, or None for None.

    Raises: ConfigError for a file that cannot be written; and for an existing file that is not
        JSON, since `--json RUN` may mean `--json` and an argument.
    """
    if text is None or text == STDOUT:
        return text
    path = path_of(text)
    if option == "--json" and (path.is_dir() or (path.is_file() and not _may_be_json(path))):
        raise ConfigError(
            f"--json: {path} is there and is not JSON; choose another name, or write"
            f" --json - {path}"
        )
    check_writable_file(path, option)
    return path


def growing_file(text: str | None) -> Path | str | None:
    """A local file for --json that can grow by lines, STDOUT, or None for None.

    Raises: ConfigError.
    """
    if text is not None and text != STDOUT and not isinstance(path_of(text), Path):
        raise ConfigError(f"--json: {text} cannot grow line by line; name a file of this machine")
    target = target_of(text)
    assert target is None or isinstance(target, (str, Path))
    return target


def put_text(target: AnyPath | str, text: str) -> None:
    """Write a whole text to a file or to stdout."""
    from flinknet.report.export import write_text

    if isinstance(target, str):
        click.echo(text, nl=False)
    else:
        write_text(target, text)


def add_line(target: Path | str, line: str) -> None:
    """Add a line to a file or to stdout."""
    if isinstance(target, str):
        click.echo(line)
        return
    with target.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def put_json(target: AnyPath | str | None, document: Any) -> None:
    """Write a document, if it is wanted."""
    from flinknet.report.export import dump

    if target is not None:
        put_text(target, dump(document))


def show(shown: View | Page, *, has_details: bool = False) -> None:
    """Print a view, or all views of a page."""
    from flinknet.report.console import console_for, print_page, print_view
    from flinknet.report.page_parts import Page

    console = console_for(sys.stdout)
    if isinstance(shown, Page):
        print_page(console, shown, has_details=has_details)
    else:
        print_view(console, shown, has_details=has_details)


def _may_be_json(path: AnyPath) -> bool:
    with path.open("rb") as file:
        first: bytes = file.read(1)
    return first in (b"{", b"[", b"")
