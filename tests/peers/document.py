"""docs/misbehaving_peers.md, made from the tables: `python -m tests.peers.document`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.peers import by_clients, by_consumers, by_producers
from tests.peers.flink import DIFFERENCES, NOT_COMPARED

PATH = Path(__file__).parents[2] / "docs" / "misbehaving_peers.md"

INTRODUCTION = """\
# Misbehaving peers

What flinknet does when the other end breaks the rules: {count} numbered cases, each a test
(`pytest tests/peers -v`) against a connection of the core; those of consumers run over loopback
sockets, too. In every case other connections carry on, what the connection held is released, and
nothing that arrived over it is executed. A tap forwards all of these bytes, and goes on decoding
the messages after them.

`make interop` sends the same bytes to Flink's own network stack. The column *Flink* says what
Flink 2.3 does where that differs; the reasons are below each table. An empty first cell stands for
the one above. The tests' tables make this page (`python -m tests.peers.document`).
"""

CONSUMERS = """\
## Consumers, at the producer

A channel that misbehaves shares its connection with a channel that reads, its *neighbour*, which
carries on until the connection is closed. A consumer closes the connection on a *fatal error*
(C34).
"""

PRODUCERS = """\
## Producers, at the consumer

If only the channel fails, the other channels of the connection carry on.
"""

CLIENTS = """\
## Clients, at the control port of the JobManager

Each client is sent the reason, and its connection is closed. Flink's RPC is another protocol
(Pekko).
"""


def document() -> str:
    """The page."""
    consumers = [
        (f"P{case.number:02d}", case.said, _on(case.must, case.goes_on), case.when)
        for case in by_consumers.CASES
    ]
    producers = [
        (f"C{case.number:02d}", case.said, case.must, case.when) for case in by_producers.CASES
    ]
    clients = [
        (f"J{case.number:02d}", case.said, case.when, case.why.replace("|", ", or "))
        for case in by_clients.CASES
    ]
    parts = [
        INTRODUCTION.format(count=len(consumers) + len(producers) + len(clients)),
        CONSUMERS,
        _grouped(("what happens", "when", "Flink", "a consumer sends"), consumers),
        _reasons("P"),
        PRODUCERS,
        _grouped(("what happens", "when", "Flink", "a producer sends"), producers),
        _reasons("C"),
        CLIENTS,
        _grouped(("when", "the reason contains", "a client sends"), clients),
    ]
    return "\n".join(part for part in parts if part)


def _on(must: str, goes_on: bool) -> str:
    return f"{must}, the channel carries on" if goes_on else must


def _grouped(head: Sequence[str], rows: Iterable[tuple[str, ...]]) -> str:
    """A table in which all cases with the same answer share a line."""
    cases_of: dict[tuple[str, ...], list[str]] = {}
    for number, sent, *answer in rows:
        flink = [_flink(number)] if "Flink" in head else []
        cases_of.setdefault((*answer, *flink), []).append(f"{number} {sent}")
    lines = [head, ["---"] * len(head)]
    above = ""
    for answer, cases in sorted(cases_of.items()):
        what = "" if answer[0] == above else answer[0]
        above = answer[0]
        lines.append((what, *answer[1:], "; ".join(cases)))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _flink(number: str) -> str:
    """Flink's answer where it differs."""
    if number in NOT_COMPARED:
        return "not compared"
    return DIFFERENCES[number][0] if number in DIFFERENCES else ""


def _reasons(letter: str) -> str:
    """Why we differ, each reason once with its cases."""
    cases_of: dict[str, list[str]] = {}
    for number, why in [
        *((number, why) for number, (_, why) in DIFFERENCES.items()),
        *NOT_COMPARED.items(),
    ]:
        if number.startswith(letter):
            cases_of.setdefault(why, []).append(number)
    return "".join(f"- {', '.join(cases)}: {why}\n" for why, cases in cases_of.items())


if __name__ == "__main__":
    PATH.write_text(document(), encoding="utf-8")
