"""Every target, with the readers under it instrumented by Atheris. It takes seconds and is done
once: the targets are fuzzed in forks of the process that has imported this module.
"""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from types import CodeType

import atheris
from atheris import import_hook

from tests.fuzz.memory_file import replaced
from tests.fuzz.target import PLANTED

COMPARES_NO_INPUT = ("core/buffers/", "core/producer/buffer_writing_", "core/producer/serialized_")
"""Modules that compare counts of their own: comparisons there, of 0.1 to 0.4 µs each, would tell a
fuzzer nothing that it could write into an input. Their blocks are counted all the same.
"""


def instrumented(code: CodeType, compares: bool) -> CodeType:
    """A module's code, with blocks that are counted, and comparisons that are shown if any is of
    the input.
    """
    is_without = any(f"/flinknet/{each}" in code.co_filename for each in COMPARES_NO_INPUT)
    return atheris.patch_code(code, compares and not is_without)


with (
    redirect_stderr(io.StringIO()),  # a line for each module
    replaced(import_hook, "patch_code", instrumented),
    atheris.instrument_imports(include=["flinknet"], enable_loader_override=False),
):
    from tests.fuzz import file_targets, wire_targets

_ALL = (PLANTED, *wire_targets.TARGETS, *file_targets.TARGETS)
TARGETS = {each.name: each for each in _ALL}
