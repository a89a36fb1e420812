"""Mutants: bugs that were put into the core and into tasks, one at a time, for the tests to find.

They stand in `mutants.txt`: what the bug is, its file below `flinknet`, a text that stands there
once, and behind ==== what it is replaced by. One that changes nothing that could be observed does
not belong there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
FLINKNET = HERE.parents[1] / "flinknet"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug.

    Attributes:
        path: below `flinknet`.
        before, after: what is replaced, and by what.
    """

    what: str
    path: str
    before: str
    after: str

    @property
    def module(self) -> str:
        """Name of the module."""
        return "flinknet." + self.path.removesuffix(".py").replace("/", ".")

    def applied_to(self, source: str) -> str:
        """The source with the bug in it. Raises: ValueError if it does not fit any more."""
        if source.count(self.before) != 1:
            raise ValueError(f"{self.what}: its text stands {source.count(self.before)} times")
        return source.replace(self.before, self.after)


def read_mutants(text: str) -> tuple[Mutant, ...]:
    """The mutants of a list: a line "## what", a line "## path", and the two texts."""
    _, *parts = ("\n" + text.removesuffix("\n")).split("\n## ")
    found = []
    for what, rest in zip(parts[::2], parts[1::2], strict=True):
        path, _, texts = rest.partition("\n")
        before, _, after = texts.partition("\n====\n")
        found.append(Mutant(what, path, before, after))
    return tuple(found)


MUTANTS = read_mutants((HERE / "mutants.txt").read_text())
