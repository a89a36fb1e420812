"""How often what runs at random has run: campaigns, fuzz targets, kills, damage.

    python -m tests.tally        the totals of this checkout, as a table

Each run adds a line to `.campaign/tally.jsonl`, which stays on the machine. What cannot be read or
written there is left out: a tally never hides what a run has found.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
KEPT = ROOT / ".campaign" / "tally.jsonl"


@dataclass(frozen=True, slots=True)
class Entry:
    """What one command has run.

    Attributes:
        kind: "campaign", "kills", "damage", "soak", or "fuzz" and the target.
        runs: trials, or executions.
        seconds: that passed.
        findings: failures of different kinds.
        commit: that was checked out, with a "+" if files had been edited.
        day: in UTC.
    """

    kind: str
    runs: int
    seconds: float
    findings: int
    commit: str
    day: str


@dataclass(frozen=True, slots=True)
class Total:
    """What all commands of one kind have run."""

    runs: int = 0
    seconds: float = 0.0
    findings: int = 0
    commits: int = 0


def add(kind: str, runs: int, seconds: float, findings: int, *, kept: Path | None = None) -> Total:
    """Note what was run, if it can be. Returns: the total of its kind, with this."""
    kept = kept or KEPT
    earlier = list(entries(kept))
    day = time.strftime("%Y-%m-%d", time.gmtime())
    entry = Entry(kind, runs, round(seconds, 1), findings, _commit(), day)
    with suppress(OSError):
        kept.parent.mkdir(exist_ok=True)
        with kept.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(entry)) + "\n")
    return totals([*earlier, entry])[kind]


def entries(kept: Path | None = None) -> Iterator[Entry]:
    """All that was noted, without lines that are broken."""
    try:
        lines = (kept or KEPT).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        with suppress(ValueError, TypeError, KeyError):
            found = json.loads(line)
            figures = int(found["runs"]), float(found["seconds"]), int(found["findings"])
            yield Entry(str(found["kind"]), *figures, str(found["commit"]), str(found["day"]))


def totals(noted: Iterable[Entry]) -> Mapping[str, Total]:
    """Totals by kind, in the order in which they were noted first."""
    by_kind: dict[str, list[Entry]] = {}
    for each in noted:
        by_kind.setdefault(each.kind, []).append(each)
    return {
        kind: Total(
            sum(each.runs for each in found),
            sum(each.seconds for each in found),
            sum(each.findings for each in found),
            len({each.commit for each in found}),
        )
        for kind, found in by_kind.items()
    }


def table(noted: Iterable[Entry]) -> str:
    """The totals in Markdown."""
    lines = ["| what | runs | hours | findings | commits |", "|---|---|---|---|---|"]
    for kind, each in totals(noted).items():
        hours = each.seconds / 3600
        lines.append(
            f"| {kind} | {each.runs:,} | {hours:.2f} | {each.findings} | {each.commits} |".replace(
                ",", " "
            )
        )
    return "\n".join(lines)


def _commit() -> str:
    """What is checked out; "unknown" without Git."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--abbrev=7", "--exclude=*", "--dirty=+"],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    print(table(entries()))
    sys.exit(0)
