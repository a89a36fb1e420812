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
(`pytest tests/peers -v`) against a connection of the core; the cases of consumers are tested over
loopback sockets, too. This page is generated from the same tables
(`python -m tests.peers.document`).

In every case, as part of its test: other connections carry on as if nothing had happened; what the
connection held is released; nothing that arrived over it is executed. A tap forwards all of these
bytes, and goes on decoding the messages after them.

If Flink's jars are present (`make interop`), the cases of the data port are also run against
Flink's own network stack, with the same bytes. The column *Flink* says what Flink 2.3 does if that
differs from flinknet; the reasons are below each table.
"""

CONSUMERS = """\
## Consumers, at the producer

The channel that misbehaves shares its connection with a channel that reads, its *neighbour*, unless
the connection has requested nothing of this run. The neighbour carries on until the connection is
closed. A *fatal error* applies to the whole connection: a consumer that gets one closes it (C34).
"""

PRODUCERS = """\
## Producers, at the consumer

If only the channel fails, the other channels of the connection carry on.
"""

CLIENTS = """\
## Clients, at the control port of the JobManager

Each client is sent the reason, and its connection is closed. There is no column for Flink: its RPC
is another protocol (Pekko).
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
    clients = [
        (f"J{case.number:02d}", case.said, case.when, case.why.replace("|", ", or "))
        for case in by_clients.CASES
    ]
    count = len(consumers) + len(producers) + len(clients)
    parts = [
        INTRODUCTION.format(count=count),
        CONSUMERS,
        _table(
            ("No.", "A consumer sends", "when", "what happens", "the channel carries on", "Flink"),
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
        _table(("No.", "A client sends", "when", "the reason contains"), clients),
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
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


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
