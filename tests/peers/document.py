"""docs/misbehaving_peers.md, made from the tables: `python -m tests.peers.document`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.peers import by_clients, by_consumers, by_producers
from tests.peers.flink import DIFFERENCES, NOT_COMPARED

PATH = Path(__file__).parents[2] / "docs" / "misbehaving_peers.md"

INTRODUCTION = """\
# Misbehaving peers

What flinknet does when the other end breaks the rules: {count} numbered cases. Each is a test
(`pytest tests/peers -v`): against a connection of the core, and those of consumers once more over
loopback sockets. This page is made from the same tables (`python -m tests.peers.document`).

In every case, as part of its test: other connections carry on as if nothing had happened; what the
connection held is given back; nothing that came over it is executed. A tap passes all of these
bytes on, and follows what comes after them.

Where the jars of Flink are (`make interop`), the cases of the data port are shown to Flink's own
network stack as well, with the same bytes. The column *Flink* says what Flink 2.3 does where it
does something else; the reasons stand below each table.
"""

CONSUMERS = """\
## Consumers, at the producer

"Carries on" is the channel that misbehaves. The other channels of its connection carry on, too,
until the connection is closed.
"""

PRODUCERS = """\
## Producers, at the consumer

Where only the channel fails, the other channels of the connection carry on.
"""

CLIENTS = """\
## Clients, at the control port of the JobManager

Each gets the reason, and its connection is closed. Flink's own RPC is another one (Pekko), so there
is nothing to compare.
"""


def document() -> str:
    """The page."""
    consumers = [
        (f"P{case.number:02d}", case.said, case.when, case.must, _yes(case.goes_on))
        for case in by_consumers.CASES
    ]
    producers = [
        (f"C{case.number:02d}", case.said, case.when, case.must) for case in by_producers.CASES
    ]
    clients = [(f"J{case.number:02d}", case.said, case.when, case.why) for case in by_clients.CASES]
    count = len(consumers) + len(producers) + len(clients)
    parts = [
        INTRODUCTION.format(count=count),
        CONSUMERS,
        _table(
            ("No.", "A consumer sends", "when", "what happens", "carries on", "Flink"),
            (_with_flink(row) for row in consumers),
        ),
        _reasons("P"),
        PRODUCERS,
        _table(
            ("No.", "A producer sends", "when", "what happens", "Flink"),
            (_with_flink(row) for row in producers),
        ),
        _reasons("C"),
        CLIENTS,
        _table(("No.", "A client sends", "when", "the reason it gets contains"), clients),
    ]
    return "\n".join(part for part in parts if part)


def _yes(goes_on: bool) -> str:
    return "yes" if goes_on else ""


def _with_flink(row: Sequence[str]) -> Sequence[str]:
    number = row[0]
    if number in NOT_COMPARED:
        return (*row, "not compared")
    return (*row, DIFFERENCES[number][0] if number in DIFFERENCES else "same")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(_cell(each) for each in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


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
