"""A comparison as JUnit XML, which CI servers show as tests.

With limits (--fail-if) each is a test; without, each metric is one. A broken limit or a worse
metric is a failure; an undecided, unclear, invalid or unmeasured one is skipped, with its reason.
The time of a suite is the measured time of the candidate's runs; a test has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

from flinknet.results.comparison import Candidate, Comparison, Outcome, Verdict, label_of
from flinknet.units import NS_PER_S

from .comparison_texts import (
    change_line,
    decision_line,
    doubt_lines,
    key_notes,
    load_line,
    load_notes,
    not_started_line,
    note_lines,
    setting_lines,
)
from .plain_text import printable

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
    sentences = comparison.sentences()
    for candidate, sentence in zip(comparison.candidates, sentences, strict=True):
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
            sentence,
            load_line(comparison),
            *load_notes(comparison),
            *key_notes(comparison, candidate),
            *setting_lines(comparison, candidate),
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
