"""A comparison for other programs: a comment in Markdown (GitHub, GitLab), and JUnit XML, which CI
servers show as tests. Both have the view's order: the answer, the tables that decide, the details.

With limits (--fail-if) each is a test; without, each metric is one. A broken limit or a worse
metric is a failure; an undecided, unclear, invalid or unmeasured one is skipped, with its reason.
The time of a suite is the measured time of the candidate's runs; a test has none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from xml.etree import ElementTree

from flinknet.results.comparison import REFUSED, Candidate, Comparison, Outcome, Verdict, label_of
from flinknet.units import NS_PER_S

from .comparison_texts import change_line, decision_line, not_started_line, outcome_line
from .console import text_of
from .page_parts import Lines, Pairs, Part, Section, Table, Text, View, off_terminal
from .plain_text import printable

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&@])")

_TITLE = "### flinknet compare-configs"
_MARKS = {Outcome.PASS: "✓", Outcome.REGRESSION: "✗", Outcome.INCONCLUSIVE: "?"}


def comparison_markdown(comparison: Comparison, view: View) -> str:
    """The comment, with the details folded away."""
    line = outcome_line(comparison).rstrip(".")
    head = f"{_TITLE}: {_MARKS[comparison.outcome]} {_text(line)}" if line else _TITLE
    answer = [f"- **{_text(x.name)}**: {_text(x.text)}" for x in off_terminal(view.headline)]
    notes = Lines(view.lead.splitlines())
    details = Section(
        title="Details", parts=[x for x in view.details if not isinstance(x, Section)]
    )
    blocks = [head, "\n".join(answer), _markdown([notes, *view.parts, details])]
    return "\n\n".join(blocks) + "\n"


def not_started_markdown(name: str, why: str) -> str:
    mark = _MARKS[Outcome.REGRESSION]
    headline = f"{_TITLE}: {mark} {_text(not_started_line(name).rstrip('.'))}"
    return f"{headline}\n\n{_markdown([Lines([f'{mark} fail: {name}: {why}'])])}\n"


def _markdown(parts: Iterable[Part | Section]) -> str:
    return "\n\n".join(block for part in parts for block in _blocks(part) if block)


def _text(text: str) -> str:
    """A text that means nothing in Markdown or HTML: names come from files of others."""
    return _SPECIAL.sub(r"\\\1", " ".join(printable(text).split()))


def _blocks(part: Part | Section) -> list[str]:
    match part:
        case Section():
            summary = f"<details><summary>{_text(part.title)}</summary>"
            return [f"{summary}\n\n{_markdown(part.parts)}\n\n</details>"]
        case Lines():
            mark = "⚠ " if part.is_doubt else ""
            return ["\n".join(f"- {mark}{_text(line)}" for line in part.lines)]
        case Text():
            return [_text(part.text)]
        case Pairs():
            rows = [[_text(each) for each in pair] for pair in part.pairs.items()]
            return [_table([_text(part.title), ""], rows, "ll")]
        case Table():
            rows = []
            for row in part.rows:
                mark = "**" if row.tone in ("good", "bad") else ""
                pairs = zip(part.heads, map(_text, row.cells), strict=True)
                rows.append([f"{mark}{x}{mark}" if head.is_text else x for head, x in pairs])
            sides = ["l" if not n or each.is_text else "r" for n, each in enumerate(part.heads)]
            table = _table([_text(each.name) for each in part.heads], rows, "".join(sides))
            title = [f"**{_text(part.title)}**"] if part.title else []
            return [*title, table, *map(_text, part.notes)]
    return []  # only a page draws it


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], sides: str) -> str:
    rule = ["---:" if side == "r" else "---" for side in sides]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows))


SUITE = "flinknet compare-configs"

_Case = tuple[str, str, str]
"""Name of a test; "failure", "skipped" or nothing; and why."""


def comparison_junit(comparison: Comparison, view: View) -> str:
    """The XML document, with a suite for each candidate; each has the text of the view."""
    root = ElementTree.Element("testsuites", name=SUITE)
    shown = replace(view, headline=off_terminal(view.headline))
    text = f"{text_of(shown)}{view.lead}".rstrip()
    for candidate in comparison.candidates:
        name = f"{candidate.name} against {comparison.base.name}"
        suite = _suite(root, name, [*_cases(comparison, candidate)])
        measured_ns = sum(x.measured.duration_ns for x in candidate.configuration.results)
        suite.set("time", f"{measured_ns / NS_PER_S:.3f}")
        ElementTree.SubElement(suite, "system-out").text = printable(text)
    return _document(root)


def not_started_junit(name: str, why: str) -> str:
    root = ElementTree.Element("testsuites", name=SUITE)
    _suite(root, name, [("starts", "failure", f"{not_started_line(name)} {why}")])
    return _document(root)


def _suite(root: ElementTree.Element, name: str, cases: Sequence[_Case]) -> ElementTree.Element:
    name, count = printable(name), Counter(tag for _, tag, _ in cases)
    counts = {"failures": count["failure"], "errors": 0, "skipped": count["skipped"]}
    own = {"name": name, "tests": str(len(cases)), **{x: str(n) for x, n in counts.items()}}
    suite = ElementTree.SubElement(root, "testsuite", own)
    for case, tag, why in cases:
        own = {"classname": name, "name": printable(case), "time": "0"}
        element = ElementTree.SubElement(suite, "testcase", own)
        if tag:
            ElementTree.SubElement(element, tag, message=printable(why))
    return suite


def _document(root: ElementTree.Element) -> str:
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _cases(comparison: Comparison, candidate: Candidate) -> Iterator[_Case]:
    for decision in [own for each, own in comparison.decisions if each is candidate]:
        line = decision_line(candidate, decision)
        tags = {
            Outcome.REGRESSION: ("failure", line),
            Outcome.INCONCLUSIVE: ("skipped", f"undecided: {line}"),
        }
        yield decision.limit.text, *tags.get(decision.outcome, ("", ""))
    for metric, each in candidate.differences.items() if not candidate.decisions else ():
        name, row = label_of(metric), change_line(candidate, metric)
        if comparison.is_refused:
            yield name, "skipped", f"undecided: {REFUSED}; {row}"
        elif each.verdict is Verdict.WORSE:
            yield name, "failure", f"worse: {row}"
        elif candidate.invalid:
            yield name, "skipped", f"invalid: {candidate.invalid}; {row}"
        elif each.verdict is Verdict.UNCLEAR:
            yield name, "skipped", f"unclear: {each.what_would_decide()[0]}; {row}"
        elif each.verdict is Verdict.UNKNOWN:
            yield name, "skipped", "not measured"
        else:
            yield name, "", ""
