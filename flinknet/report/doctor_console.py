"""The checks of a machine as a terminal table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .console import TerminalConsole

_MARKS = {
    "ok": "[green]✓[/green]",
    "warning": "[yellow]![/yellow]",
    "missing": "[red]✗[/red]",
}


def print_checks(checks: Iterable[Mapping[str, str]], console: Console | None = None) -> None:
    """Print one row for each check: mark, name, finding, remedy."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for check in checks:
        text = check["found"] + (f"\n→ {check['advice']}" if check["advice"] else "")
        table.add_row(_MARKS[check["status"]], check["name"], Text(text))
    (console or TerminalConsole()).print(table)
