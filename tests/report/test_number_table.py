"""Tables that are as wide as they need where nobody says how wide a line may be."""

from __future__ import annotations

import io

from rich.table import Table

from flinknet.report.console import WIDTH_OFF_TERMINAL, console_for
from flinknet.report.number_table import print_table


def test_off_a_terminal_a_wide_table_is_whole_and_the_console_as_before() -> None:
    shown = io.StringIO()
    console = console_for(shown)
    table = Table(box=None, show_header=False)
    texts = [f"value {number:03} … and its end" for number in range(WIDTH_OFF_TERMINAL // 10)]
    for _ in texts:
        table.add_column()
    table.add_row(*texts)

    print_table(console, table)

    (line,) = shown.getvalue().splitlines()
    assert [text for text in texts if text not in line] == []
    assert console.width == WIDTH_OFF_TERMINAL
