"""What a terminal shows of a view or of its parts."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from flinknet.report.console import print_parts, print_view
from flinknet.report.page_parts import View


def printed(*shown: Any, width: int = 120, details: bool = True) -> str:
    """The text of some views, or of some parts."""
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_parts(console, [each for each in shown if not isinstance(each, View)])
    for each in shown:
        if isinstance(each, View):
            print_view(console, each, has_details=details)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())
