"""The words that users read: phrases that had to be read twice do not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OWN = Path(__file__).resolve()

OLD_PHRASES = (
    "befall",
    " as asked",
    "the rate asked for, which",
    "which was kept",
    "of the limit to spare",
    "by the greatest that the messages allow",
    "from a buffer to its credit",
    "are the way to the reader",
    "hold fewer than",
    "support no p9",
    "beside it ran",
    "too alike to tell",
    "channels is not known",
    "no factor that is predicted",
    "it belongs to a job",
    "first bytes are others",
    " not bet ",
    "is not known better",
    "from part to part",
    "gives away least",
    "of other subjects",
    "held against",
    "took the processor from",
    "reaches farther",
    "would have to tell",
    "no time slice",
    "differs most from run to run",
    "of the plain loop",
    "left to grow",
    "pools would take",
    "buffers in all",
    'starved of credit", duration',
    "which take it",
    "expect no less of",
    "for trying out",
    "and should keep less",
    "whoever its data",
    "of what comes, so",
    "by the dispersion of counts",
    "the minute that matters",
    "the job stays as it is",
    "takes the processor from",
    "mean 0.00, largest",
    'it keeps"',
    'is it whole?"',
    "what is told",
    "stops the reading of",
    "which was reached",
    "the best try of",
    "the limit is open",
    "limits are open",
    "the consumers took.",
)
"""What was said before, in small letters; the better words are in the places that had them."""

SPACED_PERCENT = re.compile(r"\d %(?![a-z(0-9{])", re.IGNORECASE)
"""One form everywhere: 12.3%."""

ODD_WORDS = re.compile(r"\b(?:is|are|was|were|be|been) told\b|\btells?\b|\bbeside\b")
"""Words that a reader stumbles over; text that users read does without them."""

ONE_BUFFERS = re.compile(r"(?<![\d,.])1 (?:buffers|channels|records)\b")
"""One has no plural."""

TREE = sorted(
    path
    for room in ("flinknet", "pyspark_flinknet", "bench", "tests", "docs", "deploy")
    for path in (ROOT / room).rglob("*")
    if path.suffix in (".py", ".js", ".html", ".md", ".yaml", ".sh", ".toml", ".txt")
    and path != OWN
)
OWN_PAGES = [
    ROOT / each for each in ("README.md", "SECURITY.md", "CHANGELOG.md", "bench/README.md")
]
PAGES = [*OWN_PAGES, *sorted((ROOT / "docs").glob("*.md"))]


def odd_words(text: str) -> list[str]:
    """Every odd word with the words around it, across the ends of lines, too."""
    flat = " ".join(text.split()).lower()
    return [flat[max(0, each.start() - 30) : each.end() + 30] for each in ODD_WORDS.finditer(flat)]


def texts(path: Path) -> Iterator[str]:
    """The strings of a module that users may read: all but docstrings, and those of commands; of
    texts that are data everything."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield source
        return
    if not odd_words(source):
        return
    remarks: set[int] = set()
    nodes = list(ast.walk(ast.parse(source)))
    for node in nodes:
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            decorators = getattr(node, "decorator_list", [])
            if not any(re.search("command|group", ast.unparse(each)) for each in decorators):
                remarks |= {id(each.value) for each in node.body if isinstance(each, ast.Expr)}
    for node in nodes:
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and id(node) not in remarks and " " in value:
            yield value


def test_no_old_phrase_is_left() -> None:
    left = []
    for path in (*TREE, *OWN_PAGES, ROOT / "Makefile"):
        flat = " ".join(path.read_text(encoding="utf-8").split()).lower()
        left += [(path.relative_to(ROOT).as_posix(), each) for each in OLD_PHRASES if each in flat]
    assert not left


def test_messages_and_help_have_plain_words() -> None:
    modules = [each for each in TREE if each.is_relative_to(ROOT / "flinknet")]
    odd = {
        path.relative_to(ROOT).as_posix(): places
        for path in modules
        if path.suffix in (".py", ".toml", ".txt")
        and (places := [place for text in texts(path) for place in odd_words(text)])
    }
    assert not odd


def test_percentages_have_one_form() -> None:
    named = (ROOT / "README.md", ROOT / "CHANGELOG.md", *TREE)
    read = [path for path in named if path.suffix in (".md", ".js")]
    spaced = [path.name for path in read if SPACED_PERCENT.search(path.read_text("utf-8"))]
    assert not spaced
    modules = [
        path for path in TREE if path.suffix == ".py" and path.is_relative_to(ROOT / "flinknet")
    ]
    assert not [
        text
        for path in modules
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(text := node.value, str)
        if SPACED_PERCENT.search(text) or (text.startswith(" %") and len(text) < 3)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_have_plain_words(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not odd_words(text)
    assert not ONE_BUFFERS.findall(text)
