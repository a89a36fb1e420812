"""Every target, with the readers under it instrumented by Atheris. It takes seconds and is done
once: the targets are fuzzed in forks of the process that has imported this module.
"""

from __future__ import annotations

import io
from contextlib import redirect_stderr

import atheris

with (
    redirect_stderr(io.StringIO()),  # a line for each module
    atheris.instrument_imports(include=["flinknet"], enable_loader_override=False),
):
    from tests.fuzz import file_targets, wire_targets

TARGETS = {each.name: each for each in (*wire_targets.TARGETS, *file_targets.TARGETS)}
