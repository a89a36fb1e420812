"""Reasons to doubt a result, with remedies, and the warnings of one run or several as lines: the
worst first, each event once, and no line longer than the terminal unless all of it is wanted.

The runtime notes what only it can see (a missed schedule, lost trace events). Doubts that the
scenario and the numbers show by themselves are found here. A warning is a value with advice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from flinknet import results
from flinknet.config import Scenario
from flinknet.units import format_duration_ns, which_runs

from .console import print_line

WARMUP_MIN_NS = 100_000_000


def with_doubts(
    scenario: Scenario, result: results.RunResult, known: tuple[results.RunWarning, ...]
) -> results.RunResult:
    """The result with every warning there is: the runtime's, those of the settings, and those that
    follow from its numbers."""
    codes = {warning.code for warning in result.warnings}
    doubted = (warning for warning in doubts(scenario, result) if warning.code not in codes)
    return replace(result, warnings=(*result.warnings, *known, *doubted))


def doubts(scenario: Scenario, result: results.RunResult) -> Iterator[results.RunWarning]:
    """Doubts that follow from the numbers of a run."""
    network, workload = scenario.network, scenario.workload
    timeout_ns = network.buffer_timeout_ns
    longer = f"use --duration {format_duration_ns(results.FLUSHES_MIN * timeout_ns)} or more."
    yield from results.few_flushes(result.measured.duration_ns, timeout_ns, longer)
    if any(each.stored_bytes < each.data_bytes for each in result.blocking):
        yield results.RunWarning(
            "compresses-too-well",
            "the records of bench differ in their first 16 bytes only, so"
            f" {network.compression_codec} compresses them far better than real records.",
            "real records compress far less than those of bench",
        )
    if workload.warmup_ns < WARMUP_MIN_NS and not workload.is_blocking:
        yield results.RunWarning(
            "no-warmup",
            "the measured part includes the start, when caches are cold and the first credits"
            " travel; use --warmup 500ms.",
            "no warm-up: the measured part includes the start",
        )


OTHERS_SHOWN = 3

LINE_WIDTH = 140
"""Columns within which a line names the settings that it is about."""

_LABELS = {
    results.Validity.INVALID: "Invalid",
    results.Validity.DOUBTFUL: "Warning",
    results.Validity.VALID: "Note",
}

_NUMBER = re.compile(
    r"(?<![\w./:=#])(?<![\w.]-)\d++(?:\.\d++)?+(?: [kMG]\b)?+(?![\w-]*(?:/(?!s\b)|\.\w))"
)
"""A number in a sentence with its multiple; not one in a name, a path or an address."""


def print_setting_notes(
    console: Console, settings: Sequence[tuple[str, Sequence[results.RunWarning]]]
) -> None:
    """Print warnings about settings, by name, before any of them runs: keys that Flink or flinknet
    ignores. One that begins with the name is about a file, and not about its runs."""
    names: dict[tuple[str, bool], dict[str, None]] = {}
    for name, warnings in settings:
        for each in warnings:
            if each.code in results.OF_SETTINGS:
                own = each.line.removeprefix(f"{name}: ") if name else each.line
                names.setdefault((own, own != each.line), {})[name] = None
    for (text, is_of_file), own_names in names.items():
        listed = ", ".join(filter(None, own_names))
        where = "" if len(own_names) == len(settings) else f" ({listed})"
        note = f": {listed}: {text}" if is_of_file else f"{where}: {text}"
        print_line(console, Text.assemble(("Note", "dim"), note))


def doubts_of_runs(
    runs: Sequence[tuple[str, Sequence[results.RunWarning]]],
    uses: Sequence[results.ProcessorUse | None] = (),
    *,
    numbers: Sequence[int] = (),
    is_explained: bool = False,
) -> list[str]:
    """One line for each kind of warning about runs, the worst first: its runs, its settings if
    there is room for them, and its text; and the processes that disturbed the runs, by the use of
    the processors.

    Texts that differ in their numbers alone are of one kind, and shown with their ranges. Warnings
    about settings are left out: `print_setting_notes` has printed them.

    Args:
        runs: of each run the name of its setting, and its warnings.
        numbers: of each run its number in this call; none: they are only counted.
        is_explained: the whole text of each, whatever its length.
    """
    by_kind: dict[tuple[results.Validity, str, str], list[tuple[int, str, str]]] = {}
    disturbed = []
    for at, (name, warnings) in enumerate(runs):
        known = warnings if is_explained else results.without_consequences(warnings)
        shown = [each for each in known if each.code not in results.OF_SETTINGS]
        texts = {}
        for each in shown:
            text = each.text if is_explained else each.line
            texts[results.validity_by(each), each.code, same_but_for_numbers(text)] = text
        for kind, text in texts.items():
            by_kind.setdefault(kind, []).append((at, name, text))
        codes = {each.code for each in warnings}
        use = uses[at] if uses else None
        if use is not None and codes & {results.DISTURBED, results.P99_DISTURBED}:
            disturbed.append(use)
    lines = []
    for kind, found in sorted(by_kind.items(), key=lambda item: results.gravity_of(*item[0][:2])):
        label, names = _LABELS[kind[0]], dict.fromkeys(name for _, name, _ in found if name)
        is_of_all = kind[0] is results.Validity.VALID and len(found) == len(runs)
        is_of_some = len(runs) > 1 and not is_of_all
        if is_of_some:
            which = f"{len(found)} of {len(runs)} runs"
            if numbers:
                which = which_runs([numbers[at] for at, _, _ in found], len(runs))
            label += f" in {which}"
        text = merged_text([text for _, _, text in found])
        line = f"{label} ({', '.join(names)}): {text}"
        has_room = is_explained or len(line) <= LINE_WIDTH
        lines.append(line if is_of_some and names and has_room else f"{label}: {text}")
    return [*lines, *other_processes(disturbed)]


def lowered(line: str) -> str:
    """A sentence as a clause."""
    return (line[:1].lower() + line[1:]).rstrip(".")


def trust_words(
    doubts: Sequence[str],
    *more: str,
    good: str = "the schedule was kept, and no other process disturbed the runs",
    says_invalid: bool = False,
) -> list[str]:
    """How far to rely on the figures, as clauses that begin with a grade: lines of
    `doubts_of_runs`, further doubts, or the clause of no doubt. Notes lower no grade. Why runs are
    invalid comes first if nothing above these words says it."""
    invalid, notes = (
        [each for each in doubts if each.startswith(begin)] for begin in ("Invalid", "Note")
    )
    warnings = [each for each in doubts if each not in (*invalid, *notes)]
    told = [*(invalid if says_invalid else []), *warnings]
    begin = re.compile("(Invalid|Warning)[: ]*")
    found = [*(lowered(begin.sub("", each, count=1)) for each in told), *more]
    if not found and not invalid:
        return [f"good: {good}", *map(lowered, notes)]
    first, *others = found or ["the runs are invalid"]
    return [f"{'poor' if invalid else 'fair'}: {first}", *others, *map(lowered, notes)]


def other_processes(uses: Sequence[results.ProcessorUse]) -> list[str]:
    """Which processes disturbed runs, with the most of a core that each took of one run."""
    most: dict[str, float] = {}
    for use in uses:
        for name, share in {**use.others_share, "the host": use.host_share or 0.0}.items():
            most[name] = max(share, most.get(name, 0.0))
    longest = sorted((-share, name) for name, share in most.items() if share)[:OTHERS_SHOWN]
    shares = ", ".join(f"{name} used {-share:.2g} cores" for share, name in longest)
    return [f"Other processes: {shares}."] if shares else []


def merged_text(texts: Sequence[str]) -> str:
    """One text for several that differ in their numbers alone, with their ranges."""
    rows = [list(_NUMBER.finditer(text)) for text in texts]
    merged, end = "", 0
    for column in zip(*rows, strict=True):
        numbers = sorted({match[0] for match in column}, key=_value)
        merged += texts[0][end : column[0].start()]
        is_one = len(numbers) == 1 or merged.endswith("up to ")  # the largest is that of all
        merged += numbers[-1] if is_one else f"{numbers[0]} … {numbers[-1]}"
        end = column[0].end()
    return merged + texts[0][end:]


def _value(number: str) -> float:
    digits, _, multiple = number.partition(" ")
    return float(digits) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[multiple]


def alike(texts: Iterable[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Texts with their names, those together that differ in their numbers, or their end, alone."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, text in texts:
        groups.setdefault(same_but_for_numbers(text).rstrip("."), []).append((name, text))
    return list(groups.values())


def same_but_for_numbers(text: str) -> str:
    """The text without its numbers; of texts that `merged_text` can make one of it is the same."""
    return _NUMBER.sub("", text)
