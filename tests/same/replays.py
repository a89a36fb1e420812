"""Answers of `trace info` and `trace replay` about recordings: terminal, JSON, CSV, page data."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from tests.replay_documents import runs_of_every_kind
from tests.shared_spark import commands_in

RECORDINGS = Path(__file__).parents[2] / "traces"
SIGNIFICANT_DIGITS = 9
LINE_CHARACTERS = 120

TIMEOUTS = ("--buffer-timeout", "1ms,5ms,100ms")
REPLAYS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "v1-hash": ("v1/hash-2x2", ("--buffer-timeout", "1ms,10ms,-1")),
    "v2-two-channels": ("v2/two-channels", ()),
    "paced": ("recordings/paced", ("--buffer-timeout", "0,5ms,100ms,-1")),
    "paced-target": ("recordings/paced", ("--target", "p99<=20ms", "--floating-buffers", "2,8")),
    "paced-other": ("recordings/paced", ("--round-trip", "0,10ms", "--consumer-speed", "0.5,1")),
    "slow-consumer": ("recordings/slow-consumer", (*TIMEOUTS, "--diagnose")),
    "slow-last-stage": ("recordings/slow-last-stage", (*TIMEOUTS, "--diagnose")),
    "tap-slow-sink": ("recordings/tap-slow-sink", (*TIMEOUTS, "--diagnose")),
    "tap-slow-sink-checkpoints": (
        "recordings/tap-slow-sink-checkpoints",
        (*TIMEOUTS, "--diagnose", "--target", "p99<=50ms"),
    ),
    "made-one": ("one", ("--buffer-timeout", "5ms,-1", "--channel", "0")),
    "made-sweep": ("sweep", ("--buffer-timeout", "5ms,-1")),
    "made-blocking": ("blocking", ("--buffer-timeout", "5ms,-1")),
    "made-edges": ("edges", ("--buffer-timeout", "5ms,-1")),
    "made-tapped": ("tapped", ("--buffer-timeout", "5ms,-1", "--diagnose")),
}
"""Name of an answer: the recording and what is asked."""

VARYING = frozenset({"environment", "host", "versions", "started_at"})
"""Fields of documents that depend on the machine."""


def replayed_answers(directory: Path, only: str) -> Iterator[tuple[str, str]]:
    """Name and text of each answer whose name contains a text.

    Args:
        directory: empty; the current one, so that printed paths are short.
    """
    from flinknet.replay.spark.session import spark_session

    names = [each for each in REPLAYS if only in each]
    if not names:
        return
    with spark_session() as spark:
        yield from answers_of(names, directory, spark)


def answers_of(names: Sequence[str], directory: Path, spark: Any) -> Iterator[tuple[str, str]]:
    """Name and text of each answer about the recordings of some replays.

    Args:
        names: of REPLAYS.
        directory: empty; the current one.
        spark: the session in which they are replayed.
    """
    for folder in ("v1", "v2", "recordings"):
        shutil.copytree(RECORDINGS / folder, directory / folder)
    runs_of_every_kind(directory)
    for recording in sorted({REPLAYS[name][0] for name in names}):
        yield f"info-{recording.replace('/', '-')}.txt", _called("trace", "info", recording)
    with commands_in(spark):
        for name in names:
            yield from _replayed(name)


def _replayed(name: str) -> Iterator[tuple[str, str]]:
    recording, asked = REPLAYS[name]
    files = {each: Path(f"{name}.{each}") for each in ("json", "csv", "html")}
    json_file, csv_file, page_file = map(str, files.values())
    written = ("--json", json_file, "--csv", csv_file, "--report", page_file)
    yield f"{name}.txt", _called("trace", "replay", recording, *asked, "--details", *written)
    if not all(each.exists() for each in files.values()):
        return
    document = json.loads(files["json"].read_text(encoding="utf-8"))
    yield f"{name}.json", _plain(document)
    yield f"{name}.csv", _FRACTION.sub(_shortened, files["csv"].read_text(encoding="utf-8"))
    html = files["html"].read_text(encoding="utf-8")
    for each in document.get("replays", [document]):
        html = html.replace(each["trace"]["started_at"], "START")
    page = _page_data(html)
    for view in page["views"]:
        for part in (each for section in view["parts"] for each in section.get("parts", ())):
            if part["kind"] == "timeline":
                del part["channels"]  # the JSON answer has them
            for table in (part, part.get("table", {})):
                table.pop("rows", None)  # the terminal's answer has them
            if part["kind"] == "pairs" and part["title"] in ("Host", "Versions"):
                part["pairs"] = {}
    yield f"{name}.page.json", _plain(page)


_FRACTION = re.compile(r"(?<![\w.])\d+\.\d{6,}(?:e[-+]\d+)?")


def _shortened(fraction: re.Match[str]) -> str:
    return f"{float(fraction.group()):.{SIGNIFICANT_DIGITS}g}"


def _page_data(page: str) -> Any:
    found = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found is not None, "the page has no data"
    return json.loads(found.group(1))


def _called(*arguments: str) -> str:
    """Standard output of a command that is called in this process, and its exit code."""
    from flinknet.cli import main

    out = io.StringIO()
    code: Any = 0
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        try:
            main.main(list(arguments), "flinknet", standalone_mode=True)
        except SystemExit as end:
            code = end.code
    lines = [f"$ flinknet {' '.join(arguments)}", *out.getvalue().splitlines()]
    return "".join(f"{each.rstrip()}\n" for each in (*lines, f"exit code {code or 0}"))


def _plain(document: Any) -> str:
    return "\n".join(_lines(_Shortened().of(document))) + "\n"


def _lines(value: Any, indent: str = "") -> Iterator[str]:
    """JSON in which whatever fits into a line stands on one."""
    whole = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(indent) + len(whole) <= LINE_CHARACTERS:
        yield indent + whole
        return
    brackets = "{}" if isinstance(value, dict) else "[]"
    items = value.items() if isinstance(value, dict) else ((None, each) for each in value)
    yield indent + brackets[0]
    for key, each in items:
        first, *rest = _lines(each, indent + " ")
        start = "" if key is None else f"{json.dumps(key)}: "
        lines = [f"{indent} {start}{first.lstrip()}", *rest]
        yield from (*lines[:-1], f"{lines[-1]},")
    yield indent + brackets[1]


class _Shortened:
    """A document whose figures are rounded, and whose settings after the first ones are only those
    that differ from them."""

    def __init__(self) -> None:
        self._settings: dict[str, Any] | None = None

    def of(self, value: Any, name: str = "") -> Any:
        """A part of the document that stands under a name."""
        if name in VARYING:
            return None
        if name == "config":
            before, self._settings = self._settings, self._settings or value
            return {key: each for key, each in value.items() if (before or {}).get(key) != each}
        if isinstance(value, float):
            return float(f"{value:.{SIGNIFICANT_DIGITS}g}")
        if isinstance(value, dict):
            return {key: self.of(each, key) for key, each in value.items()}
        return [self.of(each) for each in value] if isinstance(value, list) else value
