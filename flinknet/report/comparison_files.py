"""A comparison for other programs: a comment in Markdown (GitHub, GitLab), and JUnit XML, which CI
servers show as tests.

With limits (--fail-if) each is a test; without, each metric is one. A broken limit or a worse
metric is a failure; an undecided, unclear, invalid or unmeasured one is skipped, with its reason.
The time of a suite is the measured time of the candidate's runs; a test has none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from flinknet.results.comparison import Candidate, Comparison, Outcome, Trend, Verdict, label_of
from flinknet.units import NS_PER_S

from .comparison_texts import (
    MEASURED_STACK,
    change_line,
    changes_table,
    decision_line,
    doubt_lines,
    effect_sentence,
    environment_of,
    key_notes,
    load_line,
    load_notes,
    not_started_line,
    note_lines,
    outcome_line,
    settings_table,
    trend_lines,
    trend_tables,
)
from .page_parts import Lines, Pairs, Section, Table, Text
from .plain_text import printable

MarkdownPart = Lines | Pairs | Table | Text | Section

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&@])")

_TITLE = "### flinknet compare-configs"
_MARKS = {Outcome.PASS: "✓", Outcome.REGRESSION: "✗", Outcome.INCONCLUSIVE: "?"}


def comparison_markdown(comparison: Comparison, trends: Sequence[Trend]) -> str:
    """The comment."""
    line = outcome_line(comparison).rstrip(".")
    outcome = f": {_MARKS[comparison.outcome]} {_text(line)}" if line else ""
    head = f"{_TITLE}{outcome}\n{_text(MEASURED_STACK.capitalize())}.\n"
    known = [each for x in comparison.candidates for each in key_notes(comparison, x)]
    decisions = [
        f"{_MARKS[decision.outcome]} {decision.outcome.word}: {decision_line(candidate, decision)}"
        for candidate, decision in comparison.decisions
    ]
    parts: list[MarkdownPart] = [
        Lines(doubt_lines(comparison), is_doubt=True),
        Lines(decisions),
        *(Text("", effect_sentence(comparison, each)) for each in comparison.candidates),
        Lines([*dict.fromkeys((*load_notes(comparison), *known))]),
        *(
            part
            for each in comparison.candidates
            for part in (
                settings_table(comparison, each),
                changes_table(comparison, each, has_notes=True),
            )
        ),
        Lines(note_lines(comparison) + trend_lines(trends)),
        *(Section(title=each.title, parts=[each]) for each in trend_tables(trends)),
        Section(title="Environment", parts=[Pairs("environment", environment_of(comparison))]),
    ]
    return f"{head}{_text(load_line(comparison))}\n\n{_markdown(parts)}\n"


def not_started_markdown(name: str, why: str) -> str:
    """The comment where a candidate cannot start."""
    mark = _MARKS[Outcome.REGRESSION]
    headline = f"{_TITLE}: {mark} {_text(not_started_line(name).rstrip('.'))}"
    return f"{headline}\n\n{_markdown([Lines([f'{mark} fail: {name}: {why}'])])}\n"


def _markdown(parts: Iterable[MarkdownPart]) -> str:
    """The parts with blank lines between them: lines as a list, marked where they are doubts, and
    sections folded away under their titles."""
    return "\n\n".join(block for part in parts for block in _blocks(part) if block)


def _text(text: str) -> str:
    """A text that means nothing in Markdown or HTML: names come from files of others."""
    return _SPECIAL.sub(r"\\\1", " ".join(printable(text).split()))


def _blocks(part: MarkdownPart) -> list[str]:
    match part:
        case Section():
            inside = _markdown(each for each in part.parts if isinstance(each, MarkdownPart))
            summary = f"<details><summary>{_text(part.title)}</summary>"
            return [f"{summary}\n\n{inside}\n\n</details>"]
        case Lines():
            mark = "⚠ " if part.is_doubt else ""
            return ["\n".join(f"- {mark}{_text(line)}" for line in part.lines)]
        case Text():
            return [_text(part.text)]
        case Pairs():
            rows = [[_text(each) for each in pair] for pair in part.pairs.items()]
            return [_table([_text(part.title), ""], rows, "ll")]
        case Table():
            strong = {"good", "bad"}
            rows = [
                [
                    f"**{_text(cell)}**" if row.tone in strong and head.is_text else _text(cell)
                    for head, cell in zip(part.heads, row.cells, strict=True)
                ]
                for row in part.rows
            ]
            sides = ["l" if not n or each.is_text else "r" for n, each in enumerate(part.heads)]
            table = _table([_text(each.name) for each in part.heads], rows, "".join(sides))
            return [table, *map(_text, part.notes)]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], sides: str) -> str:
    rule = ["---:" if side == "r" else "---" for side in sides]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows))


SUITE = "flinknet compare-configs"
REFUSED = "disturbed runs do not count (--fail-on-disturbed)"


@dataclass(frozen=True, slots=True)
class _Case:
    """One test; at most one of the two texts is there."""

    name: str
    failure: str = ""
    skipped: str = ""


def comparison_junit(comparison: Comparison) -> str:
    """The XML document, with a suite for each candidate."""
    root = ElementTree.Element("testsuites", name=SUITE)
    for candidate in comparison.candidates:
        name = printable(f"{candidate.name} against {comparison.base.name}")
        cases = list(_cases(comparison, candidate))
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=name,
            tests=str(len(cases)),
            failures=str(sum(bool(each.failure) for each in cases)),
            errors="0",
            skipped=str(sum(bool(each.skipped) for each in cases)),
        )
        measured_ns = sum(run.measured.duration_ns for run in candidate.configuration.runs)
        suite.set("time", f"{measured_ns / NS_PER_S:.3f}")
        if started_at := comparison.environment.get("started_at"):
            suite.set("timestamp", str(started_at).rstrip("Z"))
        properties = ElementTree.SubElement(suite, "properties")
        for key, value in comparison.environment.items():
            if value is not None:
                ElementTree.SubElement(
                    properties, "property", name=printable(key), value=printable(str(value))
                )
        for each in cases:
            case = ElementTree.SubElement(
                suite, "testcase", classname=name, name=printable(each.name), time="0"
            )
            for tag, text in (("failure", each.failure), ("skipped", each.skipped)):
                if text:
                    ElementTree.SubElement(case, tag, message=printable(text))
        lines = [
            *doubt_lines(comparison),
            effect_sentence(comparison, candidate),
            load_line(comparison),
            *load_notes(comparison),
            *key_notes(comparison, candidate),
            *_settings(settings_table(comparison, candidate)),
            *note_lines(comparison),
        ]
        ElementTree.SubElement(suite, "system-out").text = printable("\n".join(lines))
    return _document(root)


def not_started_junit(name: str, why: str) -> str:
    """The document where a candidate cannot start: one test, which fails."""
    root = ElementTree.Element("testsuites", name=SUITE)
    suite = ElementTree.SubElement(
        root, "testsuite", name=printable(name), tests="1", failures="1", errors="0", skipped="0"
    )
    case = ElementTree.SubElement(
        suite, "testcase", classname=printable(name), name="starts", time="0"
    )
    message = f"{not_started_line(name)} {why}"
    ElementTree.SubElement(case, "failure", message=printable(message))
    return _document(root)


def _settings(differing: Table | Lines) -> list[str]:
    if isinstance(differing, Lines):
        return [*differing.lines]
    rows = [f"  {name}  {base} → {own}" for name, base, own in (x.cells for x in differing.rows)]
    return [f"{differing.title}:", *rows]


def _document(root: ElementTree.Element) -> str:
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _cases(comparison: Comparison, candidate: Candidate) -> Iterator[_Case]:
    if candidate.decisions:
        for decision in candidate.decisions:
            name, line = decision.limit.text, decision_line(candidate, decision)
            if comparison.is_refused:
                yield _Case(name, skipped=REFUSED)
            elif decision.outcome is Outcome.REGRESSION:
                yield _Case(name, failure=line)
            elif decision.outcome is Outcome.INCONCLUSIVE:
                yield _Case(name, skipped=f"undecided: {line}")
            else:
                yield _Case(name)
        return
    for metric, each in candidate.differences.items():
        name, row = label_of(metric), change_line(candidate, metric)
        if comparison.is_refused:
            yield _Case(name, skipped=REFUSED)
        elif each.verdict is Verdict.WORSE:
            yield _Case(name, failure=f"worse: {row}")
        elif candidate.invalid:
            yield _Case(name, skipped=f"invalid: {candidate.invalid}; {row}")
        elif each.verdict is Verdict.UNCLEAR:
            yield _Case(name, skipped=f"unclear: {each.what_would_decide()}; {row}")
        elif each.verdict is Verdict.UNKNOWN:
            yield _Case(name, skipped="not measured")
        else:
            yield _Case(name)
