"""The commands that README, the pages in docs/ and the help of each command show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from flinknet.cli import main

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
ALL = [README, *PAGES]

_WIDE = 1000
_BLOCK = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_IN_BLOCK = re.compile(r"^ *(?:\$ )?(flinknet (?!: )[^\n]+)$", re.MULTILINE)
_IN_PROSE = re.compile(r"`(flinknet [^`]+)`")
_END_OF_COMMAND = ("||", ">", "|")


def commands_of(page: Path) -> Iterator[list[str]]:
    """Words of each command of a page in its order: in code, or between backticks."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    end = 0
    for block in _BLOCK.finditer(text):
        yield from map(words_of, _IN_PROSE.findall(text[end : block.start()]))
        yield from map(words_of, _IN_BLOCK.findall(block[0]))
        end = block.end()
    yield from map(words_of, _IN_PROSE.findall(text[end:]))


def words_of(line: str) -> list[str]:
    """Words of a command without what the shell does with its output."""
    words = shlex.split(line)
    ends = [words.index(each) for each in _END_OF_COMMAND if each in words]
    return words[: min(ends)] if ends else words


def helps() -> Iterator[tuple[str, str]]:
    """The name of each command and its help, on lines of any length."""
    yield from _helps(main, ("flinknet",))


def _helps(command: click.Command, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    wide = click.Context(
        command,
        info_name=names[-1],
        terminal_width=_WIDE,
        **main.context_settings | {"max_content_width": _WIDE},
    )
    yield " ".join(names), command.get_help(wide)
    for name, each in below(command).items():
        yield from _helps(each, (*names, name))


def examples_of(text: str) -> Iterator[list[str]]:
    """Words of each example in a help; what is right of it explains it."""
    for line in text.replace("\\\n", " ").splitlines():
        if re.match(r" +flinknet ", line):
            yield words_of(re.split(r" {4,}(?![ -])", line.strip())[0])


def below(command: click.Command) -> dict[str, click.Command]:
    """The sub-commands of a command by their names."""
    if not isinstance(command, click.Group):
        return {}
    context = click.Context(command)
    found = {name: command.get_command(context, name) for name in command.list_commands(context)}
    return {name: each for name, each in found.items() if each is not None}
