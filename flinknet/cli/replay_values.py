"""Parsers of options of `flinknet trace replay`: settings to predict, timeouts of edges, numbers
and offsets."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from flinknet import options as flink
from flinknet.errors import ConfigError
from flinknet.options.what_if import (
    EXCLUSIVE,
    FLOATING,
    SEGMENT_SIZE,
    SETTINGS,
    TIMEOUT,
    Asked,
    key_of,
)
from flinknet.units import parse_duration_ns

if TYPE_CHECKING:
    from flinknet.predict.grid import Grid
    from flinknet.replay.plans import EdgeTimeouts
    from flinknet.results import RunWarning

edge_timeout_option = click.option(
    "--edge-timeout",
    metavar="EDGE=TIMEOUT,...",
    multiple=True,
    help="For a job of several exchanges: one more setting, with other timeouts on some edges, as"
    " setBufferTimeout sets them. EDGE: its number, or a part of its name. May be repeated.",
)

Lists = Mapping[str, str | None]
"""Texts of the options that list settings, by click's name of the option."""


def grid_of(lists: Lists, *, is_fine: bool) -> Grid:
    """The grid of the given lists, with many timeouts if `is_fine`.

    Raises: ConfigError for an invalid value, and for too many settings.
    """
    from flinknet.predict.grid import DEFAULT_TIMEOUTS_NS, FINE_TIMEOUTS_NS, Grid

    given = {
        each.values: [each.kind.read(text, f"--{each.option}") for text in texts]
        for each in SETTINGS
        if (texts := _texts(lists, each))
    }
    if is_fine:
        given[TIMEOUT.values] = [*FINE_TIMEOUTS_NS]
    grid = Grid(**given or {TIMEOUT.values: [*DEFAULT_TIMEOUTS_NS]})
    grid.check()
    return grid


def setting_warnings(lists: Lists) -> list[tuple[str, tuple[RunWarning, ...]]]:
    """Warnings about numbers and sizes of buffers, known before anything runs: each option with its
    value, and its warnings."""
    return [
        (f"{each.option}={text}", flink.network_config({key_of(each.field): text})[1])
        for each in (EXCLUSIVE, FLOATING, SEGMENT_SIZE)
        for text in _texts(lists, each)
        if text
    ]


def _texts(lists: Lists, asked: Asked) -> list[str]:
    text = lists[asked.option.replace("-", "_")]
    return [] if text is None else [part.strip() for part in text.split(",")]


def edge_timeouts_of(text: str) -> EdgeTimeouts:
    """Read "1=5ms,Enrich=100ms". Raises: ConfigError."""
    from flinknet.replay.plans import EdgeTimeouts

    found = []
    for part in text.split(","):
        edge, equals, timeout = (each.strip() for each in part.rpartition("="))
        if not (edge and equals and timeout):
            raise ConfigError(
                f"--edge-timeout: {part.strip()!r} is not EDGE=TIMEOUT, such as 1=5ms or Enrich=5ms"
            )
        timeout_ns = parse_duration_ns(timeout, "--edge-timeout", bare_unit=None, allow_never=True)
        found.append((edge, timeout_ns))
    return EdgeTimeouts(tuple(found))


def number_or(option: str, text: str, word: str) -> int | None:
    """A number of 1 or more, or `word`: the largest number for `all`, otherwise None."""
    if text == word:
        return sys.maxsize if word == "all" else None
    digits = text.replace("_", "")
    if not digits.isdecimal() or not int(digits):
        raise ConfigError(f"{option}: {text!r} is not a number of 1 or more, and not {word}")
    return int(digits)


def offset(option: str, text: str | None) -> int | None:
    """A time from the start of a run, in ns; None for None. Raises: ConfigError."""
    return None if text is None else parse_duration_ns(text, option, bare_unit=None)
