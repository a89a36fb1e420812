"""The option --json of all commands, and writing of its document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from flinknet.errors import ConfigError
from flinknet.storage import AnyPath, path_of

from .paths import check_writable_file

STDOUT = "-"

json_option = click.option(
    "--json",
    metavar="[FILE]",
    is_flag=False,
    flag_value=STDOUT,
    help="Write the result as JSON to FILE; without FILE, print it and nothing else.",
)


def target_of(text: str | None, option: str = "--json") -> AnyPath | str | None:
    """The file to write, STDOUT, or None for None.

    Raises: ConfigError for a file that cannot be written; and for an existing file that is not
        JSON, since `--json RUN` may mean `--json` and an argument.
    """
    if text is None or text == STDOUT:
        return text
    path = path_of(text)
    if option == "--json":
        if path.is_dir():
            raise ConfigError(
                f"--json: {path} is a directory; write the name of a file, or --json - {path}"
            )
        if path.is_file() and not _may_be_json(path):
            raise ConfigError(
                f"--json: {path} is there and is not JSON; choose another name, or write"
                f" --json - {path}"
            )
    check_writable_file(path, option)
    return path


def growing_file(text: str | None, option: str = "--json") -> Path | str | None:
    """A local file that can grow by lines, STDOUT, or None for None. Raises: ConfigError."""
    if text is not None and text != STDOUT and not isinstance(path_of(text), Path):
        raise ConfigError(f"{option}: {text} cannot grow line by line; name a file of this machine")
    target = target_of(text, option)
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


def put_json(target: AnyPath | str, document: Any) -> None:
    from flinknet.report.export import dump

    put_text(target, dump(document))


def _may_be_json(path: AnyPath) -> bool:
    with path.open("rb") as file:
        first: bytes = file.read(1)
    return first in (b"{", b"[", b"")
