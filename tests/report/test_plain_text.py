"""What stands for characters that a stream cannot encode."""

from __future__ import annotations

import ast
import io
from pathlib import Path

import pytest
from click.utils import echo
from rich.console import Console

import flinknet
from flinknet.report.plain_text import asks_for_ascii, fall_back_to_plain_text


def written(text: str, encoding: str, errors: str = "strict") -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors=errors)
    fall_back_to_plain_text(stream)
    stream.write(text)
    stream.flush()
    return stream.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 → 1", "0 > 1"),
        ("█ ▂▃▅█ ▮▮ ◆ ← p99 –", "# .-=# ## * < p99 -"),
        ("-9.5% … +2.5%", "-9.5% ~ +2.5%"),
        ("17…23%", "17~23%"),
        ("… and 5 more\n… and 3 µs", "... and 5 more\n... and 3 us"),
        ("starting Spark …", "starting Spark ..."),
        ("Gen…  │ 5", "Gen...  | 5"),
        ("Zoë \udcff 漢", "Zoe ? ?"),
    ],
)
def test_ascii_gets_plain_text(text: str, expected: str) -> None:
    assert written(text, "ascii") == expected


@pytest.mark.parametrize("errors", ["strict", "surrogateescape", "backslashreplace"])
def test_what_an_encoding_has_stays_whatever_was_to_be_done_with_errors(errors: str) -> None:
    assert written("3 µs – é →", "latin-1", errors) == "3 µs - é >"
    assert written("3 µs – é →", "cp1252", errors) == "3 µs – é >"
    assert written("3 µs – é →", "utf-8", errors) == "3 µs – é →"


def test_every_sign_of_a_report_has_a_stand_in_of_its_width() -> None:
    room = Path(flinknet.__file__).parent / "report"
    found = {
        character
        for path in room.glob("*.py")
        if path.name not in ("plain_text.py", "comparison_files.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for character in node.value
        if not character.isascii() and character != "…"
    }
    assert {"█", "→", "◆"} <= found
    stand_ins = {character: written(character, "ascii") for character in found}
    assert [each for each, plain in stand_ins.items() if plain == "?" or len(plain) != 1] == []


def test_click_and_rich_take_a_stream_in_ascii_for_what_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    fall_back_to_plain_text(stream)
    monkeypatch.setattr("sys.stdout", stream)
    echo("→")
    console = Console()
    assert console.options.ascii_only
    console.print("[bold]◆[/bold]")
    stream.flush()
    assert stream.buffer.getvalue() == b">\n*\n"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("environment", "is_ascii"),
    [
        ({}, False),
        ({"LANG": "C"}, True),
        ({"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8"}, True),
        ({"LC_CTYPE": "C.UTF-8", "LANG": "C"}, True),  # what Python makes of LANG=C
        ({"LC_CTYPE": "C.UTF-8"}, False),
        ({"LC_ALL": "en_US.UTF-8", "LANG": "C"}, False),
        ({"LANG": "C", "PYTHONIOENCODING": "utf-8"}, False),
    ],
)
def test_the_locale_c_by_name_is_ascii(environment: dict[str, str], is_ascii: bool) -> None:
    assert asks_for_ascii(environment) is is_ascii
