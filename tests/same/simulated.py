"""Hashes of what simulated runs leave in their traces, by seed."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from flinknet.errors import FlinknetError
from tests.campaign.draw import Draw
from tests.campaign.exchange import run_exchange
from tests.campaign.trial import Marks

SEEDS = 300

TLS = "TLS on the connections"
"""Mark of encrypted trials."""


def simulated_answers(only: str) -> Iterator[tuple[str, str]]:
    """Name and text: a line for each seed with the number of events, the hash of all of them, and
    how the trial ended."""
    name = "simulated-exchanges.txt"
    if only in name:
        yield name, "".join(map(_line_of, range(1, SEEDS + 1)))


def _line_of(seed: int) -> str:
    probe, marks, end = _HashingProbe(), Marks(), "ended"
    try:
        run_exchange(Draw(seed), marks, probe)
    except FlinknetError as error:
        end = type(error).__name__
    if marks[TLS]:  # certificates are new in each process, and the lengths of signatures differ
        return f"{seed} TLS {end}\n"
    return f"{seed} {probe.events} {probe.hash.hexdigest()} {end}\n"


class _HashingProbe:
    """A Probe that keeps a hash of its events."""

    def __init__(self) -> None:
        self.hash = blake2b(digest_size=8)
        self.events = 0

    def record(self, *row: int) -> None:
        """Add an event."""
        self.events += 1
        self.hash.update(repr(tuple(map(int, row))).encode())
