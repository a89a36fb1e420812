"""Every input that fuzzing has kept, and every seed, once more: no reader raises anything but its
own errors. `python -m tests.fuzz` looks for new ones.
"""

from __future__ import annotations

import pytest

from tests.fuzz import file_targets, wire_targets
from tests.fuzz.target import Target, read_corpus

TARGETS = (*wire_targets.TARGETS, *file_targets.TARGETS)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_no_input_of_the_corpus_raises(target: Target) -> None:
    inputs = dict(read_corpus(target.name))
    for name, data in inputs.items() or enumerate(target.seeds()):
        try:
            target.run(data)
        except BaseException as error:
            error.add_note(f"input {name} of the corpus of {target.name}")
            raise
