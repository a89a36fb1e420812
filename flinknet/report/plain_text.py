"""Text that a terminal, or the file behind a pipe, can take: small plots in characters,
replacements for characters that it lacks, and nothing that moves the cursor or changes colours.

Tables and plots are laid out before anything is encoded, so a stand-in is as wide as its original
wherever that can be in a table.
"""

from __future__ import annotations

import codecs
import io
import math
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TextIO

_STAND_INS = {
    **dict(zip("▁▂▃▄▅▆▇█", "_.-:=+*#", strict=True)),  # heights
    **dict(zip("▓▚▒▞░", "%&+/.", strict=True)),  # shares of a bar
    **dict(zip("▮━─═│┃", "#=-=||", strict=True)),
    **dict.fromkeys("┌┬┐├┼┤└┴┘╭╮╯╰", "+"),
    **dict(zip("→←►◆✓✗", "><>*+x", strict=True)),
    **dict(zip("–—−×·µμ", "---x.uu", strict=True)),  # noqa: RUF001 - dashes, signs, micro
    **{"≤": "<=", "≥": ">=", "±": "+/-", "≈": "~"},
}

_CONTROLS = (
    *(each for each in range(0x20) if chr(each) not in "\t\n"),
    *range(0x7F, 0xA0),
    *range(0x202A, 0x202F),  # these two turn the direction of what follows
    *range(0x2066, 0x206A),
)
_WITHOUT_CONTROLS = dict.fromkeys(_CONTROLS)

_COERCED = "C.UTF-8"
"""Value that Python itself puts into LC_CTYPE where the locale is C."""

_HANDLER = "flinknet.plain_text"
_ASCII = "flinknet_ascii"


def asks_for_ascii(environment: Mapping[str, str]) -> bool:
    """Whether the locale is C by name. Python assumes UTF-8 for C, as for no locale at all;
    PYTHONIOENCODING and PYTHONUTF8 override either."""
    if environment.get("PYTHONIOENCODING") or environment.get("PYTHONUTF8"):
        return False
    locales = (environment.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    given = [each for each in locales if each and each != _COERCED]
    return bool(given) and given[0] in ("C", "POSIX")


def fall_back_to_plain_text(stream: TextIO, *, is_ascii: bool = False) -> None:
    """Make a stream write characters that its encoding lacks as plain text. A stream in UTF-8 stays
    unchanged, unless only ASCII is wanted."""
    if not isinstance(stream, io.TextIOWrapper):
        return
    encoding = "ascii" if is_ascii else codecs.lookup(stream.encoding).name
    if not encoding.startswith("utf"):
        stream.reconfigure(encoding=_ASCII if encoding == "ascii" else encoding, errors=_HANDLER)


def printable(text: str) -> str:
    """The text without control characters other than line ends and tabs."""
    return text.translate(_WITHOUT_CONTROLS)


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object
    stand_ins = "".join(_stand_in(text, at) for at in range(error.start, error.end))
    return stand_ins, error.end


def _stand_in(text: str, at: int) -> str:
    character = text[at]
    if character == "…":
        after = text[at + 1 : at + 3].lstrip()[:1]
        is_range = at > 0 and text[at - 1] != "\n" and (after.isdigit() or after in ("+", "-"))
        return "~" if is_range else "..."
    if character in _STAND_INS:
        return _STAND_INS[character]
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return plain or "?"


def _find_codec(name: str) -> codecs.CodecInfo | None:
    """ASCII under a name of its own: click takes a stream in "ascii" for one that nobody has
    configured, and writes UTF-8 into it.
    """
    if name != _ASCII:
        return None
    plain = codecs.lookup("ascii")
    return codecs.CodecInfo(
        plain.encode,
        plain.decode,
        incrementalencoder=plain.incrementalencoder,
        incrementaldecoder=plain.incrementaldecoder,
        name=_ASCII,
    )


codecs.register_error(_HANDLER, _replace)
codecs.register(_find_codec)


_BLOCKS = "▁▂▃▄▅▆▇█"

DISTRIBUTION_MARKS = 40

MARKS = {
    "waiting_for_flush": "█",
    "waiting_for_credit": "▓",
    "blocked_by_alignment": "▚",
    "in_socket": "▒",
    "in_receiver_queue": "▞",
    "idle": "░",
}
"""Mark of each regime, for terminals without colours."""


def distribution_line(
    ranges: Sequence[tuple[float, float]], counts: Sequence[float], marks: int, *, is_log: bool
) -> str:
    """Counts of ranges (lower and upper end of each) of a quantity, from the lowest to the highest
    one, on a linear or a logarithmic axis; blank where none is."""
    if not ranges:
        return ""

    def at(value: float) -> float:
        return math.log2(value) if is_log else value

    start, end = at(ranges[0][0]), at(ranges[-1][1])
    whole = max(round((end - start) / (at(ranges[0][1]) - start)), 1)
    sums = [0.0] * min(whole, marks)
    for (low, high), count in zip(ranges, counts, strict=True):
        place = int(((at(low) + at(high)) / 2 - start) / (end - start) * len(sums))
        sums[min(place, len(sums) - 1)] += count
    return sparkline(sums, marks, max(sums))


def sparkline(values: Sequence[float], width: int, top: float) -> str:
    """Values over time in at most `width` characters, of which `top` is the highest block; where
    several share one, the largest shows. 0 is a blank, and any larger value some block."""
    edges = [number * len(values) // width for number in range(width + 1)]
    is_long = len(values) > width
    shown = [max(values[a:b]) for a, b in pairwise(edges)] if is_long else values
    last = len(_BLOCKS) - 1
    return "".join(
        _BLOCKS[min(last, int(each / top * len(_BLOCKS)))] if each > 0 and top > 0 else " "
        for each in shown
    )
